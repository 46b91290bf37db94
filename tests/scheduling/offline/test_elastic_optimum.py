"""Completions are decided first, and whole machines keep them."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.arrays import Ints
from scheduling.inventory import Inventory, MachineType
from scheduling.offline import Covers, Kind, Question, best_bound
from scheduling.offline.corners import corners
from scheduling.offline.elastic_keeping import can_keep
from scheduling.offline.elastic_machines import Machines, SideBySide
from scheduling.offline.elastic_optimum import elastic_optimum
from scheduling.offline.elastic_outline import Margin, margin
from scheduling.offline.elastic_programme import elastic_programme
from scheduling.offline.elastic_slot import most_side_by_side
from scheduling.offline.kinds import kinds_of
from scheduling.rows import Rows
from scheduling.utility import Constant, Step
from tests.scheduling.gpu_cluster import job
from tests.scheduling.offline.outcomes import forever
from tests.scheduling.worlds import world


def two_pools(gpus: tuple[int, ...], cpus: tuple[int, ...], *, ratio: Fraction = Fraction(1, 4)) -> Inventory:
    """Servers of GPUs for workers of two GPUs, and of CPUs for PSs of three."""
    return Inventory(
        resources=("gpu", "cpu"),
        servers=tuple(str(s) for s in range(len(gpus) + len(cpus))),
        cloud=(False,) * (len(gpus) + len(cpus)),
        capacity=np.array([(n, 0) for n in gpus] + [(0, n) for n in cpus], dtype=np.int64),
        workers=(MachineType("worker", (2, 0), ratio),),
        pss=(MachineType("ps", (0, 3), Fraction(1)),),
    )


def asked(inventory: Inventory, *, work: tuple[int, ...], chunks: int = 9, end: int = 3) -> Question:
    """Jobs of so many worker-slots, worth as much."""
    bids = tuple(
        replace(
            job(str(i), 1, 1),
            chunks=chunks,
            minibatches=1,
            worker_time=(Fraction(slots, chunks),),
            ps_time=(Fraction(0),),
            transfer_time=(Fraction(0),),
            delay=(0,) * len(inventory.servers),
            utility=Constant(float(slots)),
        )
        for i, slots in enumerate(work)
    )
    return Question(bids, inventory, 0, end, covers=Covers.ELASTIC, open_end=False)


@given(ratio=st.fractions(Fraction(1, 30), 3, max_denominator=40), most=st.integers(1, 40))
def test_no_whole_number_of_workers_lies_beyond_the_corners(ratio: Fraction, most: int) -> None:
    hull = corners(ratio, most)
    assert hull[0] == (0, 0)
    assert hull[-1].workers == most
    workers, pss = zip(*hull, strict=True)
    for n in range(most + 1):
        need = -(-n * ratio // 1)
        assert n <= np.interp(float(need), pss, workers) + 1e-9
        assert n in workers or float(n * ratio) <= np.interp(n, workers, pss) + 1e-9


def test_five_workers_hold_two_parameter_servers() -> None:
    assert corners(Fraction(5, 22), 5) == [(0, 0), (4, 1), (5, 2)]
    assert corners(Fraction(1, 2), 6) == [(0, 0), (6, 3)]


@pytest.mark.parametrize(
    ("used", "kinds"),
    [
        (None, [[0, 1], [2], [3, 4]]),
        (np.array([[[1, 0], [0, 0], [0, 0], [0, 0], [0, 0]]], np.int64), [[0], [1], [2], [3, 4]]),
    ],
)
def test_equal_servers_are_one_kind(used: Ints | None, kinds: list[list[int]]) -> None:
    inventory = two_pools((4, 4, 6), (3, 3))
    question = replace(asked(inventory, work=(4,), end=1), used=used)
    demand = np.concatenate([inventory.worker_demand, inventory.ps_demand])
    assert [kind.servers for kind in kinds_of(question, demand)] == kinds


def test_a_resource_that_another_one_spares_is_no_difference() -> None:
    # Two GPUs and one unit of memory a worker: four GPUs never need more than two of five or six units.
    inventory = replace(
        two_pools((4, 4), (3,)),
        capacity=np.array([(4, 5), (4, 6), (0, 3)], dtype=np.int64),
        workers=(MachineType("worker", (2, 1), Fraction(1, 4)),),
    )
    kinds = kinds_of(asked(inventory, work=(4,)), np.array([(2, 1)], dtype=np.int64))
    assert [(kind.servers, kind.scarce) for kind in kinds] == [([0, 1], [])]


def test_half_machines_run_side_by_side_only_in_outline() -> None:
    # Three GPUs for workers of two: one fits each server, though one and a half would in all GPUs.
    question = asked(two_pools((3, 3), (3, 3)), work=(3, 3))
    machines = Machines(question)
    weights = np.ones(2)
    assert most_side_by_side(machines, weights, 60.0) == pytest.approx(2, rel=1e-4)
    found = margin(machines, {0: 3, 1: 3}, [], 60.0)
    assert found is not None
    assert found.share == pytest.approx(0, abs=1e-6)
    assert (found.weights > 0).all()


def test_jobs_that_cannot_both_be_complete_are_told_apart() -> None:
    # One PS at a time serves four workers: 12 worker-slots in three slots, not 7 and 6; 7 and 5 take four slots.
    question = asked(two_pools((20,), (3,)), work=(7, 6, 5))
    solved = elastic_optimum(question, 8_000, None, forever)
    assert solved.optimal
    # In any slot one job has the PS: 7 takes two, 6 takes two and 5 takes two.
    assert solved.bound == pytest.approx(7)
    assert elastic_optimum(replace(question, end=4), 8_000, None, forever).bound == pytest.approx(13)


def test_completions_can_be_kept_if_the_whole_programme_keeps_them() -> None:
    answers = []
    for seed in range(4):
        made = world(seed, bids=4, servers=3, kind="apart")
        used = np.zeros((5, *made.inventory.capacity.shape), dtype=np.int64)
        used[seed % 5] = made.inventory.capacity // 2
        question = Question(made.bids, made.inventory, 0, 5, covers=Covers.ELASTIC, open_end=False, used=used)
        machines = Machines(question)
        workers = np.ones(len(machines.runs))
        most = most_side_by_side(machines, workers, 60.0)
        assert most is not None
        for pair, (first, second) in product(combinations(range(4), 2), product((2, 5), repeat=2)):
            ends = dict(zip(pair, (first, second), strict=True))
            answers.append(_keeps(question, ends))
            assert can_keep(machines, ends, [], 60.0) is answers[-1], f"seed {seed}, {ends}"
            assert can_keep(machines, ends, [SideBySide(workers, most)], 60.0) is answers[-1], f"seed {seed}, {ends}"
        assert can_keep(machines, {}, [], 60.0) is True
    assert {*answers} == {True, False}


def _keeps(question: Question, ends: dict[int, int]) -> bool:
    """Whether jobs that are worth 1 by these slots, and nothing later, come to 1 each."""
    some = [(question.bids[i], end - question.bids[i].arrival) for i, end in ends.items()]
    if any(elapsed < 1 for _, elapsed in some):
        return False
    bids = tuple(replace(bid, utility=Step(1.0, elapsed)) for bid, elapsed in some)
    solved = elastic_programme(replace(question, bids=bids), 100_000).solve(60.0)
    assert solved.optimal
    assert solved.bound is not None
    return solved.bound > len(ends) - 0.5


NOBODY = 2025
"""A seed of a world in which it is best that no job is complete by the end."""


def test_the_optimum_is_that_of_the_whole_programme() -> None:
    first = int(np.random.default_rng().integers(2**31))
    for seed in (NOBODY, *range(first, first + 6)):
        made = world(seed, bids=5, servers=3, kind="apart")
        question = Question(made.bids, made.inventory, 0, 6, covers=Covers.ELASTIC, open_end=bool(seed % 2))
        whole = elastic_programme(question, 100_000).solve(60.0)
        assert whole.optimal
        found = elastic_optimum(question, 100_000, None, forever)
        assert found.optimal, f"seed {seed}"
        assert found.bound == pytest.approx(whole.bound, rel=1e-6, abs=1e-6), f"seed {seed}"


def test_a_choice_that_nothing_new_excludes_is_forbidden(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if divided machines missed every choice by no more than a solver's rounding, of which no cut can tell.
    def missed(machines: Machines, ends: dict[int, int], known: list[SideBySide], seconds: float) -> Margin | None:
        found = margin(machines, ends, known, seconds)
        return None if found is None else found._replace(share=-1e-5)

    monkeypatch.setattr("scheduling.offline.elastic_optimum.margin", missed)
    solved = elastic_optimum(asked(two_pools((20,), (3,)), work=(7, 6, 5)), 8_000, None, forever)
    assert solved.optimal
    assert solved.bound == pytest.approx(7)


def test_without_time_the_bound_of_prices_stands() -> None:
    question = asked(two_pools((20,), (3,)), work=(7, 6, 5))
    times = iter([5.0] * 40 + [0.0] * 1000)
    answer = best_bound(question, lambda: next(times))
    assert answer.kind is not Kind.MILP_OPTIMAL
    assert answer.bound >= 7


def test_a_linear_programme_says_what_rows_cost() -> None:
    rows = Rows()
    x, y = (rows.column(0.0, 10.0, cost=cost, whole=False) for cost in (-3.0, -2.0))
    rows.row([(x, 1.0), (y, 1.0)], high=4.0)
    rows.row([(x, 1.0), (y, -1.0)], low=1.0, high=1.0)
    rows.row([(x, 1.0)], low=1.0)
    relaxed = rows.relax(60.0)
    assert relaxed is not None
    assert relaxed.values == pytest.approx([2.5, 1.5])
    assert relaxed.cost == pytest.approx(-10.5)
    assert relaxed.prices == pytest.approx([-2.5, -0.5, 0.0])
