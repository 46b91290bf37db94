"""Checks of what was promised: commitments against capacity, arrival, work, and the replay."""

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from math import ceil

import numpy as np

from auctions.layout import Holding, Layout, units_held
from auctions.models import ADMITTED, Bid, Commitment, DecisionRecord, Event, EventKind, Market
from auctions.replay import replayed
from scheduling.bid import Bid as CoreBid
from scheduling.decision import Decision, parse
from scheduling.errors import SchedulingError
from scheduling.schedule import Placement, Role, Schedule

STRETCH = 256
"""Slots looked at in one go: bounds the memory."""

UNREADABLE = (SchedulingError, LookupError, ValueError, TypeError, AttributeError)
"""What reading tampered documents may raise: that they cannot be read is then the finding."""


def commitments_match(market: Market) -> list[str]:
    """Each job holds what its receipt grants, cut at the slot it was ended in; other bids hold nothing."""
    held: dict[int, list[Holding]] = defaultdict(list)
    rows = Commitment.objects.filter(bid__market=market)
    for pk, *row in rows.values_list("bid_id", "server_id", "machine_type_id", "count", "start", "end"):
        held[pk].append(Holding(*row))
    layouts = _layouts(market)
    problems = []
    for bid, schedule, version in _granted(market):
        granted = [_cut(h, bid) for h in layouts[version].holdings(schedule)] if version in layouts else []
        if _sorted(granted) != _sorted(held.pop(bid.pk, [])):
            problems.append(f"bid {bid.sequence} does not hold what its receipt grants")
    strangers = Bid.objects.filter(pk__in=held).order_by("sequence")
    return problems + [f"bid {bid.sequence} ({bid.state}) holds machines it was not granted" for bid in strangers]


def within_capacity(market: Market) -> list[str]:
    """In each slot no server holds more than it had when the slot could last be traded."""
    rows = Commitment.objects.filter(bid__market=market).values_list(
        "server_id", "machine_type_id", "count", "start", "end"
    )
    holdings = [Holding(*row) for row in rows]
    if not holdings:
        return []
    first, last = min(h.start for h in holdings), max(h.end for h in holdings)
    problems = []
    for layout, start, end in _reigns(market, first=first, last=last):
        for low in range(start, end, STRETCH):
            high = min(low + STRETCH, end)
            near = [h for h in holdings if h.start < high and h.end > low]
            over = units_held(layout, near, start=low, end=high) - layout.inventory.capacity
            problems += [
                f"server {layout.inventory.servers[s]} is {over[t, s, r]} {layout.inventory.resources[r]} over"
                f" capacity in slot {low + t}"
                for t, s, r in np.argwhere(over > 0)
            ]
    return problems


def after_arrival_and_delay(market: Market) -> list[str]:
    """Nothing is held on a server before the bid's arrival plus its upload delay there."""
    problems = []
    for bid, schedule, _ in _granted(market):
        core = CoreBid.from_json(bid.core)
        problems += [
            f"bid {bid.sequence} starts on server {p.server} in slot {p.start},"
            f" before {bid.arrival_slot} + {core.delay[p.server]}"
            for p in schedule.placements
            if p.start < bid.arrival_slot + core.delay[p.server]
        ]
        if bid.arrival_slot != core.arrival:
            problems.append(f"bid {bid.sequence} arrived in slot {bid.arrival_slot}, its core says {core.arrival}")
    return problems


def work_done(market: Market) -> list[str]:
    """Every schedule has worker-slots for the whole work, and PSs for its workers' bandwidth."""
    layouts = _layouts(market)
    return [
        f"bid {bid.sequence} is granted {problem}"
        for bid, schedule, version in _granted(market)
        if version in layouts
        for problem in _missing_work(CoreBid.from_json(bid.core), schedule, layouts[version])
    ]


def replays(market: Market) -> list[str]:
    """A replay gives the recorded receipts byte for byte, and each payment is the posted cost of its schedule."""
    recorded = dict(DecisionRecord.objects.filter(bid__market=market).values_list("bid_id", "receipt"))
    problems = []
    try:
        for again in replayed(market, priced=True):
            if recorded.get(again.bid_id) != again.receipt:
                problems.append(f"bid {again.sequence} (version {again.version}) is decided otherwise when replayed")
            paid = again.decision.payment
            if again.posted is not None and abs(paid - again.posted) > 1e-6 * max(1.0, abs(paid)):
                problems.append(f"bid {again.sequence} pays {paid}; at posted prices it is {again.posted}")
    except UNREADABLE as error:
        problems.append(f"the replay breaks off: {type(error).__name__}: {error}")
    return problems


def _missing_work(core: CoreBid, schedule: Schedule, layout: Layout) -> Iterator[str]:
    workers = [p for p in schedule.placements if p.role is Role.WORKER]
    pss = [p for p in schedule.placements if p.role is Role.PS]
    if not workers or not pss:
        yield "no workers or no parameter servers"
        return
    spread = len({p.server for p in schedule.placements}) > 1
    transfer = core.transfer_time if spread else (Fraction(0),) * len(core.transfer_time)
    slowest = max(core.ps_time[p.type] for p in pss)
    done = sum(
        p.count * (p.end - p.start) / step
        for p in workers
        if (step := core.worker_time[p.type] + slowest + transfer[p.type])
    )
    if done < core.work and any(core.worker_time[p.type] + slowest + transfer[p.type] for p in workers):
        yield f"{float(done):.1f} of {core.work} mini-batches"
    if sum(p.count for p in workers) > core.chunks:
        yield f"more workers than its {core.chunks} chunks"
    if spread:
        yield from _missing_bandwidth(workers, pss, layout)


def _missing_bandwidth(workers: list[Placement], pss: list[Placement], layout: Layout) -> Iterator[str]:
    hosts = {p.server for p in pss}
    away = sum(p.count * layout.inventory.workers[p.type].bandwidth_mbps for p in workers if p.server not in hosts)
    have = sum(p.count * layout.inventory.pss[p.type].bandwidth_mbps for p in pss)
    if away > have:
        yield f"parameter servers for {float(have):g} Mbit/s, its workers need {ceil(away)}"


def _granted(market: Market) -> Iterator[tuple[Bid, Schedule, int]]:
    """Admitted bids with the schedule in their receipt and the version of the inventory it speaks of."""
    rows = DecisionRecord.objects.filter(bid__market=market, bid__state__in=sorted(ADMITTED)).select_related("bid")
    for row in rows.order_by("version").iterator(chunk_size=500):
        schedule = Decision.from_json(parse(row.receipt)).schedule
        if schedule is not None:
            yield row.bid, schedule, row.inventory_version


def _layouts(market: Market) -> dict[int, Layout]:
    events = Event.objects.filter(market=market, kind__in=(EventKind.OPENED, EventKind.INVENTORY)).order_by("version")
    return {event.version: Layout.from_json(event.payload) for event in events}


def _reigns(market: Market, *, first: int, last: int) -> Iterator[tuple[Layout, int, int]]:
    """Each layout with the slots [start, end) for which it was the last word."""
    events = list(
        Event.objects.filter(market=market, kind__in=(EventKind.OPENED, EventKind.INVENTORY)).order_by("version")
    )
    ends = [event.slot for event in events[1:]] + [last]
    start = first
    for event, end in zip(events, ends, strict=True):
        if end > start:
            yield Layout.from_json(event.payload), start, min(end, last)
            start = min(end, last)


def _cut(held: Holding, bid: Bid) -> Holding:
    end = held.end if bid.ended_slot is None else min(held.end, max(held.start, bid.ended_slot))
    return Holding(held.server_id, held.machine_type_id, held.count, held.start, end)


def _sorted(holdings: list[Holding]) -> list[tuple[int, int, int, int, int]]:
    return sorted((h.server_id, h.machine_type_id, h.count, h.start, h.end) for h in holdings)
