"""Bids from a Philly trace (timestamp, duration, num_gpus, gpu_time, cluster): values are drawn, the rest is real.

A row becomes a data-parallel job of `num_gpus` chunks, so that many workers at most, whose whole run on that
many workers of the reference speed takes `duration` seconds.
"""

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from auctions.demo.jobs import Machines, Offer, value_curve
from cluster.models import LARGEST_CHUNKS, LARGEST_MINIBATCHES
from scheduling.arrays import Json

COLUMNS = ("timestamp", "duration", "num_gpus", "gpu_time", "cluster")
STEP_S = 0.5
"""One mini-batch on a worker of reference speed; no trace says, so it is declared here."""
UPDATE_S = 0.02
GRADIENT_MB = (30.0, 575.0)
EPOCHS = (50, 200)


@dataclass(frozen=True)
class Malformed:
    """A row that is no job, and why."""

    line: int
    why: str


@dataclass(frozen=True)
class Row:
    """One job of the trace."""

    line: int
    at_s: float
    """Seconds after the first job."""
    duration_s: float
    gpus: int


def read(lines: Iterable[str]) -> Iterator[Row | Malformed]:
    """Every row after the heading, in order, as a job or as what is wrong with it.

    The trace gives no time zone: times are taken as they are and shifted to the first job's.

    Raises
    ------
    ValueError
        If the heading is not that of a Philly trace.
    """
    reader = csv.reader(lines)
    heading = tuple(next(reader, ()))
    if heading != COLUMNS:
        raise ValueError(f"expected the columns {', '.join(COLUMNS)}; the file has {', '.join(heading) or 'none'}")
    first: datetime | None = None
    for cells in reader:
        try:
            moment, duration_s, gpus = _cells(cells)
        except ValueError as error:
            yield Malformed(reader.line_num, str(error))
            continue
        first = first or moment
        if moment < first:
            yield Malformed(reader.line_num, f"timestamp: {cells[0]} lies before the first row's")
            continue
        yield Row(reader.line_num, (moment - first).total_seconds(), duration_s, gpus)


def offer(row: Row, machines: Machines, *, seed: int, name: str, from_s: float) -> Offer:
    """The bid of one row; what the trace does not say is drawn from the seed and the row's line."""
    rng = np.random.default_rng([seed, row.line])
    low, high = EPOCHS
    # A short job cannot have many epochs: each has at least one mini-batch.
    most = max(1, int(row.duration_s / (STEP_S + UPDATE_S)))
    epochs = min(int(rng.integers(low, high + 1)), most)
    minibatches = max(1, round(row.duration_s / (epochs * (STEP_S + UPDATE_S))))
    body: Json = {
        "label": f"{name} line {row.line}",
        "epochs": epochs,
        "chunks": row.gpus,
        "minibatches": min(minibatches, LARGEST_MINIBATCHES),
        "gradient_mb": round(float(rng.uniform(*GRADIENT_MB)), 1),
        "worker_step_s": dict.fromkeys(machines.workers, STEP_S),
        "ps_step_s": dict.fromkeys(machines.pss, UPDATE_S),
        "utility": value_curve(rng, machines.slot_s),
    }
    return Offer(at_s=from_s + row.at_s, key=f"{name}-{seed}-{row.line}", body=body)


def _cells(cells: list[str]) -> tuple[datetime, float, int]:
    if len(cells) != len(COLUMNS):
        raise ValueError(f"expected {len(COLUMNS)} cells, got {len(cells)}")
    try:
        moment = datetime.fromisoformat(cells[0])
    except ValueError:
        raise ValueError(f"timestamp: expected a date and time, got {cells[0]!r}") from None
    if moment.tzinfo is not None:
        raise ValueError("timestamp: expected one without a zone")
    duration_s = _positive("duration", cells[1])
    gpus = _positive("num_gpus", cells[2])
    if gpus != int(gpus) or gpus > LARGEST_CHUNKS:
        raise ValueError(f"num_gpus: expected a whole number of at most {LARGEST_CHUNKS}, got {cells[2]!r}")
    return moment, duration_s, int(gpus)


def _positive(field: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{field}: expected a number, got {text!r}") from None
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{field}: expected a finite number above 0, got {text!r}")
    return number
