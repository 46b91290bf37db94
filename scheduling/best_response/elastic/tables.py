"""Compiled tables over one ledger: which servers have room for a machine in each slot, cheapest first.

Private: arrays only, modified in place. Letters: T slots, S servers, R resources.
"""

from typing import NamedTuple

import numpy as np

from scheduling.best_response.elastic.compiled import Counts, Flags, borrowing, copy, kernel, sort_by
from scheduling.model.types import Floats, Ints


class CheapestServers(NamedTuple):
    """Servers with room for one machine type in each slot, by (price, index): the first `size` of each row."""

    size: Counts
    """T."""
    server: Counts
    """T x S."""
    price: Floats
    """Price of one machine for the slot, money, T x S."""
    room: Counts
    """Number of machines that fit, T x S."""


@kernel
def changed_slots(used: Ints, known: Ints, changed: Flags) -> int:
    """Mark the slots whose use differs (T flags); return their number."""
    slots, servers, resources = used.shape
    count = 0
    for t in range(slots):
        differs = False
        for s in range(servers):
            for r in range(resources):
                differs |= used[t, s, r] != known[t, s, r]
            if differs:
                break
        changed[t] = differs
        count += differs
    return count


@kernel
def mark_alike(free: Ints, changed: Flags, alike: Flags) -> None:
    """Mark the slots with the room of the slot before, where one of the two changed (T flags)."""
    slots, servers, resources = free.shape
    alike[0] = False
    for t in range(1, slots):
        if not (changed[t] or changed[t - 1]):
            continue
        same = True
        for s in range(servers):
            for r in range(resources):
                same &= free[t, s, r] == free[t - 1, s, r]
            if not same:
                break
        alike[t] = same


@kernel
def refresh_cheapest(
    cheapest: CheapestServers,
    free: Ints,
    unit: Floats,
    hosts: Ints,
    demand: Ints,
    demanded: Ints,
    dirty: Flags,
    repeats: Flags,
) -> None:
    """Bring the servers of one machine type up to date in the slots marked dirty.

    `repeats` marks slots in which everything is as in the slot before, which is up to date. `hosts` are the servers
    whose capacity takes at least one machine; `demanded` the resources of which it takes any.
    """
    price, room, order = np.empty(len(hosts)), np.empty(len(hosts), np.int32), np.empty(len(hosts), np.int32)
    for t in range(len(dirty)):
        if not dirty[t]:
            continue
        if repeats[t]:
            size = cheapest.size[t - 1]
            cheapest.size[t] = size
            copy(cheapest.server[t - 1, :size], cheapest.server[t])
            copy(cheapest.price[t - 1, :size], cheapest.price[t])
            copy(cheapest.room[t - 1, :size], cheapest.room[t])
            continue
        size = 0
        for i in range(len(hosts)):
            room[i] = fit(free[t, hosts[i]], demand, demanded)
            if room[i] > 0:
                price[i] = machine_price(unit[t, hosts[i]], demand, demanded)
                order[size] = i
                size += 1
        sort_by(price, order[:size])
        cheapest.size[t] = size
        for j in range(size):
            i = order[j]
            cheapest.server[t, j], cheapest.price[t, j], cheapest.room[t, j] = hosts[i], price[i], room[i]


@borrowing
def fit(free: Ints, demand: Ints, demanded: Ints) -> int:
    """Return how many machines of a demand fit the free capacity."""
    most = 1 << 24
    for r in demanded:
        if free[r] < demand[r]:
            return 0
        most = min(most, free[r] // demand[r])
    return most


@borrowing
def machine_price(unit: Floats, demand: Ints, demanded: Ints) -> float:
    """Return the price of a machine for one slot."""
    total = 0.0
    for r in demanded:
        total += unit[r] * demand[r]
    return total
