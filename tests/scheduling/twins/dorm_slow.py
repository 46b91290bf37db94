"""Dorm's program by trying every division of the machines."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from math import ceil

import numpy as np

from scheduling.model.inventory import Inventory
from scheduling.model.types import Ints
from scheduling.policies.baselines.dorm_program import ADJUSTED, EXCESS, Limits, Share, Wish


def best(wishes: Sequence[Wish], inventory: Inventory, free: Ints, limits: Limits) -> Fraction:
    """The greatest objective of any division."""
    worths = (
        value_of(shares, wishes, inventory, free, limits)
        for shares in product(*(_choices(w, inventory, free) for w in wishes))
    )
    return max((one for one in worths if one is not None), default=Fraction(0))


def value_of(
    shares: Sequence[Share | None], wishes: Sequence[Wish], inventory: Inventory, free: Ints, limits: Limits
) -> Fraction | None:
    """Its objective, exact; None if it breaks a rule."""
    total = inventory.capacity.sum(axis=0)
    used: list[Ints] = [_used(share, wish, inventory) for share, wish in zip(shares, wishes, strict=True)]
    changed = [w.held is not None and not _same(s, w.held) for s, w in zip(shares, wishes, strict=True)]
    if (sum((u for u, w in zip(used, wishes, strict=True) if not w.fixed), np.zeros_like(free)) > free).any():
        return None
    if sum(changed) > limits.adjustments or any(c and w.fixed for c, w in zip(changed, wishes, strict=True)):
        return None
    if not all(_allowed(*row, inventory) for row in zip(shares, wishes, changed, strict=True)):
        return None
    gain, unfair = -Fraction(ADJUSTED) * sum(changed), Fraction(0)
    for share, wish, units in zip(shares, wishes, used, strict=True):
        if not wish.fixed:
            gain += sum(Fraction(int(u), int(t)) for u, t in zip(units.sum(axis=0), total, strict=True) if t)
        unfair += _one(wish, inventory) * abs((0 if share is None else share.count) - wish.target)
    return gain - Fraction(EXCESS) * max(Fraction(0), unfair - Fraction(limits.unfairness))


def _choices(wish: Wish, inventory: Inventory, free: Ints) -> Iterator[Share | None]:
    yield wish.held
    servers = len(inventory.servers)
    counts = [range(wish.gang.bid.chunks + 1 if usable else 1) for usable in wish.usable]
    for workers in product(*counts):
        need = ceil(sum(workers) * _ratio(wish, inventory))
        spreads = product(*(range(need + 1 if usable else 1) for usable in wish.usable))
        for pss in spreads if wish.gang.ps is not None else iter([(0,) * servers]):
            if sum(pss) == need and any(workers):
                yield Share(np.array(workers), np.array(pss))


def _allowed(share: Share | None, wish: Wish, changed: bool, inventory: Inventory) -> bool:
    if share is None:
        return wish.held is None
    if wish.held is not None and not changed:
        return True
    return any(share.count in some for some in wish.counts)


def _same(share: Share | None, held: Share) -> bool:
    return share is not None and bool((share.workers == held.workers).all() and (share.pss == held.pss).all())


def _used(share: Share | None, wish: Wish, inventory: Inventory) -> Ints:
    used = np.zeros_like(inventory.capacity)
    if share is not None:
        used += share.workers[:, None] * inventory.worker_demand[wish.gang.worker]
        if wish.gang.ps is not None:
            used += share.pss[:, None] * inventory.ps_demand[wish.gang.ps]
    return used


def _ratio(wish: Wish, inventory: Inventory) -> Fraction:
    if wish.gang.ps is None:
        return Fraction(0)
    ratio: Fraction = (
        inventory.workers[wish.gang.worker].bandwidth_mbps / inventory.parameter_servers[wish.gang.ps].bandwidth_mbps
    )
    return ratio


def _one(wish: Wish, inventory: Inventory) -> Fraction:
    """Dominant share of a worker and its part of a PS."""
    shares: list[Fraction] = []
    for r, capacity in enumerate(inventory.capacity.sum(axis=0).tolist()):
        units = Fraction(int(inventory.worker_demand[wish.gang.worker, r]))
        if wish.gang.ps is not None:
            units += _ratio(wish, inventory) * int(inventory.ps_demand[wish.gang.ps, r])
        shares.append(units / max(1, capacity))
    return max(shares)
