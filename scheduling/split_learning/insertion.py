"""Greedy insertion: one client after another, each to the helper that is then over soonest."""

from collections.abc import Iterable

import numpy as np

from scheduling.arrays import Ints
from scheduling.split_learning.compiled import kernel
from scheduling.split_learning.helper import FAR, span
from scheduling.split_learning.state import State, put


def insert(state: State, order: Ints) -> bool:
    """Put these clients on helpers, in this order; whether memory was enough, else some are left without."""
    return bool(_insert(state, order))


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
def _insert(state: State, order: Ints) -> bool:
    release, forward, gap, backward, tail = state.times
    for x in range(len(order)):
        j = order[x]
        best, least = -1, FAR
        for i in range(len(state.capacity)):
            if state.load[i] + state.demand[j] > state.capacity[i]:
                continue
            if release[i, j] + forward[i, j] + gap[i, j] + backward[i, j] + tail[i, j] >= least:
                continue
            members = state.members[i]
            members[state.size[i]] = j
            then = span(members, state.size[i] + 1, release[i], forward[i], gap[i], backward[i], tail[i])
            if then < least:
                best, least = i, then
        if best < 0:
            return False
        put(state, j, best)
        state.span[best] = least
    return True
