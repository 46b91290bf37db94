"""Readings of a market for REST and pages, as frozen dataclasses of numbers and arrays; nothing is changed.

Slot windows [start, end) are cut to the known slots: from the first recorded slot to the end of the horizon.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from django.db.models import F

from auctions.domain.inventory_snapshot import Holding, InventorySnapshot, align, snapshots_at, units_held
from auctions.models import (
    Bid,
    Certificate,
    Commitment,
    Market,
    Outage,
    PolicyVersion,
    SlotPrice,
)
from auctions.readings import queues as queue_readings
from auctions.readings import sums
from auctions.readings.gantt import bars
from auctions.readings.types import Bar, Bools, Flow, Machines, Prices, Summary, Utilisation, Welfare
from auctions.state.market_snapshot import market_snapshot, one_version
from cluster.database.prepared import Prepared
from cluster.models import MachineRole
from scheduling.model.types import Floats, Ints
from scheduling.policies.base import Objective
from scheduling.registry import POLICIES

__all__ = [
    "Bar",
    "Flow",
    "Machines",
    "Prices",
    "Summary",
    "Utilisation",
    "Welfare",
    "bars",
    "bound",
    "flow",
    "machines",
    "prices",
    "summary",
    "utilisation",
    "welfare",
]


_CERTIFICATE = Prepared(lambda market: Certificate.objects.filter(market=market)[:1], int)
_POLICY = Prepared(lambda pk: PolicyVersion.objects.filter(pk=pk), int)
_OUTAGES = Prepared(
    lambda cluster: (
        Outage.objects.filter(server__cluster=cluster).order_by().values_list("server_id", "from_slot", "ended_slot")
    ),
    int,
)
_FIRST_ARRIVAL = Prepared(
    lambda market: Bid.objects.filter(market=market).order_by("sequence").values_list("arrival_slot")[:1], int
)


@one_version()
def summary(market: Market, *, published: tuple[int, Mapping[str, Any]] | None = None) -> Summary:
    """Return the summary of the market, with its present figures.

    `published` is a slot, and the figures of that time. If given, these figures are returned instead, without a bound.
    """
    seen = market_snapshot(market)
    market, moment, book = seen.market, seen.moment, seen.book
    (policy,) = _POLICY(book.policy_id)
    capacity = book.snapshot.inventory.capacity
    used = _units(market, book.snapshot, start=moment.slot, end=moment.slot + 1)[0]
    prices = book.prices()[0]
    return Summary(
        version=market.version,
        ledger_version=book.version,
        slot=moment.slot,
        now=moment.now,
        end=book.end,
        read_at=moment.wall,
        is_open=market.is_open,
        policy=policy.name,
        policy_number=policy.number,
        # A server that was just lost is still in use in the slot under way.
        utilisation=_mean_share(used, np.maximum(used, capacity)),
        price=float((prices * capacity).sum() / capacity.sum()) if capacity.any() else 0.0,
        bound=bound(market) if published is None else None,
        objective=book.policy.objective,
        published=None if published is None else published[0],
        **(sums.present_figures(market) if published is None else published[1]),
    )


@one_version()
def flow(market: Market) -> Flow:
    """Return the time from arrival to completion of every completed job, and the mean so far."""
    rows = sums.completions(market_snapshot(market).market)
    took, total = rows["over"] - rows["arrival"], np.cumsum(rows["value"])
    return Flow(
        sequence=rows["sequence"],
        slot=rows["over"],
        flow=took,
        mean_slot=rows["over"],
        mean=np.cumsum(took) / np.arange(1, len(took) + 1),
        weighted_mean=np.divide(np.cumsum(rows["value"] * took), total, out=np.zeros(len(took)), where=total > 0),
    )


@one_version()
def machines(bid: Bid) -> Machines:
    """Return the numbers of workers and parameter servers that a job holds in each slot from its first to its last.

    For a queued job: the number of workers that work on it in some part of the slot.
    """
    queued = queue_readings.stretches_of(bid)
    if queued:
        first, busy = queue_readings.workers_by_slot(queued)
        pss = np.zeros(len(busy), dtype=np.int64)
        for s in queue_readings.ps_assignments(bid.market, start=first, end=first + len(busy)):
            if s.sequence == bid.sequence:
                pss[s.slots.start - first : s.slots.stop - first] = 1
        return Machines(start=first, workers=busy, num_ps=pss)
    rows = Commitment.objects.filter(bid=bid, end__gt=F("start"))
    held = list(rows.values_list("machine_type__role", "count", "start", "end"))
    start, end = min((row[2] for row in held), default=0), max((row[3] for row in held), default=0)
    counts = {role: np.zeros(end - start, dtype=np.int64) for role in (MachineRole.WORKER, MachineRole.PS)}
    for role, count, first, last in held:
        counts[MachineRole(role)][first - start : last - start] += count
    return Machines(start=start, workers=counts[MachineRole.WORKER], num_ps=counts[MachineRole.PS])


@one_version()
def bound(market: Market) -> Certificate | None:
    """Return the latest certificate; None before the first, or if the policy's objective is not welfare."""
    if POLICIES[PolicyVersion.in_force(market.pk).name].objective is not Objective.WELFARE:
        return None
    return _CERTIFICATE.first(market.pk)


@one_version()
def prices(market: Market, *, start: int, end: int) -> Prices:
    """Return the posted prices of slots [start, end)."""
    seen = market_snapshot(market)
    market, moment, book = seen.market, seen.moment, seen.book
    inventory = book.snapshot.inventory
    start, end = _window(market, start, min(end, book.end))
    shape = (end - start, *inventory.capacity.shape)
    price, known = np.zeros(shape), np.zeros(end - start, dtype=np.bool_)
    if start < moment.now:
        past, recorded = past_prices(market, book.snapshot, start=start, end=min(end, moment.now))
        price[: len(past)], known[: len(past)] = past, recorded
    if end > moment.now:
        first = max(start, moment.now)
        future = book.prices()[first - moment.now : end - moment.now]
        price[first - start :], known[first - start :] = future, True
    return Prices(
        start=start,
        now=moment.now,
        servers=inventory.servers,
        resources=inventory.resources,
        price=price,
        known=known,
        closed=closed_slots(market, book.snapshot, start=start, end=end),
    )


def closed_slots(market: Market, snapshot: InventorySnapshot, *, start: int, end: int) -> Bools:
    """Return whether each server takes no new work in each of the slots [start, end), T x S, because of an outage."""
    closed = np.zeros((end - start, len(snapshot.server_ids)), dtype=np.bool_)
    column = {key: i for i, key in enumerate(snapshot.server_ids)}
    for server, first, last in _OUTAGES(market.cluster_id):
        if server in column:
            closed[max(0, first - start) : None if last is None else max(0, last - start), column[server]] = True
    return closed


def past_prices(market: Market, snapshot: InventorySnapshot, *, start: int, end: int) -> tuple[Floats, Bools]:
    """Return stored prices of slots [start, end), T x S x R, in positions of `snapshot`, and which slots have any."""
    price = np.zeros((end - start, *snapshot.inventory.capacity.shape))
    known = np.zeros(end - start, dtype=np.bool_)
    for slot, array in kept_prices(market, snapshot, start=start, end=end).items():
        price[slot - start], known[slot - start] = array, True
    return price, known


def kept_prices(market: Market, snapshot: InventorySnapshot, *, start: int, end: int) -> dict[int, Floats]:
    """Return stored prices of slots within [start, end), by slot, S x R each, in the positions of `snapshot`."""
    rows = SlotPrice.objects.filter(market=market, slot__gte=start, slot__lt=end)
    kept = list(rows.values_list("slot", "inventory_version", "prices"))
    older = snapshots_at(market.pk, {version for _, version, _ in kept} - {market.inventory_version})
    found = {}
    for slot, version, numbers in kept:
        array = np.array(numbers, dtype=np.float64)
        if (old := older.get(version)) is not None:
            array = align(array, old=old.server_ids, new=snapshot.server_ids, axis=0)
            array = align(array, old=old.resource_ids, new=snapshot.resource_ids, axis=1)
        found[slot] = array
    return found


@one_version()
def utilisation(market: Market, *, start: int, end: int) -> Utilisation:
    """Return units held in slots [start, end), past and planned."""
    seen = market_snapshot(market)
    market, moment, snapshot = seen.market, seen.moment, seen.book.snapshot
    start, end = _window(market, start, min(end, moment.now + snapshot.horizon))
    return Utilisation(
        start=start,
        now=moment.now,
        servers=snapshot.inventory.servers,
        resources=snapshot.inventory.resources,
        used=_units(market, snapshot, start=start, end=end),
        capacity=snapshot.built,
        closed=closed_slots(market, snapshot, start=start, end=end),
    )


@one_version()
def welfare(market: Market) -> Welfare:
    """Return cumulative welfare, revenue and zero-price bound, in order of decision."""
    rows = sums.decisions(market_snapshot(market).market)
    return Welfare(
        decided=np.arange(1, len(rows) + 1),
        sequence=rows["sequence"],
        slot=rows["slot"],
        seconds=rows["seconds"],
        welfare=np.cumsum(rows["value"]),
        revenue=np.cumsum(rows["revenue"]),
        zero_price_bound=np.cumsum(rows["standalone_value"]),
        bound=bound(market),
    )


def _window(market: Market, start: int, end: int) -> tuple[int, int]:
    first = _FIRST_ARRIVAL.first(market.pk)
    start = max(start, market.slot if first is None else min(first[0], market.slot))
    return start, max(start, end)


def _units(market: Market, snapshot: InventorySnapshot, *, start: int, end: int) -> Ints:
    # Neither a prepared query nor a join: the database chooses the index by end from the slots that are asked for. A
    # server that was ever held is never removed.
    held = Commitment.objects.filter(server__in=snapshot.server_ids, start__lt=end, end__gt=start).order_by()
    columns = ("server_id", "machine_type_id", "count", "start", "end")
    holdings = [Holding(*row) for row in held.values_list(*columns)]
    queued = queue_readings.stretches(market, start=start, end=end)
    units: Ints = units_held(snapshot, holdings, start=start, end=end)
    if queued:
        units += queue_readings.busy(snapshot, queued, start=start, end=end)
        units += queue_readings.pss_busy(market, snapshot, start=start, end=end)
    return units


def _mean_share(used: Ints, capacity: Ints) -> float:
    total = capacity.sum(axis=0)
    sold = total > 0
    return float((used.sum(axis=0)[sold] / total[sold]).mean()) if sold.any() else 0.0
