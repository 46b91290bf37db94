"""Hundreds and thousands of clients on a helper: the same schedules, and within the time there is."""

import tracemalloc

import numpy as np
import pytest

from scheduling.model.types import Ints
from scheduling.split_learning.bounds import longest_path, unavoidable
from scheduling.split_learning.check import violations
from scheduling.split_learning.exact import exact
from scheduling.split_learning.insertion import insert, orders
from scheduling.split_learning.instance import TIMES, Instance
from scheduling.split_learning.interval_rows import IntervalRows
from scheduling.split_learning.noise import NODES, under_noise
from scheduling.split_learning.one_helper import Order, in_time, soonest
from scheduling.split_learning.plan import largest_path_first
from scheduling.split_learning.state import nobody
from tests.draws import fresh
from tests.scheduling.split_learning.twins.optimum import least_makespan, least_of_one
from tests.scheduling.split_learning.worlds import draw


def many(helpers: int, clients: int, longest: int = 100_000) -> Instance:
    """Passes of up to 20 slots and longer ways: work is a part of the makespan."""
    rng = np.random.default_rng(helpers + clients)
    times = {name: rng.integers(1, 21 if name.endswith("ward") else longest, (helpers, clients)) for name in TIMES}
    return Instance(
        **times,
        demand=np.ones(clients, dtype=np.int64),
        capacity=np.full(helpers, clients),
        helpers=tuple(f"helper-{i}" for i in range(helpers)),
        clients=tuple(f"client-{j}" for j in range(clients)),
        slot_ms=1,
        switch=np.zeros(helpers, dtype=np.int64),
    )


def test_no_helper_is_done_before_the_work_there_is() -> None:
    rng, seed = fresh()
    for _ in range(80):
        count = int(rng.integers(1, 4))
        instance = draw(rng, clients=count, helpers=1, longest=6)
        assert soonest(instance, 0, np.arange(count)) <= least_of_one(instance, 0, tuple(range(count))), seed


def test_what_is_unavoidable_is_never_above_the_optimum() -> None:
    rng, seed = fresh()
    for _ in range(80):
        instance = draw(rng, clients=3, helpers=int(rng.integers(1, 4)), longest=4, switch=int(rng.integers(0, 2)))
        least = least_makespan(instance)
        assert least is not None
        assert unavoidable(instance) <= least, seed


def test_without_time_clients_are_inserted_by_sums() -> None:
    instance = many(3, 300, longest=50)
    for left in (lambda: 0.0, lambda: 1.0):
        state = nobody(instance)
        assert insert(state, next(iter(orders(state, np.arange(300)))), left)
        assert (state.load <= instance.capacity).all()
        assert (state.assignment >= 0).all()
        assert unavoidable(instance) <= state.makespan <= 1.3 * unavoidable(instance)


@pytest.mark.parametrize("helpers", [1, 2])
def test_thousands_of_clients_have_a_plan_at_once(helpers: int) -> None:
    instance = many(helpers, 5_000)
    steps = list(exact(instance, left=lambda: 0.0, rng=np.random.default_rng(0)))
    plan = steps[-1].plan
    assert plan is not None
    assert violations(plan) == []
    assert unavoidable(instance) <= steps[0].lower_bound <= plan.makespan


def test_rows_of_thousands_of_times_are_found_in_little_memory() -> None:
    instance = many(1, 5_000, longest=30_000)
    rows = IntervalRows(instance)
    low = longest_path(instance)
    tracemalloc.start()
    try:
        assert rows.separate(np.ones((1, 5_000)), low, low)
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most_bytes < 100e6
    found = [row.around + int(row.taken.sum()) for row in rows if row.unit == 1 and row.around is not None]
    best = soonest(instance, 0, np.arange(5_000))
    assert 0.999 * best <= max(found) <= best


def test_under_noise_orders_are_sought_between_the_work_there_is_and_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = many(1, 2_000, longest=1_000)
    asked = []

    def counted(instance: Instance, helper: int, clients: Ints, makespan: int, nodes: int) -> Order | bool | None:
        asked.append((makespan, nodes))
        return in_time(instance, helper, clients, makespan, nodes)

    monkeypatch.setattr("scheduling.split_learning.replanning.in_time", counted)
    plan = largest_path_first(instance, np.zeros(2_000, dtype=np.int64))
    drawn = under_noise(plan, 0.2, np.random.default_rng(1))
    assert soonest(instance, 0, np.arange(2_000)) <= plan.makespan
    assert drawn.replanned <= drawn.priorities
    assert len(asked) <= 5
    assert {nodes for _, nodes in asked} <= {NODES}
