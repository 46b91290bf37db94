"""Who is on which helper, as arrays that kernels change in place; each helper runs the largest path first."""

from dataclasses import dataclass, replace

import numpy as np

from scheduling.arrays import Ints
from scheduling.split_learning.compiled import kernel
from scheduling.split_learning.helper import span
from scheduling.split_learning.instance import TIMES, Instance

Times = tuple[Ints, Ints, Ints, Ints, Ints]
NOBODY = -1


@dataclass(eq=False)
class State:
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
    """I x J, the first `count` of a row."""
    count: Ints
    span: Ints
    """Slots by which each helper's clients can be over, in some order, I."""
    version: Ints
    """A number that changes whenever a helper's clients do, I."""
    seen: Ints
    """For pairs of helpers, their versions when nothing better was found between them at `target`, I x I x 2."""
    target: int = -1

    @property
    def makespan(self) -> int:
        """Of those who are on helpers, slots."""
        return int(self.span.max())

    def copy(self) -> "State":
        """One that changes on its own."""
        return replace(
            self,
            assignment=self.assignment.copy(),
            load=self.load.copy(),
            members=self.members.copy(),
            count=self.count.copy(),
            span=self.span.copy(),
            version=self.version.copy(),
            seen=self.seen.copy(),
        )


def nobody(instance: Instance) -> State:
    """No client on any helper."""
    helpers, clients = instance.release.shape
    release, forward, gap, backward, tail = (np.ascontiguousarray(getattr(instance, name)) for name in TIMES)
    return State(
        (release, forward, gap, backward, tail),
        instance.demand,
        instance.capacity,
        np.full(clients, NOBODY, dtype=np.int64),
        np.zeros(helpers, dtype=np.int64),
        np.zeros((helpers, clients), dtype=np.int64),
        np.zeros(helpers, dtype=np.int64),
        np.zeros(helpers, dtype=np.int64),
        np.arange(helpers),
        np.full((helpers, helpers, 2), -1, dtype=np.int64),
    )


def assigned(instance: Instance, assignment: Ints) -> State:
    """Clients on these helpers, -1 for none yet."""
    state = nobody(instance)
    for j in np.flatnonzero(assignment >= 0):
        put(int(j), int(assignment[j]), state.members, state.count, state.load, state.demand, state.assignment)
    for i in range(len(state.span)):
        state.span[i] = span(state.members[i], state.count[i], *(row[i] for row in state.times))
    return state


@kernel
def put(j: int, i: int, members: Ints, count: Ints, load: Ints, demand: Ints, assignment: Ints) -> None:
    """Client j, who has no helper, on helper i."""
    members[i, count[i]] = j
    count[i] += 1
    load[i] += demand[j]
    assignment[j] = i


@kernel
def take(j: int, members: Ints, count: Ints, load: Ints, demand: Ints, assignment: Ints) -> None:
    """Client j off its helper."""
    i = assignment[j]
    last = count[i] - 1
    for x in range(last):
        if members[i, x] == j:
            members[i, x] = members[i, last]
            break
    count[i] = last
    load[i] -= demand[j]
    assignment[j] = NOBODY
