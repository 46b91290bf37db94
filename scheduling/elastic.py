"""The elastic best response: the number of workers and of parameter servers may change every slot."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scheduling.arrays import Floats, Ints
from scheduling.bid import Bid
from scheduling.inventory import Inventory, MachineType
from scheduling.ledger import Ledger
from scheduling.response import Response
from scheduling.rigid_index import PriceOf
from scheduling.schedule import Placement, Role, Schedule

__all__ = ["ElasticMarket", "Response", "best_response", "warm_up"]


@dataclass(frozen=True)
class ElasticMarket:
    """One ledger at its posted prices, asked again and again; what it learns stays with the ledger."""

    ledger: Ledger
    prices: PriceOf

    def best(self, bid: Bid, *, above: float = 0.0, first_start: int | None = None) -> Response | None:
        """The schedule of greatest payoff, if that is more than `above` (see `best_response`)."""
        found = [r for r in self._every(bid, first_start) if r.payoff > above]
        return max(found, key=lambda r: (r.payoff, -r.schedule.completion)) if found else None

    def least_ratio(self, bid: Bid) -> Response | None:
        """The schedule of least cost per unit of value, among those worth anything."""
        found = [r for r in self._every(bid, None) if r.value > 0]
        return min(found, key=lambda r: (r.cost / r.value, r.schedule.completion)) if found else None

    def latest(self, bid: Bid, *, above: float = 0.0) -> Response | None:
        """A schedule of payoff above `above` that starts as late as any such schedule."""
        response = None
        later = self.best(bid, above=above)
        while later is not None:
            response = later
            later = self.best(bid, above=above, first_start=response.schedule.start + 1)
        return response

    def _every(self, bid: Bid, first_start: int | None) -> list[Response]:
        ledger = self.ledger
        prices = self.prices.of(ledger.used, ledger.inventory.capacity)
        return list(_every(bid, ledger.inventory, ledger.start, ledger.used, prices, first_start))


def best_response(
    bid: Bid,
    inventory: Inventory,
    *,
    start: int,
    used: Ints,
    prices: Floats | PriceOf,
    above: float = 0.0,
    first_start: int | None = None,
    index: object = None,
    version: object = None,
) -> Response | None:
    """Decide how many workers and PSs one job would best run where in every slot at posted prices."""
    posted = prices if isinstance(prices, np.ndarray) else prices.of(used, inventory.capacity)
    found = [r for r in _every(bid, inventory, start, used, posted, first_start) if r.payoff > above]
    return max(found, key=lambda r: (r.payoff, -r.schedule.completion)) if found else None


def warm_up() -> None:
    """Compile, or load from disk, every kernel, so that no request pays for it."""


def _every(
    bid: Bid, inventory: Inventory, start: int, used: Ints, prices: Floats, first_start: int | None
) -> Iterator[Response]:
    first = max(start, bid.arrival, start if first_start is None else first_start) - start
    for w, worker in enumerate(inventory.workers):
        for p, ps in enumerate(inventory.pss):
            step = bid.worker_time[w] + bid.ps_time[p] + bid.transfer_time[w]
            wanted = max(1, math.ceil(bid.work * step))
            if worker.bandwidth_mbps > ps.bandwidth_mbps or wanted > bid.chunks * len(used):
                continue
            table = np.full(wanted + 1, np.inf)
            table[0] = 0.0
            chosen = []
            slots = []
            for t in range(first, len(used)):
                free = inventory.capacity - used[t]
                usable = [start + t >= bid.arrival + delay for delay in bid.delay]
                ws = _cheapest(free, prices[t], usable, worker, bid.chunks)
                ps_servers = _cheapest(free, prices[t], usable, ps, bid.chunks)
                before = table.copy()
                choice = np.zeros(wanted + 1, np.int64)
                cost = 0.0
                for n in range(1, min(len(ws), wanted, bid.chunks) + 1):
                    k = math.ceil(n * worker.bandwidth_mbps / ps.bandwidth_mbps)
                    if k > len(ps_servers):
                        break
                    cost = sum(x for x, _ in ws[:n]) + sum(x for x, _ in ps_servers[:k])
                    better = before[: wanted + 1 - n] + cost < table[n:]
                    choice[n:][better] = n
                    table[n:] = np.minimum(table[n:], before[: wanted + 1 - n] + cost)
                chosen.append(choice)
                slots.append((ws, ps_servers))
                if table[wanted] < np.inf:
                    rows = _read(chosen, slots, wanted, worker, ps, w, p, start + first)
                    schedule = Schedule(
                        start=min(r.start for r in rows), completion=max(r.end for r in rows), placements=tuple(rows)
                    )
                    value = bid.utility.at(schedule.completion - bid.arrival)
                    yield Response(schedule, value, float(table[wanted]))


def _read(
    chosen: list[Ints],
    slots: list[tuple[list[tuple[float, int]], list[tuple[float, int]]]],
    wanted: int,
    worker: MachineType,
    ps: MachineType,
    w: int,
    p: int,
    first: int,
) -> list[Placement]:
    rows = []
    left = wanted
    for i in range(len(chosen) - 1, -1, -1):
        n = int(chosen[i][left])
        left -= n
        k = math.ceil(n * worker.bandwidth_mbps / ps.bandwidth_mbps)
        for role, kind, servers, count in ((Role.WORKER, w, slots[i][0], n), (Role.PS, p, slots[i][1], k)):
            for s, many in Counter(s for _, s in servers[:count]).items():
                rows.append(Placement(first + i, first + i + 1, role, s, kind, many))
    return rows


def _cheapest(
    free: Ints, prices: Floats, usable: list[bool], machine: MachineType, most: int
) -> list[tuple[float, int]]:
    out = []
    for s, row in enumerate(free):
        room = min(int(row[r]) // amount for r, amount in enumerate(machine.demand) if amount)
        unit = float(prices[s] @ np.array(machine.demand))
        if usable[s]:
            out += [(unit, s)] * min(max(room, 0), most)
    return sorted(out)
