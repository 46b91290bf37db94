"""Places of a gang, by trying every spread of its workers over the servers."""

from collections.abc import Iterator
from math import ceil

from scheduling.model.inventory import Inventory
from scheduling.model.types import Ints
from scheduling.policies.baselines.gang import Gang


def spreads(count: int, servers: int) -> Iterator[tuple[int, ...]]:
    if servers == 1:
        yield (count,)
        return
    for first in range(count + 1):
        for rest in spreads(count - first, servers - 1):
            yield (first, *rest)


def fits(gang: Gang, inventory: Inventory, free: Ints, counts: tuple[int, ...], host: int, pss: int) -> bool:
    for s, count in enumerate(counts):
        need = count * inventory.worker_demand[gang.worker]
        if gang.ps is not None and s == host:
            need = need + pss * inventory.ps_demand[gang.ps]
        if (count or (s == host and pss)) and (need > free[s]).any():
            return False
    return True


def most_beside(gang: Gang, inventory: Inventory, free: Ints) -> int | None:
    """The most workers that can stand beside the PSs (in a ring: on one server); None if the gang has no place."""
    best: int | None = None
    servers = len(inventory.servers)
    for counts in spreads(gang.count, servers):
        if gang.ps is None:
            if fits(gang, inventory, free, counts, -1, 0):
                best = max(best or 0, max(counts))
            continue
        ratio = inventory.workers[gang.worker].bandwidth_mbps / inventory.parameter_servers[gang.ps].bandwidth_mbps
        for host in range(servers):
            pss = max(1, ceil((gang.count - counts[host]) * ratio))
            if fits(gang, inventory, free, counts, host, pss):
                best = max(best or 0, counts[host])
    return best
