"""Microsoft's Philly trace, as CSV slices: timestamp, duration, num_gpus, gpu_time, cluster.

Only run times of completed jobs are in it: no waiting, no retries. `gpu_time`, num_gpus x duration, is not looked at.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from cluster.traces.cells import each, expect, heading, positive, whole
from cluster.traces.records import LARGEST_GPUS, LARGEST_SECONDS, Malformed, TraceJob
from scheduling.errors import InvalidField
from scheduling.fields import shown

COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")


def read(lines: Iterable[str]) -> Iterator[TraceJob | Malformed]:
    """Every row as a job.

    The trace gives no time zone: times are taken as they are and shifted to the first job's. A row before the first
    is malformed; the others need not be in order, as clocks were set back once.
    """
    rest = iter(lines)
    heading(rest, COLUMNS)
    first: datetime | None = None

    def job(line: int, cells: list[str]) -> Iterator[TraceJob]:
        nonlocal first
        expect(cells, len(COLUMNS))
        moment = _moment(cells[0])
        duration_s = positive("duration", cells[1])
        gpus = whole("num_gpus", cells[2], low=1, high=LARGEST_GPUS)
        first = first or moment
        if moment < first:
            raise InvalidField("timestamp", f"{cells[0]} lies before the first row's")
        submitted_s = (moment - first).total_seconds()
        if submitted_s > LARGEST_SECONDS:
            raise InvalidField("timestamp", f"{cells[0]} lies more than {LARGEST_SECONDS:g} s after the first row's")
        yield TraceJob(line, submitted_s, gpus, duration_s=duration_s, tenant=cells[4])

    return each(rest, job, first=2)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidField("timestamp", f"expected a date and time, got {shown(text)}") from None
    if moment.tzinfo is not None:
        raise InvalidField("timestamp", "expected one without a zone")
    return moment
