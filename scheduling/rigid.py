"""The rigid best response: the same machines over one window, on one server or spread around one PS host."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from scheduling.arrays import Floats, Ints
from scheduling.bid import Bid
from scheduling.inventory import Inventory
from scheduling.schedule import Placement, Role, Schedule


@dataclass(frozen=True)
class Response:
    """A schedule with what it is worth and what it costs at the posted prices, money."""

    schedule: Schedule
    value: float
    cost: float

    @property
    def payoff(self) -> float:
        """value - cost."""
        return self.value - self.cost


def duration(bid: Bid, *, worker: int, ps: int, count: int, spread: bool) -> int:
    """Slots `count` workers need for the whole job: max(1, ceil(E D M k / count)), exact (DPS, eq. 1 and 8)."""
    step = bid.worker_time[worker] + bid.ps_time[ps] + (bid.transfer_time[worker] if spread else Fraction(0))
    return max(1, ceil(bid.work * step / count))


def best_response(
    bid: Bid,
    inventory: Inventory,
    *,
    start: int,
    used: Ints,
    prices: Floats,
    above: float = 0.0,
    first_start: int | None = None,
    tail: int = 0,
) -> Response | None:
    """Schedule of greatest payoff, if it is greater than `above`."""
    best: Response | None = None
    end = start + len(used)
    earliest = max(start, bid.arrival, first_start if first_start is not None else start)
    for worker in range(len(inventory.workers)):
        for ps in range(len(inventory.pss)):
            for count in range(1, bid.chunks + 1):
                for spread in (False, True):
                    slots = duration(bid, worker=worker, ps=ps, count=count, spread=spread)
                    for first in range(earliest, end - slots - tail + 1):
                        value = bid.utility.at(first + slots - bid.arrival)
                        if value <= above or (best is not None and value <= best.payoff):
                            break
                        window = _Window(bid, inventory, used, prices, first, first - start, slots + tail)
                        found = window.cheapest(worker, ps, count, spread)
                        if found is None:
                            continue
                        cost, placements = found
                        if value - cost > (above if best is None else best.payoff):
                            schedule = Schedule(start=first, completion=first + slots, placements=placements)
                            best = Response(schedule=schedule, value=value, cost=cost)
    return best


class _Window:
    """What is free and what it costs in one window."""

    def __init__(
        self, bid: Bid, inventory: Inventory, used: Ints, prices: Floats, first: int, row: int, slots: int
    ) -> None:
        self.inventory, self.first, self.slots = inventory, first, slots
        self.free = inventory.capacity - used[row : row + slots].max(axis=0)
        self.price = prices[row : row + slots].sum(axis=0)
        self.reachable = [s for s in range(len(inventory.servers)) if bid.arrival + bid.delay[s] <= first]

    def cheapest(self, worker: int, ps: int, count: int, spread: bool) -> tuple[float, tuple[Placement, ...]] | None:
        """Least cost of `count` workers and the PSs they need."""
        demand = np.array(self.inventory.workers[worker].demand)
        taken = np.array(self.inventory.pss[ps].demand)
        unit = self.price @ demand
        order = sorted(self.reachable, key=lambda s: (unit[s], s))
        room = {s: int(min(self.free[s][demand > 0] // demand[demand > 0])) for s in order}
        ratio = self.inventory.workers[worker].bandwidth_mbps / self.inventory.pss[ps].bandwidth_mbps
        best: tuple[float, tuple[Placement, ...]] | None = None
        for host in self.reachable:
            for near in range(count) if spread else [count]:
                pss = max(1, ceil((count - near) * ratio))
                if ((near * demand + pss * taken) > self.free[host]).any():
                    continue
                counts = {host: near} if near else {}
                left = count - near
                for s in order:
                    if s != host and left and room[s] > 0:
                        counts[s] = min(left, room[s])
                        left -= counts[s]
                if left:
                    continue
                cost = float(sum(unit[s] * n for s, n in counts.items()) + pss * (self.price[host] @ taken))
                if best is None or cost < best[0]:
                    best = cost, tuple(self._placements(worker, ps, counts, host, pss))
        return best

    def _placements(self, worker: int, ps: int, counts: dict[int, int], host: int, pss: int) -> Iterator[Placement]:
        end = self.first + self.slots
        for server, count in counts.items():
            yield Placement(start=self.first, end=end, role=Role.WORKER, server=server, type=worker, count=count)
        yield Placement(start=self.first, end=end, role=Role.PS, server=host, type=ps, count=pss)
