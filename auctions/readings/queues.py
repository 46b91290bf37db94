"""Work that workers did from queues, and will do as forecast, for charts and REST."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, floor

import numpy as np
from django.contrib.auth.models import User

from accounts.rights import operates
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.domain.ps_assignments import assigned as ps_assignments_of
from auctions.models import Bid, Market, Preemption, PsAssignment, PsHost, QueuedChunks, Segment
from auctions.state.market_snapshot import market_snapshot, one_version
from auctions.state.queue_rows import joined
from cluster.database.prepared import Prepared
from cluster.models import Server, ServerKind
from scheduling.model.types import Ints
from scheduling.preemptive.record import Segment as CoreSegment
from scheduling.preemptive.use import units_in_use
from scheduling.preemptive.workers import TICKS

EXACT = 1e-6
"""Times that are nearer to each other than this are equal, slots."""


@dataclass(frozen=True)
class Stretch:
    """A worker is busy with chunks of one bid from `start` to `end`, slots; future times are forecasts."""

    sequence: int
    server_id: int
    machine_type_id: int
    worker: int
    """Number of the worker; -1 in the cloud, which has a worker for each chunk."""
    count: int
    start: float
    end: float

    @property
    def slots(self) -> range:
        """Slots in which it is busy at least part of the time."""
        return range(floor(self.start), ceil(self.end))


@dataclass(frozen=True)
class Displacement:
    """A preemption: a worker interrupted a chunk for one of higher priority."""

    at: float
    """Time, slots."""
    by: int | None
    """Sequence number of the preempting bid; None if the viewer may not see it."""
    server: str
    worker: int


_QUEUED = Prepared(lambda market: QueuedChunks.objects.filter(bid__market=market).values_list("pk")[:1], int)


@one_version()
def stretches(market: Market, *, start: int, end: int) -> tuple[Stretch, ...]:
    """Return what workers do for all bids in slots [start, end), sorted by bid and worker; empty without queues."""
    if not _QUEUED(market.pk):
        return ()
    past = Segment.objects.filter(queued__bid__market=market, start__lt=end * TICKS, end__gt=start * TICKS)
    where = ("queued__server_id", "queued__machine_type_id", "queued__worker")
    rows = [tuple(row) for row in past.values_list("queued__bid__sequence", *where, "start", "end", "count")]
    rows += market_snapshot(market).book.runs().segments
    return tuple(
        Stretch(bid, server, machine, worker, count, first / TICKS, last / TICKS)
        for bid, server, machine, worker, first, last, count in joined(rows)
        if first < end * TICKS and last > start * TICKS
    )


@one_version()
def stretches_of(bid: Bid) -> tuple[Stretch, ...]:
    """Return what workers did and will do for one bid."""
    if bid.start_slot is None or not bid.queued.exists():
        return ()
    end = bid.completion_slot if bid.completion_slot is not None else bid.market.now + 1
    return tuple(s for s in stretches(bid.market, start=bid.start_slot, end=end) if s.sequence == bid.sequence)


def busy(snapshot: InventorySnapshot, found: Iterable[Stretch], *, start: int, end: int) -> Ints:
    """Return units that workers use in some part of each slot of [start, end), T x S x R."""
    servers = {key: i for i, key in enumerate(snapshot.server_ids)}
    types = {key: i for i, key in enumerate(snapshot.worker_ids)}
    known = (
        (servers[s.server_id], types[s.machine_type_id], s.worker, s.count, s.slots)
        for s in found
        if s.server_id in servers and s.machine_type_id in types
    )
    return units_in_use(known, snapshot.inventory.worker_demand, servers=len(servers), start=start, end=end)


def pss_busy(market: Market, snapshot: InventorySnapshot, *, start: int, end: int) -> Ints:
    """Return units used by parameter servers of the edge in past slots of [start, end), T x S x R.

    The number is that of the busiest instant of each slot, because it is not stored which parameter server of a server
    a job had. The cloud is not counted: it always has another parameter server.
    """
    used = np.zeros((end - start, *snapshot.inventory.capacity.shape), dtype=np.int64)
    rows = PsAssignment.objects.filter(bid__market=market, start__lt=end * TICKS, end__gt=start * TICKS)
    steps: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for server, machine, first, last in rows.values_list("server_id", "machine_type_id", "start", "end"):
        if server in snapshot.server_ids and machine in snapshot.ps_ids:
            place = snapshot.server_ids.index(server), snapshot.ps_ids.index(machine)
            steps[place] += [(first, 1), (last, -1)]
    for (s, p), changes in steps.items():
        used[:, s] += _peaks(sorted(changes), start=start, end=end)[:, None] * snapshot.inventory.ps_demand[p]
    return used


def _peaks(changes: Iterable[tuple[int, int]], *, start: int, end: int) -> Ints:
    """Return the largest number in use at once in each slot of [start, end).

    `changes` are pairs of tick and change of the number in use, in order of time.
    """
    peaks = np.zeros(end - start, dtype=np.int64)
    number, since = 0, start * TICKS
    for at, change in changes:
        first, last = max(start, since // TICKS) - start, min(end, -(-at // TICKS)) - start
        if since < at and first < last:
            np.maximum(peaks[first:last], number, out=peaks[first:last])
        number, since = number + change, max(at, since)
    return peaks


def workers_by_slot(found: Sequence[Stretch]) -> tuple[int, Ints]:
    """Return the first slot, and the number of workers that are busy in some part of each slot from then on."""
    if not found:
        return 0, np.zeros(0, dtype=np.int64)
    first, last = min(s.slots.start for s in found), max(s.slots.stop for s in found)
    places = {(s.server_id, s.machine_type_id, s.worker, slot): s.count for s in found for slot in s.slots}
    counts = np.zeros(last - first, dtype=np.int64)
    for (*_, slot), count in places.items():
        counts[slot - first] += count
    return first, counts


def ps_assignments(market: Market, *, start: int, end: int) -> tuple[Stretch, ...]:
    """Return parameter servers that queued jobs had in slots [start, end); the cloud's are on its first server."""
    rows = PsAssignment.objects.filter(bid__market=market, start__lt=end * TICKS, end__gt=start * TICKS)
    cloud = Server.objects.filter(cluster=market.cluster_id, kind=ServerKind.CLOUD).order_by("position").first()
    columns = rows.values_list("bid__sequence", "server_id", "machine_type_id", "start", "end")
    return tuple(
        Stretch(bid, server if server is not None else cloud.pk, machine, 0, 1, first / TICKS, last / TICKS)
        for bid, server, machine, first, last in columns
        if server is not None or cloud is not None
    )


@one_version()
def ps_at(market: Market, found: Sequence[Stretch], *, at: float) -> dict[int, Stretch]:
    """Return the parameter server of each bid that workers process at a time, by the bid's sequence number.

    What the market has not stored yet is assigned as it will be. A bid without one (`PsHost.NONE`) is missing.

    Parameters
    ----------
    market
        The market.
    found
        What workers do in the slot of that time, from `stretches`.
    at
        A time, slots.
    """
    runs = {s.sequence: _run_at([r for r in found if r.sequence == s.sequence], at) for s in found if _is_at(s, at)}
    tick = int(at * TICKS)
    rows = PsAssignment.objects.filter(bid__market=market, bid__sequence__in=runs, start__lte=tick, end__gt=tick)
    columns = ("bid__sequence", "host", "server_id", "machine_type_id", "start")
    known = list(rows.values_list(*columns))
    if len(known) < len(runs):
        snapshot = market_snapshot(market).book.snapshot
        segments = _not_stored(market, snapshot, before=floor(at) + 1)
        known += [
            (one.bid.sequence, one.host, one.server_id, one.machine_type_id, one.start)
            for one in ps_assignments_of(segments, snapshot, market.pk)
            if one.start <= tick < one.end and one.bid.sequence in runs
        ]
    cloud: int | None = None
    if any(host in (PsHost.CLOUD, PsHost.FALLBACK) for _, host, *_ in known):
        cloud = Server.objects.filter(cluster=market.cluster_id, kind=ServerKind.CLOUD).earliest("position").pk
    return {
        bid: Stretch(bid, place, machine, 0, 1, start / TICKS, runs[bid][1])
        for bid, host, server, machine, start in known
        if (place := cloud if host in (PsHost.CLOUD, PsHost.FALLBACK) else server) is not None
    }


def _not_stored(market: Market, snapshot: InventorySnapshot, *, before: int) -> list[CoreSegment]:
    """Return what workers do before a slot and is not in rows yet, as forecast."""
    servers = {key: i for i, key in enumerate(snapshot.server_ids)}
    types = {key: i for i, key in enumerate(snapshot.worker_ids)}
    return [
        CoreSegment(first, min(last, before * TICKS), servers[server], types[machine], worker, str(bid), count)
        for bid, server, machine, worker, first, last, count in market_snapshot(market).book.runs().segments
        if first < before * TICKS
    ]


def _is_at(stretch: Stretch, at: float) -> bool:
    return stretch.start <= at < stretch.end


def _run_at(mine: Sequence[Stretch], at: float) -> tuple[float, float]:
    """Return the time around `at` in which at least one worker is busy throughout, as far as it is known here."""
    found: list[tuple[float, float]] = []
    for stretch in sorted(mine, key=lambda s: s.start):
        if found and stretch.start <= found[-1][1] + EXACT:
            found[-1] = found[-1][0], max(found[-1][1], stretch.end)
        else:
            found.append((stretch.start, stretch.end))
    return next(run for run in found if run[0] <= at < run[1])


def displacements(bid: Bid, viewer: User) -> tuple[Displacement, ...]:
    """Return the preemptions of a bid's chunks, in order of time; only operators see other users' preempting bids."""
    rows = Preemption.objects.filter(queued__bid=bid).order_by("at", "pk")
    sees_all = operates(viewer, bid.market.cluster)
    columns = ("at", "by__bid__sequence", "by__bid__owner_id", "queued__server__name", "queued__worker")
    return tuple(
        Displacement(at / TICKS, by if sees_all or owner == viewer.pk else None, server, worker)
        for at, by, owner, server, worker in rows.values_list(*columns)
    )
