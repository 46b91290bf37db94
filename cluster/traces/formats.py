"""The one list of formats: a new one is one module and one line here."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, TypeVar

from cluster.traces import gavel, helios, pai, philly, shockwave, sia, tiresias
from cluster.traces.cells import UNREADABLE, split
from cluster.traces.records import Machine, Malformed, Quota, Reader, Record, StepTime, Throughput, TraceJob
from scheduling.model.errors import InvalidField, SchedulingError

One = TypeVar("One", bound=Record)
KINDS: Final[Mapping[str, type[Record]]] = {
    "jobs": TraceJob,
    "machines": Machine,
    "quotas": Quota,
    "step_times": StepTime,
    "throughputs": Throughput,
}
"""Contents of files, by name."""


@dataclass(frozen=True)
class Format:
    """A file format: the type of its lines, and how its first line is recognised."""

    title: str
    record: type[Record]
    read: Reader
    knows: Callable[[str], bool]
    """Function that returns whether a first line is of this format."""

    @property
    def kind(self) -> str:
        """Contents of its files, as in `KINDS`."""
        return _kind(self.record)


def _kind(record: type[object]) -> str:
    return next(name for name, one in KINDS.items() if one is record)


class UnknownFormat(SchedulingError):
    """A file whose first line matches no format."""


@dataclass(frozen=True)
class Trace(Generic[One]):
    """The contents of a file; every line is a record or malformed."""

    format: str
    """Name of the format, as in `FORMATS`."""
    source: str
    """The file's name."""
    sha256: str
    """SHA-256 of its bytes, hexadecimal."""
    rows: tuple[One, ...]
    malformed: tuple[Malformed, ...]


def _columns(*headings: tuple[str, ...]) -> Callable[[str], bool]:
    return lambda line: tuple(_cells(line, ",")) in headings


def _tabs(*counts: int) -> Callable[[str], bool]:
    return lambda line: len(_cells(line, "\t")) in counts


def _is_machine(line: str) -> bool:
    cells = _cells(line, ",")
    return len(cells) == len(pai.COLUMNS) and all(cell.isascii() and cell.isdecimal() for cell in cells[2:])


def _cells(line: str, delimiter: str) -> list[str]:
    try:
        return split(line, delimiter)
    except InvalidField:
        return []


FORMATS: Mapping[str, Format] = {
    "philly": Format("Microsoft Philly, CSV slice", TraceJob, philly.read, _columns(philly.COLUMNS)),
    "gavel": Format("Gavel", TraceJob, gavel.read, _tabs(gavel.PHYSICAL, gavel.DRAWN)),
    "shockwave": Format("Shockwave", TraceJob, shockwave.read, _tabs(shockwave.CELLS)),
    "gavel_throughputs": Format(
        "Gavel, throughputs", Throughput, gavel.read_throughputs, lambda line: line.lstrip("\ufeff \t").startswith("{")
    ),
    "tiresias": Format("Tiresias, jobs", TraceJob, tiresias.read, _columns(tiresias.JOB_COLUMNS)),
    "tiresias_cluster": Format("Tiresias, cluster", Machine, tiresias.read_cluster, _columns(tiresias.CLUSTER_COLUMNS)),
    "pai": Format("Alibaba PAI 2020, machines", Machine, pai.read, _is_machine),
    "helios": Format(
        "Helios, quotas of tenants", Quota, helios.read, lambda line: helios.recognises(_cells(line, ","))
    ),
    "sia": Format("Sia and Pollux, step times", StepTime, sia.read, _columns(sia.PLACEMENTS, sia.SCALABILITY)),
}


def formats_of(*kinds: str) -> list[str]:
    """Names of the formats whose files hold one of these."""
    return [name for name, one in FORMATS.items() if one.kind in kinds]


def recognise(first_line: str) -> str:
    """The name of the format of a file with this first line; no two know the same line.

    Raises
    ------
    UnknownFormat
        If it is of none; the message lists those there are.
    """
    for name, one in FORMATS.items():
        if one.knows(first_line):
            return name
    if UNREADABLE in first_line:
        raise UnknownFormat("expected UTF-8, got other bytes in the first line")
    known = ", ".join(f"{name} ({one.title})" for name, one in FORMATS.items())
    got = "another first line" if first_line.strip() else "an empty first line"
    raise UnknownFormat(f"expected a file of a known format ({known}), got {got}")


class TooManyMalformed(SchedulingError):
    """Too many lines are malformed."""


def read_trace(
    lines: Iterable[str], *kinds: type[One], source: str = "", sha256: str = "", most_malformed: int | None = None
) -> Trace[One]:
    """Read a whole trace of records of one of these kinds, whatever its format.

    Raises
    ------
    UnknownFormat
        If it is of no format with such records.
    InvalidField
        If it is a table with a mistake in it.
    TooManyMalformed
        If more than `most_malformed` lines are no records; the others are not looked at any more.
    """
    text = list(lines)
    name = recognise(text[0] if text else "")
    if FORMATS[name].record not in kinds:
        wanted = " or ".join(_kind(kind) for kind in kinds)
        raise UnknownFormat(f"expected a file with {wanted}, got one with {FORMATS[name].kind} ({FORMATS[name].title})")
    rows: list[One] = []
    malformed: list[Malformed] = []
    for row in FORMATS[name].read(text):
        if isinstance(row, Malformed):
            malformed.append(row)
            if most_malformed is not None and len(malformed) > most_malformed:
                raise TooManyMalformed(
                    f"more than {most_malformed:,} lines are no records; the first is {malformed[0]}"
                )
        elif isinstance(row, kinds):
            rows.append(row)
        else:
            raise TypeError(f"the reader of {name} gave {row!r}")
    return Trace(name, source, sha256, tuple(rows), tuple(malformed))


def open_trace(path: Path, *kinds: type[One]) -> Trace[One]:
    """Read a file; bytes that are no UTF-8 make their line malformed.

    Raises
    ------
    OSError
        If it cannot be read.
    UnknownFormat, InvalidField
        As `read_trace`.
    """
    content = path.read_bytes()
    lines = lines_of(content.decode("utf-8-sig", errors="replace"))
    return read_trace(lines, *kinds, source=path.name, sha256=hashlib.sha256(content).hexdigest())


def lines_of(text: str) -> list[str]:
    """A file's lines, without an empty one at its end."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines
