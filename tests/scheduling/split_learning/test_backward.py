"""Algorithm 2 and Jackson's rule against brute force, and against each other."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from scheduling.model.types import Ints
from scheduling.split_learning.backward import Free, Way, cheapest_backward, largest_tail_first, one_at_a_time
from scheduling.split_learning.check import violations
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.plan import Pieces, Plan, by_priority, largest_path_first
from tests.scheduling.split_learning.twins.backward_blocks import backward_passes, by_blocks
from tests.scheduling.split_learning.twins.backward_exact import least_cost
from tests.scheduling.split_learning.worlds import draw, read, split_groups

OPTIMAL = (by_blocks, largest_tail_first)


def forward_by_chance(rng: np.random.Generator, instance: Instance, assignment: Ints) -> tuple[Pieces, ...]:
    """Forward passes under random priorities: some idle slots, some interruptions."""
    keys = rng.integers(0, 5, (2, len(assignment)))
    return by_priority(instance, assignment, keys[0], np.zeros_like(keys[1])).forward


def planned(instance: Instance, assignment: Ints, forward: tuple[Pieces, ...], backward: tuple[Pieces, ...]) -> Plan:
    none = np.zeros(len(assignment), dtype=np.int64)
    return Plan(instance, assignment, forward, backward, none, none, preemptive=True)


def made(instance: Instance, assignment: Ints, forward: tuple[Pieces, ...], way: Way) -> Plan:
    plan = planned(instance, assignment, forward, backward_passes(instance, assignment, forward, way))
    assert not [fault for fault in violations(plan) if not fault.startswith("(5)")]
    return plan


@pytest.mark.thorough
@pytest.mark.parametrize("way", OPTIMAL)
def test_it_is_as_short_as_brute_force_finds(way: Way) -> None:
    rng = np.random.default_rng(1)
    waited = 0
    for _ in range(250):
        clients = int(rng.integers(1, 5))
        instance = draw(rng, clients=clients, helpers=1, longest=5)
        assignment = np.zeros(clients, dtype=np.int64)
        forward = forward_by_chance(rng, instance, assignment)
        plan = made(instance, assignment, forward, way)
        taken = {t for row in forward for start, end in row for t in range(start, end)}
        some = [j for j in range(clients) if instance.backward[0, j]]
        there, slots, tail = (row[some].tolist() for row in (plan.released, instance.backward[0], instance.tail[0]))
        least = least_cost(there, slots, tail, taken)
        empty = [int(plan.completion[j]) for j in range(clients) if j not in some]
        assert plan.makespan == max([least, *empty])
        waited += plan.makespan > int((plan.released + instance.backward[0] + instance.tail[0]).max())
    assert waited > 20


def test_both_ways_end_together_on_larger_ones() -> None:
    rng = np.random.default_rng(2)
    for _ in range(150):
        instance = draw(rng, clients=int(rng.integers(5, 40)), helpers=2, longest=20)
        assignment = rng.integers(0, 2, len(instance.clients))
        forward = forward_by_chance(rng, instance, assignment)
        blocks, jackson = (made(instance, assignment, forward, way) for way in OPTIMAL)
        assert blocks.makespan == jackson.makespan


@pytest.mark.parametrize("paths", split_groups(every=15))
def test_both_ways_end_together_on_instance_files(paths: list[Path]) -> None:
    for path in paths:
        instance = read(path)
        assignment = np.argmin(instance.path, axis=0)
        forward = largest_path_first(instance, assignment).forward
        blocks, jackson = (made(instance, assignment, forward, way) for way in OPTIMAL)
        assert blocks.makespan == jackson.makespan <= largest_path_first(instance, assignment).makespan


def test_the_worked_example_of_the_paper() -> None:
    """Fig. 4 by what the text says of it; arrivals and lengths, which it does not give, are chosen to fit."""
    one = np.ones((1, 5), dtype=np.int64)
    arrivals, tails = np.array([[0, 3, 4, 1, 9]]), np.array([[5, 3, 8, 1, 1]])
    instance = Instance(
        release=0 * one,
        forward=0 * one,
        gap=arrivals,
        backward=np.array([[2, 2, 2, 2, 1]]),
        tail=tails,
        demand=one[0],
        capacity=np.array([5]),
        helpers=("helper",),
        clients=("1", "2", "3", "4", "5"),
        slot_ms=1,
        switch=np.array([0]),
    )
    nothing: tuple[Pieces, ...] = ((),) * 5
    alone = np.zeros(5, dtype=np.int64)
    for way in OPTIMAL:
        plan = made(instance, alone, nothing, way)
        assert plan.makespan == plan.completion[2] == 14
        assert plan.backward == (((0, 2),), ((3, 4), (6, 7)), ((4, 6),), ((2, 3), (7, 8)), ((9, 10),))


def test_one_at_a_time_interrupts_nobody() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        instance = draw(rng, clients=int(rng.integers(1, 9)), helpers=2, switch=int(rng.integers(0, 3)))
        assignment = rng.integers(0, 2, len(instance.clients))
        plan = made(instance, assignment, forward_by_chance(rng, instance, assignment), one_at_a_time)
        assert all(len(row) <= 1 for row in plan.backward)


def test_with_costs_of_switching_it_is_the_better_of_both_on_each_helper() -> None:
    rng = np.random.default_rng(4)
    chosen = set()
    for _ in range(300):
        instance = draw(rng, clients=int(rng.integers(1, 9)), helpers=1, switch=int(rng.integers(0, 3)), longest=8)
        assignment = np.zeros(len(instance.clients), dtype=np.int64)
        forward = forward_by_chance(rng, instance, assignment)
        ends = [made(instance, assignment, forward, way).makespan for way in (largest_tail_first, one_at_a_time)]
        best = planned(instance, assignment, forward, cheapest_backward(instance, assignment, forward)).makespan
        assert best == (min(ends) if instance.switch[0] else ends[0])
        chosen.add(ends.index(best) if ends[0] != ends[1] else 2)
    assert chosen == {0, 1, 2}


def test_free_slots_are_counted_there_and_back() -> None:
    free = Free(((2, 4), (5, 6)))
    assert [free.count(t) for t in range(8)] == [0, 1, 2, 2, 2, 3, 3, 4]
    assert list(free.slots(0, 5)) == [(0, 2), (4, 5), (6, 8)]
    assert [free.window(u) for u in range(4)] == [2, 1, 1, -1]
    rng = np.random.default_rng(5)
    for _ in range(100):
        taken = sorted(rng.choice(20, 6, replace=False).tolist())
        free = Free(tuple((t, t + 1) for t in taken))
        real = [t for t in range(30) if t not in taken]
        assert [next(iter(free.slots(u, u + 1)))[0] for u in range(24)] == real[:24]
        assert [free.count(t) for t in real] == list(range(len(real)))


def test_a_backward_pass_is_there_after_the_gap_and_not_later() -> None:
    instance = replace(draw(np.random.default_rng(6), clients=1, helpers=1), switch=np.array([1]))
    assignment = np.zeros(1, dtype=np.int64)
    plan = made(replace(instance, backward=np.array([[2]])), assignment, (((7, 9),),), largest_tail_first)
    start = 9 + 2 + int(instance.gap[0, 0])
    assert plan.backward == (((start, start + 2),),)
