"""Compiled conversion of the numbers of machines by slot to placements on servers."""

import numpy as np

from scheduling.best_response.elastic.compiled import Counts, borrowing, copy, kernel
from scheduling.best_response.elastic.tables import CheapestServers
from scheduling.model.types import Ints


@kernel
def allocate(cheapest: CheapestServers, usable: Ints, counts: Counts) -> tuple[Ints, float]:
    """Place counts[t] machines in each slot t on the cheapest servers with room; merge slots of the same number.

    Return rows of (start, end, server, count), and the cost of all of them, money.
    """
    slots, servers = len(counts), len(usable)
    now, next_, since = np.zeros(servers, np.int64), np.zeros(servers, np.int64), np.zeros(servers, np.int64)
    rows, size, cost, busy = np.empty((64, 4), np.int64), 0, 0.0, False
    for t in range(slots + 1):
        wanted = counts[t] if t < slots else 0
        if not busy and wanted == 0:
            continue
        next_[:] = 0
        if wanted > 0:
            cost += _place(cheapest, usable, t, wanted, next_)
        busy = wanted > 0
        for s in range(servers):
            if next_[s] == now[s]:
                continue
            if now[s] > 0:
                if size == len(rows):
                    longer = np.empty((2 * size, 4), np.int64)
                    copy(rows.ravel(), longer.ravel())
                    rows = longer
                rows[size, 0], rows[size, 1], rows[size, 2], rows[size, 3] = since[s], t, s, now[s]
                size += 1
            now[s], since[s] = next_[s], t
    return rows[:size].copy(), cost


@borrowing
def _place(cheapest: CheapestServers, usable: Ints, t: int, left: int, into: Ints) -> float:
    cost = 0.0
    for i in range(cheapest.size[t]):
        s = cheapest.server[t, i]
        if usable[s] <= t:
            into[s] = min(left, cheapest.room[t, i])
            cost += into[s] * cheapest.price[t, i]
            left -= into[s]
            if left == 0:
                break
    return cost
