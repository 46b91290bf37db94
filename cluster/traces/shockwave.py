"""Shockwave's traces: Gavel's lines with how the batch size changes and a measured duration. Poisson arrivals."""

from collections.abc import Iterable, Iterator

from cluster.traces.cells import each, expect, positive, real, whole
from cluster.traces.records import LARGEST_GPUS, LARGEST_STEPS, Malformed, TraceJob
from scheduling.model.errors import InvalidField
from scheduling.model.validation import shown

CELLS = 12
MODES = ("static", "accordion", "gns")


def read(lines: Iterable[str]) -> Iterator[TraceJob | Malformed]:
    """Every row as a job; arrivals count from 0 as they stand."""
    return each(lines, _job, first=1, delimiter="\t")


def _job(line: int, cells: list[str]) -> Iterator[TraceJob]:
    expect(cells, CELLS)
    if cells[7] not in MODES:
        raise InvalidField("mode", f"expected one of {', '.join(MODES)}, got {shown(cells[7])}")
    slo = real("SLO", cells[9], low=-1.0)
    yield TraceJob(
        line,
        real("arrival_time", cells[11]),
        whole("scale_factor", cells[6], low=1, high=LARGEST_GPUS),
        duration_s=positive("duration", cells[10]),
        model=cells[0],
        steps=whole("total_steps", cells[5], low=1, high=LARGEST_STEPS),
        weight=positive("priority_weight", cells[8]),
        slo=slo if slo > 0 else None,
        mode=cells[7],
    )
