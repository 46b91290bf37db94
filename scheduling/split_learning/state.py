"""Assignment of clients to helpers, in arrays that kernels modify in place; helpers run the largest path first."""

from typing import NamedTuple

import numpy as np

from scheduling.model.types import Ints
from scheduling.split_learning.compiled import kernel
from scheduling.split_learning.helper import span
from scheduling.split_learning.instance import TIMES, Flags, Instance

Times = tuple[Ints, Ints, Ints, Ints, Ints]
NOBODY = -1


class State(NamedTuple):
    """An assignment under way; clients not on a helper yet have helper -1."""

    times: Times
    """Release, forward, gap, backward, tail, each I x J slots."""
    demand: Ints
    capacity: Ints
    assignment: Ints
    """J."""
    load: Ints
    """Bytes taken, I."""
    members: Ints
    """I x J, the first `size` of a row."""
    size: Ints
    """Clients of each helper, I."""
    span: Ints
    """Slots by which each helper's clients can be over, in some order, I."""
    version: Ints
    """A number that changes whenever a helper's clients do, I."""
    seen: Ints
    """Versions of pairs of helpers when no improvement was found between them at `target`, I x I x 2."""
    target: Ints
    """A makespan, or -1: an array of one."""
    useful: Flags
    """Helpers that the search tries for a client, I x J."""

    @property
    def makespan(self) -> int:
        """Makespan of the assigned clients, slots."""
        return int(self.span.max())

    def copy(self) -> "State":
        """One that changes on its own."""
        changing = ("assignment", "load", "members", "size", "span", "version", "seen", "target")
        return self._replace(**{name: getattr(self, name).copy() for name in changing})


def nobody(instance: Instance) -> State:
    """No client on any helper."""
    helpers, clients = instance.release.shape
    release, forward, gap, backward, tail = (np.ascontiguousarray(getattr(instance, name)) for name in TIMES)
    return State(
        (release, forward, gap, backward, tail),
        instance.demand,
        instance.capacity,
        assignment=np.full(clients, NOBODY, dtype=np.int64),
        load=np.zeros(helpers, dtype=np.int64),
        members=np.zeros((helpers, clients), dtype=np.int64),
        size=np.zeros(helpers, dtype=np.int64),
        span=np.zeros(helpers, dtype=np.int64),
        version=np.arange(helpers),
        seen=np.full((helpers, helpers, 2), -1, dtype=np.int64),
        target=np.full(1, -1, dtype=np.int64),
        useful=instance.fits,
    )


def assigned(instance: Instance, assignment: Ints) -> State:
    """Clients on these helpers, -1 for none yet."""
    state = nobody(instance)
    for j in np.flatnonzero(assignment >= 0):
        put(state, int(j), int(assignment[j]))
    for i in range(len(state.span)):
        state.span[i] = span_of(state, i)
    return state


def span_of(state: State, i: int) -> int:
    """Slots by which helper i's clients can be over, the largest remaining path first."""
    return span(state.members[i], state.size[i], *(row[i] for row in state.times))


@kernel
def put(state: State, j: int, i: int) -> None:
    """Client j, who has no helper, on helper i."""
    state.members[i, state.size[i]] = j
    state.size[i] += 1
    state.load[i] += state.demand[j]
    state.assignment[j] = i


@kernel
def take(state: State, j: int) -> None:
    """Client j off its helper."""
    i = state.assignment[j]
    last = state.size[i] - 1
    for x in range(last):
        if state.members[i, x] == j:
            state.members[i, x] = state.members[i, last]
            break
    state.size[i] = last
    state.load[i] -= state.demand[j]
    state.assignment[j] = NOBODY
