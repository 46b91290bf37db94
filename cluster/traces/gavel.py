"""Gavel's traces (tab-separated, no heading), and its measured throughputs.

A line has 10 cells as run on a physical cluster, or 7 as drawn with the arrivals, sizes and durations of Philly. Its
length is in mini-batches: how long that takes is measured for each GPU type, model and number of GPUs.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Final

from cluster.traces.cells import each, positive, real, whole
from cluster.traces.records import LARGEST_GPUS, LARGEST_STEPS, Malformed, Throughput, TraceJob
from scheduling.model.errors import InvalidField
from scheduling.model.json_text import read_json
from scheduling.model.validation import check_each, check_named, check_number, check_object, shown

PHYSICAL, DRAWN = 10, 7
"""Cells of a line."""

KEY: Final = re.compile(r"""\((["'])(?P<model>.+)\1, (?P<gpus>[0-9]{1,6})\)""")
"""Key of a measurement: a pair as Python prints it."""
SLOWEST, FASTEST = 1e-6, 1e9
"""Mini-batches a second."""
Throughputs = Mapping[str, Mapping[tuple[str, int], float]]
"""Mini-batches a second of (model with batch size, GPUs) alone on each GPU type; 0 where it does not fit its memory."""


def read(lines: Iterable[str]) -> Iterator[TraceJob | Malformed]:
    """Every row as a job; arrivals count from 0 as they stand."""
    return each(lines, _job, first=1, delimiter="\t")


def throughputs(text: str) -> Throughputs:
    """Read `physical_cluster_throughputs.json`: GPU type -> ('model', GPUs) -> mini-batches a second without others.

    Raises
    ------
    InvalidField
        If it is no JSON of that shape; it names all wrong entries.
    """
    try:
        document = read_json(text.removeprefix("\ufeff"))
    except ValueError as error:
        raise InvalidField("throughputs", f"expected JSON, got an invalid document: {str(error)[:200]}") from None
    if not isinstance(document, dict):
        raise InvalidField("throughputs", f"expected an object, got {shown(document)}")
    return check_named({gpu: partial(_table, gpu, rows) for gpu, rows in document.items()})


def read_throughputs(lines: Iterable[str]) -> Iterator[Throughput]:
    """Yield every entry of that file; raises InvalidField like `throughputs`: one mistake rejects the table."""
    for gpu_type, rows in throughputs("\n".join(lines)).items():
        yield from (Throughput(gpu_type, model, gpus, per_s) for (model, gpus), per_s in rows.items())


def on_one_gpu(measured: Throughputs) -> dict[str, dict[str, float]]:
    """Mini-batches a second by GPU type and model, of one GPU; as JSON, which `of_one_gpu` reads back."""
    return {gpu: {model: rate for (model, gpus), rate in rows.items() if gpus == 1} for gpu, rows in measured.items()}


def of_one_gpu(document: Mapping[str, Mapping[str, float]]) -> Throughputs:
    """Read the key that `on_one_gpu` wrote."""
    return {gpu: {(model, 1): rate for model, rate in rows.items()} for gpu, rows in document.items()}


def _job(line: int, cells: list[str]) -> Iterator[TraceJob]:
    if len(cells) == PHYSICAL:
        steps, gpus, arrival = cells[5], cells[6], cells[9]
        weight: float | None = positive("priority_weight", cells[7])
        slo: float | None = real("SLO", cells[8], low=-1.0)
    elif len(cells) == DRAWN:
        steps, arrival, gpus = cells[4], cells[5], cells[6]
        weight = slo = None
    else:
        raise InvalidField("line", f"expected {PHYSICAL} or {DRAWN} cells, got {len(cells)}")
    yield TraceJob(
        line,
        real("arrival_time", arrival),
        whole("scale_factor", gpus, low=1, high=LARGEST_GPUS),
        model=_model(cells[0]),
        steps=whole("total_steps", steps, low=1, high=LARGEST_STEPS),
        weight=weight,
        slo=slo if slo is not None and slo > 0 else None,
    )


def _model(text: str) -> str:
    if not text.strip():
        raise InvalidField("job_type", f"expected the name of a model, got {shown(text)}")
    return text


def _table(gpu: str, rows: object) -> dict[tuple[str, int], float]:
    if not isinstance(rows, dict):
        raise InvalidField(_at(gpu), f"expected an object, got {shown(rows)}")
    return dict(check_each(partial(_entry, _at(gpu, name), name, row) for name, row in rows.items()))


def _entry(where: str, name: str, row: object) -> tuple[tuple[str, int], float]:
    return _key(where, name), _alone(where, row)


def _at(*names: str) -> str:
    """Position in the table."""
    return ".".join(("throughputs", *(name[:60] for name in names)))


def _key(where: str, name: str) -> tuple[str, int]:
    match = KEY.fullmatch(name)
    if match is None:
        raise InvalidField(where, f"expected ('model', number of GPUs), got {shown(name)}")
    return match["model"], int(match["gpus"])


def _alone(where: str, row: object) -> float:
    found = check_object(where, row, required=["null"], optional=row if isinstance(row, dict) else ())
    rate = check_number(f"{where}.null", found["null"], high=FASTEST)
    if 0 < rate < SLOWEST:
        raise InvalidField(f"{where}.null", f"expected 0, or {SLOWEST:g} to {FASTEST:g}, got {shown(rate)}")
    return rate
