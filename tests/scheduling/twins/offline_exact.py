"""The most that a few jobs can earn, by trying everything: slow, obvious, for tiny instances."""

from collections.abc import Collection, Iterator, Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Ints
from tests.scheduling.twins.elastic_exact import ps_count, worker_slots
from tests.scheduling.twins.weighted_optimum import Way, every_way, ways


def most_rigid(bids: Sequence[Bid], inventory: Inventory, *, slots: int) -> float:
    """Every way of every job at every start, or not at all."""
    used = np.zeros((slots, *inventory.capacity.shape), dtype=np.int64)
    found = [ways(bid, inventory) for bid in bids]

    def best(j: int) -> float:
        if j == len(bids):
            return 0.0
        most = best(j + 1)
        for way, start in product(found[j], range(bids[j].arrival, slots)):
            if start + way.slots > slots or not _ready(bids[j], way, start):
                continue
            window = used[start : start + way.slots]
            if (window + way.held <= inventory.capacity).all():
                window += way.held
                most = max(most, bids[j].utility.at(start + way.slots - bids[j].arrival) + best(j + 1))
                window -= way.held
        return most

    return best(0)


def _ready(bid: Bid, way: Way, start: int) -> bool:
    hosts = np.flatnonzero(way.held.any(axis=1)).tolist()
    return all(start >= bid.arrival + bid.delay[s] for s in hosts)


def most_stopped(bids: Sequence[Bid], inventory: Inventory, *, slots: int) -> float:
    """Jobs that hold any machines in any slot, or none: stopped, resumed and moved at no cost."""
    found = [[way for way in every_way(bid, inventory) if way.exact <= slots] for bid in bids]
    states: dict[tuple[Fraction, ...], float] = {(Fraction(0),) * len(bids): 0.0}
    for t in range(slots):
        able = [[way for way in many if _ready(bid, way, t)] for bid, many in zip(bids, found, strict=True)]
        after: dict[tuple[Fraction, ...], float] = {}
        speeds = {
            tuple(Fraction(0) if way is None else 1 / way[0] for way in chosen)
            for chosen in _together([set(_best(many)) for many in able], inventory)
        }
        for speed in _greatest(speeds):
            for done, worth in states.items():
                now = tuple(min(Fraction(1), d + s) for d, s in zip(done, speed, strict=True))
                ended = [j for j in range(len(bids)) if now[j] == 1 > done[j]]
                total = worth + sum(bids[j].utility.at(t + 1 - bids[j].arrival) for j in ended)
                after[now] = max(after.get(now, -np.inf), total)
        states = after
    return max(states.values())


def _greatest(speeds: Collection[tuple[Fraction, ...]]) -> list[tuple[Fraction, ...]]:
    """Those of which no other is as fast for every job: to be done sooner is never worth less."""
    return [one for one in speeds if not any(one != other and _all_least(one, other) for other in speeds)]


def _all_least(one: tuple[Fraction, ...], other: tuple[Fraction, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


Held = tuple[Fraction, tuple[int, ...]]
"""Slots from start to completion with these machines, and the units that they take, S x R, flat."""


def _best(ways: Sequence[Way]) -> list[Held]:
    """Those of which no other is as fast with no more."""
    kept: list[Held] = []
    for exact, held in sorted((max(way.exact, Fraction(1, 10**6)), tuple(way.held.ravel().tolist())) for way in ways):
        if not any(all(a <= b for a, b in zip(other, held, strict=True)) for _, other in kept):
            kept.append((exact, held))
    return kept


def _together(choices: Sequence[set[Held]], inventory: Inventory) -> Iterator[tuple[Held | None, ...]]:
    """One choice of each job, or none, as far as they fit side by side."""
    capacity = inventory.capacity.ravel()
    for chosen in product(*([None, *many] for many in choices)):
        if (sum((np.array(way[1]) for way in chosen if way is not None), 0 * capacity) <= capacity).all():
            yield chosen


def most_elastic(bids: Sequence[Bid], inventory: Inventory, *, slots: int) -> float:
    """Jobs of one worker type and one PS type: all that can be run side by side in a slot, slot after slot."""
    wanted = [worker_slots(bid, 0, 0) for bid in bids]
    states: dict[tuple[int, ...], float] = {(0,) * len(bids): 0.0}
    for t in range(slots):
        after: dict[tuple[int, ...], float] = {}
        for done, worth in states.items():
            for counts in _side_by_side(bids, inventory, t):
                now = tuple(min(w, d + n) for w, d, n in zip(wanted, done, counts, strict=True))
                ended = [j for j, w in enumerate(wanted) if now[j] == w > done[j]]
                total = worth + sum(bids[j].utility.at(t + 1 - bids[j].arrival) for j in ended)
                after[now] = max(after.get(now, -np.inf), total)
        states = after
    return max(states.values())


def _side_by_side(bids: Sequence[Bid], inventory: Inventory, t: int) -> Iterator[tuple[int, ...]]:
    """Workers of each job that can run in a slot."""
    for counts in product(*(range(bid.chunks + 1) for bid in bids)):
        machines: list[tuple[Bid, Ints]] = []
        for bid, n in zip(bids, counts, strict=True):
            machines += [(bid, inventory.worker_demand[0])] * n
            machines += [(bid, inventory.ps_demand[0])] * ps_count(
                n, inventory.workers[0], inventory.parameter_servers[0]
            )
        if _fit(machines, inventory.capacity.copy(), t):
            yield counts


def _fit(machines: Sequence[tuple[Bid, Ints]], free: Ints, t: int) -> bool:
    if not machines:
        return True
    (bid, demand), rest = machines[0], machines[1:]
    for s in range(len(free)):
        if t >= bid.arrival + bid.delay[s] and (free[s] >= demand).all():
            free[s] -= demand
            if _fit(rest, free, t):
                return True
            free[s] += demand
    return False
