"""Plans made again: who stays where, and that orders are the best; and plans under noise."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scheduling.model.errors import InvalidField
from scheduling.split_learning.check import violations
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.method import NoPlan
from scheduling.split_learning.noise import disturbed, under_noise
from scheduling.split_learning.plan import by_priority, largest_path_first
from scheduling.split_learning.replanning import best_orders, replan
from scheduling.split_learning.switching import charged
from tests.draws import fresh_seed
from tests.scheduling.split_learning.twins.optimum import least_of_one
from tests.scheduling.split_learning.worlds import draw, own, read, split_groups


def world(seed: int, clients: int = 8, helpers: int = 3) -> Instance:
    return draw(np.random.default_rng(seed), clients=clients, helpers=helpers)


def test_orders_are_the_best_for_an_assignment() -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    for _ in range(40):
        instance = draw(rng, clients=4, helpers=2, longest=4)
        assignment = rng.integers(0, 2, 4)
        plan = best_orders(instance, assignment)
        groups = [tuple(np.flatnonzero(assignment == i).tolist()) for i in range(2)]
        assert plan.makespan == max(least_of_one(instance, i, group) for i, group in enumerate(groups)), seed
        assert not [fault for fault in violations(plan) if not fault.startswith("(5)")], seed


def test_who_stays_keeps_its_helper() -> None:
    for seed in range(30):
        instance = world(seed)
        before = largest_path_first(instance, np.arange(8) % 3)
        now = instance.part([0, 1, 2], [6, 1, 2, 3, 4])
        slower = replace(now, forward=now.forward * 2)
        again = replan(before, slower)
        assert violations(again.plan) == []
        assert again.plan.assignment.tolist() == [0, 1, 2, 0, 1]
        assert again.summary == "5 kept, 3 dropped"
        assert [change.client for change in again.changes if change.helper is None] == [
            "client-0",
            "client-5",
            "client-7",
        ]


def test_who_joins_and_whose_helper_is_gone_is_placed() -> None:
    for seed in range(30):
        instance = world(seed)
        roomy = replace(instance, capacity=np.full(3, 100, dtype=np.int64))
        before = largest_path_first(roomy.part([0, 1, 2], range(6)), np.array([0, 1, 2, 0, 1, 2]))
        again = replan(before, roomy.part([0, 2], range(8)))
        assert violations(again.plan) == []
        assert again.summary == "4 kept, 2 joined, 2 moved"
        kept = [change for change in again.changes if change.what == "kept"]
        assert [change.helper for change in kept] == ["helper-0", "helper-2", "helper-0", "helper-2"]
        assert all(change.completion_before is None for change in again.changes if change.what == "joined")


def test_no_room_is_reported_by_name() -> None:
    instance = world(1)
    before = largest_path_first(instance, np.zeros(8, dtype=np.int64))
    tight = replace(instance, capacity=np.full(3, 9), demand=np.full(8, 2))
    with pytest.raises(NoPlan, match="helper-0 has 9 bytes, and the clients it keeps need 16"):
        replan(before, tight)


@pytest.mark.parametrize("paths", split_groups(every=25))
def test_without_noise_a_plan_is_what_it_said(paths: list[Path]) -> None:
    for path in paths:
        instance = read(path)
        plan = best_orders(instance, np.argmin(instance.path, axis=0))
        quiet = under_noise(plan, 0.0, np.random.default_rng(1))
        assert quiet.planned == quiet.priorities == plan.makespan
        assert quiet.replanned <= quiet.priorities <= quiet.first_come
        loud = under_noise(plan, 0.2, np.random.default_rng(1))
        assert loud.bound <= loud.replanned <= loud.priorities


@pytest.mark.thorough
def test_where_switching_costs_priorities_say_what_was_planned() -> None:
    rng = np.random.default_rng(1)
    interrupted = 0
    for _ in range(300):
        instance = replace(draw(rng, clients=7, helpers=2, longest=10), switch=rng.integers(0, 4, 2))
        assignment = rng.integers(0, 2, 7)
        keys = rng.integers(-3, 4, (2, 7))
        plan = charged(by_priority(instance.uninterrupted(), assignment, *keys), instance)
        assert not [fault for fault in violations(plan) if not fault.startswith("(5)")]
        quiet = under_noise(plan, 0.0, rng)
        assert quiet.priorities == quiet.planned == plan.makespan
        interrupted += plan.interruptions > 0
    assert 0 < interrupted < 300


def test_noise_is_as_large_as_said() -> None:
    instance = read(own("resnet101-s1-j10-i2"))
    other = disturbed(instance, 0.2, np.random.default_rng(3))
    assert (abs(other.gap - instance.gap) <= 0.2 * instance.gap + 0.5).all()
    assert (other.gap != instance.gap).any()
    with pytest.raises(InvalidField, match="spread"):
        disturbed(instance, 1.0, np.random.default_rng(3))
