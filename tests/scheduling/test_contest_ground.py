"""The ground of contests, compared with what the book says slot by slot, and the orders from which a search begins."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.batch.consumption import consumption_of
from scheduling.batch.planner import shortest
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Job
from scheduling.competition import contest
from scheduling.competition.contest import POWERS, Contest, Rule
from scheduling.competition.ground import CURVES, LEAST_SHARE, WIDER, Ground, _curve, _need, _widths, ground_of
from scheduling.competition.kernel import NEVER, best_place
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Ints
from scheduling.model.utility import Linear, Step
from scheduling.policies.competition import Competition
from tests.draws import rounds
from tests.scheduling.test_competition import HORIZON, cluster, job, seen


def free_of(ground: Ground, *, without: set[str]) -> Ints:
    """Units of each slot and resource that jobs of the book do not hold, except these jobs."""
    book, capacity = ground.book, ground.book.inventory.capacity
    free = np.array([capacity.sum(axis=0) for _ in range(ground.slots)])
    for one in book.jobs:
        for p in one.held if one.bid.id not in without else ():
            for slot in range(max(p.start, book.now), p.end):
                free[slot - book.now] -= p.count * p.demand(book.inventory)
    return free


def test_the_ground_is_what_the_book_says() -> None:
    moved = 0
    for bid, book, where in seen({"steps": 20}, rounds(6)):
        promises = Competition(steps=20).promises(book)
        ground = ground_of(book, promises.jobs)
        held = [one for one in promises.jobs if any(p.end > book.now for p in one.held)]
        assert [one.bid.id for one in ground.jobs] == [one.bid.id for one in held], where
        assert ground.slots == book.ledger.end - book.now
        for either in (ground, ground.fixed):
            free = free_of(either, without={one.bid.id for one in either.jobs})
            for cell, (begin, width) in enumerate(zip(either.cells.begin, either.cells.width, strict=True)):
                assert np.allclose(either.cells.capacity[cell], free[begin : begin + width].sum(axis=0)), where
        rows, jobs = ground.rows(ground.jobs, (bid,)), len(ground.jobs)
        for j, one in enumerate(ground.jobs):
            ahead = [p for p in one.held if p.end > book.now]
            begin, end = max(book.now, min(p.start for p in ahead)), max(p.end for p in ahead)
            units = np.zeros(len(ground.capacity))
            for p in ahead:
                units += (p.end - max(p.start, book.now)) * p.count * p.demand(book.inventory)
            assert (rows.length[j], rows.first[j]) == (end - begin, 0), where
            assert np.allclose(rows.demand[j] * rows.length[j], units), where
            planned = end if one.completion is None else one.completion
            assert rows.due[j] == max(1, max(one.due or 0, planned) - book.now), where
            moved += 1
        need = _need(bid, book.ledger, ground.capacity)
        first = max(0, bid.arrival + min(bid.delay) - book.now)
        assert (rows.length[jobs], rows.first[jobs]) == (min(need.length, ground.slots + 1), min(ground.slots, first))
        assert (ground.first(bid), ground.soonest(bid)) == (first, first + need.length), where
        assert np.array_equal(rows.demand[jobs], need.demand), where
        for row, one_bid in zip(rows.value, [*(one.bid for one in ground.jobs), bid], strict=True):
            expected = [one_bid.utility.at(book.now + slot - one_bid.arrival) for slot in range(ground.slots + 1)]
            assert np.allclose(row, expected), where
            assert np.array_equal(ground.values(one_bid), row), where
    assert moved > 0


@pytest.mark.parametrize("share", [1.0, 0.5, 0.1, 0.01])
@pytest.mark.parametrize("gpus", [1, 3, 4])
@pytest.mark.parametrize("slots", [1, 3, 10])
def test_a_need_is_the_least_work_in_as_many_slots_as_the_servers_allow(share: float, gpus: int, slots: int) -> None:
    ledger, bid = Ledger(cluster(4), start=0, slots=HORIZON), job("a", slots, Linear(50.0, 1.0), gpus=gpus)
    capacity = share * np.array([4.0, 12.0])
    need, length = _need(bid, ledger, capacity), shortest(bid, ledger)
    units = np.array(consumption_of(bid, ledger).units)
    assert length == slots
    assert np.all(need.demand <= capacity * (1 + 1e-9))
    assert need.length >= length
    assert np.all(need.demand * need.length >= units * (1 - 1e-6))
    fewer = need.length - 1
    assert need.length == length or np.any(units > capacity * fewer), "no slot more than needed"


@pytest.mark.parametrize("slots", [1, 2, 15, 100, 1_000])
def test_cells_of_time_get_longer(slots: int) -> None:
    begin, width = _widths(slots)
    assert width.sum() == slots
    assert begin.tolist() == [0, *np.cumsum(width)[:-1].tolist()]
    assert width[:-1].tolist() == [max(1, math.floor(one * WIDER)) for one in begin[:-1].tolist()]


@pytest.mark.parametrize("last", [0, 1, CURVES - 1, CURVES, 3 * CURVES - 2, 3 * CURVES])
def test_curves_have_few_lengths_and_are_long_enough(last: int) -> None:
    bid = job("a", 2, Linear(9_000.0, 1.0))
    curve = _curve(bid, last)
    assert len(curve) % CURVES == 0
    assert last < len(curve) <= last + CURVES
    assert curve[last] == bid.utility.at(last)


def test_a_completion_is_enough_if_it_is_worth_a_share_of_the_soonest() -> None:
    ground = ground_of(RunningBook(Ledger(cluster(1), start=0, slots=HORIZON)).view(), ())
    bid = job("falls", 4, Linear(100.0, 16.0))  # 36 in slot 4, 4 in slot 6, then nothing
    least = LEAST_SHARE * bid.utility.at(4)
    assert [ground.is_enough(bid, slot) for slot in range(4, 10)] == [
        bid.utility.at(slot) >= least > 0.0 and bid.utility.at(slot) > 0.0 for slot in range(4, 10)
    ]
    assert not ground.is_enough(job("late", 4, Step(5.0, 3)), 4), "worth nothing at all"


@pytest.mark.parametrize("until_closed", [True, False])
def test_a_server_that_closes_counts_until_then_or_not_at_all(until_closed: bool) -> None:
    two = replace(cluster(2), servers=("a", "b"), cloud=(False, False), capacity=np.array([[2, 12], [3, 12]]))
    ledger = Ledger(two, start=1, slots=HORIZON, closed=(7, None))
    placed = (Placement(0, 9, Role.WORKER, 0, 0, 1), Placement(0, 9, Role.PS, 0, 0, 1))
    ledger.restore([Schedule(0, 9, placed)])
    runs = Job(replace(job("runs", 9, Linear(90.0, 1.0)), delay=(0, 0)), placed, 9, due=9)
    ground = ground_of(RunningBook(ledger, jobs={"runs": runs}).view(), (runs,), until_closed=until_closed)
    assert ground.jobs == (), "it stays where it is"
    assert (ground.cells.width == 1).all()
    before = [4.0, 23.0] if until_closed else [3.0, 12.0]
    assert ground.cells.capacity.tolist() == [before] * 6 + [[3.0, 12.0]] * (HORIZON - 6)
    assert ground.capacity.tolist() == ([5.0, 24.0] if until_closed else [3.0, 12.0])
    assert np.array_equal(ground.fixed.cells.capacity, ground.cells.capacity)


def test_far_off_the_rows_of_a_contest_are_cells_of_many_slots() -> None:
    ledger = Ledger(cluster(4), start=0, slots=200)
    placed = (Placement(0, 90, Role.WORKER, 0, 0, 2), Placement(0, 90, Role.PS, 0, 0, 1))
    ledger.restore([Schedule(0, 90, placed)])
    runs = Job(job("runs", 90, Linear(500.0, 1.0), gpus=2), placed, 90, due=151)
    ground = ground_of(RunningBook(ledger, jobs={"runs": runs}).view(), (runs,))
    bids = tuple(
        replace(job(f"bid {delay}", 10, Step(50.0, last)), delay=(delay,))
        for delay, last in ((0, 20), (5, 77), (77, 200), (150, 180), (190, 200))
    )
    entries = Contest(ground, bids, Rule(0, 0.2)).entries
    begin, width = ground.cells.begin, ground.cells.width
    ends = [151, 20, 77, 200, 180, 200]
    for row, end in enumerate(ends):
        cell = entries.latest[row] - 1
        assert begin[cell] < end <= begin[cell] + width[cell]
        assert entries.part[row] == (end - begin[cell] if row == 0 else width[cell])
        assert entries.due[row] == (entries.latest[row] if row == 0 else NEVER)
        first = 0 if row == 0 else bids[row - 1].delay[0]
        assert entries.first[row] == sum(slot < first for slot in begin)
        soonest = min(200, [*begin, 200][entries.first[row]] + entries.length[row])
        value = (runs.bid if row == 0 else bids[row - 1]).utility.at(soonest)
        assert entries.most[row] == pytest.approx(value * (1.0 - 0.2 * soonest / 200))


def test_jobs_on_closed_servers_stay_and_take_nothing_of_open_ones() -> None:
    two = replace(cluster(2), servers=("a", "b"), cloud=(False, False), capacity=np.array([[2, 12], [3, 12]]))
    ledger = Ledger(two, start=1, slots=HORIZON, closed=(0, None))
    jobs = []
    for server, name in enumerate(("closed", "open")):
        placed = (Placement(0, 9, Role.WORKER, server, 0, 1), Placement(0, 9, Role.PS, server, 0, 1))
        ledger.restore([Schedule(0, 9, placed)])
        jobs.append(Job(replace(job(name, 9, Step(90.0, 9)), delay=(0, 0)), placed, 9, due=9))
    over = Job(replace(job("over", 1, Step(9.0, 1)), delay=(0, 0)), (Placement(0, 1, Role.WORKER, 1, 0, 1),), 1, due=1)
    ground = ground_of(RunningBook(ledger, jobs={one.bid.id: one for one in jobs}).view(), (*jobs, over))
    assert [one.bid.id for one in ground.jobs] == ["open"]
    assert ground.capacity.tolist() == [3.0, 12.0]
    assert ground.cells.capacity[0].tolist() == [3.0, 12.0]
    assert [row.tolist() for row in ground.fixed.cells.capacity[[0, 7, 8]]] == [[2.0, 11.0], [2.0, 11.0], [3.0, 12.0]]


def test_needs_are_those_of_the_bid_that_is_asked_about() -> None:
    """Another one may have its id: a counterfactual changes what a bid states."""
    ground = ground_of(RunningBook(Ledger(cluster(2), start=0, slots=HORIZON)).view(), ())
    one, other = job("a", 3, Linear(50.0, 1.0)), job("a", 5, Linear(20.0, 2.0))
    for bid in (one, other, replace(other), one):
        ground.rows((), (bid,))
        for known in (one, other):
            assert ground.values(known).tolist() == [known.utility.at(slot) for slot in range(HORIZON + 1)]
        assert ground.soonest(bid) == bid.minibatches


def test_few_needs_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.competition.ground.REMEMBERED", 2)
    ground = ground_of(RunningBook(Ledger(cluster(2), start=0, slots=HORIZON)).view(), ())
    known = []
    for number in range(4):
        ground.soonest(job(f"bid {number}", 3, Linear(50.0, 1.0)))
        known.append(len(ground._known.by_id))
    assert known == [1, 2, 1, 2]


def test_the_search_begins_with_orders_by_value_for_work_and_by_promises() -> None:
    looked = 0
    for _, book, where in seen({"steps": 20}, rounds(9)):
        promises = Competition(steps=20).promises(book)
        ground = ground_of(book, promises.jobs)
        contest, jobs = Contest(ground, book.competitors, Rule(20, 0.2)), len(ground.jobs)
        if jobs + len(book.competitors) == 0:
            continue
        entries, capacity = contest.entries, np.maximum(ground.capacity[contest._counted], 1.0)
        count = len(entries.length)
        work = [max(1e-12, entries.length[j] * max(entries.demand[j] / capacity)) for j in range(count)]
        begin = [*ground.cells.begin, ground.slots]
        ends = [min(ground.slots, begin[first] + entries.length[j]) for j, first in enumerate(entries.first)]
        value = [entries.value[j, end] for j, end in enumerate(ends)]
        assert contest._orders.shape == (2 * len(POWERS), count), where
        for k, power in enumerate(POWERS):
            together, after = contest._orders[2 * k : 2 * k + 2].tolist()
            ratios = [value[j] / work[j] ** power for j in together]
            assert sorted(together) == list(range(count)), where
            assert ratios == pytest.approx(sorted(ratios, reverse=True)), where
            assert after[:jobs] == sorted(range(jobs), key=lambda j: entries.due[j]), where
            assert after[jobs:] == [j for j in together if j >= jobs], where
        starts = [min(max(p.start, book.now) for p in one.held if p.end > book.now) for one in ground.jobs]
        planned = sorted(range(jobs), key=lambda j: (starts[j], entries.due[j]))
        assert contest._planned.tolist() == [*planned, *(j for j in contest._orders[0].tolist() if j >= jobs)], where
        asked = (entries.demand * entries.length[:, np.newaxis]).sum(axis=0) / capacity
        assert asked[entries.scarce[0]] == asked.max(), where
        each = [one for one in entries.demand[:, entries.scarce[0]] if one > 0]
        assert not each or entries.least[0] == pytest.approx(min(each)), where
        assert contest._moves.shape == (20, 2), where
        assert 0 <= contest._moves.min() <= contest._moves.max() < count, where
        looked += 1
    assert looked > 0


@pytest.mark.parametrize(("others", "places"), [(3, range(4)), (15, range(16)), (45, range(0, 46, 3))])
def test_one_more_bid_is_tried_at_places_all_over_the_order(
    monkeypatch: pytest.MonkeyPatch, others: int, places: Sequence[int]
) -> None:
    tried = []

    def watched(order: Ints, last: int, at: Ints, *arguments: Any) -> int:
        tried.append((last, at.tolist()))
        return best_place(order, last, at, *arguments)

    monkeypatch.setattr(contest, "best_place", watched)
    ground = ground_of(RunningBook(Ledger(cluster(2), start=0, slots=200)).view(), ())
    bids = tuple(job(f"bid {number}", 4, Linear(50.0 + number, 0.1)) for number in range(others))
    found = Contest(ground, bids, Rule(0, 0.2)).cost(job("last", 4, Linear(60.0, 0.1)))
    assert found > 0
    assert tried == [(others, list(places))]
