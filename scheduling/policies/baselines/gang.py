"""Gangs: all machines of a job, of its ideal types, placed together or not at all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil

import numpy as np

from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory
from scheduling.model.progress import Machines
from scheduling.model.schedule import Role
from scheduling.model.types import Ints
from scheduling.policies.baselines.capacity import FreeCapacity

LARGEST_GANG = 30
"""Fixed gangs have 1 to this many workers (weighted completion, Section 7)."""


@dataclass(frozen=True)
class Gang:
    """`count` workers of one type and the parameter servers they need, of one type; rings have none."""

    bid: Bid
    worker: int
    ps: int | None
    count: int

    def pace(self, *, spread: bool) -> Fraction:
        """Return the slots in which every worker does a mini-batch; `spread`: on more than one server (eq. 1 and
        14)."""
        return self._pace_spread if spread else self._pace_together

    @cached_property
    def _pace_spread(self) -> Fraction:
        return self._pace(spread=True)

    @cached_property
    def _pace_together(self) -> Fraction:
        return self._pace(spread=False)

    def _pace(self, *, spread: bool) -> Fraction:
        bid = self.bid
        transfer = bid.transfer_time[self.worker] if spread else Fraction(0)
        if self.ps is None:
            return bid.worker_time[self.worker] + (bid.reduce_time + transfer) * Fraction(self.count - 1, self.count)
        return bid.worker_time[self.worker] + bid.ps_time[self.ps] + transfer

    def duration(self, work: Fraction, *, spread: bool) -> int:
        """Return the slots for `work` mini-batches, at least 1."""
        pace = self.pace(spread=spread)
        many, parts = work.numerator * pace.numerator, work.denominator * pace.denominator * self.count
        return max(1, -(-many // parts))


def ideal_gang(bid: Bid, inventory: Inventory, count: int) -> Gang | None:
    """Return a gang of the types m* = argmin(v + 2 pi / b) and p* = argmin U; the first of equals.

    Only types that fit some server count; None if there is none.
    """
    worker_steps = [v + e for v, e in zip(bid.worker_time, bid.transfer_time, strict=True)]
    worker = _fastest(worker_steps, inventory.worker_room)
    if worker is None:
        return None
    if bid.architecture is Architecture.RING:
        return Gang(bid, worker, None, count)
    ps = _fastest(bid.ps_time, inventory.ps_room)
    return None if ps is None else Gang(bid, worker, ps, count)


def fixed_gang(bid: Bid, inventory: Inventory, *, slots: int, seed: int) -> Gang | None:
    """Return the gang that FIFO, AntMan, Tiresias and RRH run, of the ideal types.

    It has N = min(D, a draw from 1 to 30) workers. N is halved (rounded down) while N workers cannot complete the job
    on the empty cluster within `slots` slots; None if one cannot either. The draw is numpy's
    `default_rng([seed, *id]).integers(1, 31)`, id being the UTF-8 bytes of the bid's id: it depends on nothing else.
    """
    rng = np.random.default_rng([seed, *bid.id.encode()])
    gang = ideal_gang(bid, inventory, min(bid.chunks, int(rng.integers(1, LARGEST_GANG + 1))))
    empty = FreeCapacity(inventory, now=0, slots=slots)
    everywhere = np.ones(len(inventory.servers), dtype=np.bool_)
    while gang is not None and find_place(gang, empty, Fraction(bid.work), usable=everywhere) is None:
        gang = replace(gang, count=gang.count // 2) if gang.count > 1 else None
    return gang


def find_place(gang: Gang, room: FreeCapacity, work: Fraction, *, usable: np.ndarray, lost: int = 0) -> Machines | None:
    """Find machines for a gang from now until `work` mini-batches are done; None if there are none.

    Parameters
    ----------
    usable
        Servers that may be used, S flags.
    lost
        Slots at the beginning in which no work is done.

    Returns
    -------
    Machines or None
        On one server with one PS (q = 1) if any has the room, the fullest of these: the one with the least share of
        the cluster's capacity left, summed over resources. Else spread: a host for g of the workers and all
        max(1, ceil((N - g) b / B)) PSs, the one where g is largest; the other N - g workers on the servers with room
        for the most of them. The first of equals.

    Notes
    -----
    Exact: it finds a place wherever there is one with these types, this count and one host of PSs.
    """
    for spread in (False, True):
        slots = lost + gang.duration(work, spread=spread)
        if slots > room.slots:
            continue
        free = room.free(slots)
        free[~usable] = -1
        machines = machines_in(free, gang, room.inventory, spread=spread)
        if machines is not None:
            return machines
    return None


def machines_in(free: Ints, gang: Gang, inventory: Inventory, *, spread: bool) -> Machines | None:
    """Find machines for a gang in `free` units, S x R (below 0 where a server may not be used), as in `find_place`.

    The machines are on one server, or `spread` over as few servers as possible.
    """
    return _spread(gang, inventory, free) if spread else _together(gang, inventory, free)


def _fastest(steps: Sequence[Fraction], room: Sequence[int]) -> int | None:
    hosted = [i for i in range(len(steps)) if room[i]]
    return min(hosted, key=lambda i: (steps[i], i), default=None)


def _together(gang: Gang, inventory: Inventory, free: Ints) -> Machines | None:
    need = gang.count * inventory.worker_demand[gang.worker]
    if gang.ps is not None:
        need = need + inventory.ps_demand[gang.ps]
    fitting = np.flatnonzero((free >= need).all(axis=1))
    if not len(fitting):
        return None
    left = (free[fitting] / np.maximum(1, inventory.total)).sum(axis=1)
    server = int(fitting[left.argmin()])
    rows = [(Role.WORKER, server, gang.worker, gang.count)]
    if gang.ps is not None:
        rows.append((Role.PS, server, gang.ps, 1))
    return tuple(sorted(rows))


def _spread(gang: Gang, inventory: Inventory, free: Ints) -> Machines | None:
    room = room_for(free, inventory.worker_demand[gang.worker])
    if room.sum() < gang.count:
        return None
    rows: list[tuple[Role, int, int, int]] = []
    beside = 0
    if gang.ps is not None:
        hosted = _host(gang, gang.ps, inventory, free, room)
        if hosted is None:
            return None
        host, beside, pss = hosted
        rows.append((Role.PS, host, gang.ps, pss))
        if beside:
            rows.append((Role.WORKER, host, gang.worker, beside))
        room[host] = 0
    left = gang.count - beside
    for server in np.argsort(-room, kind="stable"):
        if not left:
            break
        number = min(left, int(room[server]))
        if number:
            rows.append((Role.WORKER, int(server), gang.worker, number))
        left -= number
    return tuple(sorted(rows))


def _host(gang: Gang, ps: int, inventory: Inventory, free: Ints, room: Ints) -> tuple[int, int, int] | None:
    """Return the server of the PSs, the number of workers on it and the number of PSs; None if no server fits."""
    elsewhere = room.sum() - room
    for pss, fewest, most in _pss_beside(gang, ps, inventory):
        rest = free - pss * inventory.ps_demand[ps]
        beside = np.minimum(room_for(rest, inventory.worker_demand[gang.worker]), most)
        fits = (rest >= 0).all(axis=1) & (beside >= fewest) & (elsewhere + beside >= gang.count)
        if fits.any():
            server = int(np.where(fits, beside, -1).argmax())
            return server, int(beside[server]), pss
    return None


def _pss_beside(gang: Gang, ps: int, inventory: Inventory) -> Iterator[tuple[int, int, int]]:
    """Yield numbers of PSs with the fewest and most workers on their server that need this number, most workers
    first."""
    ratio = inventory.workers[gang.worker].bandwidth_mbps / inventory.parameter_servers[ps].bandwidth_mbps
    most = gang.count - 1
    while most >= 0:
        pss = max(1, ceil((gang.count - most) * ratio))
        fewest = max(0, gang.count - int(pss / ratio))
        yield pss, fewest, most
        most = fewest - 1


def room_for(free: Ints, demand: Ints) -> Ints:
    """Return how many machines of one type each server has room for, S numbers."""
    needed = demand > 0
    fit: Ints = np.maximum(0, (free[:, needed] // demand[needed]).min(axis=1))
    return fit
