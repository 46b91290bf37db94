"""Checks of queues: segments match a replay, do not overlap on a worker, start after upload, complete all chunks."""

from collections import defaultdict
from itertools import pairwise

from django.db.models import F, Max, Q, Sum

from auctions.domain import ps_assignments
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.models import (
    ADMITTED,
    Bid,
    BidState,
    Event,
    EventKind,
    Market,
    PsAssignment,
    PsHost,
    QueuedChunks,
    Segment,
)
from auctions.state.queue_rows import RecordedWork, recorded
from cluster.database.paging import in_pages
from scheduling.model.schedule import CLOUD
from scheduling.preemptive.parameter_servers import runs
from scheduling.preemptive.record import Segment as Work
from scheduling.preemptive.workers import TICKS, machines


def segments_match(market: Market, found: RecordedWork) -> list[str]:
    """Check that the stored segments and preemptions of bids that are not archived are those that a replay found."""
    kept = recorded(market.pk, archived=False)
    problems = [f"bid {row[0]} did not run as kept: {row[3:]}" for row in sorted({*kept.segments} - {*found.segments})]
    problems += [
        f"it is not kept that bid {row[0]} ran: {row[3:]}" for row in sorted({*found.segments} - {*kept.segments})
    ]
    if kept.preemptions != found.preemptions:
        problems.append(f"{len(kept.preemptions)} preemptions are kept, a replay finds {len(found.preemptions)}")
    return problems


def one_thing_at_a_time(market: Market) -> list[str]:
    """Check that no worker of the edge has two segments at the same time."""
    rows = Segment.objects.filter(queued__bid__market=market).exclude(queued__worker=CLOUD)
    places: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
    columns = ("queued__server_id", "queued__machine_type_id", "queued__worker", "start", "end")
    for server, machine, worker, start, end in rows.values_list(*columns):
        places[server, machine, worker].append((start, end))
    return [
        f"worker {worker} of server {server} has two segments from {start} on"
        for (server, _, worker), segments in places.items()
        for (_, end), (start, _) in pairwise(sorted(segments))
        if start < end
    ]


def no_ps_is_shared(market: Market) -> list[str]:
    """Check that no two jobs share a parameter server, and that every job has one while it runs and only then."""
    segments = recorded(market.pk).segments
    rows = list(PsAssignment.objects.filter(bid__market=market).select_related("bid"))
    if not segments and not rows:  # no job was ever queued
        return []
    problems = ps_assignments.shared(market, _ps_changes(market))
    ran = runs(Work(start, end, 0, 0, 0, str(bid)) for bid, _, _, _, start, end, _ in segments)
    served = runs(Work(row.start, row.end, 0, 0, 0, str(row.bid.sequence)) for row in rows)
    problems += [
        f"bid {r.bid.sequence} had no parameter server from {r.start} on" for r in rows if r.host == PsHost.NONE
    ]
    wrong = sorted(int(bid) for bid in {*ran, *served} if ran.get(bid, []) != served.get(bid, []))
    return problems + [f"bid {bid} has a parameter server at other times than it runs" for bid in wrong]


def _ps_changes(market: Market) -> ps_assignments.Changes:
    """Return by how much the number of parameter servers changed, and when, by server and machine type."""
    changes: ps_assignments.Changes = defaultdict(list)
    before: dict[tuple[int, int], int] = {}
    events = Event.objects.filter(market=market, kind__in=(EventKind.OPENED, EventKind.INVENTORY))
    for event in events.order_by("version"):
        snapshot = InventorySnapshot.from_json(event.payload)
        count = machines(snapshot.inventory.capacity, snapshot.inventory.ps_demand).tolist()
        now = {
            (server, machine): count[s][p]
            for s, server in enumerate(snapshot.server_ids)
            for p, machine in enumerate(snapshot.ps_ids)
        }
        for place in {**before, **now}:
            change = now.get(place, 0) - before.get(place, 0)
            if change:
                changes[place].append((event.slot * TICKS, change))
        before = now
    return changes


def chunks_complete(market: Market) -> list[str]:
    """Check that each chunk of every complete job was processed wholly, after it was sent, and its end is right.

    A job that was complete early left its last chunks in the queues, from which they were taken.
    """
    worked = Sum((F("segments__end") - F("segments__start")) * F("segments__count"))
    done: dict[int, int] = defaultdict(int)
    problems = []
    rows = QueuedChunks.objects.filter(bid__market=market).select_related("bid").annotate(worked=worked)
    for row in in_pages(rows, by="pk"):
        whole = row.count if row.until is None else row.done or 0
        done[row.bid_id] += whole
        if (
            row.bid.state == BidState.COMPLETED
            and row.bid.ended_slot is None
            and row.until is None
            and row.worked != row.count * row.each
        ):
            problems.append(f"bid {row.bid.sequence}: {row.worked} ticks for {row.count} chunks of {row.each}")
    if not done:
        return problems
    completed = Bid.objects.filter(
        market=market, seal=None, state=BidState.COMPLETED, ended_slot=None, queued__isnull=False
    )
    ends = completed.annotate(last=Max("queued__segments__end")).defer("body", "core_bid")
    for bid in in_pages(ends, by="sequence"):
        if done[bid.pk] != bid.resolved_request["chunks"]:
            problems.append(
                f"bid {bid.sequence} is complete with {done[bid.pk]} of {bid.resolved_request['chunks']} chunks"
            )
        if bid.last is None or -(-bid.last // TICKS) != bid.completion_slot:
            problems.append(f"bid {bid.sequence} ended at {bid.last}, its row says slot {bid.completion_slot}")
    early = Segment.objects.filter(queued__bid__market=market, start__lt=F("queued__since") * TICKS)
    problems += [f"bid {row.queued.bid.sequence} ran before it was sent" for row in early.select_related("queued__bid")]
    strangers = QueuedChunks.objects.filter(~Q(bid__state__in=sorted(ADMITTED)), bid__market=market)
    return problems + [f"bid {row.bid.sequence} ({row.bid.state}) has chunks in queues" for row in strangers]
