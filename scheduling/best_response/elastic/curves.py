"""Compiled cost curves of the elastic best response: the cost of n workers with their parameter servers by slot.

Private: arrays only, modified in place. All costs are whole quanta, so sums are exact and ties are ties.
"""

from typing import NamedTuple

import numpy as np

from scheduling.best_response.elastic.compiled import Counts, Flags, borrowing, kernel
from scheduling.best_response.elastic.tables import CheapestServers
from scheduling.model.types import Floats, Ints


class Job(NamedTuple):
    """One bid in slots counted from the ledger's start, for one worker type and one PS type."""

    wanted: int
    """Number of worker-slots that the job needs."""
    pss: Counts
    """PSs that n workers need, for n = 0..N."""
    usable: Ints
    """First slot in which each server can be used, S."""
    values: Floats
    """Value of completion at slot 0..T, money."""
    scale: float
    """Quanta in one unit of money."""
    limit: int
    """Upper bound of the cost of a schedule, quanta."""


class Curves(NamedTuple):
    """Least costs of each slot, and their lower convex hulls."""

    cost: Ints
    """Cost of 0..N workers with their PSs, quanta, T x (N + 1)."""
    most: Counts
    """Number of workers that fit and cost at most the limit, T."""
    vertex: Counts
    """Numbers of workers at the vertices of the hull, of which the first is 0, T x (N + 1)."""
    size: Counts
    """Number of vertices, T."""


@kernel
def relevant_slots(values: Floats, follows: Flags, wanted: int, first: int, above: float) -> Flags:
    """Return which slots an optimal schedule that starts at `first` or later may use, T flags.

    Slots at whose end the value (`values`, T + 1, never rising) is at most `above` are left out. In a sequence of slots
    that follow one another, each with the room of the one before at no lower price (`follows`, T flags), only the first
    `wanted` count: an optimal schedule uses no more of them, and the first ones end first.
    """
    relevant, before = np.zeros(len(follows), np.bool_), 0
    for t in range(first, len(follows)):
        if not values[t + 1] > above:
            break
        before = before + 1 if follows[t] and t > first else 0
        relevant[t] = before < wanted
    return relevant


@kernel
def make_curves(
    workers: CheapestServers, pss: CheapestServers, job: Job, first: int, repeats: Flags, relevant: Flags
) -> tuple[Curves, Counts]:
    """Compute the curves of the relevant slots that differ from the slot before, and the row of each slot (T).

    `repeats` marks slots (T) in which everything is as in the slot before: most of a long horizon if prices do not
    rise. Slots that are not `relevant` (T flags), such as those before `first`, have row -1.
    """
    slots, width = len(workers.size), len(job.pss)
    row, number = np.full(slots, -1, np.int32), 0
    for t in range(first, slots):
        if not relevant[t]:
            continue
        if not (repeats[t] and row[t - 1] >= 0):
            number += 1
        row[t] = number - 1
    cost = np.empty((number, width), np.int64)
    vertex = np.empty((number, width), np.int32)
    most, size = np.zeros(number, np.int32), np.ones(number, np.int32)
    scratch = np.empty(width, np.int64)
    for t in range(first, slots):
        i = row[t]
        if i >= 0 and (t == first or row[t - 1] != i):
            most[i] = _fill(workers, pss, job, t, cost[i], scratch)
            size[i] = _hull(cost[i], most[i], vertex[i])
    return Curves(cost, most, vertex, size), row


@kernel
def earliest(workers: CheapestServers, pss: CheapestServers, job: Job, relevant: Flags) -> int:
    """Return the first completion by which the worker-slots fit in relevant slots at any price; else T + 1."""
    slots, left = len(workers.size), job.wanted
    for t in range(slots):
        if not relevant[t]:
            continue
        n = _room(workers, job.usable, t, len(job.pss) - 1)
        k = _room(pss, job.usable, t, job.pss[n])
        while job.pss[n] > k:
            n -= 1
        left -= n
        if left <= 0:
            return t + 1
    return slots + 1


@borrowing
def _room(cheapest: CheapestServers, usable: Ints, t: int, most: int) -> int:
    room = 0
    for i in range(cheapest.size[t]):
        if room < most and usable[cheapest.server[t, i]] <= t:
            room += min(cheapest.room[t, i], most - room)
    return room


@borrowing
def _fill(workers: CheapestServers, pss: CheapestServers, job: Job, t: int, cost: Ints, scratch: Ints) -> int:
    n = _expand(workers, job, t, cost)
    k = _expand(pss, job, t, scratch[: job.pss[n] + 1])
    for i in range(1, n + 1):
        if job.pss[i] > k:
            return i - 1
        cost[i] += scratch[job.pss[i]]
        if cost[i] > job.limit:
            return i - 1
    return n


@borrowing
def _expand(cheapest: CheapestServers, job: Job, t: int, cost: Ints) -> int:
    """Write the costs of 0, 1, ... machines, cheapest first, up to the row's length, the room or the limit."""
    n, total = 0, 0
    cost[0] = 0
    for i in range(cheapest.size[t]):
        if n + 1 == len(cost):
            break
        if job.usable[cheapest.server[t, i]] > t:
            continue
        price = np.rint(cheapest.price[t, i] * job.scale)
        if price > job.limit:
            break
        unit = int(price)
        for _ in range(min(cheapest.room[t, i], len(cost) - 1 - n)):
            total += unit
            if total > job.limit:
                return n
            n += 1
            cost[n] = total
    return n


@borrowing
def _hull(cost: Ints, most: int, vertex: Counts) -> int:
    """Find the vertices of the greatest convex function below cost[0..most]; slopes between them rise strictly."""
    size = 1
    vertex[0] = 0
    for n in range(1, most + 1):
        while size > 1:
            a, b = vertex[size - 2], vertex[size - 1]
            if (cost[b] - cost[a]) * (n - b) < (cost[n] - cost[b]) * (b - a):
                break
            size -= 1
        vertex[size] = n
        size += 1
    return size


@borrowing
def segment(curves: Curves, t: int, i: int) -> tuple[int, int]:
    """Return rise and run of the i-th piece of a hull; its slope is their quotient."""
    a, b = curves.vertex[t, i], curves.vertex[t, i + 1]
    return int(curves.cost[t, b] - curves.cost[t, a]), int(b - a)


@borrowing
def pieces_below(curves: Curves, t: int, rise: int, run: int, low: int, high: int) -> int:
    """Return the number of pieces of a hull that are less steep than rise / run; it is in low..high."""
    while low < high:
        middle = (low + high) // 2
        up, along = segment(curves, t, middle)
        if up * run < rise * along:
            low = middle + 1
        else:
            high = middle
    return low
