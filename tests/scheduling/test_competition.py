"""Bids that compete until their jobs start: as streams of bids go by, what they pay, and in small examples."""

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from scheduling.batch.planner import place_batch
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Book, Job
from scheduling.competition.contest import Contest, Start
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision, Reason
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.progress import work_done
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Json
from scheduling.model.utility import Constant, Linear, Sigmoid, Step, Utility
from scheduling.policies.base import Grant
from scheduling.policies.competition import PRICED, Competition, Round, rounded_up
from scheduling.policies.simulation import Simulation
from scheduling.policies.standing import rule_for
from scheduling.registry import recorded_policy
from tests.draws import fresh, fresh_seed, rounds
from tests.scheduling.worlds import World, world

HORIZON = 15
FAST = Fraction(10_000)


class Watched(Competition):
    """The policy, whose admissions are compared with its decisions and grants on the same book."""

    def admissions(self, book: Book) -> Any:
        admitted = super().admissions(book)

        def checked(bid: Bid) -> Decision | None:
            decision = self.decide(bid, book)
            expected = Grant(decision.schedule, decision.payment, decision.due) if decision.admitted else None
            assert self.grants(book)(bid) == expected
            found = admitted(bid)
            assert found == (decision if decision.admitted else None)
            return found

        return checked


def stream(seed: int) -> tuple[World, list[Bid]]:
    """A small cluster, and more bids than it has room for."""
    rng = np.random.default_rng(seed)
    drawn = world(seed, bids=14, servers=int(rng.integers(1, 4)), architectures=frozenset(Architecture))
    slots = np.sort(rng.integers(0, 6, len(drawn.bids))).tolist()
    return drawn, [replace(bid, arrival=slot) for bid, slot in zip(drawn.bids, slots, strict=True)]


def start(policy: Competition, inventory: Inventory) -> Simulation:
    ledger = Ledger(inventory, start=0, slots=HORIZON)
    return Simulation(policy, RunningBook(ledger), rule=replace(rule_for(policy), every=3))


def cluster(gpus: int) -> Inventory:
    """One server with workers and parameter servers, each of which serves all workers beside it."""
    return Inventory(
        resources=("gpu", "ps"),
        servers=("a",),
        cloud=(False,),
        capacity=np.array([[gpus, 12]]),
        workers=(MachineType("gpu", (1, 0), FAST),),
        parameter_servers=(MachineType("ps", (0, 1), FAST),),
    )


def job(name: str, slots: int, utility: Utility, *, arrival: int = 0, gpus: int = 1) -> Bid:
    return Bid(
        id=name,
        arrival=arrival,
        epochs=1,
        chunks=gpus,
        minibatches=slots,
        worker_time=(Fraction(1),),
        ps_time=(Fraction(0),),
        transfer_time=(Fraction(0),),
        delay=(0,),
        utility=utility,
    )


def ring(name: str, slots: int, utility: Utility) -> Bid:
    """A job of two workers that exchange their results without delay."""
    return replace(job(name, slots, utility, gpus=2), architecture=Architecture.RING)


def seen(parameters: Json, cases: int) -> Iterator[tuple[Bid, Book, str]]:
    """Each try and each first decision in random streams, with a copy of the book."""
    seed, found = fresh_seed(), list[tuple[Bid, Book]]()

    class Noted(Competition):
        def decide(self, bid: Bid, book: Book) -> Decision:
            found.append((bid, replace(book, ledger=book.ledger.copy())))
            return super().decide(bid, book)

        def admissions(self, book: Book) -> Any:
            admitted = super().admissions(book)

            def tried(bid: Bid) -> Decision | None:
                found.append((bid, replace(book, ledger=book.ledger.copy())))
                return admitted(bid)

            return tried

    for case in range(cases):
        drawn, bids = stream(seed + case)
        going = start(Noted(**parameters), drawn.inventory)
        for bid in bids:
            going.advance(bid.arrival)
            going.arrive(bid)
        going.advance(60)
        for bid, book in found:
            yield bid, book, f"seed {seed + case}, {bid.id} in slot {book.now}"
        found.clear()


@pytest.mark.parametrize("parameters", [{}, {"later": 0.4, "restart": 2, "steps": 10}], ids=str)
def test_promises_are_kept_and_every_payment_is_below_the_value(parameters: Json) -> None:
    seed, admitted, later = fresh_seed(), 0, 0
    for case in range(rounds(8)):
        drawn, bids = stream(seed + case)
        going = start(Watched(**parameters), drawn.inventory)
        first = []
        for bid in bids:
            going.advance(bid.arrival)
            first.append(going.arrive(bid).admitted)
        going.advance(80)
        assert not going.book.jobs
        for bid, decision, at_once in zip(bids, going.decisions, first, strict=True):
            if not decision.admitted:
                continue
            done = going.done[bid.id]
            assert done.completion is not None
            assert decision.due is not None
            assert done.completion <= decision.due == done.due, "a promise is kept"
            assert work_done(bid, done.held, until=done.completion) == bid.work
            assert 0.0 <= decision.payment < decision.value == bid.utility.at(decision.due - bid.arrival)
            admitted, later = admitted + 1, later + (not at_once)
    assert admitted > 0
    assert later > 0


def test_no_value_that_a_bid_states_moves_what_it_pays() -> None:
    paid = 0
    for bid, book, where in seen({"steps": 20}, rounds(8)):
        costs = set[float]()
        for utility in [bid.utility.scaled(factor) for factor in (0.3, 1.0, 4.0)] + [Constant(30.0), Linear(40.0, 3.0)]:
            competitors = tuple(replace(one, utility=utility) if one.id == bid.id else one for one in book.competitors)
            decision = Competition(steps=20).decide(
                replace(bid, utility=utility), replace(book, competitors=competitors)
            )
            if decision.admitted:
                costs.add(decision.payment)
                paid += decision.payment > 0.0
        assert len(costs) <= 1, where
    assert paid > 0


def test_a_contest_of_some_bids_is_that_which_is_made_of_them_alone() -> None:
    looked = 0
    for bid, book, where in seen({"steps": 20}, rounds(12)):
        round_ = Round(Competition(steps=20), Competition(steps=20).promises(book), book.competitors)
        others = [one for one in book.competitors if one.id != bid.id]
        if not others or round_.full.ground is not round_.full.only(others).ground:
            continue
        some, alone = round_.full.only(others), Contest(round_.full.ground, tuple(others), round_.policy.rule)
        for one, other in (
            (some, alone),
            (some.beside(bid), Contest(alone.ground, alone.bids, alone.rule).beside(bid)),
        ):
            for name, found, expected in zip(one.entries._fields, one.entries, other.entries, strict=True):
                assert np.array_equal(found, expected), f"{where}, {name}"
        assert some.starts() == alone.starts(), where
        assert some.cost(bid) == alone.cost(bid), where
        looked += 1
    assert looked > 0


def test_what_others_lose_if_a_bid_comes_first() -> None:
    """On one GPU: a job of two slots comes before one of four, whose value falls with each slot."""
    policy, ledger = Competition(sooner=0.0), Ledger(cluster(1), start=0, slots=HORIZON)
    bids = (job("short", 2, Linear(3.0, 0.1)), job("long", 4, Linear(40.0, 2.0)))
    round_ = Round(policy, policy.promises(RunningBook(ledger).view()), bids)
    assert [one.bid.id for one in round_.full.starts()] == ["long"]
    assert round_.full.loss(bids[0]) == pytest.approx(2 * 2.0)
    assert round_.full.loss(bids[1]) == 0.0


def test_without_competitors_a_job_starts_at_once_and_pays_nothing() -> None:
    going = start(Competition(), cluster(2))
    decision = going.arrive(job("a", 4, Constant(10.0), gpus=2))
    assert decision.admitted
    assert (decision.payment, decision.schedule.start if decision.schedule else None) == (0.0, 0)


@pytest.mark.parametrize(("later", "due"), [(0.0, 4), (0.1, 5), (0.5, 9), (1.0, 13)])
def test_a_promised_slot_is_worth_something_however_much_later_it_may_be(later: float, due: int) -> None:
    """It is worth 10 in slot 4, one less in each later slot, and nothing from slot 14 on."""
    decision = start(Competition(later=later), cluster(1)).arrive(job("a", 4, Linear(14.0, 1.0)))
    assert (decision.admitted, decision.due, decision.value) == (True, due, 14.0 - due)


def test_a_bid_that_cannot_start_waits_and_starts_when_a_job_has_ended() -> None:
    going = start(Competition(later=0.0), cluster(1))
    going.arrive(job("first", 4, Step(10.0, 4)))
    second = going.arrive(job("second", 2, Constant(5.0), arrival=0))
    assert (second.admitted, second.reason) == (False, Reason.NO_ROOM)
    going.advance(4)  # no turn of its own: the first job has ended
    (late,) = [decision for decision in going.decisions if decision.bid_id == "second"]
    assert (late.admitted, late.slot) == (True, 4)


def test_the_one_that_is_worth_more_starts_first_and_pays_what_the_other_loses() -> None:
    going = start(Competition(later=0.0), cluster(1))
    going.arrive(job("runs", 3, Step(50.0, 3)))
    going.advance(1)
    for name, value in (("low", 6.0), ("high", 20.0)):
        assert not going.arrive(job(name, 4, Step(value, 7), arrival=1)).admitted
    going.advance(3)
    found = {decision.bid_id: decision for decision in going.decisions}
    assert found["high"].admitted
    # A completion counts the less, the later it is: the other job would be complete after 4 of 15 slots.
    assert found["high"].payment == pytest.approx(rounded_up(6.0 * (1 - 0.2 * 4 / 15)))
    assert not found["low"].admitted


def test_a_bid_that_does_not_stand_is_no_competitor_and_is_decided_at_once() -> None:
    policy, ledger = Competition(), Ledger(cluster(1), start=0, slots=HORIZON)
    book = replace(RunningBook(ledger).view(), competitors=(job("waits", 2, Step(9.0, 2)),))
    assert not policy.decide(job("less", 2, Step(5.0, 2)), book).admitted
    more = policy.decide(job("more", 2, Step(12.0, 2)), book)
    assert more.admitted
    assert more.payment == pytest.approx(rounded_up(9.0 * (1 - 0.2 * 2 / 15)))


def test_where_no_rough_plan_keeps_all_promises_bids_start_beside_the_present_plan(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Contest, "is_broken", property(lambda contest: bool(contest.ground.jobs)))
    going = start(Competition(later=0.0), cluster(3))
    assert going.arrive(job("holds", 4, Step(9.0, 4), gpus=2)).admitted
    assert not going.arrive(job("too large", 4, Step(50.0, 7), gpus=2)).admitted
    assert going.arrive(job("beside", 4, Step(5.0, 4))).admitted


def test_bids_start_on_machines_that_are_free_though_no_rough_plan_has_them_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Contest, "starts", lambda contest: ())
    going = start(Competition(later=0.0), cluster(3))
    assert going.arrive(job("holds", 4, Step(9.0, 4), gpus=2)).admitted
    assert not going.arrive(job("wide", 4, Step(90.0, 8), gpus=3)).admitted, "it would be complete too late with one"
    small = going.arrive(job("small", 4, Step(5.0, 4)))
    assert (small.admitted, small.payment) == (True, 0.0)
    going.advance(4)
    assert {decision.bid_id for decision in going.decisions if decision.admitted} == {"holds", "small", "wide"}


def test_a_job_alone_beside_a_promise_runs_on_fewer_workers_for_nothing() -> None:
    """All of its four workers at once would make the other job late; the two that are free do not."""
    going = start(Competition(later=0.0), cluster(4))
    assert going.arrive(job("holds", 8, Step(9.0, 8), gpus=2)).admitted
    elastic = going.arrive(job("elastic", 4, Constant(50.0), gpus=4))
    assert (elastic.admitted, elastic.payment) == (True, 0.0)
    going.advance(30)
    assert {name: ended.completion for name, ended in going.done.items()} == {"holds": 8, "elastic": 8}


def test_a_bid_that_does_not_compete_does_not_start_in_a_turn() -> None:
    policy, ledger = Competition(later=0.0), Ledger(cluster(4), start=0, slots=HORIZON)
    book = replace(RunningBook(ledger).view(), competitors=(job("competes", 4, Step(20.0, 4), gpus=2),))
    assert policy.admissions(book)(job("other", 4, Constant(50.0), gpus=4)) is None


def test_a_start_that_was_admitted_in_a_turn_takes_no_machines_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    def starts(contest: Contest) -> tuple[Start, ...]:
        return tuple(Start(bid, 4) for bid in contest.bids if bid.id == "first")

    monkeypatch.setattr(Contest, "starts", starts)
    policy, running = Competition(later=0.0), RunningBook(Ledger(cluster(2), start=0, slots=HORIZON))
    first, second = job("first", 4, Step(20.0, 4)), job("second", 4, Step(20.0, 4))
    tries = policy.admissions(replace(running.view(), competitors=(first, second)))
    admitted = tries(first)
    assert admitted is not None
    running.apply_decision(first, admitted, bound=True)
    after = tries.after(replace(running.view(), competitors=(second,)))(second)
    assert after is not None
    assert after.admitted


def test_few_bids_are_priced_in_a_turn_that_are_no_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them fit the free GPUs, and each would have to pay more than it is worth."""
    priced, found = list[str](), Round._price

    def noted(round_: Round, bid: Bid) -> float:
        priced.append(bid.id)
        return found(round_, bid)

    monkeypatch.setattr(Round, "_price", noted)
    monkeypatch.setattr(Contest, "starts", lambda contest: ())
    monkeypatch.setattr(Contest, "loss", lambda contest, bid: 0.0)
    monkeypatch.setattr(Contest, "cost", lambda contest, bid: math.inf)
    policy = Competition(steps=0)
    book = RunningBook(Ledger(cluster(3), start=0, slots=HORIZON)).view()
    bids = tuple(job(f"bid {i}", 4, Constant(50.0)) for i in range(40))
    tries = policy.admissions(replace(book, competitors=bids))
    assert [tries(bid) for bid in bids] == [None] * 40
    assert len(set(priced)) == PRICED


def test_no_machine_is_idle_while_a_bid_stands_that_would_run_on_it_and_is_worth_what_that_takes() -> None:
    """Looked at where machines were freed, so that all bids had a turn, and where that admitted none of them."""
    seed, looked = fresh_seed(), 0
    for case in range(rounds(60)):
        drawn, bids = stream(seed + case)
        policy = Competition()
        going = Simulation(policy, RunningBook(Ledger(drawn.inventory, start=0, slots=HORIZON)), rule=rule_for(policy))
        for slot in range(40):
            for bid in (bid for bid in bids if bid.arrival == slot):
                going.arrive(bid)
            ended, admitted = len(going.done), sum(one.admitted for one in going.decisions)
            going.advance(slot + 1)
            if len(going.done) == ended or sum(one.admitted for one in going.decisions) > admitted:
                continue
            book = going.view()
            for bid in book.competitors:
                alone = place_batch([bid], book.ledger, (book.now, book.ledger.end)).schedules().get(bid.id)
                if alone is None or alone.start != max(book.now, bid.arrival + min(bid.delay)):
                    continue
                looked += 1
                found = policy.decide(bid, book)
                value = bid.utility.at(alone.completion - bid.arrival)
                little = value < 0.02 * bid.utility.at(book.now + 1 - bid.arrival)
                losing = Round(policy, policy.promises(book), book.competitors).full.loss(bid) > value
                assert found.reason is Reason.PRICE or losing or little, f"seed {seed + case}, {bid.id} in {book.now}"
    assert looked > 0


def test_a_job_for_the_whole_cluster_is_not_put_off_until_promises_are_in_its_way() -> None:
    """Long jobs of one GPU come all the time. Each is worth little, and may be complete after the large one."""
    policy = Competition()
    going = Simulation(policy, RunningBook(Ledger(cluster(4), start=0, slots=200)), rule=rule_for(policy))
    large = job("large", 80, Step(1000.0, 200), arrival=1, gpus=4)
    for slot in range(180):
        going.advance(slot)
        if slot == large.arrival:
            going.arrive(large)
        if slot % 4 == 0:
            going.arrive(job(f"small {slot}", 100, Linear(4.0, 0.005), arrival=slot))
    going.advance(400)
    done = going.done["large"]
    assert done.completion is not None
    assert done.completion <= 201


def test_a_job_that_no_cluster_can_complete_or_without_value_has_its_reason() -> None:
    policy, ledger = Competition(), Ledger(cluster(1), start=0, slots=HORIZON)
    book = RunningBook(ledger).view()
    assert policy.decide(job("long", HORIZON + 1, Constant(9.0)), book).reason is Reason.IMPOSSIBLE
    assert policy.decide(job("late", 4, Step(9.0, 3)), book).reason is Reason.WORTHLESS


def test_a_bid_that_cannot_be_promised_a_slot_keeps_no_other_from_starting() -> None:
    """Two of three GPUs on each of two servers are held: a rough plan sees room for a worker that fits no server."""
    both = (MachineType("gpu", (1, 0), FAST), MachineType("two-gpus", (2, 0), FAST))
    apart = replace(
        cluster(3), servers=("a", "b"), cloud=(False, False), capacity=np.array([[3, 12], [3, 12]]), workers=both
    )
    small, large = (Fraction(1), Fraction(99)), (Fraction(99), Fraction(1))

    def on(bid: Bid, times: tuple[Fraction, ...], delay: tuple[int, ...] = (0, 0)) -> Bid:
        return replace(bid, worker_time=times, transfer_time=(Fraction(0),) * 2, delay=delay)

    going = start(Competition(later=0.0), apart)
    for name, delay in (("a", (0, 9)), ("b", (9, 0))):
        assert going.arrive(on(ring(name, 6, Step(90.0, 6)), small, delay)).admitted
    assert not going.arrive(on(job("wide", 4, Step(60.0, 4)), large)).admitted
    assert going.arrive(on(job("small", 4, Step(20.0, 4)), small)).admitted


def test_a_bid_may_start_before_a_running_job_that_is_promised_no_later_slot() -> None:
    """It needs both GPUs in slots 0 and 1: later both are held until slot 11, and the job that runs can wait."""
    both = (Placement(2, 11, Role.WORKER, 0, 0, 2), Placement(2, 11, Role.PS, 0, 0, 1))
    one = (Placement(0, 1, Role.WORKER, 0, 0, 1), Placement(0, 1, Role.PS, 0, 0, 1))
    ledger = Ledger(cluster(2), start=0, slots=HORIZON)
    ledger.restore([Schedule(2, 11, both), Schedule(0, 1, one)])
    book = RunningBook(ledger, jobs={"runs": Job(job("runs", 1, Step(9.0, 12)), one, 1, due=12)})
    decision = Competition(later=0.0).decide(job("comes", 2, Step(50.0, 12), gpus=2), book.view())
    assert (decision.admitted, decision.due, decision.payment) == (True, 12, 0.0)
    assert decision.schedule is not None
    assert (decision.schedule.start, decision.schedule.completion) == (0, 2)
    book.apply_decision(job("comes", 2, Step(50.0, 12), gpus=2), decision, bound=True)
    assert book.jobs["runs"].completion == 12


def test_payments_have_two_digits() -> None:
    rng, _ = fresh()
    for money in (10.0 ** rng.uniform(-6, 12, 200)).tolist():
        paid = rounded_up(money)
        assert money * (1 - 1e-8) <= paid <= 1.1 * money * (1 + 1e-8)
        assert float(f"{paid:.2g}") == paid
    assert [rounded_up(money) for money in (0.0, 1e-322, math.inf)] == [0.0, 1e-322, math.inf]


def test_a_job_whose_data_comes_later_is_promised_a_slot_at_once() -> None:
    going = start(Competition(later=0.0), cluster(1))
    decision = going.arrive(replace(job("far", 2, Step(10.0, 4)), delay=(1,)))
    assert decision.admitted
    assert decision.schedule is not None
    assert (decision.schedule.start, decision.schedule.completion) == (1, 3)


def test_a_job_that_loses_most_of_its_value_while_it_runs_starts_on_an_empty_cluster() -> None:
    going = start(Competition(), cluster(1))
    assert going.arrive(job("falls", 10, Sigmoid(100.0, 0.5, 0.0))).admitted


def test_many_bids_start_in_one_turn() -> None:
    going = start(Competition(later=0.0), cluster(4))
    going.arrive(job("runs", 3, Step(900.0, 3), gpus=4))
    for number in range(6):
        assert not going.arrive(job(f"waits-{number}", 4, Linear(10.0 + number, 0.1))).admitted
    going.advance(3)
    started = [decision.bid_id for decision in going.decisions if decision.admitted]
    assert len(started) == 5
    assert {"waits-5", "waits-4"} < set(started)


def test_where_all_fit_nobody_pays() -> None:
    policy, ledger = Competition(), Ledger(cluster(3), start=0, slots=HORIZON)
    waiting = tuple(job(f"waits-{number}", 4, Step(50.0, 4)) for number in range(2))
    decision = policy.decide(job("comes", 4, Step(1.0, 4)), replace(RunningBook(ledger).view(), competitors=waiting))
    assert (decision.admitted, decision.payment) == (True, 0.0)


def test_closed_servers_have_no_room_and_their_jobs_take_none_elsewhere() -> None:
    two = replace(cluster(1), servers=("a", "b"), cloud=(False, False), capacity=np.array([[1, 4], [1, 4]]))
    waiting = replace(job("waits", 4, Step(50.0, 4)), delay=(0, 0))
    comes = replace(job("comes", 4, Step(40.0, 4)), delay=(0, 0))
    policy, opened = Competition(later=0.0), RunningBook(Ledger(two, start=0, slots=HORIZON))
    assert policy.decide(comes, replace(opened.view(), competitors=(waiting,))).admitted
    closed = RunningBook(Ledger(two, start=0, slots=HORIZON, closed=(0, None)))
    assert not policy.decide(comes, replace(closed.view(), competitors=(waiting,))).admitted
    placed = (Placement(0, 9, Role.WORKER, 0, 0, 1), Placement(0, 9, Role.PS, 0, 0, 1))
    going = Job(replace(job("runs", 9, Step(90.0, 9)), delay=(0, 0)), placed, 9, due=9)
    ledger = Ledger(two, start=1, slots=HORIZON, closed=(0, None))
    ledger.restore([Schedule(0, 9, placed)])
    beside = RunningBook(ledger, jobs={"runs": going})
    assert policy.decide(replace(comes, arrival=1), beside.view()).admitted


@pytest.mark.parametrize("until_closed", [True, False])
def test_bids_that_stand_start_on_a_server_that_closes_later(until_closed: bool) -> None:
    """Both need the only server, which has room for both until it closes."""
    policy = recorded_policy("competition", {"until_closed": True} if until_closed else {})
    closing = RunningBook(Ledger(cluster(2), start=0, slots=HORIZON, closed=(10,)))
    both = (job("a", 4, Step(50.0, 9)), job("b", 4, Step(40.0, 9)))
    decision = policy.decide(both[1], replace(closing.view(), competitors=both))
    assert decision.admitted == until_closed
    assert decision.schedule is None or (decision.payment, decision.schedule.start) == (0.0, 0)
