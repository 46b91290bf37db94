"""Parameter servers of queued jobs: each running job has its own one, which is recorded while the job runs."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter

from auctions.domain.bid_conversion import core_bid
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.models import Bid, Market, PsAssignment
from cluster.database.updating import update_rows
from scheduling.preemptive.parameter_servers import Host, assign
from scheduling.preemptive.parameter_servers import PsAssignment as CoreAssignment
from scheduling.preemptive.record import Segment
from scheduling.preemptive.workers import TICKS, Workers, machines

Changes = dict[tuple[int, int], list[tuple[int, int]]]
"""Ticks at which the number of parameter servers changed and by how much, by keys of server and machine type."""


@dataclass(frozen=True)
class Assigned:
    """A parameter server of a job for a time in which the job runs without a break."""

    bid: Bid
    machine_type_id: int
    server_id: int | None
    host: Host
    start: int
    end: int


def store(segments: Sequence[Segment], snapshot: InventorySnapshot, market_id: int) -> None:
    """Assign a parameter server to every job of these segments, which begin where the last ones ended, and store it."""
    if not segments:
        return
    known = {(row.bid_id, row.start): row for row in _open_rows(segments, market_id)}
    made: list[PsAssignment] = []
    for one in assigned(segments, snapshot, market_id):
        row = known.get((one.bid.pk, one.start))
        if row is None:
            row = PsAssignment(bid=one.bid, start=one.start, machine_type_id=one.machine_type_id)
            row.host, row.server_id = one.host.value, one.server_id
            made.append(row)
        row.end = one.end
    update_rows(list(known.values()), ["end"])
    PsAssignment.objects.bulk_create(made)


def assigned(segments: Sequence[Segment], snapshot: InventorySnapshot, market_id: int) -> list[Assigned]:
    """Return the parameter servers of the jobs of these segments, which begin where the stored ones ended.

    Slots are assigned one after another, so that what is found for a slot depends on nothing behind it.
    """
    names = sorted({segment.job for segment in segments}, key=int)
    bids = {
        str(bid.sequence): bid for bid in Bid.objects.filter(market=market_id, sequence__in=[int(n) for n in names])
    }
    workers, inventory = Workers(snapshot.inventory, TICKS), snapshot.inventory
    types: dict[int, list[str]] = defaultdict(list)
    for name in names:
        core = core_bid(bids[name].resolved_request, snapshot, bid_id=name, arrival=bids[name].arrival_slot)
        types[workers.ps_type(core)].append(name)
    count = machines(inventory.capacity, inventory.ps_demand)
    clouds = frozenset(s for s, cloud in enumerate(inventory.cloud) if cloud)
    open_rows = _open_rows(segments, market_id)
    found: dict[tuple[str, int], Assigned] = {}
    for ps, mine in types.items():
        kept = _kept(open_rows, snapshot, snapshot.ps_ids[ps])
        for part in by_slot([segment for segment in segments if segment.job in set(mine)]):
            kept = list(
                assign(
                    part,
                    pss={s: int(count[s, ps]) for s in range(len(count)) if s not in clouds},
                    clouds=clouds,
                    order=mine,
                    kept=kept,
                )
            )
            for one in kept:
                server_id = None if one.server is None else snapshot.server_ids[one.server]
                found[one.job, one.start] = Assigned(
                    bids[one.job], snapshot.ps_ids[ps], server_id, one.host, one.start, one.end
                )
    return list(found.values())


def by_slot(segments: Iterable[Segment]) -> list[list[Segment]]:
    """Return the segments cut where slots begin, slot by slot in order; slots without any are left out."""
    slots: dict[int, list[Segment]] = defaultdict(list)
    for segment in segments:
        for slot in range(segment.start // TICKS, -(-segment.end // TICKS)):
            start, end = max(segment.start, slot * TICKS), min(segment.end, (slot + 1) * TICKS)
            slots[slot].append(replace(segment, start=start, end=end))
    return [slots[slot] for slot in sorted(slots)]


def _open_rows(segments: Sequence[Segment], market_id: int) -> list[PsAssignment]:
    first = min(segment.start for segment in segments)
    return list(PsAssignment.objects.filter(bid__market=market_id, end__gte=first).select_related("bid"))


def _kept(rows: Iterable[PsAssignment], snapshot: InventorySnapshot, machine_type_id: int) -> list[CoreAssignment]:
    """Return the assignments that may continue; an assignment on a removed server may not."""
    return [
        CoreAssignment(
            start=row.start,
            end=row.end,
            job=str(row.bid.sequence),
            host=Host(row.host),
            server=None if row.server_id is None else snapshot.server_ids.index(row.server_id),
        )
        for row in rows
        if row.machine_type_id == machine_type_id and (row.server_id is None or row.server_id in snapshot.server_ids)
    ]


def shared(market: Market, changes: Changes) -> list[str]:
    """Return a problem for each server where more jobs had parameter servers than there were at the time."""
    steps = {place: [(tick, -change) for tick, change in of_place] for place, of_place in changes.items()}
    for row in PsAssignment.objects.filter(bid__market=market, server__isnull=False):
        steps.setdefault((row.server_id or 0, row.machine_type_id), []).extend([(row.start, 1), (row.end, -1)])
    problems = []
    for (server, _), of_place in steps.items():
        excess = 0
        for tick, some in groupby(sorted(of_place), key=itemgetter(0)):
            excess += sum(change for _, change in some)
            if excess > 0:
                problems.append(f"server {server} had {excess} jobs more than parameter servers from {tick} on")
                break
    return problems
