"""Greedy insertion: one client after another, each to the helper that is then over soonest."""

from collections.abc import Iterable

import numpy as np

from scheduling.model.types import Ints
from scheduling.solvers.time_limit import Left
from scheduling.split_learning.compiled import inner, kernel
from scheduling.split_learning.helper import FAR, span
from scheduling.split_learning.state import State, put, span_of

STRETCH = 300_000
"""Clients in schedules that are tried between two looks at the clock: some hundredths of a second."""


def insert(state: State, order: Ints, left: Left | None = None) -> bool:
    """Put these clients on helpers, in this order; whether memory was enough, else some are left without.

    When no time is left, helpers are compared by the slots that no order of their clients avoids: no
    schedule is tried, and what comes out may end later.
    """
    known = _known(state)
    at, rough = 0, False
    while 0 <= at < len(order):
        rough = left is not None and left() <= 0
        at = _insert(state, order, at, known, FAR if left is None else STRETCH, rough)
    for i in range(len(state.span)):
        state.span[i] = span_of(state, i)
    return at >= 0


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
def _known(state: State) -> Ints:
    """Least release and tail, work and longest path of each helper's clients, 4 x I slots."""
    known = np.zeros((4, len(state.capacity)), np.int64)
    known[:2] = FAR
    for j in range(len(state.assignment)):
        if state.assignment[j] >= 0:
            _note(known, state, j, state.assignment[j])
    return known


@kernel
def _insert(state: State, order: Ints, at: int, known: Ints, stretch: int, rough: bool) -> int:
    """Insert clients from order[at] on until schedules of this many clients were tried; return the next position.

    -1 if memory was not sufficient. A client that fits only one helper needs no schedule.
    """
    release, forward, gap, backward, tail = state.times
    while at < len(order) and stretch > 0:
        j = order[at]
        best, least, able = -1, FAR, 0
        for i in range(len(state.capacity)):
            able += state.load[i] + state.demand[j] <= state.capacity[i]
        for i in range(len(state.capacity)):
            if state.load[i] + state.demand[j] > state.capacity[i]:
                continue
            then = _unavoidable(state, known, i, j)
            if then >= least:
                continue
            if able > 1 and not rough:
                members = state.members[i]
                members[state.size[i]] = j
                count = state.size[i] + 1
                then = span(members, count, release[i], forward[i], gap[i], backward[i], tail[i])
                stretch -= count
            if then < least:
                best, least = i, then
        if best < 0:
            return -1
        put(state, j, best)
        _note(known, state, j, best)
        stretch -= 1
        at += 1
    return at


@inner
def _unavoidable(state: State, known: Ints, i: int, j: int) -> int:
    """Slots before which helper i is not done with client j and those it has: the longest path, or all its work."""
    release, forward, gap, backward, tail = state.times
    path = release[i, j] + forward[i, j] + gap[i, j] + backward[i, j] + tail[i, j]
    work = known[2, i] + forward[i, j] + backward[i, j]
    return int(max(known[3, i], path, min(known[0, i], release[i, j]) + work + min(known[1, i], tail[i, j])))


@inner
def _note(known: Ints, state: State, j: int, i: int) -> None:
    """Client j is helper i's."""
    release, forward, gap, backward, tail = state.times
    known[0, i] = min(known[0, i], release[i, j])
    known[1, i] = min(known[1, i], tail[i, j])
    known[2, i] += forward[i, j] + backward[i, j]
    path = release[i, j] + forward[i, j] + gap[i, j] + backward[i, j] + tail[i, j]
    known[3, i] = max(known[3, i], path)
