"""A file of synthetic rows, and what was put into it: counted as it is written, not as it is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class Line(NamedTuple):
    """A line that stands for something odd; `field` is what a reader has to find wrong with it, empty if nothing."""

    text: str
    field: str
    why: str


@dataclass(frozen=True)
class Sample:
    """A file of the samples."""

    path: str
    """Relative to `tests/data/traces`."""
    imitates: str
    """The publisher whose format it has."""
    about: str
    """What makes it interesting."""
    format: str
    """As in `cluster.traces.formats.FORMATS`; empty if the project does not read such files."""
    content: bytes
    records: int = 0
    """Records that a reader has to find; a line of quotas is one for each tenant."""
    malformed: tuple[tuple[int, str], ...] = ()
    """Number and field of each line that is no record."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of the records."""

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "format": self.format,
            "records": self.records,
            "malformed": [list(row) for row in self.malformed],
            **self.facts,
        }


def lines_of(rows: Iterable[str], *, end: str = "\n") -> bytes:
    """A file of these lines."""
    return "".join(f"{row}{end}" for row in rows).encode()


def wrong_of(lines: Iterable[Line], *, first: int) -> tuple[tuple[int, str], ...]:
    """Number and field of each that is wrong; `first` is the number of the first."""
    return tuple((number, line.field) for number, line in enumerate(lines, first) if line.field)


def odd(path: str, imitates: str, format_: str, *, heading: str = "", lines: list[Line], **more: Any) -> Sample:
    """A file of odd lines, each of which is one record or none; its note lists them."""
    rows, first = ([heading], 2) if heading else ([], 1)
    wrong = wrong_of(lines, first=first)
    notes = (f"- line {number}: {line.why} ({_found(line)})" for number, line in enumerate(lines, first))
    about = "\n".join(["odd lines:", "", *notes])
    content = lines_of([*rows, *(line.text for line in lines)])
    return Sample(path, imitates, about, format_, content, len(lines) - len(wrong), wrong, more)


def _found(line: Line) -> str:
    return f"`{line.field}`" if line.field else "read"


def rng_of(seed: int) -> np.random.Generator:
    """The generator of a file, whose bits are the same on every machine."""
    return np.random.Generator(np.random.PCG64(seed))
