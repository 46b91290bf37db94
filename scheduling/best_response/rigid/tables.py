"""Compiled tables over one ledger that make the rigid best response fast. Private: arrays only, modified in place.

Letters: T slots, S servers, R resources, W worker types, P PS types, M = W + P machine types (workers first).
Prices are whole multiples of a quantum (a power of two for each machine type), so sums are exact, ties are ties, and
a table refreshed server by server equals one built at once.
"""

from typing import NamedTuple

import numpy as np

from scheduling.best_response.rigid.compiled import MACHINES, Counts, Flags, borrowing, inlined, kernel, make_heap, sift
from scheduling.model.types import Floats, Ints


class Tables(NamedTuple):
    """All data of a ledger and its prices that the search reads."""

    demand: Ints
    """M x R."""
    demanded: Ints
    """The resources that a machine demands, padded with -1, M x (the largest number of them + 1)."""
    shared: Flags
    """Whether the two types demand the same resource, W x P."""
    pss: Counts
    """Number of PSs that n remote workers need, W x P x (N + 1) (DPS eq. 12)."""
    hubs: Ints
    """The few servers far larger than the others, which bounds treat exactly, H."""
    small: Flags
    """All other servers, S."""
    most: Counts
    """Machines of each type an empty server takes, M x S."""
    most_small: Counts
    """The greatest of `most` over small servers, M."""
    free: Ints
    """T x S x R."""
    quantum: Floats
    """Money one step of `slot_price` stands for, M."""
    cost: Floats
    """Price of a machine in a slot, money, 0 where none fits, M x T x S."""
    slot_price: Ints
    """The same in quanta, M x T x S."""
    price: Ints
    """Sums of `slot_price` over the slots before t, M x (T + 1) x S."""
    room: Counts
    """Least number of machines that fit in any of the slots [t, t + 2^l), M x levels x T x S."""
    cheap: Ints
    """Sums over slots before t of the cost of the n cheapest workers in each slot, W x (N + 1) x (T + 1)."""
    lasts: Counts
    """First slot from t on in which fewer than n workers fit the whole cluster, W x (N + 1) x T."""
    ps_cheap: Ints
    """Sums over slots before t of the least price of a PS where k fit a small server, P x (K + 1) x (T + 1)."""
    ps_lasts: Counts
    """First slot from t on in which k PSs fit no single small server, P x (K + 1) x T."""
    hub_price: Ints
    """`price` of the hubs, H x M x (T + 1)."""
    hub_room: Counts
    """`room` of the hubs, H x M x levels x T."""


@kernel
def changed_slots(used: Ints, known: Ints, low: Ints, high: Ints) -> None:
    """Find for each server the range of slots [low, high) in which two ledgers differ; low = T where they agree."""
    slots, servers, resources = used.shape
    low[:] = slots
    high[:] = 0
    for t in range(slots):
        for s in range(servers):
            for r in range(resources):
                if used[t, s, r] != known[t, s, r]:
                    low[s] = min(low[s], t)
                    high[s] = t + 1
                    break


@borrowing
def fit(free: Ints, demand: Ints, demanded: Ints) -> int:
    """Return how many machines of a demand fit the free capacity."""
    most, i = 1 << 24, 0
    while demanded[i] >= 0:
        r = demanded[i]
        most = min(most, max(free[r], 0) // demand[r])
        i += 1
    return most


@borrowing
def machine_price(unit: Floats, demand: Ints, demanded: Ints) -> float:
    """Return the price of a machine for one slot."""
    total, i = 0.0, 0
    while demanded[i] >= 0:
        total += unit[demanded[i]] * demand[demanded[i]]
        i += 1
    return total


@kernel
def price_some(tables: Tables, unit: Floats, touched: Ints, low: Ints, high: Ints, changed: Ints, dirty: Flags) -> None:
    """Compute room and cost of the servers `touched` in their slots [low, high), S numbers each.

    Where a type's room or cost differs from before, its slots are marked in `dirty` (M x T), and `changed`
    ((servers touched) x M x 2) has the first of them and the one after the last; 0 and 0 where nothing differs.
    """
    for i in range(len(touched)):
        s = touched[i]
        for m in range(len(tables.room)):
            demand, demanded = tables.demand[m], tables.demanded[m]
            first, last = 0, 0
            for t in range(low[s], high[s]):
                now = fit(tables.free[t, s], demand, demanded)
                cost = machine_price(unit[t, s], demand, demanded) if now > 0 else 0.0
                if now != tables.room[m, 0, t, s] or cost != tables.cost[m, t, s]:
                    tables.room[m, 0, t, s] = now
                    tables.cost[m, t, s] = cost
                    dirty[m, t] = True
                    first, last = first if last > 0 else t, t + 1
            changed[i, m, 0], changed[i, m, 1] = first, last


@kernel
def price_all(tables: Tables, unit: Floats, end: int) -> None:
    """Compute room and cost of every server in the slots before `end`, as `price_some` does, in the order of memory."""
    for m in range(len(tables.room)):
        demand, demanded = tables.demand[m], tables.demanded[m]
        for t in range(end):
            free, money, room, cost = tables.free[t], unit[t], tables.room[m, 0, t], tables.cost[m, t]
            for s in range(len(room)):
                room[s], cost[s] = MACHINES, 0.0
            i = 0
            while demanded[i] >= 0:
                r, units = demanded[i], demand[demanded[i]]
                for s in range(len(room)):
                    room[s] = min(room[s], max(free[s, r], 0) // units)
                    cost[s] += money[s, r] * units
                i += 1
            for s in range(len(room)):
                if room[s] == 0:
                    cost[s] = 0.0


@kernel
def refresh_some(tables: Tables, touched: Ints, changed: Ints) -> None:
    """Compute prices, sums and levels of the servers `touched` again, where `price_some` found that they changed."""
    slots = tables.room.shape[2]
    for i in range(len(touched)):
        s = touched[i]
        for m in range(len(tables.room)):
            first, last = changed[i, m]
            if last == 0:
                continue
            for t in range(first, last):
                tables.slot_price[m, t, s] = int(np.rint(tables.cost[m, t, s] / tables.quantum[m]))
            _refresh_levels(tables.room[m], s, first, last)
            for t in range(first, slots):
                tables.price[m, t + 1, s] = tables.price[m, t, s] + tables.slot_price[m, t, s]


@kernel
def refresh_all(tables: Tables, types: Ints, end: int) -> None:
    """Compute prices, sums and levels of machine types again, whose room and cost changed before slot `end`."""
    room, slot_price, price = tables.room, tables.slot_price, tables.price
    _, levels, slots, servers = room.shape
    for m in types:
        per_quantum = 1.0 / tables.quantum[m]  # exact: a power of two
        price[m, 0] = 0
        for t in range(end):
            for s in range(servers):
                slot_price[m, t, s] = int(np.rint(tables.cost[m, t, s] * per_quantum))
        for t in range(slots):
            for s in range(servers):
                price[m, t + 1, s] = price[m, t, s] + slot_price[m, t, s]
        for level in range(1, levels):
            half = 1 << (level - 1)
            for t in range(end):
                other = min(t + half, slots - 1)
                for s in range(servers):
                    room[m, level, t, s] = min(room[m, level - 1, t, s], room[m, level - 1, other, s])


@inlined
def _refresh_levels(room: Counts, s: int, first: int, last: int) -> None:
    slots = room.shape[1]
    for level in range(1, len(room)):
        half = 1 << (level - 1)
        for t in range(max(0, first - 2 * half + 1), last):
            other = min(t + half, slots - 1)
            room[level, t, s] = min(room[level - 1, t, s], room[level - 1, other, s])


@kernel
def refresh_cheapest(
    price: Ints, room: Counts, dirty: Flags, slot_costs: Ints, totals: Ints, cheap: Ints, lasts: Counts
) -> None:
    """Bring the tables of one worker type up to date with the slots marked dirty.

    `price` and `room` are T x S of single slots; `slot_costs` is T x (N + 1), `totals` T.
    """
    slots, servers = price.shape
    heap = np.empty(servers, dtype=np.int32)
    first = slots
    for t in range(slots - 1, -1, -1):
        if dirty[t]:
            totals[t] = _fill_costs(price[t], room[t], heap, slot_costs[t])
            first = t
    for n in range(cheap.shape[0]):
        for t in range(first, slots):
            cheap[n, t + 1] = cheap[n, t] + slot_costs[t, n]
        ends = slots
        for t in range(slots - 1, -1, -1):
            if totals[t] < n:
                ends = t
            lasts[n, t] = ends


@inlined
def _fill_costs(price: Ints, room: Counts, heap: Counts, costs: Ints) -> int:
    """Write the costs of the 0, 1, ..., N cheapest workers in one slot; return how many fit (at most N)."""
    size = make_heap(heap, price, room)
    n, cost = 0, 0
    limit = len(costs) - 1
    costs[0] = 0
    while size > 0 and n < limit:
        s = heap[0]
        for _ in range(min(room[s], limit - n)):
            n += 1
            cost += price[s]
            costs[n] = cost
        size -= 1
        heap[0] = heap[size]
        sift(heap, size, 0, price)
    costs[n + 1 :] = cost
    return n


@kernel
def refresh_ps(price: Ints, room: Counts, dirty: Flags, slot_prices: Ints, tables: Tables, p: int) -> None:
    """Bring the tables of one PS type up to date with the slots marked dirty.

    `price` and `room` are T x S of single slots; `slot_prices` is T x (K + 1), -1 where k PSs fit no small server.
    """
    slots, servers = price.shape
    most = slot_prices.shape[1] - 1
    first = slots
    for t in range(slots - 1, -1, -1):
        if not dirty[t]:
            continue
        first = t
        least = slot_prices[t]
        least[:] = -1
        for s in range(servers):
            k = min(room[t, s], most)
            if k > 0 and tables.small[s] and (least[k] < 0 or price[t, s] < least[k]):
                least[k] = price[t, s]
        for k in range(most - 1, 0, -1):
            if least[k + 1] >= 0 and (least[k] < 0 or least[k + 1] < least[k]):
                least[k] = least[k + 1]
    for k in range(1, most + 1):
        _refresh_ps_sums(slot_prices[:, k], tables.ps_cheap[p, k], tables.ps_lasts[p, k], first)


@inlined
def _refresh_ps_sums(slot_prices: Ints, sums: Ints, lasts: Counts, first: int) -> None:
    slots = len(slot_prices)
    for t in range(first, slots):
        sums[t + 1] = sums[t] + max(slot_prices[t], 0)
    ends = slots
    for t in range(slots - 1, -1, -1):
        if slot_prices[t] < 0:
            ends = t
        lasts[t] = ends
