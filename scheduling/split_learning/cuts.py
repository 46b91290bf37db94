"""Sets of clients that are too many for a helper, in time or in memory, as cuts of the integer program."""

from collections.abc import Iterator

import numpy as np

from scheduling.model.types import Ints
from scheduling.split_learning.instance import TIMES, Instance
from scheduling.split_learning.one_helper import cover, too_much

CUTS_EACH = 3
"""Ways to look for too many clients on a helper."""
Cut = tuple[Ints, Ints, int]
"""Helpers, clients, and how many of those clients each of those helpers has at most."""


def cuts_for(instance: Instance, i: int, members: Ints, makespan: int, rng: np.random.Generator) -> Iterator[Cut]:
    """Some ways in which helper i has too many clients to be done by then, each as few of them as are too many."""
    found: set[tuple[int, ...]] = set()
    for attempt in range(CUTS_EACH):
        few = members
        for j in members if attempt == 0 else rng.permutation(members):
            fewer = few[few != j]
            if len(fewer) and too_much(instance, i, fewer, makespan):
                few = fewer
        if tuple(few) in found:
            continue
        found.add(tuple(few))
        yield _widened(instance, i, few, makespan)


def overbooked(instance: Instance, assignment: Ints) -> list[Cut]:
    """Return cuts that forbid an assignment beyond some helper's memory; empty if it fits.

    Rows of memory are rounded (interval_rows.py).
    """
    demand, capacity = instance.demand.tolist(), instance.capacity.tolist()
    cuts = []
    for i, there in enumerate(capacity):
        members = np.flatnonzero(assignment == i)
        members = members[np.argsort(-instance.demand[members], kind="stable")].tolist()
        if sum(demand[j] for j in members) <= there:
            continue
        count = next(n for n in range(1, len(members) + 1) if sum(demand[j] for j in members[:n]) > there)
        first = max(
            n for n in range(len(members) - count + 1) if sum(demand[j] for j in members[n : n + count]) > there
        )
        few = members[first : first + count]
        # As many of these or of larger ones are too much, too, and for any helper with no more memory.
        larger = np.flatnonzero(instance.demand >= demand[few[0]])
        cuts.append((np.flatnonzero(instance.capacity <= there), np.union1d(larger, few), count - 1))
    return cuts


def _widened(instance: Instance, i: int, few: Ints, makespan: int) -> Cut:
    """Too few clients made as many as it holds for, and all helpers that are no faster for any of them."""
    path = instance.path[i]
    hard = np.argsort(-path, kind="stable")
    wide = cover(instance, i, few, hard[path[hard] <= makespan], makespan)
    times = [getattr(instance, name)[:, wide] for name in TIMES]
    no_faster = np.all([(time >= time[i]).all(axis=1) for time in times], axis=0)
    return np.flatnonzero(no_faster), wide, len(few) - 1
