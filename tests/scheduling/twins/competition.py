"""Rough plans and their search, in plain loops and whole numbers, without limits on effort."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from math import ceil


@dataclass(frozen=True)
class Entry:
    """A job with a promise, or a bid."""

    demand: tuple[int, ...]
    """Units of each resource that it takes in a slot."""
    length: int
    """Slots that it needs."""
    first: int
    """First cell in which it may run."""
    due: int | None
    """Number of cells in which it has to be complete; None for a bid."""
    part: int | None
    """Slots of the last of these cells in which it may run; None for a bid."""
    value: tuple[float, ...]
    """Value if it is complete at slot 0, 1, ..."""


@dataclass(frozen=True)
class Rough:
    total: float | None
    """None if a promise is broken."""
    begins: dict[int, int]
    ends: dict[int, int]


def rough(entries: Sequence[Entry], order: Sequence[int], capacity: Sequence[int], widths: Sequence[int]) -> Rough:
    """Place the jobs in this order: each runs in the first cells whose free unit-slots suffice for it, beside the jobs
    that run in all slots of the cell.

    Completions in a cell of several slots count what is taken of the first resource.
    """
    free = [[units * width for units in capacity] for width in widths]
    steady = [list(capacity) for _ in widths]
    total, begins, ends = 0.0, dict[int, int](), dict[int, int]()
    for j in order:
        entry, left, runs = entries[j], entries[j].length, dict[int, int]()
        for c in range(entry.first, len(widths) if entry.due is None else entry.due):
            able = [units // asked for units, asked in zip(free[c], entry.demand, strict=True) if asked]
            beside = all(units >= asked for units, asked in zip(steady[c], entry.demand, strict=True) if asked)
            width = widths[c] if entry.part is None or c + 1 != entry.due else entry.part
            runs[c] = min(left, width, *able) if beside else 0
            left -= runs[c]
            if not left:
                break
        if left:
            if entry.due is not None:
                return Rough(None, {}, {})
            continue
        last = max(runs)
        taken = Fraction(capacity[0] * widths[last] - free[last][0], capacity[0])
        end = sum(widths[:last]) + min(widths[last], ceil(taken) + runs[last])
        if entry.due is None and entry.value[end] <= 0:
            continue
        for c, slots in runs.items():
            free[c] = [units - slots * asked for units, asked in zip(free[c], entry.demand, strict=True)]
            if slots == widths[c]:
                steady[c] = [units - asked for units, asked in zip(steady[c], entry.demand, strict=True)]
        begins[j], ends[j] = min(c for c, slots in runs.items() if slots), end
        total += entry.value[end]
    return Rough(total, begins, ends)


def improved(
    entries: Sequence[Entry],
    order: Sequence[int],
    moves: Sequence[tuple[int, int]],
    capacity: Sequence[int],
    widths: Sequence[int],
) -> tuple[list[int], Rough]:
    """Move one job at a time where the total gets greater."""
    order, best = list(order), rough(entries, order, capacity, widths)
    for a, b in moves:
        other = [j for i, j in enumerate(order) if i != a]
        other.insert(b, order[a])
        found = rough(entries, other, capacity, widths)
        if found.total is not None and (best.total is None or found.total > best.total * (1 + 1e-9)):
            order, best = other, found
    return order, best


def totals(entries: Sequence[Entry], capacity: Sequence[int], widths: Sequence[int]) -> Iterator[float]:
    """Yield the totals of all orders that break no promise."""
    for order in permutations(range(len(entries))):
        found = rough(entries, order, capacity, widths).total
        if found is not None:
            yield found
