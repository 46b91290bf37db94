"""Rough plans of a contest: the kernel equals its slow twin, and its search the best of all orders on small cases."""

import numpy as np

from scheduling.competition.kernel import BROKEN, NEVER, Cells, Entries, Rough, best_of, best_place, discount, improve
from scheduling.model.types import Floats, Ints
from tests.draws import fresh, rounds
from tests.scheduling.twins.competition import Entry, improved, rough, totals

WIDTHS = (1, 1, 1, 1, 2, 2, 3, 3)
SLOTS = sum(WIDTHS)
NO_MOVES = np.zeros((0, 2), np.int64)


def drawn(rng: np.random.Generator, count: int) -> tuple[list[Entry], list[int]]:
    """Draw jobs that share a few units of two resources; about one of four has a promise."""
    resources = int(rng.integers(1, 3))
    capacity = [int(units) for units in rng.integers(2, 7, resources)]
    entries = []
    for _ in range(count):
        demand = tuple(int(rng.integers(resources == 1, 4)) for _ in range(resources))
        if not any(demand):
            demand = (*demand[1:], 1)
        start, ends = float(rng.integers(1, 20)), int(rng.integers(2, SLOTS + 4))
        value = tuple(start * max(0, ends - t) / ends for t in range(SLOTS + 1))
        due = int(rng.integers(3, len(WIDTHS) + 1)) if rng.random() < 0.25 else None
        part = None if due is None else int(rng.integers(1, WIDTHS[due - 1] + 1))
        length = int(rng.integers(1, 7))
        entries.append(Entry(demand, length, int(rng.integers(0, 3)), due, part, value))
    return entries, capacity


def compiled(entries: list[Entry], capacity: list[int]) -> tuple[Entries, Rough, Cells]:
    value, width = np.array([one.value for one in entries]), np.array(WIDTHS)
    due = np.array([NEVER if one.due is None else one.due for one in entries])
    begin = width.cumsum() - width
    latest = np.where(due == NEVER, np.searchsorted(begin, lasts(value)), due)
    demand = np.array([one.demand for one in entries], float)
    arrays = Entries(
        demand,
        np.array([one.length for one in entries]),
        np.array([one.first for one in entries]),
        due,
        np.array(
            [width[cells - 1] if one.part is None else one.part for one, cells in zip(entries, latest, strict=True)]
        ),
        latest,
        value.max(axis=1),
        np.zeros(1, np.int64),
        np.array([demand[:, 0].min(where=demand[:, 0] > 0.0, initial=np.inf)]),
        value,
    )
    count, resources = demand.shape
    ends, begins = np.zeros(count, np.int64), np.zeros(count, np.int64)
    free, steady = np.zeros((2, len(WIDTHS), resources))
    scratch = Rough(free, steady, np.zeros(len(WIDTHS), np.int64), ends, begins, np.array([1 << 40]))
    return arrays, scratch, Cells(np.outer(width, capacity).astype(float), begin, width)


def lasts(value: Floats) -> Ints:
    """Return the last slot at which each job is worth something; 0 if it never is."""
    found: Ints = np.maximum(0, np.cumprod(value > 0.0, axis=1).sum(axis=1) - 1)
    return found


def known(numbers: Ints) -> dict[int, int]:
    return {j: one for j, one in enumerate(numbers.tolist()) if one != NEVER}


def test_a_rough_plan_equals_its_twin() -> None:
    rng, seed = fresh()
    broken = 0
    for case in range(rounds(150)):
        entries, capacity = drawn(rng, int(rng.integers(1, 9)))
        arrays, scratch, cells = compiled(entries, capacity)
        order = rng.permutation(len(entries))
        slow = rough(entries, order.tolist(), capacity, WIDTHS)
        fast = improve(order, NO_MOVES, cells, arrays, scratch)
        if slow.total is None:
            assert fast == BROKEN, (seed, case)
            broken += 1
            continue
        assert abs(fast - slow.total) <= 1e-9 * max(1.0, slow.total), (seed, case)
        assert known(scratch.begins) == slow.begins, (seed, case)
        assert known(scratch.end) == slow.ends, (seed, case)
    assert broken > 0


def test_the_search_makes_the_same_moves_as_its_twin() -> None:
    """Plans that are given up early change nothing."""
    rng, seed = fresh()
    for case in range(rounds(60)):
        entries, capacity = drawn(rng, int(rng.integers(2, 9)))
        arrays, scratch, cells = compiled(entries, capacity)
        moves = rng.integers(0, len(entries), (30, 2))
        first = rng.permutation(len(entries))
        slow_order, slow = improved(entries, first.tolist(), [tuple(row) for row in moves.tolist()], capacity, WIDTHS)
        for _ in range(3):  # what earlier searches left in memory does not count
            order = first.copy()
            fast = improve(order, moves, cells, arrays, scratch)
            assert order.tolist() == slow_order, (seed, case)
            assert fast == BROKEN if slow.total is None else abs(fast - slow.total) <= 1e-9 * max(1.0, slow.total)


def test_a_promise_that_another_order_keeps_is_found_each_time() -> None:
    """The kept plan ends at a broken promise, so nothing behind it counts."""
    bid, worthless = Entry((1,), 1, 0, None, None, (10.0,) * 4), Entry((1,), 1, 0, None, None, (0.0,) * 4)
    entries = [bid, Entry((1,), 1, 0, 1, 1, (0.0,) * 4), worthless]
    for _ in range(5):
        arrays, scratch, cells = compiled(entries, [1])
        order = np.array([0, 1, 2])
        assert improve(order, np.array([[1, 0]]), cells, arrays, scratch) == 10.0
        assert order.tolist() == [1, 0, 2]


def test_a_job_that_takes_nothing_of_a_resource_runs_where_rounded_sums_leave_less_than_nothing() -> None:
    shares = [Entry((1, 0), 8, 0, None, None, (5.0,) * (SLOTS + 1)) for _ in range(3)]
    entries = [*shares, Entry((0, 1), 8, 0, 6, 2, (1.0,) * (SLOTS + 1))]
    arrays, scratch, cells = compiled(entries, [3, 5])
    arrays = arrays._replace(demand=arrays.demand * (0.1, 1.0), least=arrays.least * 0.1)
    cells = cells._replace(capacity=np.outer(WIDTHS, (0.3, 5.0)))  # 0.3 - 0.1 - 0.1 - 0.1 < 0
    assert improve(np.arange(4), NO_MOVES, cells, arrays, scratch) == 16.0


def test_the_search_is_never_better_than_the_best_order_and_finds_it_in_most_small_cases() -> None:
    rng, seed = fresh()
    cases, found = rounds(40), 0
    for case in range(cases):
        entries, capacity = drawn(rng, 4)
        arrays, scratch, cells = compiled(entries, capacity)
        most = max(totals(entries, capacity, WIDTHS), default=None)
        order = np.arange(len(entries))
        got = improve(order, rng.integers(0, 4, (60, 2)), cells, arrays, scratch)
        if most is None:
            assert got == BROKEN, (seed, case)
            found += 1
            continue
        assert got <= most * (1 + 1e-9), (seed, case)
        found += got >= most * (1 - 1e-9)
    assert found >= 0.8 * cases, seed


def test_the_best_of_some_orders_and_of_some_places() -> None:
    rng, seed = fresh()
    for case in range(rounds(60)):
        entries, capacity = drawn(rng, int(rng.integers(2, 7)))
        arrays, scratch, cells = compiled(entries, capacity)
        orders = np.array([rng.permutation(len(entries)) for _ in range(5)])
        worth = [rough(entries, order.tolist(), capacity, WIDTHS).total for order in orders]
        chosen = worth[best_of(orders, cells, arrays, scratch)]
        able = [one for one in worth if one is not None]
        assert not able or (chosen is not None and chosen >= max(able) - 1e-9), (seed, case)
        last, others = len(entries) - 1, rng.permutation(len(entries) - 1)
        places = np.arange(len(entries))
        placed = [rough(entries, np.insert(others, at, last).tolist(), capacity, WIDTHS).total for at in places]
        at = placed[best_place(others, last, places, cells, arrays, scratch)]
        able = [one for one in placed if one is not None]
        assert not able or (at is not None and at >= max(able) - 1e-9), (seed, case)


def test_a_search_ends_when_its_effort_is_used_up() -> None:
    rng, _ = fresh()
    entries, capacity = drawn(rng, 6)
    arrays, scratch, cells = compiled(entries, capacity)
    order = np.arange(6)
    before = order.copy()
    scratch.effort[0] = 1
    improve(order, rng.integers(0, 6, (50, 2)), cells, arrays, scratch)
    assert order.tolist() == before.tolist()


def test_a_move_that_did_not_help_is_not_tried_again() -> None:
    rng, seed = fresh()
    for case in range(rounds(20)):
        entries, capacity = drawn(rng, 6)
        arrays, scratch, cells = compiled(entries, capacity)
        moves = rng.integers(0, 6, (40, 2))
        order = np.arange(6)
        while improve(order, moves, cells, arrays, scratch) != improve(order, moves, cells, arrays, scratch):
            pass  # until no move helps
        used = []
        for repeated in (moves, np.concatenate([moves, moves, moves])):
            before = int(scratch.effort[0])
            improve(order, repeated, cells, arrays, scratch)
            used.append(before - int(scratch.effort[0]))
        assert used[0] == used[1], (seed, case)


def test_values_are_discounted_and_those_below_the_least_are_left_out() -> None:
    rng, seed = fresh()
    for case in range(rounds(20)):
        value = -np.sort(-np.maximum(0.0, rng.normal(3.0, 3.0, (5, 12))), axis=1)
        least, factor = rng.uniform(0.0, 4.0, 5), np.linspace(1.0, rng.uniform(0.0, 1.0), 12)
        expected = np.where(value >= least[:, np.newaxis], value * factor, 0.0)
        last = discount(value, least, factor)
        assert (value == expected).all(), (seed, case)
        assert last.tolist() == lasts(expected).tolist(), (seed, case)
