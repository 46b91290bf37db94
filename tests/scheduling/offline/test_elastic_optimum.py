"""Completions are decided first, and whole machines keep them."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Ints
from scheduling.model.utility import Constant, Step
from scheduling.offline import (
    Covers,
    Kind,
    OfflineProblem,
    best_bound,
)
from scheduling.offline.elastic import column_generation, feasibility, slot_tables
from scheduling.offline.elastic import patterns as pattern_tables
from scheduling.offline.elastic.column_generation import Group, Required, narrow, share
from scheduling.offline.elastic.feasibility import check_feasible
from scheduling.offline.elastic.machines import Machines
from scheduling.offline.elastic.milp import elastic_program
from scheduling.offline.elastic.optimum import elastic_optimum
from scheduling.offline.elastic.patterns import Server, maximal_patterns, side_by_side
from scheduling.offline.elastic.slots import Slots
from scheduling.offline.hull import hull_vertices
from scheduling.offline.server_classes import server_classes
from scheduling.solvers.milp import IntegerProgram
from tests.draws import fresh_seed
from tests.scheduling.gpu_cluster import job
from tests.scheduling.offline.outcomes import forever
from tests.scheduling.worlds import world


def nothing() -> float:
    """No time is left."""
    return 0.0


def two_pools(gpus: tuple[int, ...], cpus: tuple[int, ...], *, ratio: Fraction = Fraction(1, 4)) -> Inventory:
    """Servers of GPUs for workers of two GPUs, and of CPUs for PSs of three."""
    return Inventory(
        resources=("gpu", "cpu"),
        servers=tuple(str(s) for s in range(len(gpus) + len(cpus))),
        cloud=(False,) * (len(gpus) + len(cpus)),
        capacity=np.array([(n, 0) for n in gpus] + [(0, n) for n in cpus], dtype=np.int64),
        workers=(MachineType("worker", (2, 0), ratio),),
        parameter_servers=(MachineType("ps", (0, 3), Fraction(1)),),
    )


def problem_of(inventory: Inventory, *, work: tuple[int, ...], chunks: int = 9, end: int = 3) -> OfflineProblem:
    """Jobs with this work, worker-slots, and the same value."""
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
    return OfflineProblem(bids, inventory, 0, end, covers=Covers.ELASTIC, open_end=False)


@given(ratio=st.fractions(Fraction(1, 30), 3, max_denominator=40), most=st.integers(1, 40))
def test_no_whole_number_of_workers_lies_beyond_the_corners(ratio: Fraction, most: int) -> None:
    hull = hull_vertices(ratio, most)
    assert hull[0] == (0, 0)
    assert hull[-1].workers == most
    workers, pss = zip(*hull, strict=True)
    for n in range(most + 1):
        need = -(-n * ratio // 1)
        assert n <= np.interp(float(need), pss, workers) + 1e-9
        assert n in workers or float(n * ratio) <= np.interp(n, workers, pss) + 1e-9


def test_five_workers_hold_two_parameter_servers() -> None:
    assert hull_vertices(Fraction(5, 22), 5) == [(0, 0), (4, 1), (5, 2)]
    assert hull_vertices(Fraction(1, 2), 6) == [(0, 0), (6, 3)]


@pytest.mark.parametrize(
    ("used", "kinds"),
    [
        (None, [[0, 1], [2], [3, 4]]),
        (np.array([[[1, 0], [0, 0], [0, 0], [0, 0], [0, 0]]], np.int64), [[0], [1], [2], [3, 4]]),
    ],
)
def test_equal_servers_are_one_kind(used: Ints | None, kinds: list[list[int]]) -> None:
    inventory = two_pools((4, 4, 6), (3, 3))
    problem = replace(problem_of(inventory, work=(4,), end=1), used=used)
    demand = np.concatenate([inventory.worker_demand, inventory.ps_demand])
    assert [kind.servers for kind in server_classes(problem, demand)] == kinds


def test_a_resource_that_another_one_spares_is_no_difference() -> None:
    # Two GPUs and one unit of memory a worker: four GPUs never need more than two of five or six units.
    inventory = replace(
        two_pools((4, 4), (3,)),
        capacity=np.array([(4, 5), (4, 6), (0, 3)], dtype=np.int64),
        workers=(MachineType("worker", (2, 1), Fraction(1, 4)),),
    )
    kinds = server_classes(problem_of(inventory, work=(4,)), np.array([(2, 1)], dtype=np.int64))
    assert [(kind.servers, kind.scarce) for kind in kinds] == [([0, 1], [])]


def test_half_machines_run_side_by_side_only_in_master() -> None:
    # Three GPUs for workers of two: one fits each server, though one and a half would in all GPUs.
    slots = Slots(Machines(problem_of(two_pools((3, 3), (3, 3)), work=(3, 3))))
    assert slots.patterns(0, (0, 1)).tolist() == [[0, 2], [1, 1], [2, 0]]
    assert slots.patterns(0, (1,)).tolist() == [[0, 2]]


def test_what_less_is_free_for_is_less() -> None:
    inventory = two_pools((8,), (9,))
    used = np.zeros((3, 2, 2), dtype=np.int64)
    used[1, 0, 0] = 4
    slots = Slots(Machines(replace(problem_of(inventory, work=(6, 6)), used=used)))
    assert [{int(n.sum()) for n in slots.patterns(t, (0, 1))} for t in range(3)] == [{4}, {2}, {4}]
    assert slots.allows(0, 1, (0, 1))
    assert not slots.allows(1, 0, (0, 1))
    assert slots.equal(0, 2, (0, 1))


@given(data=st.data())
def test_what_fits_servers_is_what_fits_them_one_by_one(data: st.DataObject) -> None:
    items, resources = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 2))
    units = st.lists(st.integers(0, 3), min_size=resources, max_size=resources)
    demand = data.draw(st.lists(units, min_size=items, max_size=items))
    rooms = st.lists(st.integers(0, 3), min_size=items, max_size=items)
    frees = st.lists(st.integers(0, 7), min_size=resources, max_size=resources)
    servers = data.draw(st.lists(st.builds(Server, frees, rooms), min_size=1, max_size=3))
    most = data.draw(st.lists(st.integers(0, 4), min_size=items, max_size=items))
    heights = side_by_side(servers, demand, most)
    fitting = _fitting(servers, demand, most)
    assert heights.shape == tuple(n + 1 for n in most[:-1])
    assert {load for load in product(*(range(n + 1) for n in most)) if heights[load[:-1]] >= load[-1]} == fitting
    largest = [load for load in fitting if not any(other != load and _holds(other, load) for other in fitting)]
    assert sorted(map(tuple, maximal_patterns(heights).tolist())) == sorted(largest)


def _holds(load: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(n >= m for n, m in zip(load, other, strict=True))


def _fitting(servers: list[Server], demand: list[list[int]], most: list[int]) -> set[tuple[int, ...]]:
    """Combine every load of each server with every load of the servers before."""
    found = {(0,) * len(most)}
    for free, room in servers:
        loads = [
            load
            for load in product(*(range(n + 1) for n in room))
            if all(sum(n * d[k] for n, d in zip(load, demand, strict=True)) <= free[k] for k in range(len(free)))
        ]
        sums = {tuple(n + m for n, m in zip(load, more, strict=True)) for load in found for more in loads}
        found = {load for load in sums if _holds(tuple(most), load)}
    return found


def test_a_table_of_some_runs_is_part_of_that_of_all() -> None:
    made = world(4, bids=4, servers=4, kind="shared")
    problem = OfflineProblem(made.bids, made.inventory, 0, 8, covers=Covers.ELASTIC, open_end=False)
    machines = Machines(problem)
    runs = tuple(range(len(machines.runs)))[:4]
    known = Slots(machines)
    assert len(known.patterns(7, runs)) > 1
    for some in (some for n in range(1, 4) for some in combinations(runs, n)):
        if all(known.live(r, 7) for r in some):
            assert known.patterns(7, some).tolist() == Slots(machines).patterns(7, some).tolist()


@pytest.mark.parametrize(
    ("limit", "module"),
    [
        ("CELLS", slot_tables),
        ("ITEMS", pattern_tables),
        ("WORK", pattern_tables),
        ("LOADS", pattern_tables),
        ("MOST", pattern_tables),
    ],
)
def test_what_is_too_large_is_not_found_out(limit: str, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(two_pools((3, 3), (3, 3)), work=(3, 3))
    monkeypatch.setattr(module, limit, 1)
    slots = Slots(Machines(problem))
    assert check_feasible(slots, {0: 3, 1: 3}, forever) == (None, [])
    assert check_feasible(slots, {0: 3, 1: 3}, forever) == (None, [])
    assert not elastic_optimum(problem, 8_000, None, forever).optimal
    # All at once it is: by the whole program.
    answer = best_bound(problem, forever)
    assert answer.kind is Kind.MILP_OPTIMAL
    assert answer.bound == pytest.approx(6)


def test_rules_say_which_jobs_cannot_all_be_complete() -> None:
    # One PS at a time serves four workers: 12 worker-slots in three slots, not 13.
    slots = Slots(Machines(problem_of(two_pools((20,), (3,)), work=(7, 6))))
    kept = check_feasible(slots, {0: 3, 1: 3}, forever)
    assert kept.verdict is False
    (rule,) = kept.cuts
    assert rule.weights / rule.weights.max() == pytest.approx([1.0, 1.0])
    assert rule.most / rule.weights.max() == pytest.approx(4)
    assert rule.slots == {0, 1, 2}


def test_shares_of_slots_that_no_whole_ones_make_are_no_schedule() -> None:
    # 6 and 6 are three slots' work, a slot and a half each.
    slots = Slots(Machines(problem_of(two_pools((20,), (3,)), work=(6, 6))))
    assert check_feasible(slots, {0: 3, 1: 3}, forever) == (False, [])
    assert check_feasible(slots, {0: 3, 1: 2}, forever).verdict is False
    longer = Slots(Machines(problem_of(two_pools((20,), (3,)), work=(6, 6), end=4)))
    assert check_feasible(longer, {0: 4, 1: 4}, forever) == (True, [])
    assert check_feasible(longer, {0: 2, 1: 4}, forever) == (True, [])


def test_a_job_that_leaves_nothing_to_spare_is_kept_with_others() -> None:
    # The first has the most it can have in every slot, so all prices of the others are 0.
    slots = Slots(Machines(problem_of(two_pools((20,), (3, 3, 3)), work=(12, 8, 9), chunks=4)))
    assert check_feasible(slots, {0: 3, 1: 2}, forever).verdict is True
    assert check_feasible(slots, {0: 3, 1: 2, 2: 3}, forever).verdict is False


def test_what_is_left_out_is_in_no_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_generation, "SMALL", 0)
    # Two PSs at a time serve four workers each: 24 worker-slots in three slots.
    slots = Slots(Machines(problem_of(two_pools((20,), (3, 3)), work=(14, 6))))
    group = Group(0, 3, (0, 1), slots.patterns(0, (0, 1)))
    assert sorted(group.patterns.tolist()) == [[0, 8], [4, 4], [8, 0]]
    work = Required([[0], [1]], np.array([14, 6], dtype=np.int64))
    (left,) = narrow([group], work, share([group], work)) or [group]
    some = range(len(group.patterns))
    for chosen in product(some, repeat=3):
        if (group.patterns[list(chosen)].sum(axis=0) >= work.work).all():
            assert all(group.patterns[k].tolist() in left.patterns.tolist() for k in chosen)
    more = Required([[0], [1]], np.array([17, 8], dtype=np.int64))
    assert narrow([group], more, share([group], more)) is None


def test_what_not_all_was_tried_for_is_not_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(two_pools((20,), (3,)), work=(6, 6))
    monkeypatch.setattr(feasibility, "MANY", 1)
    assert check_feasible(Slots(Machines(problem)), {0: 3, 1: 3}, forever).verdict is None
    assert check_feasible(Slots(Machines(replace(problem, end=4))), {0: 4, 1: 4}, forever).verdict is True


def test_without_time_nothing_new_is_found_out() -> None:
    slots = Slots(Machines(problem_of(two_pools((20,), (3,)), work=(6, 6))))
    assert check_feasible(slots, {0: 3, 1: 3}, nothing) == (None, [])


def test_jobs_that_cannot_both_be_complete_are_distinguished() -> None:
    # One PS at a time serves four workers: 12 worker-slots in three slots, not 7 and 6; 7 and 5 take four slots.
    problem = problem_of(two_pools((20,), (3,)), work=(7, 6, 5))
    solved = elastic_optimum(problem, 8_000, None, forever)
    assert solved.optimal
    # In any slot one job has the PS: 7 takes two, 6 takes two and 5 takes two.
    assert solved.bound == pytest.approx(7)
    assert elastic_optimum(replace(problem, end=4), 8_000, None, forever).bound == pytest.approx(13)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["apart", "shared"])
def test_completions_can_be_kept_if_the_whole_program_keeps_them(kind: str) -> None:
    answers = []
    open_ = 0
    for seed in range(2):
        made = world(seed, bids=4, servers=3, kind=kind)
        used = np.zeros((5, *made.inventory.capacity.shape), dtype=np.int64)
        used[seed % 5] = made.inventory.capacity // 2
        problem = OfflineProblem(made.bids, made.inventory, 0, 5, covers=Covers.ELASTIC, open_end=False, used=used)
        machines = Machines(problem)
        known = Slots(machines)
        for pair, (first, second) in product(combinations(range(4), 2), product((2, 5), repeat=2)):
            ends = dict(zip(pair, (first, second), strict=True))
            answers.append(_keeps(problem, ends))
            for slots in (Slots(machines), known):
                verdict = check_feasible(slots, ends, forever).verdict
                # Where workers share servers with PSs, tables of many types are too large.
                open_ += verdict is None and kind == "shared"
                assert verdict is answers[-1] or (verdict is None and kind == "shared"), f"seed {seed}, {ends}"
        assert check_feasible(known, {}, forever).verdict is True
    assert {*answers} == {True, False}
    assert open_ < len(answers)


def _keeps(problem: OfflineProblem, ends: dict[int, int]) -> bool:
    """Return whether jobs with value 1 by these slots, and 0 later, get value 1 each."""
    some = [(problem.bids[i], end - problem.bids[i].arrival) for i, end in ends.items()]
    if any(elapsed < 1 for _, elapsed in some):
        return False
    bids = tuple(replace(bid, utility=Step(1.0, elapsed)) for bid, elapsed in some)
    solved = elastic_program(replace(problem, bids=bids), 100_000).solve(forever)
    assert solved.optimal
    assert solved.bound is not None
    return solved.bound > len(ends) - 0.5


NOBODY = 2025
"""A seed of a world in which it is best that no job is complete by the end."""


def test_the_optimum_is_that_of_the_whole_program() -> None:
    first = fresh_seed()
    proven = 0
    for seed in (NOBODY, *range(first, first + 6)):
        made = world(seed, bids=5, servers=3, kind="apart" if seed == NOBODY or seed % 3 else "")
        problem = OfflineProblem(made.bids, made.inventory, 0, 6, covers=Covers.ELASTIC, open_end=bool(seed % 2))
        whole = elastic_program(problem, 100_000).solve(forever)
        assert whole.optimal
        found = elastic_optimum(problem, 100_000, None, forever)
        proven += found.optimal
        if found.optimal:
            assert found.bound == pytest.approx(whole.bound, rel=1e-6, abs=1e-6), f"seed {seed}"
        # Where the tables are too large, by the whole program.
        answer = best_bound(problem, forever)
        assert answer.kind is Kind.MILP_OPTIMAL, f"seed {seed}"
        assert answer.bound == pytest.approx(whole.bound, rel=1e-6, abs=1e-6), f"seed {seed}"
    assert proven > 0


def test_without_time_the_bound_of_prices_stands() -> None:
    problem = problem_of(two_pools((20,), (3,)), work=(7, 6, 5))
    times = iter([5.0] * 40 + [0.0] * 1000)
    answer = best_bound(problem, lambda: next(times))
    assert answer.kind is not Kind.MILP_OPTIMAL
    assert answer.bound >= 7


def test_a_linear_program_says_what_rows_cost() -> None:
    rows = IntegerProgram()
    x, y = (rows.column(0.0, 10.0, cost=cost, whole=False) for cost in (-3.0, -2.0))
    rows.row([(x, 1.0), (y, 1.0)], high=4.0)
    rows.row([(x, 1.0), (y, -1.0)], low=1.0, high=1.0)
    rows.row([(x, 1.0)], low=1.0)
    relaxed = rows.relax()
    assert relaxed.values == pytest.approx([2.5, 1.5])
    assert relaxed.cost == pytest.approx(-10.5)
    assert relaxed.prices == pytest.approx([-2.5, -0.5, 0.0])
