"""The exact method against brute force on tiny instances, and against what is proven of larger ones."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from scheduling.__main__ import main
from scheduling.split_learning.check import violations
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.method import NoPlan, Step
from scheduling.split_learning.methods import METHODS, answer_of
from scheduling.split_learning.one_helper import Order, cover, in_time, too_much
from scheduling.split_learning.plan import by_priority
from tests.draws import fresh, rounds
from tests.scheduling.split_learning.twins.optimum import least_makespan, least_of_one
from tests.scheduling.split_learning.worlds import Known, draw, known, own, read, split_cases

NEAR = 1.01
MOST_S = 60.0
"""Far more than is needed: a method that is near is stopped at once."""


def asked(times: int) -> Callable[[], float]:
    """A budget that counts how often it is looked at, so that a slow machine has as much."""
    left = [times]

    def seconds() -> float:
        left[0] -= 1
        return max(0.0, left[0] * 0.01)

    return seconds


def all_steps(instance: Instance, name: str = "exact", times: int = 2000) -> list[Step]:
    steps: list[Step] = []
    answer_of(instance, name, left=asked(times), seed=1, seen=steps.append)
    return steps


def test_exact_is_the_least_of_all_plans() -> None:
    rng, seed = fresh()
    for _ in range(rounds(20)):
        helpers = int(rng.integers(1, 4))
        instance = draw(rng, clients=int(rng.integers(1, 4)), helpers=helpers, longest=4)
        last = all_steps(instance)[-1]
        assert last.plan is not None
        assert violations(last.plan) == [], seed
        assert last.optimal, seed
        assert last.plan.makespan == least_makespan(instance), seed


def test_bounds_hold_where_switching_costs() -> None:
    rng, seed = fresh()
    for _ in range(rounds(14)):
        instance = draw(rng, clients=int(rng.integers(1, 4)), helpers=2, longest=4, switch=int(rng.integers(1, 3)))
        steps = all_steps(instance, times=60)
        least = least_makespan(instance)
        assert least is not None
        for step in steps:
            assert step.plan is not None
            assert violations(step.plan) == [], seed
            assert step.lower_bound <= least <= step.plan.makespan, seed


def test_one_helper_is_done_in_time_exactly_when_it_can_be() -> None:
    rng, seed = fresh()
    for _ in range(rounds(50)):
        count = int(rng.integers(1, 4))
        instance = draw(rng, clients=count, helpers=1, longest=6)
        everyone = np.arange(count)
        least = least_of_one(instance, 0, tuple(range(count)))
        order = in_time(instance, 0, everyone, least)
        assert isinstance(order, Order), seed
        tail = instance.tail[0]
        plan = by_priority(instance, np.zeros(count, dtype=np.int64), -order.forward, tail - least)
        assert plan.makespan == least, seed
        assert in_time(instance, 0, everyone, least - 1) is False, seed


def test_covers_hold() -> None:
    rng, seed = fresh()
    for _ in range(rounds(20)):
        instance = draw(rng, clients=5, helpers=1, longest=4)
        makespan = int(rng.integers(instance.path.max(), instance.horizon + 1))
        few = rng.choice(5, 2, replace=False)
        if not too_much(instance, 0, few, makespan):
            continue
        wide = cover(instance, 0, few, np.arange(5), makespan)
        assert set(few) <= set(wide.tolist())
        for j in wide:
            for k in wide:
                if j < k:
                    assert least_of_one(instance, 0, (int(j), int(k))) > makespan, seed


def until_near(instance: Instance, row: Known) -> list[Step]:
    """Steps until a plan is near the best that is known, or until all the time is up: seconds of the processor."""
    steps: list[Step] = []
    end = time.process_time() + MOST_S

    def left() -> float:
        plan = steps[-1].plan if steps else None
        return 0.0 if plan is not None and plan.makespan <= NEAR * row.best_makespan else end - time.process_time()

    answer_of(instance, "exact", left=lambda: max(0.0, left()), seed=1, seen=steps.append)
    return steps


@pytest.mark.thorough
@pytest.mark.parametrize("path", split_cases())
def test_instances_are_planned_within_a_hundredth_of_the_best_that_is_known(path: Path) -> None:
    row = known(path)
    steps = until_near(read(path), row)
    for before, after in pairwise(steps):
        assert before.lower_bound <= after.lower_bound
        assert before.plan is not None
        assert after.plan is not None
        assert after.plan.makespan <= before.plan.makespan
    last = steps[-1]
    assert last.plan is not None
    assert violations(last.plan) == []
    assert last.lower_bound <= row.best_makespan
    assert row.lower_bound <= last.plan.makespan <= NEAR * row.best_makespan


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_keeps_the_constraints(name: str) -> None:
    rng, seed = fresh()
    for switch in (0, 1):
        for _ in range(8):
            instance = draw(rng, clients=3, helpers=2, longest=4, switch=switch)
            try:
                steps = all_steps(instance, name, times=100)
            except NoPlan:
                continue
            least = least_makespan(instance)
            assert least is not None
            for step in steps:
                assert step.lower_bound <= least, seed
                if step.plan is not None:
                    assert violations(step.plan) == [], seed
                    assert step.plan.makespan >= least, seed


def test_memory_that_no_division_fits_is_reported() -> None:
    instance = draw(np.random.default_rng(1), clients=3, helpers=2)
    tight = replace(instance, demand=np.array([3, 3, 3]), capacity=np.array([5, 5]))
    with pytest.raises(NoPlan, match=r"client client-2 needs 0\.000000003 GB"):
        all_steps(tight)


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_byte_too_little_is_too_little(name: str) -> None:
    instance = draw(np.random.default_rng(1), clients=4, helpers=2)
    half = 5 * 10**9
    tight = replace(instance, demand=half + np.array([1, 1, 1, 0]), capacity=2 * half + np.array([0, half // 10]))
    with pytest.raises(NoPlan):
        all_steps(tight, name)


@pytest.mark.parametrize("name", ["admm", "exact", "ilp"])
def test_memory_is_kept_to_the_byte(name: str) -> None:
    rng, seed = fresh()
    for _ in range(rounds(4)):
        tight = to_the_byte(rng)
        least = least_makespan(tight)
        for step in all_steps(tight, name):
            assert least is not None
            assert step.lower_bound <= least, seed
            if step.plan is not None:
                assert violations(step.plan) == [], seed


@pytest.mark.parametrize("name", ["exact", "ilp"])
@pytest.mark.parametrize("seed", [109, 812])
def test_bytes_next_to_each_other_are_no_trouble_to_the_solver(seed: int, name: str) -> None:
    # Told in parts of the largest client, these ended in a bound of 14 where 11 is possible, and without a plan.
    tight = to_the_byte(np.random.default_rng(seed))
    assert all_steps(tight, name)[-1].lower_bound == least_makespan(tight)


def to_the_byte(rng: np.random.Generator) -> Instance:
    """Two and three of five clients fit, to the byte."""
    instance = draw(rng, clients=5, helpers=2, longest=4)
    near = int(rng.choice([10**3, 10**6, 10**9, 10**12, 10**16]))
    demand = near + rng.integers(0, int(rng.choice([3, 3, 1000])), 5)
    return replace(instance, demand=demand, capacity=np.array([demand[:2].sum(), demand[2:].sum()]))


def test_clients_of_a_byte_and_of_petabytes_are_planned() -> None:
    instance = draw(np.random.default_rng(1), clients=3, helpers=2)
    petabytes = 10**17
    unlike = replace(instance, demand=np.array([1, petabytes, petabytes]), capacity=np.full(2, petabytes + 5))
    last = all_steps(unlike)[-1]
    assert last.plan is not None
    assert violations(last.plan) == []
    assert last.lower_bound == last.plan.makespan == least_makespan(unlike)


def test_memory_that_only_one_division_fits_is_found() -> None:
    instance = draw(np.random.default_rng(1), clients=5, helpers=2, longest=3)
    tight = replace(instance, demand=np.array([5, 4, 3, 3, 3]), capacity=np.array([9, 9]))
    last = all_steps(tight)[-1]
    assert last.plan is not None
    assert violations(last.plan) == []
    assert last.plan.makespan == least_makespan(tight)


def test_the_command_answers(capsys: pytest.CaptureFixture[str]) -> None:
    path = own("vgg19-s1-j10-i2")
    row = known(path)
    for method in METHODS:
        if method == "ilp":
            continue
        assert main(["decide", str(path), "--method", method]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert answer["lower_bound"] <= row.best_makespan <= answer["makespan"]
        assert len(answer["assignment"]) == len(answer["schedule"]) == row.clients
    assert main(["decide", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["makespan"] == row.best_makespan


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--seconds", "-1"], "--seconds: expected 0 to"),
        (["--seconds", "soon"], "--seconds: expected a finite number"),
        (["--seconds", ""], "--seconds: expected a finite number"),
        (["--seed", "-3"], "--seed: expected a whole number"),
        (["--seed", "²"], "--seed: expected a whole number"),
        (["--cloud", "paper"], "--cloud: expected no such option for split learning"),
    ],
)
def test_wrong_options_are_one_line(options: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decide", str(own("vgg19-s1-j10-i2")), *options]) == 2
    out = capsys.readouterr()
    assert words in out.err
    assert out.out == ""
    assert out.err.count("\n") == 1
