"""Dorm's program by trying every division of the machines."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import ceil

import numpy as np

from scheduling.model.inventory import Inventory
from scheduling.model.types import Ints
from scheduling.policies.baselines.dorm_program import ADJUSTED, EXCESS, Limits, Share, ShareRequest


def best(requests: Sequence[ShareRequest], inventory: Inventory, free: Ints, limits: Limits) -> Fraction:
    """The greatest objective of any division."""
    worths = (
        value_of(shares, requests, inventory, free, limits)
        for shares in product(*(_choices(w, inventory, free) for w in requests))
    )
    return max((one for one in worths if one is not None), default=Fraction(0))


def value_of(
    shares: Sequence[Share | None], requests: Sequence[ShareRequest], inventory: Inventory, free: Ints, limits: Limits
) -> Fraction | None:
    """Its objective, exact; None if it breaks a rule."""
    total = inventory.capacity.sum(axis=0)
    used: list[Ints] = [_used(share, request, inventory) for share, request in zip(shares, requests, strict=True)]
    changed = [w.held is not None and not _same(s, w.held) for s, w in zip(shares, requests, strict=True)]
    if (sum((u for u, w in zip(used, requests, strict=True) if not w.fixed), np.zeros_like(free)) > free).any():
        return None
    if sum(changed) > limits.adjustments or any(c and w.fixed for c, w in zip(changed, requests, strict=True)):
        return None
    if not all(_allowed(*row, inventory) for row in zip(shares, requests, changed, strict=True)):
        return None
    gain, unfair = -Fraction(ADJUSTED) * sum(changed), Fraction(0)
    for share, request, units in zip(shares, requests, used, strict=True):
        if not request.fixed:
            gain += sum(Fraction(int(u), int(t)) for u, t in zip(units.sum(axis=0), total, strict=True) if t)
        unfair += _one(request, inventory) * abs((0 if share is None else share.count) - request.target)
    return gain - Fraction(EXCESS) * max(Fraction(0), unfair - Fraction(limits.unfairness))


def _choices(request: ShareRequest, inventory: Inventory, free: Ints) -> Iterator[Share | None]:
    yield request.held
    servers = len(inventory.servers)
    counts = [range(request.gang.bid.chunks + 1 if usable else 1) for usable in request.usable]
    for workers in product(*counts):
        need = ceil(sum(workers) * _ratio(request, inventory))
        spreads = product(*(range(need + 1 if usable else 1) for usable in request.usable))
        for pss in spreads if request.gang.ps is not None else iter([(0,) * servers]):
            if sum(pss) == need and any(workers):
                yield Share(np.array(workers), np.array(pss))


def _allowed(share: Share | None, request: ShareRequest, changed: bool, inventory: Inventory) -> bool:
    if share is None:
        return request.held is None
    if request.held is not None and not changed:
        return True
    return any(share.count in some for some in request.counts)


def _same(share: Share | None, held: Share) -> bool:
    return share is not None and bool((share.workers == held.workers).all() and (share.pss == held.pss).all())


def _used(share: Share | None, request: ShareRequest, inventory: Inventory) -> Ints:
    used = np.zeros_like(inventory.capacity)
    if share is not None:
        used += share.workers[:, None] * inventory.worker_demand[request.gang.worker]
        if request.gang.ps is not None:
            used += share.pss[:, None] * inventory.ps_demand[request.gang.ps]
    return used


def _ratio(request: ShareRequest, inventory: Inventory) -> Fraction:
    if request.gang.ps is None:
        return Fraction(0)
    ratio: Fraction = (
        inventory.workers[request.gang.worker].bandwidth_mbps
        / inventory.parameter_servers[request.gang.ps].bandwidth_mbps
    )
    return ratio


def _one(request: ShareRequest, inventory: Inventory) -> Fraction:
    """Dominant share of a worker and its part of a PS."""
    shares: list[Fraction] = []
    for r, capacity in enumerate(inventory.capacity.sum(axis=0).tolist()):
        units = Fraction(int(inventory.worker_demand[request.gang.worker, r]))
        if request.gang.ps is not None:
            units += _ratio(request, inventory) * int(inventory.ps_demand[request.gang.ps, r])
        shares.append(units / max(1, capacity))
    return max(shares)
