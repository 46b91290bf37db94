"""Records of traces of all formats: jobs, machines, quotas, step times; or why a line is no record."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from scheduling.model.errors import InvalidField

LARGEST_GPUS = 10_000
"""Largest number of GPUs of one job, equal to the largest number of data chunks of a bid."""
LARGEST_SECONDS = 1e9
LARGEST_STEPS = 10**12
LONGEST_FIELD = 60
"""Longest field name in an error, characters: if tenants are columns, a name in a file may have megabytes."""


@dataclass(frozen=True)
class Malformed:
    """A line that is no record, and why: `field` is the wrong column, or `line` if the column is not known."""

    line: int
    """Counted from 1, the heading included."""
    field: str
    message: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.field}: {self.message}"


@dataclass(frozen=True)
class TraceJob:
    """A training job that was submitted to a cluster. None, or empty text, where the format does not say."""

    line: int
    submitted_s: float
    """Seconds after the first job of the trace."""
    gpus: int
    duration_s: float | None = None
    """Run time on those GPUs, without waiting."""
    tenant: str = ""
    """The virtual cluster, whose jobs share a quota."""
    model: str = ""
    """The model, with its batch size if that is part of the name."""
    steps: int | None = None
    """Mini-batches in all."""
    weight: float | None = None
    """Priority."""
    slo: float | None = None
    """Deadline, as a multiple of the run time."""
    mode: str = ""
    """Change of the batch size in training: static, accordion or gns."""


@dataclass(frozen=True)
class Machine:
    """Equal servers of a cluster."""

    line: int
    name: str
    gpu_type: str
    """CPU if it has no GPUs; empty if the format does not state it."""
    cpus: int
    memory_gb: int
    gpus: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Quota:
    """GPUs that a tenant had on a day. Without a dictionary of its own: a file of 8 MB may have millions."""

    line: int
    day: str
    """ISO date."""
    tenant: str
    gpus: int


@dataclass(frozen=True)
class StepTime:
    """One measured configuration of data-parallel training (all-reduce)."""

    line: int
    placement: tuple[int, ...]
    """GPUs on each node."""
    batch: int
    """Samples on each GPU."""
    step_s: float
    """One mini-batch, synchronisation included."""
    sync_s: float
    """The part of it that all-reduce of gradients takes."""


@dataclass(frozen=True)
class Throughput:
    """Training speed of a model alone on `gpus` GPUs of a type. It comes from an entry of a table, not from a line."""

    gpu_type: str
    model: str
    """The model with its batch size."""
    gpus: int
    per_s: float
    """Mini-batches a second; 0 where it does not fit the GPU's memory."""


Record: TypeAlias = TraceJob | Machine | Quota | StepTime | Throughput
Reader: TypeAlias = Callable[[Iterable[str]], Iterator[Record | Malformed]]
"""Every line after the heading, in order, as records or as what is wrong with it.

Raises `InvalidField` naming the columns if the heading is another format's.
"""


def malformed(line: int, error: InvalidField) -> Malformed:
    """A line that a check refused."""
    return Malformed(line, error.field[:LONGEST_FIELD], error.problem)
