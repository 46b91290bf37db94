"""Greedy insertion: one client after another, each to the helper that is then over soonest."""

from collections.abc import Iterable

import numpy as np

from scheduling.arrays import Ints
from scheduling.split_learning.compiled import kernel
from scheduling.split_learning.helper import FAR, span
from scheduling.split_learning.state import State, Times, put


def insert(state: State, order: Ints) -> bool:
    """Put these clients on helpers, in this order; whether memory was enough, else some are left without."""
    return bool(
        _insert(
            order,
            state.times,
            state.demand,
            state.capacity,
            state.assignment,
            state.load,
            state.members,
            state.count,
            state.span,
        )
    )


def orders(state: State, clients: Ints) -> Iterable[Ints]:
    """Orders worth trying: the longest path first, the largest memory first, both as one."""
    path = np.sum(state.times, axis=0)
    fits = state.demand[None] <= state.capacity[:, None]
    shortest = np.where(fits, path, np.iinfo(np.int64).max).min(axis=0)
    for key in (shortest, state.demand):
        yield clients[np.argsort(-key[clients], kind="stable")]
    choices = fits.sum(axis=0)
    yield clients[np.lexsort((-shortest[clients], choices[clients]))]


@kernel
def _insert(
    order: Ints,
    times: Times,
    demand: Ints,
    capacity: Ints,
    assignment: Ints,
    load: Ints,
    members: Ints,
    count: Ints,
    spans: Ints,
) -> bool:
    release, forward, gap, backward, tail = times
    for x in range(len(order)):
        j = order[x]
        best, least = -1, FAR
        for i in range(len(capacity)):
            if load[i] + demand[j] > capacity[i]:
                continue
            if release[i, j] + forward[i, j] + gap[i, j] + backward[i, j] + tail[i, j] >= least:
                continue
            members[i, count[i]] = j
            then = span(members[i], count[i] + 1, release[i], forward[i], gap[i], backward[i], tail[i])
            if then < least:
                best, least = i, then
        if best < 0:
            return False
        put(j, best, members, count, load, demand, assignment)
        spans[best] = least
    return True
