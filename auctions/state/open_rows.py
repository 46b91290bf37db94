"""Find the row of queued chunks that a segment of work belongs to, if a worker has several rows of one job.

Chunks whose worker is gone are sent again, perhaps to a worker that already has chunks of the same job. A worker
processes the chunks of a job in the order in which they joined, so the earliest row is filled first.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from django.db.models import F, Max, Sum

from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.models import QueuedChunks
from scheduling.model.schedule import CLOUD
from scheduling.preemptive.record import Preemption, Segment

WORKED = Sum((F("segments__end") - F("segments__start")) * F("segments__count"))
"""Ticks that workers spent on a row's chunks."""
Place = tuple[str, int, int, int]
"""Bid (by its id), server, worker type (by position) and worker."""
Share = tuple[int, int, int, int]
"""Key of a row, number of chunks processed in parallel, first tick and end."""


@dataclass
class _OpenRow:
    key: int
    count: int
    left: int
    """Ticks of work that remain, for all its chunks together."""
    ended: int | None
    """Tick at which the last work on it ended; None if it was never worked on."""
    begun: set[int] = field(default_factory=set)
    """Ticks at which work on it began, in the segments being written."""
    stopped: set[int] = field(default_factory=set)
    """Ticks at which work on it stopped."""


class OpenRows:
    """Rows of these jobs (by their bids' ids) that are still in their queues."""

    def __init__(self, names: Iterable[str], snapshot: InventorySnapshot, market_id: int) -> None:
        servers = {key: i for i, key in enumerate(snapshot.server_ids)}
        types = {key: i for i, key in enumerate(snapshot.worker_ids)}
        found = QueuedChunks.objects.filter(
            bid__market_id=market_id, bid__sequence__in=[int(name) for name in names], until=None
        ).annotate(worked=WORKED, ended=Max("segments__end"))
        columns = ("bid__sequence", "server_id", "machine_type_id", "worker", "pk", "count", "each", "worked", "ended")
        self._rows: dict[Place, list[_OpenRow]] = defaultdict(list)
        for bid, server, machine, worker, key, count, each, worked, ended in found.order_by("pk").values_list(*columns):
            place = str(bid), servers[server], types[machine], worker
            self._rows[place].append(_OpenRow(key, count, count * each - (worked or 0), ended))

    def shares(self, segment: Segment) -> Iterator[Share]:
        """Split a segment where one row is complete and the next begins; segments must be given in order of time."""
        rows = self._rows[segment.job, segment.server, segment.type, segment.index]
        if segment.index == CLOUD:
            row = _batch(rows, segment)
            yield self._note(row, segment.count, segment.start, segment.end)
            return
        start = segment.start
        for row in rows:
            end = min(segment.end, start + row.left)
            if end > start:
                yield self._note(row, segment.count, start, end)
                start = end
        if start < segment.end:
            raise RuntimeError(f"job {segment.job} was worked at longer than its rows have chunks: {segment}")

    def ending(self, job: str, lost: Preemption) -> int:
        """Return the row of a job whose work was interrupted at that worker and tick."""
        rows = self._rows[job, lost.server, lost.type, lost.index]
        return next(
            (row.key for row in reversed(rows) if lost.at == row.ended or lost.at in row.stopped), _next(rows).key
        )

    def beginning(self, job: str, lost: Preemption) -> int:
        """Return the row of a job whose work began at that worker and tick, or begins after what is being written."""
        rows = self._rows[job, lost.server, lost.type, lost.index]
        return next((row.key for row in rows if lost.at in row.begun), _next(rows).key)

    @staticmethod
    def _note(row: _OpenRow, count: int, start: int, end: int) -> Share:
        row.left -= count * (end - start)
        row.begun.add(start)
        row.stopped |= {end} if row.ended is None else {end, row.ended}
        row.ended = end
        return row.key, count, start, end


def _next(rows: list[_OpenRow]) -> _OpenRow:
    """Return the first incomplete row, or the last row if all are complete."""
    return next((row for row in rows if row.left > 0), rows[-1])


def _batch(rows: list[_OpenRow], segment: Segment) -> _OpenRow:
    """Return the row of chunks that the cloud processes in parallel: the row that continues, or the next to begin."""
    work = segment.count * (segment.end - segment.start)
    able = [row for row in rows if row.count == segment.count and row.left >= work]
    if not able:
        raise RuntimeError(f"job {segment.job} has no chunks in the cloud for {segment}")
    return next(
        (row for row in able if row.ended == segment.start), next((r for r in able if r.ended is None), able[0])
    )
