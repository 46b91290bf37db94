"""Classes of interchangeable servers: which of its servers a schedule uses makes no difference."""

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from scheduling.model.types import Ints
from scheduling.offline.problem import OfflineProblem
from scheduling.preemptive.workers import machines


class ServerClass(NamedTuple):
    """Servers that are interchangeable."""

    servers: list[int]
    scarce: list[int]
    """Resources that can run out on one of them."""


def server_classes(problem: OfflineProblem, demand: Ints) -> list[ServerClass]:
    """Return the classes of servers that have room for any machine.

    Servers of a class have the same free units of scarce resources, and every job is ready on them at the same time.

    Parameters
    ----------
    demand
        Demand of each machine type that may be placed, M x R.
    """
    capacity, free = problem.inventory.capacity, problem.free()
    delays = np.array([bid.delay for bid in problem.bids], dtype=np.int64).reshape(-1, len(capacity))
    room = machines(capacity, demand)
    found: dict[bytes, ServerClass] = defaultdict(lambda: ServerClass([], []))
    for s in np.flatnonzero((room > 0).any(axis=1)).tolist():
        fits = room[s] > 0
        if problem.used is None:
            scarce = _scarce(capacity[s], demand[fits], room[s, fits])
        else:
            scarce = np.flatnonzero(demand[fits].any(axis=0)).tolist()
        # Rooms of empty servers are equal, too: what is not scarce is no limit to any of them.
        key = (np.array(scarce), fits, room[s], free[:, s, scarce], delays[:, s])
        one = found[b"|".join(part.tobytes() for part in key)]
        one.servers.append(s)
        one.scarce[:] = scarce
    return list(found.values())


def _scarce(capacity: Ints, demand: Ints, room: Ints) -> list[int]:
    """Resources that neither suffice for the most of every machine at once, nor for all that another one allows."""
    kept = [r for r in range(len(capacity)) if int(room @ demand[:, r]) > capacity[r]]
    for r in list(kept):
        if any(_allows(capacity, demand, other, r) for other in kept if other != r):
            kept.remove(r)
    return kept


def _allows(capacity: Ints, demand: Ints, first: int, then: int) -> bool:
    """Whether machines that fit one resource always fit the other: d_then / d_first x C_first <= C_then for each."""
    here, there = int(capacity[first]), int(capacity[then])
    pairs = [(mine, other) for mine, other in demand[:, [then, first]].tolist() if mine]
    return all(other > 0 and mine * here <= there * other for mine, other in pairs)
