"""Balanced-greedy: as many clients on one helper as on the others, first come, first served (Section VI)."""

from collections.abc import Iterator

import numpy as np

from scheduling.model.types import Ints
from scheduling.solvers.time_limit import Left
from scheduling.split_learning.first_come import first_come, only_step
from scheduling.split_learning.instance import Instance, gigabytes
from scheduling.split_learning.method import NoPlan, Step


def balanced_greedy(instance: Instance, *, left: Left, rng: np.random.Generator) -> Iterator[Step]:
    """Yield one plan; it needs neither time nor chance. Raises NoPlan if a client finds no room."""
    yield only_step(first_come(instance, balanced(instance)), "balanced-greedy")


def balanced(instance: Instance) -> Ints:
    """Helper of each client, J: in the order of clients the one with the fewest clients so far that has room.

    Of equals the first. Raises NoPlan naming the client for which no helper has memory left, though another order or
    other helpers might have left some.

    References
    ----------
    Section VI, step 1. Memory is charged for every client, also where a single helper has room.
    """
    room = instance.capacity.copy()
    count = np.zeros(len(room), dtype=np.int64)
    assignment = np.empty(len(instance.clients), dtype=np.int64)
    for j, demand in enumerate(instance.demand):
        able = np.flatnonzero(room >= demand)
        if not len(able):
            raise no_room(instance, j, room)
        i = able[np.argmin(count[able])]
        assignment[j] = i
        room[i] -= demand
        count[i] += 1
    return assignment


def no_room(instance: Instance, j: int, room: Ints) -> NoPlan:
    """Return the error for client j if `room` bytes are left on each helper, I."""
    most = int(np.argmax(room))
    return NoPlan(
        f"client {instance.clients[j]} needs {gigabytes(instance.demand[j])} GB, and after the {j} clients before it no"
        f" helper has more than {gigabytes(room[most])} GB left ({instance.helpers[most]})"
    )


def nowhere(instance: Instance) -> NoPlan:
    """Return the error for an instance without an assignment within memory."""
    try:
        balanced(instance)
    except NoPlan as error:
        return NoPlan(f"no assignment of clients to helpers is within memory; in the order of clients, {error}")
    raise AssertionError("balanced-greedy found an assignment of an infeasible instance")
