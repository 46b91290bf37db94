"""What the exact method does with many clients, on small instances: rounded rows and priced columns."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from scheduling.model.types import Ints
from scheduling.split_learning.bounds import longest_path
from scheduling.split_learning.check import violations
from scheduling.split_learning.columns import Columns
from scheduling.split_learning.exact import exact
from scheduling.split_learning.insertion import insert
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.interval_rows import IntervalRows
from scheduling.split_learning.one_helper import in_time
from scheduling.split_learning.pricing import Prices, mostly
from scheduling.split_learning.relaxation import Relaxation, minimised
from scheduling.split_learning.state import assigned, nobody
from tests.draws import fresh_seed
from tests.scheduling.split_learning.worlds import draw, known, read, split_cases

CLIENTS = 6
MANY = {"resnet101-s2-j30-i5", "vgg19-s1-j30-i5", "resnet101-s1-j30-i5-seed1", "vgg19-s2-j50-i10-seed1"}
STRESS = {"stress-loose-j50-i10", "stress-loose-j50-i10-seed1"}


def drawn(kind: str, rng: np.random.Generator) -> Instance:
    """An instance of two helpers."""
    return draw(rng, clients=CLIENTS, helpers=2, longest=4) if kind == "any" else same_devices(rng)


def assignments(instance: Instance) -> list[tuple[int, Ints]]:
    """Every assignment to two helpers within memory with its least makespan, the best first."""
    found = []
    for helpers in product(range(2), repeat=len(instance.clients)):
        assignment = np.array(helpers)
        if (np.bincount(assignment, instance.demand, 2) > instance.capacity).any():
            continue
        makespan = int(instance.path[assignment, np.arange(len(assignment))].max())
        while any(in_time(instance, i, np.flatnonzero(assignment == i), makespan) is False for i in range(2)):
            makespan += 1
        found.append((makespan, assignment))
    return sorted(found, key=lambda plan: plan[0])


def same_devices(rng: np.random.Generator) -> Instance:
    """Two helpers; all clients take the same slots of one, but perhaps the last."""
    forward, backward = np.ones((2, CLIENTS), dtype=np.int64), np.repeat(rng.integers(1, 4, (2, 1)), CLIENTS, axis=1)
    backward[:, -1] += rng.integers(0, 3)
    instance = draw(rng, clients=CLIENTS, helpers=2, longest=4)
    return replace(instance, forward=forward, backward=backward)


@pytest.mark.parametrize(("kind", "times"), [("any", 1_000), ("same devices", 1_000), ("any", 3)])
def test_no_plan_breaks_a_row_of_a_makespan_it_keeps(kind: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.split_learning.interval_rows.MOST_TIMES", times)
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    rounded = 0
    for _ in range(25):
        instance = drawn(kind, rng)
        rows = IntervalRows(instance)
        plans = assignments(instance)
        for makespan in range(plans[0][0], plans[0][0] + 4):
            columns = Columns(Relaxation(instance).allowed(makespan))
            for _ in range(4):
                share = rng.dirichlet(np.full(2, 0.5), CLIENTS).T
                rows.separate(share, float(longest_path(instance)), makespan)
            matrix, right = rows.matrix(columns, longest_path(instance), makespan, whole=False)
            for span, helpers in plans:
                if span <= makespan:
                    whole = columns.place[helpers, np.arange(CLIENTS)]
                    values = np.zeros(matrix.shape[1])
                    values[whole], values[-2] = 1.0, span
                    assert (matrix @ values <= right + 1e-9).all(), seed
        rounded += sum(row.unit > 1 for row in rows)
    assert rounded > 10


@pytest.mark.parametrize("kind", ["any", "same devices"])
def test_a_priced_bound_is_never_above_the_optimum(kind: str) -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    for _ in range(20):
        instance = drawn(kind, rng)
        least = assignments(instance)[0][0]
        anybody = nobody(instance)
        assert insert(anybody, np.arange(len(instance.clients)))
        for high in (least - 1, least, least + 3):
            prices = Prices(Relaxation(instance), anybody.assignment)
            lows = [found.low for found in prices.rise(longest_path(instance), high, lambda: 1.0)]
            assert lows == sorted(lows), seed
            assert all(low <= least for low in lows), seed


def divisible(relaxation: Relaxation, makespan: int) -> bool:
    """Whether clients in parts are over by then, all columns in one program."""
    columns = Columns(relaxation.allowed(makespan))
    while columns.allowed.any(axis=0).all():
        matrix, right = relaxation.rows.matrix(columns, 0, makespan, whole=False)
        found = minimised(columns, matrix, right, [(0, makespan), (0, 0)])
        if found is None:
            return False
        if not relaxation.rows.separate(columns.share(found.x), float(found.fun), makespan):
            return True
    return False


@pytest.mark.parametrize("path", split_cases(keep=lambda path: path.stem in MANY))
def test_a_priced_bound_is_that_of_all_columns(path: Path) -> None:
    instance = read(path)
    relaxation = Relaxation(instance)
    prices = Prices(relaxation, np.zeros(len(instance.clients), dtype=np.int64))
    *_, last = prices.rise(0, known(path).best_makespan + 5, lambda: 100.0)
    assert not divisible(relaxation, last.low - 1)
    assert divisible(relaxation, last.low)


def test_whole_clients_leave_slots_over() -> None:
    """Four clients of 3 slots on two helpers with 8 between the first release and the last tail: two each fit, a fifth
    does not, though 15 slots are fewer than 16.
    """
    ones = np.ones((2, 5), dtype=np.int64)
    instance = replace(
        draw(np.random.default_rng(1), clients=5, helpers=2),
        release=ones,
        forward=ones,
        gap=0 * ones,
        backward=2 * ones,
        tail=ones,
        demand=np.ones(5, dtype=np.int64),
        capacity=np.full(2, 5),
    )
    relaxation = Relaxation(instance)
    without = 1 + 3 * 5 / 2 + 1
    prices = Prices(relaxation, np.array([0, 0, 0, 1, 1]))
    *_, last = prices.rise(0, 10, lambda: 100.0)
    assert last.low == 11 > np.ceil(without)


def test_where_most_of_a_client_is_has_memory() -> None:
    rng, left_out = np.random.default_rng(1), 0
    for _ in range(20):
        instance = draw(rng, clients=9, helpers=3)
        # All clients together just have memory, so not every division of them among the helpers has.
        instance = replace(instance, capacity=np.full(3, -(-instance.demand.sum() // 3)))
        share = rng.dirichlet(np.ones(3), 9).T
        assignment = mostly(instance, share)
        load = assigned(instance, assignment).load
        assert (load <= instance.capacity).all()
        for j in np.flatnonzero(assignment < 0):
            assert (load + instance.demand[j] > instance.capacity).all()
            left_out += 1
    assert left_out > 0


@pytest.mark.parametrize("path", split_cases(keep=lambda path: path.stem in MANY | STRESS))
def test_many_clients_are_planned_within_the_bounds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduling.split_learning.exact.MOST_CHOICES", 0)
    looks = iter(range(150))
    last = None
    for step in exact(read(path), left=lambda: max(0.0, 1.5 - 0.01 * next(looks, 150)), rng=np.random.default_rng(0)):
        assert step.plan is not None
        assert step.lower_bound <= known(path).best_makespan
        last = step.plan
    assert last is not None
    assert violations(last) == []
    assert last.makespan >= known(path).lower_bound
