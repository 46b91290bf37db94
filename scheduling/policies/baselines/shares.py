"""Shares of the cluster that gangs take, and fair numbers of workers."""

from fractions import Fraction
from heapq import heappop, heappush
from math import ceil, lcm
from operator import le, sub

from scheduling.model.inventory import Inventory
from scheduling.model.types import Ints
from scheduling.policies.baselines.gang import Gang


def fair_counts(gangs: list[Gang], inventory: Inventory, capacity: Ints) -> list[int]:
    """Compute the number of workers of each job by progressive filling of dominant shares.

    Repeatedly, the job with the least dominant share (the first of equals) gets one more worker and the PSs for it. A
    job with D workers, or without capacity for its next worker, gets no more.

    Parameters
    ----------
    gangs
        Gangs of the jobs; their counts are not used.
    capacity
        Capacity of all servers together, R numbers.
    """
    counts = [0] * len(gangs)
    left: list[int] = capacity.tolist()
    least = [inventory.worker_demand[worker].tolist() for worker in {gang.worker for gang in gangs}]
    heap = [(0, j) for j in range(len(gangs))]  # sorted, so it is a heap
    known: dict[tuple[int, int | None, int], tuple[list[int], int]] = {}
    while heap:
        _, j = heappop(heap)
        gang, count = gangs[j], counts[j] + 1
        kind = (gang.worker, gang.ps, count)
        if kind not in known:
            more = demand_of(gang, count, inventory)
            known[kind] = (more - demand_of(gang, count - 1, inventory)).tolist(), common_share(more, capacity)
        extra, share = known[kind]
        if count > gang.bid.chunks:
            continue
        if not all(map(le, extra, left)):
            if not any(all(map(le, units, left)) for units in least):
                break  # nobody has room for another worker
            continue
        counts[j] = count
        left = [*map(sub, left, extra)]
        heappush(heap, (share, j))
    return counts


def common_share(demand: Ints, capacity: Ints) -> int:
    """Return `dominant_share` times a common multiple of the capacities: a whole number, which is fast to compare."""
    units = [max(1, int(most)) for most in capacity]
    whole = lcm(*units)
    return max(int(number) * (whole // most) for number, most in zip(demand, units, strict=True))


def demand_of(gang: Gang, count: int, inventory: Inventory) -> Ints:
    """Return the units that `count` workers take with the PSs for all of them, R numbers."""
    demand: Ints = count * inventory.worker_demand[gang.worker]
    if gang.ps is not None and count:
        ratio = inventory.workers[gang.worker].bandwidth_mbps / inventory.parameter_servers[gang.ps].bandwidth_mbps
        demand = demand + ceil(count * ratio) * inventory.ps_demand[gang.ps]
    return demand


def dominant_share(demand: Ints, capacity: Ints) -> Fraction:
    """Return the exact greatest share of any resource's capacity; a capacity of 0 counts as one unit."""
    return max(Fraction(int(d), max(1, int(c))) for d, c in zip(demand, capacity, strict=True))
