"""Checks of schedules: commitments against grants, capacity, arrival and work, and the replay."""

from collections import defaultdict
from collections.abc import Iterator
from math import ceil

import numpy as np

from auctions.domain.bid_conversion import core_bid
from auctions.domain.inventory_snapshot import Holding, InventorySnapshot, units_held
from auctions.history.replay import Replayed, recorded_receipts, whole_replay
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
from auctions.state.grants import Grant, grants_of
from scheduling.model.bid import Architecture
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.inventory import Inventory
from scheduling.model.progress import constellations
from scheduling.model.progress import work_done as progress
from scheduling.model.schedule import Placement, Role
from scheduling.registry import POLICIES

STRETCH = 256
"""Number of slots examined at once, which limits the memory."""


def commitments_match(market: Market) -> list[str]:
    """Check that each job holds what its receipt and later moves grant, up to the slot it ended in, others nothing."""
    held: dict[int, list[Holding]] = defaultdict(list)
    rows = Commitment.objects.filter(bid__market=market)
    for pk, *row in rows.values_list("bid_id", "server_id", "machine_type_id", "count", "start", "end"):
        held[pk].append(Holding(*row))
    problems = [
        f"bid {grant.bid.sequence} does not hold its grant"
        for pk, grant in grants_of(market).items()
        if grant.bid.state in ADMITTED and _sorted(grant.held) != _sorted(held.pop(pk, []))
    ]
    strangers = Bid.objects.filter(pk__in=held).order_by("sequence")
    return problems + [f"bid {bid.sequence} ({bid.state}) holds machines it was not granted" for bid in strangers]


def plans_match(market: Market) -> list[str]:
    """Check that start and completion of each job were granted last, and the steps of its plan match the events."""
    kept: dict[int, list[tuple[int, int, int | None, int | None]]] = defaultdict(list)
    for row in PlanChange.objects.filter(bid__market=market).order_by("version"):
        kept[row.bid_id].append((row.version, row.slot, row.start, row.completion))
    problems = []
    for pk, grant in grants_of(market).items():
        if grant.window != (grant.bid.start_slot, grant.bid.completion_slot):
            problems.append(f"bid {grant.bid.sequence} was granted slots {grant.window}, its row says otherwise")
        if grant.changes != kept.pop(pk, []):
            problems.append(f"bid {grant.bid.sequence}: the steps kept of its plan are not those of the events")
    strangers = Bid.objects.filter(pk__in=kept).order_by("sequence")
    return problems + [f"bid {bid.sequence} ({bid.state}) has a plan nobody made" for bid in strangers]


def within_capacity(market: Market) -> list[str]:
    """Check that in no slot a server holds more than its capacity at the time when the slot could last be traded."""
    rows = Commitment.objects.filter(bid__market=market).values_list(
        "server_id", "machine_type_id", "count", "start", "end"
    )
    holdings = [Holding(*row) for row in rows]
    if not holdings:
        return []
    first, last = min(h.start for h in holdings), max(h.end for h in holdings)
    problems = []
    for snapshot, start, end in _reigns(market, first=first, last=last):
        for low in range(start, end, STRETCH):
            high = min(low + STRETCH, end)
            near = [h for h in holdings if h.start < high and h.end > low]
            over = units_held(snapshot, near, start=low, end=high) - snapshot.inventory.capacity
            problems += [
                f"server {snapshot.inventory.servers[s]} is {over[t, s, r]} {snapshot.inventory.resources[r]} over"
                f" capacity in slot {low + t}"
                for t, s, r in np.argwhere(over > 0)
            ]
    return problems


def after_arrival_and_delay(market: Market) -> list[str]:
    """Check that nothing is held on a server before the bid's arrival plus its upload delay there."""
    problems = []
    for grant, core, placements in _granted(market):
        bid = grant.bid
        problems += [
            f"bid {bid.sequence} starts on server {p.server} in slot {p.start},"
            f" before {bid.arrival_slot} + {core.delay[p.server]}"
            for p in placements
            if p.start < bid.arrival_slot + core.delay[p.server]
        ]
        if bid.arrival_slot != core.arrival:
            problems.append(f"bid {bid.sequence} arrived in slot {bid.arrival_slot}, its core says {core.arrival}")
    return problems


def work_done(market: Market) -> list[str]:
    """Check that every job is granted its whole work by its completion, and never more machines than it may use."""
    names = PolicyVersion.objects.filter(market=market).values_list("name", flat=True)
    pause = min((POLICIES[name].pause for name in names), default=0)
    snapshots = _snapshots(market)
    return [
        f"bid {grant.bid.sequence} is granted {problem}"
        for grant, core, placements in _granted(market)
        for problem in _missing_work(core, placements, grant, snapshots[grant.inventory_version].inventory, pause=pause)
    ]


def replays(market: Market) -> list[str]:
    """Check that a replay gives the recorded receipts byte for byte, and payments equal posted costs of schedules."""
    recorded, replay = recorded_receipts(market), whole_replay(market)
    problems = []
    for step in replay.steps:
        if step.moves != step.recorded_moves:
            problems.append(f"version {step.version} moves jobs, or tries bids, otherwise when replayed")
        if not isinstance(step, Replayed):
            continue
        if recorded.pop((step.bid_id, step.stands), "") != step.receipt:
            problems.append(f"bid {step.sequence} (version {step.version}) is decided otherwise when replayed")
        paid = step.decision.payment
        if step.charged is not None and abs(paid - step.charged) > 1e-6 * max(1.0, abs(paid)):
            problems.append(f"bid {step.sequence} pays {paid}; at posted prices it is {step.charged}")
    if replay.broken_off is not None:
        error = replay.broken_off
        return [*problems, f"the replay breaks off: {type(error).__name__}: {error}"]
    missing = Bid.objects.filter(pk__in={pk for pk, _ in recorded}).order_by("sequence")
    return problems + [f"bid {bid.sequence} has a receipt that a replay does not give" for bid in missing]


def _missing_work(
    core: CoreBid, placements: tuple[Placement, ...], grant: Grant, inventory: Inventory, *, pause: int
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
    if grant.completion is not None and grant.bid.ended_slot is None:
        done = progress(core, placements, until=grant.completion, pause=pause)
        if done < core.work:
            yield f"{float(done):.1f} of {core.work} mini-batches"


def _missing_bandwidth(workers: list[Placement], pss: list[Placement], inventory: Inventory) -> Iterator[str]:
    hosts = {p.server for p in pss}
    away = sum(p.count * inventory.workers[p.type].bandwidth_mbps for p in workers if p.server not in hosts)
    have = sum(p.count * inventory.parameter_servers[p.type].bandwidth_mbps for p in pss)
    if away > have:
        yield f"parameter servers for {float(have):g} Mbit/s, its workers need {ceil(away)}"


def _granted(market: Market) -> Iterator[tuple[Grant, CoreBid, tuple[Placement, ...]]]:
    """Yield admitted bids with their grants, in positions of the inventory of the last grant."""
    snapshots = _snapshots(market)
    for grant in grants_of(market).values():
        snapshot, bid = snapshots[grant.inventory_version], grant.bid
        core = CoreBid.from_json(bid.core_bid)
        if grant.inventory_version != bid.inventory_version:
            core = core_bid(bid.resolved_request, snapshot, bid_id=core.id, arrival=core.arrival)
        yield grant, core, snapshot.placements([h for h in grant.held if h.end > h.start])


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
