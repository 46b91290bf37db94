"""Sets of clients that are too many for a helper, as cuts of the integer program."""

from collections.abc import Iterator

import numpy as np

from scheduling.arrays import Ints
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


def _widened(instance: Instance, i: int, few: Ints, makespan: int) -> Cut:
    """Too few clients made as many as it holds for, and all helpers that are no faster for any of them."""
    path = instance.path[i]
    hard = np.argsort(-path, kind="stable")
    wide = cover(instance, i, few, hard[path[hard] <= makespan], makespan)
    times = [getattr(instance, name)[:, wide] for name in TIMES]
    no_faster = np.all([(time >= time[i]).all(axis=1) for time in times], axis=0)
    return np.flatnonzero(no_faster), wide, len(few) - 1
