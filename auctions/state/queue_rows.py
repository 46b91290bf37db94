"""Write to rows which chunks joined workers' queues and what workers processed, and restore the queues from rows.

Segments are cut at the present slot, so that a written segment is never changed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Max, Min, QuerySet

from auctions.domain import ps_assignments
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.models import Bid, BidState, Preemption, QueuedChunks, Segment
from auctions.state.open_rows import WORKED, OpenRows
from cluster.database.updating import update_rows
from scheduling.book.running import RunningBook
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.schedule import CLOUD, Chunks
from scheduling.preemptive.queues import Queues
from scheduling.preemptive.record import Part, Ran, Restored
from scheduling.preemptive.workers import TICKS

GOING = (BidState.PLANNED, BidState.RUNNING)


@dataclass(frozen=True)
class RecordedWork:
    """Work that workers did from queues, by keys of rows. It does not depend on where segments were cut."""

    segments: tuple[tuple[int, int, int, int, int, int, int], ...] = ()
    """Bid (sequence), server, machine type, worker, first tick, end, and number of chunks in parallel; sorted."""
    preemptions: tuple[tuple[int, int, int, int, int, int], ...] = ()
    """Tick, preempted bid (sequence), preempting bid, server, machine type, worker; sorted."""


def joined(segments: Iterable[tuple[int, int, int, int, int, int, int]]) -> tuple[Any, ...]:
    """Return segments sorted; a segment that continues another one is merged with it."""
    whole: list[tuple[int, int, int, int, int, int, int]] = []
    for row in sorted(segments):
        before = whole[-1] if whole else None
        if before is not None and (before[:4], before[5], before[6]) == (row[:4], row[4], row[6]):
            whole[-1] = (*before[:5], row[5], row[6])
        else:
            whole.append(row)
    return tuple(whole)


def taken(ran: Iterable[Ran], snapshot: InventorySnapshot) -> RecordedWork:
    """Return what workers processed from queues, with the row keys of a snapshot."""
    segments = (
        (int(s.job), snapshot.server_ids[s.server], snapshot.worker_ids[s.type], s.index, s.start, s.end, s.count)
        for some in ran
        for s in some.segments
    )
    left = (
        (p.at, int(p.job), int(p.by), snapshot.server_ids[p.server], snapshot.worker_ids[p.type], p.index)
        for some in ran
        for p in some.preemptions
    )
    return RecordedWork(joined(segments), tuple(sorted(left)))


def together(parts: Sequence[RecordedWork]) -> RecordedWork:
    """Merge all parts."""
    return RecordedWork(
        joined(row for part in parts for row in part.segments),
        tuple(sorted(row for part in parts for row in part.preemptions)),
    )


def recorded(market_id: int, *, archived: bool = True) -> RecordedWork:
    """Return what workers processed from queues, according to the rows; with or without work on archived bids."""
    segments = Segment.objects.filter(queued__bid__market_id=market_id)
    where = ("queued__server_id", "queued__machine_type_id", "queued__worker")
    rows = segments.values_list("queued__bid__sequence", *where, "start", "end", "count")
    left = Preemption.objects.filter(queued__bid__market_id=market_id)
    if not archived:
        rows, left = rows.filter(queued__bid__seal=None), left.filter(queued__bid__seal=None, by__bid__seal=None)
    lost = left.values_list("at", "queued__bid__sequence", "by__bid__sequence", *where)
    return RecordedWork(joined(rows), tuple(sorted(lost)))


def store(running: RunningBook, snapshot: InventorySnapshot, market_id: int) -> None:
    """Write what workers processed from queues since the last call."""
    ran, running.ran = running.ran, []
    names = {segment.job for some in ran for segment in some.segments}
    names |= {name for some in ran for lost in some.preemptions for name in (lost.job, lost.by)}
    if not names:
        return
    rows = OpenRows(names, snapshot, market_id)
    ps_assignments.store([segment for some in ran for segment in some.segments], snapshot, market_id)
    taken_by = [share for some in ran for segment in some.segments for share in rows.shares(segment)]
    Segment.objects.bulk_create(
        Segment(queued_id=key, count=count, start=start, end=end) for key, count, start, end in taken_by
    )
    Preemption.objects.bulk_create(
        Preemption(queued_id=rows.ending(p.job, p), by_id=rows.beginning(p.by, p), at=p.at)
        for some in ran
        for p in some.preemptions
    )


def join(bid: Bid, chunks: Sequence[Chunks], queues: Queues, snapshot: InventorySnapshot) -> None:
    """Write that chunks of a bid join queues now."""
    if not chunks:
        return
    name = str(bid.sequence)
    task, whole = queues.task_of(name), queues.chunks_of(name)
    QueuedChunks.objects.bulk_create(
        QueuedChunks(
            bid=bid,
            server_id=snapshot.server_ids[c.server],
            machine_type_id=snapshot.worker_ids[c.type],
            worker=c.index,
            count=c.count,
            since=queues.now,
            release=queues.release_of(name, c),
            order=queues.order_of(name),
            each=task.alone if (c.index, c.count) == (CLOUD, whole) else task.each,
            rank=task.rank,
            handicap=task.handicap,
        )
        for c in chunks
    )


def take_out(bids: Iterable[Bid], *, now: int) -> None:
    """Write that the incomplete chunks of these bids leave their queues now."""
    _close(QueuedChunks.objects.filter(bid__in=[bid.pk for bid in bids]), now=now)


def lose(queues: Queues, snapshot: InventorySnapshot, market_id: int, *, now: int) -> None:
    """Write that chunks leave the queues of workers that a new snapshot no longer has."""
    rows = QueuedChunks.objects.filter(bid__market_id=market_id, bid__state__in=GOING)
    servers = {key: i for i, key in enumerate(snapshot.server_ids)}
    types = {key: i for i, key in enumerate(snapshot.worker_ids)}
    gone = [
        pk
        for pk, server, machine, worker in rows.values_list("pk", "server_id", "machine_type_id", "worker")
        if server not in servers
        or machine not in types
        or not queues.workers.has(servers[server], types[machine], worker)
    ]
    _close(rows.filter(pk__in=gone), now=now)


def _close(found: QuerySet[QueuedChunks], *, now: int) -> None:
    rows: list[Any] = list(found.filter(until=None).annotate(worked=WORKED))
    for row in rows:
        done = min(row.count, (row.worked or 0) // row.each)
        # Chunks that run in parallel in the cloud are all complete at the same time.
        row.until, row.done = now, done if row.worker != CLOUD or done == row.count else 0
    update_rows(rows, ["until", "done"])


def restored(cores: Mapping[int, CoreBid], snapshot: InventorySnapshot, market_id: int) -> Queues | None:
    """Restore the queues from rows, at the slot up to which rows were written; None if no job is in a queue.

    `cores` holds the bids of jobs that are not over, by key, in positions of `snapshot`.
    """
    found = QueuedChunks.objects.filter(bid__in=list(cores)).annotate(worked=WORKED, ended=Max("segments__end"))
    rows = list(found.annotate(began=Min("segments__start")).order_by("pk"))
    if not rows:
        return None
    of_market = Segment.objects.filter(queued__bid__market_id=market_id)
    clock = of_market.aggregate(end=Max("end"))["end"] or 0
    since = min((row.ended for row in rows if row.ended is not None), default=clock)
    columns = ("queued__server_id", "queued__machine_type_id", "queued__worker")
    ends = of_market.filter(end__gte=since).order_by().values_list(*columns).annotate(last=Max("end"))
    latest = {(server, machine, worker): last for server, machine, worker, last in ends}
    by_bid: dict[int, list[QueuedChunks]] = defaultdict(list)
    for row in rows:
        by_bid[row.bid_id].append(row)
    jobs = [_job(cores[pk], mine, snapshot, latest) for pk, mine in by_bid.items()]
    ever = QueuedChunks.objects.filter(bid__market_id=market_id).aggregate(last=Max("order"))["last"]
    now = max(-(-clock // TICKS), max(row.since for row in rows))
    return Queues.restored(snapshot.inventory, now=now, next_order=ever + 1, jobs=jobs)


def _job(
    core: CoreBid, rows: Sequence[Any], snapshot: InventorySnapshot, latest: Mapping[tuple[int, int, int], int]
) -> Restored:
    """Restore one job; `latest` is the tick at which each worker's last segment ended."""
    servers = {key: i for i, key in enumerate(snapshot.server_ids)}
    types = {key: i for i, key in enumerate(snapshot.worker_ids)}
    parts = tuple(
        Part(
            Chunks(servers[row.server_id], types[row.machine_type_id], row.worker, row.count),
            each=row.each,
            worked=row.worked or 0,
            release=row.release,
            last=row.ended == latest.get((row.server_id, row.machine_type_id, row.worker)),
        )
        for row in rows
        if row.until is None
    )
    return Restored(
        bid=core,
        order=rows[0].order,
        type=types.get(rows[-1].machine_type_id),
        each=(rows[-1].rank - rows[-1].handicap) // core.chunks,
        handicap=rows[-1].handicap,
        complete=sum(row.done for row in rows if row.until is not None),
        start=min((row.began for row in rows if row.began is not None), default=None),
        completed_at=max((row.ended for row in rows if row.ended is not None), default=0),
        parts=parts,
        stored=_stored(rows, servers),
    )


def _stored(rows: Sequence[QueuedChunks], servers: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
    """Return pairs of server position and number of a job's chunks that it stores.

    Of chunks that left a queue, only the complete ones are counted.
    """
    kept = ((row.server_id, row.count if row.until is None else row.done or 0) for row in rows)
    return tuple((servers[key], count) for key, count in kept if count and key in servers)
