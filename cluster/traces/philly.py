"""Microsoft's Philly trace, as CSV slices: timestamp, duration, num_gpus, gpu_time, cluster.

Only run times of completed jobs are in it: no waiting, no retries. `gpu_time`, num_gpus x duration, is not looked at.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from cluster.traces.cells import each, expect, heading, positive, whole
from cluster.traces.records import LARGEST_GPUS, LARGEST_SECONDS, Malformed, TraceJob
from scheduling.model.errors import InvalidField
from scheduling.model.validation import shown

COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
DAY: Final = datetime.fromisoformat("2017-01-01")
"""An arbitrary day: only differences of times are used, without a time zone."""


def read(lines: Iterable[str]) -> Iterator[TraceJob | Malformed]:
    """Every row as a job.

    The trace gives no time zone: times are taken as they are and shifted to the earliest job's. Rows need not be in
    order; clocks were set back once.
    """
    rest = iter(lines)
    heading(rest, COLUMNS)
    return _shifted(list(each(rest, _row, first=2)))


def _row(line: int, cells: list[str]) -> Iterator[tuple[timedelta, TraceJob]]:
    """Return the time of submission after DAY, and the job without it."""
    expect(cells, len(COLUMNS))
    moment = _moment(cells[0])
    duration_s = positive("duration", cells[1])
    gpus = whole("num_gpus", cells[2], low=1, high=LARGEST_GPUS)
    yield moment - DAY, TraceJob(line, 0.0, gpus, duration_s=duration_s, tenant=cells[4])


def _shifted(rows: list[tuple[timedelta, TraceJob] | Malformed]) -> Iterator[TraceJob | Malformed]:
    first = min((row[0] for row in rows if not isinstance(row, Malformed)), default=timedelta())
    for row in rows:
        if isinstance(row, Malformed):
            yield row
            continue
        moment, job = row
        submitted_s = (moment - first).total_seconds()
        if submitted_s > LARGEST_SECONDS:
            problem = f"{DAY + moment} lies more than {LARGEST_SECONDS:g} s after the earliest, {DAY + first}"
            yield Malformed(job.line, "timestamp", problem)
        else:
            yield replace(job, submitted_s=submitted_s)


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidField("timestamp", f"expected a date and time, got {shown(text)}") from None
    if moment.tzinfo is not None:
        raise InvalidField("timestamp", f"expected a time without a zone, got {shown(text)}")
    return moment
