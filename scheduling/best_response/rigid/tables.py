"""Compiled tables over one ledger that make the rigid best response fast. Private: arrays only, modified in place.

Letters: T slots, S servers, R resources, W worker types, P PS types, M = W + P machine types (workers first).
Prices are whole multiples of a quantum (a power of two for each machine type), so sums are exact, ties are ties, and
a table refreshed server by server equals one built at once.
"""

from typing import NamedTuple

import numpy as np

from scheduling.best_response.rigid.compiled import (
    MACHINES,
    SAFE,
    Counts,
    Flags,
    borrowing,
    inlined,
    kernel,
    make_heap,
    sift,
)
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
    hosted: Ints
    """Greatest number of workers that a job can have around a host, if it is empty: all machines on it, or as many
    workers as fit beside its PSs; for the best small server and each hub, 2 x (1 + H) x W x P."""
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
def changed_cells(used: Ints, known: Ints, cells: Ints) -> int:
    """Find the cells (slot x S + server, rising) in which two ledgers differ; write them to `cells`, T x S numbers.

    Return their number.
    """
    slots, servers, resources = used.shape
    size = 0
    for t in range(slots):
        for s in range(servers):
            for r in range(resources):
                if used[t, s, r] != known[t, s, r]:
                    cells[size] = t * servers + s
                    size += 1
                    break
    return size


@kernel
def fill_hosted(tables: Tables) -> None:
    """Compute `hosted`. The PSs of more workers never take less, so that a host that takes those of n takes fewer."""
    workers, pss, width = tables.pss.shape
    hub = np.zeros(len(tables.small), np.int64)  # 0 for small servers
    for h in range(len(tables.hubs)):
        hub[tables.hubs[h]] = 1 + h
    for w in range(workers):
        for p in range(pss):
            for s in range(len(hub)):
                near, most = tables.most[w, s], tables.most[workers + p, s]
                alone, spread = tables.hosted[0, hub[s]], tables.hosted[1, hub[s]]
                if most > 0:
                    alone[w, p] = max(alone[w, p], near)
                while spread[w, p] + 1 < width:
                    n = spread[w, p] + 1
                    if tables.pss[w, p, n - min(near, n - 1)] > most:
                        break
                    spread[w, p] = n


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
def price_some(tables: Tables, unit: Floats, cells: Ints, dirty: Flags, low: Ints, high: Ints) -> None:
    """Compute room and cost of all machine types in some cells.

    Where a type's room or cost differs from before, the slot is marked in `dirty` (M x T), and `low` and `high` (M x S)
    get the first of these slots of the server and the one after the last.
    """
    servers = tables.room.shape[3]
    for cell in cells:
        t, s = cell // servers, cell % servers
        for m in range(len(tables.room)):
            demand, demanded = tables.demand[m], tables.demanded[m]
            now = fit(tables.free[t, s], demand, demanded)
            cost = machine_price(unit[t, s], demand, demanded) if now > 0 else 0.0
            if now != tables.room[m, 0, t, s] or cost != tables.cost[m, t, s]:
                tables.room[m, 0, t, s] = now
                tables.cost[m, t, s] = cost
                dirty[m, t] = True
                low[m, s], high[m, s] = min(low[m, s], t), t + 1


@kernel
def price_all(tables: Tables, unit: Floats) -> None:
    """Compute room and cost of all machine types in all cells, as `price_some` does, in the order of memory."""
    for m in range(len(tables.room)):
        demand, demanded = tables.demand[m], tables.demanded[m]
        for t in range(len(unit)):
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
def round_some(tables: Tables, cells: Ints) -> None:
    """Round the prices of some cells to quanta."""
    servers = tables.room.shape[3]
    for cell in cells:
        t, s = cell // servers, cell % servers
        for m in range(len(tables.room)):
            tables.slot_price[m, t, s] = int(np.rint(tables.cost[m, t, s] / tables.quantum[m]))


@kernel
def round_all(tables: Tables, types: Ints) -> None:
    """Round the prices of machine types to quanta, in all cells."""
    for m in types:
        per_quantum = 1.0 / tables.quantum[m]  # exact: a power of two
        for t in range(tables.cost.shape[1]):
            slot_price, cost = tables.slot_price[m, t], tables.cost[m, t]
            for s in range(len(cost)):
                slot_price[s] = int(np.rint(cost[s] * per_quantum))


@kernel
def refresh_some(tables: Tables, low: Ints, high: Ints) -> None:
    """Compute sums and levels again of the servers that changed in their slots [low, high), M x S numbers each."""
    slots = tables.room.shape[2]
    for m in range(len(low)):
        for s in range(low.shape[1]):
            if low[m, s] < high[m, s]:
                _refresh_levels(tables.room[m], s, low[m, s], high[m, s])
                for t in range(low[m, s], slots):
                    tables.price[m, t + 1, s] = tables.price[m, t, s] + tables.slot_price[m, t, s]


@kernel
def refresh_all(tables: Tables, types: Ints, end: int) -> None:
    """Compute sums and levels of machine types again, on all servers, after changes before slot `end`."""
    room, slot_price, price = tables.room, tables.slot_price, tables.price
    _, levels, slots, servers = room.shape
    for m in types:
        price[m, 0] = 0
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
    limit = len(costs) - 1
    least, fitting = SAFE, 0
    for s in range(len(room)):
        if room[s] > 0 and price[s] < least:
            least, fitting = price[s], 0
        if room[s] > 0 and price[s] == least:
            fitting += room[s]
    if fitting >= limit:  # Servers with the same use have the same price, and idle ones the least.
        for n in range(limit + 1):
            costs[n] = n * least
        return limit
    size = make_heap(heap, price, room)
    n, cost = 0, 0
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
