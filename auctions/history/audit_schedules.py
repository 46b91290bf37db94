"""Checks of schedules: commitments against grants, capacity, arrival and work."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from math import ceil

import numpy as np
from django.db.models import Max, Min, QuerySet

from auctions.domain.bid_conversion import core_bid
from auctions.domain.inventory_snapshot import Holding, InventorySnapshot, units_held
from auctions.models import (
    ADMITTED,
    Bid,
    Commitment,
    Event,
    EventKind,
    Market,
    PlanChange,
    PolicyVersion,
)
from auctions.state.grants import Grant
from cluster.database.paging import in_pages, pages
from scheduling.model.bid import Architecture
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.inventory import Inventory
from scheduling.model.progress import constellations
from scheduling.model.progress import work_done as progress
from scheduling.model.schedule import Placement, Role
from scheduling.registry import POLICIES

STRETCH = 256
"""Number of slots examined at once, which limits the memory."""


def commitments_match(market: Market, grants: Mapping[int, Grant]) -> Iterator[str]:
    """Check that each job holds what its receipt and later moves grant, up to the slot it ended in, others nothing."""
    for page in pages(Bid.objects.filter(market=market, seal=None).only("pk", "sequence", "state"), by="sequence"):
        held: dict[int, list[Holding]] = defaultdict(list)
        rows = Commitment.objects.filter(bid__in=page)
        for pk, *row in rows.values_list("bid_id", "server_id", "machine_type_id", "count", "start", "end"):
            held[pk].append(Holding(*row))
        for bid in page:
            if bid.pk in grants and bid.state in ADMITTED:
                if _sorted(grants[bid.pk].held) != _sorted(held[bid.pk]):
                    yield f"bid {bid.sequence} does not hold its grant"
            elif bid.pk in held:
                yield f"bid {bid.sequence} ({bid.state}) holds machines it was not granted"


def plans_match(market: Market, grants: Mapping[int, Grant]) -> Iterator[str]:
    """Check that start and completion of each job were granted last, and the steps of its plan match the events."""
    columns = ("pk", "sequence", "state", "start_slot", "completion_slot")
    for page in pages(Bid.objects.filter(market=market, seal=None).only(*columns), by="sequence"):
        kept: dict[int, list[tuple[int, int, int | None, int | None]]] = defaultdict(list)
        for row in PlanChange.objects.filter(bid__in=page).order_by("version"):
            kept[row.bid_id].append((row.version, row.slot, row.start, row.completion))
        for bid in page:
            grant = grants.get(bid.pk)
            if grant is None:
                if bid.pk in kept:
                    yield f"bid {bid.sequence} ({bid.state}) has a plan nobody made"
                continue
            if grant.window != (bid.start_slot, bid.completion_slot):
                yield f"bid {bid.sequence} was granted slots {grant.window}, its row says otherwise"
            if grant.changes != kept[bid.pk]:
                yield f"bid {bid.sequence}: the steps kept of its plan are not those of the events"


def within_capacity(market: Market) -> list[str]:
    """Check that in no slot a server holds more than its capacity at the time when the slot could last be traded."""
    rows = Commitment.objects.filter(bid__market=market)
    window = rows.aggregate(first=Min("start"), last=Max("end"))
    if window["first"] is None:
        return []
    problems = []
    for snapshot, start, end in _reigns(market, first=window["first"], last=window["last"]):
        for low, high, near in _held(rows, start=start, end=end):
            over = units_held(snapshot, near, start=low, end=high) - snapshot.inventory.capacity
            problems += [
                f"server {snapshot.inventory.servers[s]} is {over[t, s, r]} {snapshot.inventory.resources[r]} over"
                f" capacity in slot {low + t}"
                for t, s, r in np.argwhere(over > 0)
            ]
    return problems


def _held(rows: QuerySet[Commitment], *, start: int, end: int) -> Iterator[tuple[int, int, list[Holding]]]:
    """Yield stretches of slots [low, high) between these two in which something is held, and what is held in each."""
    columns = ("server_id", "machine_type_id", "count", "start", "end")
    low: int | None = start
    while low is not None and low < end:
        high = min(low + STRETCH, end)
        near = [Holding(*row) for row in rows.filter(start__lt=high, end__gt=low).values_list(*columns)]
        if near:
            yield low, high, near
            low = high
        else:  # a market may stand idle for years
            low = rows.filter(start__gte=high).aggregate(first=Min("start"))["first"]


def after_arrival_and_delay(market: Market, grants: Mapping[int, Grant]) -> Iterator[str]:
    """Check that nothing is held on a server before the bid's arrival plus its upload delay there."""
    for bid, _, core, placements in _granted(market, grants):
        for p in placements:
            if p.start < bid.arrival_slot + core.delay[p.server]:
                yield (
                    f"bid {bid.sequence} starts on server {p.server} in slot {p.start},"
                    f" before {bid.arrival_slot} + {core.delay[p.server]}"
                )
        if bid.arrival_slot != core.arrival:
            yield f"bid {bid.sequence} arrived in slot {bid.arrival_slot}, its core says {core.arrival}"


def work_done(market: Market, grants: Mapping[int, Grant]) -> Iterator[str]:
    """Check that every job is granted its whole work by its completion, and never more machines than it may use."""
    names = PolicyVersion.objects.filter(market=market).values_list("name", flat=True)
    pause = min((POLICIES[name].pause for name in names), default=0)
    snapshots = _snapshots(market)
    for bid, grant, core, placements in _granted(market, grants):
        inventory = snapshots[grant.inventory_version].inventory
        for problem in _missing_work(bid, core, placements, grant, inventory, pause=pause):
            yield f"bid {bid.sequence} is granted {problem}"


def _missing_work(
    bid: Bid, core: CoreBid, placements: tuple[Placement, ...], grant: Grant, inventory: Inventory, *, pause: int
) -> Iterator[str]:
    for _, _, machines in constellations(placements):
        workers = [p for p in machines if p.role is Role.WORKER]
        pss = [p for p in machines if p.role is Role.PS]
        if not workers or (not pss and core.architecture is Architecture.PS):
            yield "no workers or no parameter servers"
            return
        if sum(p.count for p in workers) > core.chunks:
            yield f"more workers than its {core.chunks} chunks"
        if core.architecture is Architecture.PS:
            yield from _missing_bandwidth(workers, pss, inventory)
    if grant.queued_from is not None:  # see audit_queues
        return
    if grant.completion is not None and bid.ended_slot is None:
        done = progress(core, placements, until=grant.completion, pause=pause)
        if done < core.work:
            yield f"{float(done):.1f} of {core.work} mini-batches"


def _missing_bandwidth(workers: list[Placement], pss: list[Placement], inventory: Inventory) -> Iterator[str]:
    hosts = {p.server for p in pss}
    away = sum(p.count * inventory.workers[p.type].bandwidth_mbps for p in workers if p.server not in hosts)
    have = sum(p.count * inventory.parameter_servers[p.type].bandwidth_mbps for p in pss)
    if away > have:
        yield f"parameter servers for {float(have):g} Mbit/s, its workers need {ceil(away)}"


def _granted(
    market: Market, grants: Mapping[int, Grant]
) -> Iterator[tuple[Bid, Grant, CoreBid, tuple[Placement, ...]]]:
    """Yield admitted bids with their grants, in positions of the inventory of the last grant."""
    snapshots = _snapshots(market)
    admissions = Event.objects.filter(market=market, kind=EventKind.ADMITTED, bid__seal=None)
    bids = Bid.objects.filter(market=market, pk__in=admissions.values("bid"))
    for bid in in_pages(bids.defer("body"), by="sequence"):
        grant = grants[bid.pk]
        snapshot = snapshots[grant.inventory_version]
        core = CoreBid.from_json(bid.core_bid)
        if grant.inventory_version != bid.inventory_version:
            core = core_bid(bid.resolved_request, snapshot, bid_id=core.id, arrival=core.arrival)
        yield bid, grant, core, snapshot.placements([h for h in grant.held if h.end > h.start])


def _snapshots(market: Market) -> dict[int, InventorySnapshot]:
    events = Event.objects.filter(market=market, kind__in=(EventKind.OPENED, EventKind.INVENTORY)).order_by("version")
    return {event.version: InventorySnapshot.from_json(event.payload) for event in events}


def _reigns(market: Market, *, first: int, last: int) -> Iterator[tuple[InventorySnapshot, int, int]]:
    """Yield each snapshot with the slots [start, end) in which it was the last one in force."""
    events = list(
        Event.objects.filter(market=market, kind__in=(EventKind.OPENED, EventKind.INVENTORY)).order_by("version")
    )
    ends = [event.slot for event in events[1:]] + [last]
    start = first
    for event, end in zip(events, ends, strict=True):
        if end > start:
            yield InventorySnapshot.from_json(event.payload), start, min(end, last)
            start = min(end, last)


def _sorted(holdings: list[Holding]) -> list[tuple[int, int, int, int, int]]:
    return sorted((h.server_id, h.machine_type_id, h.count, h.start, h.end) for h in holdings)
