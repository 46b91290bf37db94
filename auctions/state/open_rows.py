"""Which row of chunks in queues a stretch of work belongs to, where a worker has several rows of one job.

Chunks that are sent again, because their worker is gone, may come to a worker that has chunks of the same job. A
worker processes those of a job in the order in which they joined, so that the earliest row is filled first.
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
"""Key of a row, how many side by side, tick it begins and ends."""


@dataclass
class _Row:
    key: int
    count: int
    left: int
    """Ticks of work, those of all its chunks together."""
    ended: int | None
    """Tick up to which it was worked at, None if it was not."""
    begun: set[int] = field(default_factory=set)
    """Ticks at which work on it began, of those that are being written,"""
    stopped: set[int] = field(default_factory=set)
    """and at which it stopped."""


class OpenRows:
    """Rows of these jobs (by their bids' ids) that have not left their queues."""

    def __init__(self, names: Iterable[str], layout: InventorySnapshot, market_id: int) -> None:
        servers = {key: i for i, key in enumerate(layout.server_ids)}
        types = {key: i for i, key in enumerate(layout.worker_ids)}
        found = QueuedChunks.objects.filter(
            bid__market_id=market_id, bid__sequence__in=[int(name) for name in names], until=None
        ).annotate(worked=WORKED, ended=Max("segments__end"))
        columns = ("bid__sequence", "server_id", "machine_type_id", "worker", "pk", "count", "each", "worked", "ended")
        self._rows: dict[Place, list[_Row]] = defaultdict(list)
        for bid, server, machine, worker, key, count, each, worked, ended in found.order_by("pk").values_list(*columns):
            place = str(bid), servers[server], types[machine], worker
            self._rows[place].append(_Row(key, count, count * each - (worked or 0), ended))

    def shares(self, segment: Segment) -> Iterator[Share]:
        """A stretch of work, in order of time of all, cut where one row is complete and the next begins."""
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
        """The row of a job whose work was interrupted there and then."""
        rows = self._rows[job, lost.server, lost.type, lost.index]
        return next(
            (row.key for row in reversed(rows) if lost.at == row.ended or lost.at in row.stopped), _next(rows).key
        )

    def beginning(self, job: str, lost: Preemption) -> int:
        """The row of a job whose work began there and then, or begins after what is being written."""
        rows = self._rows[job, lost.server, lost.type, lost.index]
        return next((row.key for row in rows if lost.at in row.begun), _next(rows).key)

    @staticmethod
    def _note(row: _Row, count: int, start: int, end: int) -> Share:
        row.left -= count * (end - start)
        row.begun.add(start)
        row.stopped |= {end} if row.ended is None else {end, row.ended}
        row.ended = end
        return row.key, count, start, end


def _next(rows: list[_Row]) -> _Row:
    """The first row that is not complete, else the last."""
    return next((row for row in rows if row.left > 0), rows[-1])


def _batch(rows: list[_Row], segment: Segment) -> _Row:
    """The row of chunks that a cloud processes side by side: the one that goes on, or the next that begins."""
    work = segment.count * (segment.end - segment.start)
    able = [row for row in rows if row.count == segment.count and row.left >= work]
    if not able:
        raise RuntimeError(f"job {segment.job} has no chunks in the cloud for {segment}")
    return next(
        (row for row in able if row.ended == segment.start), next((r for r in able if r.ended is None), able[0])
    )
