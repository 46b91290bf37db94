"""The integer program against brute force, with and without costs of switching."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scheduling.solvers.milp import IntegerProgram, Solution
from scheduling.solvers.time_limit import unlimited
from scheduling.split_learning.bounds import unavoidable
from scheduling.split_learning.check import violations
from scheduling.split_learning.document import read_split_learning
from scheduling.split_learning.ilp import TooLarge, ilp
from scheduling.split_learning.instance import TIMES, Instance
from scheduling.split_learning.method import NoPlan, Step
from tests.data.make.split_learning import planted
from tests.scheduling.split_learning.twins.optimum import least_makespan
from tests.scheduling.split_learning.worlds import draw, known, own, read, split_cases

LARGER = "vgg19-s1-j10-i2-seed1"
"""An instance of ten clients that is proven soon."""


def run(instance: Instance, seconds: float = float("inf")) -> list[Step]:
    return list(ilp(instance, left=lambda: seconds, rng=np.random.default_rng(0)))


@pytest.mark.thorough
@pytest.mark.parametrize("switch", [0, 1, 2])
def test_it_finds_the_optimum_of_brute_force(switch: int) -> None:
    rng = np.random.default_rng(switch)
    solved = 0
    for _ in range(60):
        helpers = int(rng.integers(1, 3))
        instance = draw(rng, clients=int(rng.integers(1, 4)), helpers=helpers, longest=4, switch=switch)
        least = least_makespan(instance)
        assert least is not None
        *_, last = steps = run(instance)
        assert last.plan is not None
        assert violations(last.plan) == []
        assert last.lower_bound == last.plan.makespan == least
        solved += len(steps) == 2 and least > unavoidable(instance)
    assert solved > 2


def test_interrupting_is_worth_its_cost_or_not() -> None:
    one = np.ones((1, 2), dtype=np.int64)
    instance = Instance(
        release=np.array([[0, 2]]),
        forward=np.array([[6, 1]]),
        gap=np.array([[0, 9]]),
        backward=one,
        tail=np.array([[6, 1]]),
        demand=one[0],
        capacity=np.array([2]),
        switch=np.array([0]),
        helpers=("helper",),
        clients=("long", "urgent"),
        slot_ms=1,
    )
    for switch, interruptions in ((0, 1), (2, 0)):
        plan = run(replace(instance, switch=np.array([switch])))[-1].plan
        assert plan is not None
        assert plan.interruptions == interruptions


@pytest.mark.thorough
@pytest.mark.parametrize("path", split_cases(keep=lambda path: known(path).clients <= 5 or path.stem == LARGER))
def test_it_proves_what_is_known_of_small_instances(path: Path) -> None:
    *_, last = run(read(path), 30)
    assert last.optimal
    assert last.lower_bound == known(path).best_makespan


def test_it_says_what_is_too_large_before_it_begins() -> None:
    with pytest.raises(TooLarge, match=r"100 clients, 10 helpers and \d+ slots make .* program of \d+ columns"):
        run(read_split_learning(planted("loose", 100, 10)[0]))


def test_short_slots_cost_nothing_where_no_pass_can_run() -> None:
    """A thousand million slots before the first pass arrives are no rows."""
    late = 10**9 - 5
    one = np.ones((1, 3), dtype=np.int64)
    instance = Instance(
        release=late * one,
        forward=2 * one,
        gap=np.array([[5, 2, 1]]),
        backward=one,
        tail=np.array([[1, 2, 3]]),
        demand=one[0],
        capacity=np.array([3]),
        switch=np.array([0]),
        helpers=("helper",),
        clients=("a", "b", "c"),
        slot_ms=1,
    )
    for at in (instance, replace(instance, release=0 * one)):
        last = run(at)[-1]
        assert last.plan is not None
        assert violations(last.plan) == []
        assert last.lower_bound == last.plan.makespan == at.release[0, 0] + 11


def test_it_names_a_client_where_memory_allows_no_assignment() -> None:
    instance = draw(np.random.default_rng(3), clients=3, helpers=2)
    instance = replace(instance, demand=np.array([2, 2, 2]), capacity=np.array([3, 3]))
    with pytest.raises(NoPlan, match=r"no assignment .* client client-2 needs 0\.000000002 GB"):
        run(instance)


def test_it_finds_an_assignment_where_the_simple_ways_find_none() -> None:
    instance = draw(np.random.default_rng(4), clients=5, helpers=2, longest=3)
    # Only 5 + 4 beside 3 + 3 + 3; in the order of clients and of paths the threes go apart.
    times: dict[str, Any] = {name: np.ones((2, 5), dtype=np.int64) for name in TIMES}
    instance = replace(instance, **times, demand=np.array([3, 3, 3, 5, 4]), capacity=np.array([9, 9]))
    first, last = run(instance)
    assert first.plan is None
    assert last.plan is not None
    assert last.optimal
    assert last.lower_bound == least_makespan(instance)


def test_without_time_it_keeps_the_simple_plan() -> None:
    instance = read(own("stress-tight-j15-i3"))
    first, last = run(instance, 0.0)
    assert first.plan is not None
    assert last.plan is not None
    assert last.plan.makespan == first.plan.makespan
    assert not last.optimal


@pytest.mark.parametrize("looks", [0, 1, 2, 12])
def test_writing_the_program_stops_when_time_is_up(looks: int) -> None:
    instance = read(own("stress-tight-j15-i3"))
    times = iter([1.0] * looks)
    first, last = ilp(instance, left=lambda: next(times, 0.0), rng=np.random.default_rng(0))
    assert last.plan is first.plan
    assert last.note == "no time left"


def test_rows_are_solved_as_written() -> None:
    rows = IntegerProgram()
    a, b = rows.column(0, 5, cost=-1), rows.column(0, 5, cost=-1.5, whole=False)
    rows.row([(a, 1), (b, 1), (a, 1)], high=7.5)
    answer = rows.solve(unlimited)
    assert answer.optimal
    assert answer.values is not None
    assert answer.values.tolist() == pytest.approx([1, 5])
    assert answer.bound == pytest.approx(-8.5)
    rows.row([(a, 1)], low=6)
    assert rows.solve(unlimited) == Solution(None, float("inf"), optimal=True)
