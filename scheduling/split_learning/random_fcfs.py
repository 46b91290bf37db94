"""The paper's baseline (Section VII): helpers at random within memory, first come, first served."""

from collections.abc import Iterator

import numpy as np

from scheduling.model.types import Ints
from scheduling.solvers.time_limit import Left
from scheduling.split_learning.balanced_greedy import no_room
from scheduling.split_learning.first_come import first_come, only_step
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.method import NoPlan, Step

DRAWS = 100
"""Largest number of draws of an assignment; it is drawn again if a client has no room."""


def random_fcfs(instance: Instance, *, left: Left, rng: np.random.Generator) -> Iterator[Step]:
    """Yield one plan, drawn from `rng`. Raises NoPlan if memory is so tight that no draw gave every client room."""
    yield only_step(first_come(instance, at_random(instance, rng)), "random assignment")


def at_random(instance: Instance, rng: np.random.Generator) -> Ints:
    """Helper of each client, J: in the order of clients one of those that have room, all as likely.

    A draw that leaves a client without room is thrown away, at most DRAWS times; then NoPlan names the client.
    """
    for _ in range(DRAWS):
        room = instance.capacity.copy()
        assignment = np.empty(len(instance.clients), dtype=np.int64)
        for j, demand in enumerate(instance.demand):
            able = np.flatnonzero(room >= demand)
            if not len(able):
                failed = no_room(instance, j, room)
                break
            assignment[j] = able[rng.integers(len(able))]
            room[assignment[j]] -= demand
        else:
            return assignment
    raise NoPlan(f"{DRAWS} random assignments failed, the last one because {failed}")
