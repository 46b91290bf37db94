"""Cells of delimited text: one line is one row, so that a stray quotation mark cannot swallow the lines after it."""

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from cluster.traces.records import LARGEST_SECONDS, LARGEST_STEPS, Malformed, malformed
from scheduling.model.errors import InvalidField
from scheduling.model.validation import check_integer, check_number, shown

Read = TypeVar("Read")
UNREADABLE = "\ufffd"
"""Replacement character in decoded text for bytes that are not UTF-8."""
NUMBER: Final = re.compile(r" *[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)? *")
"""A number as publishers write it. Python reads more as one: 1_000, digits of other scripts, nan. No digit fits two of
its parts: a cell of 100,000 digits and a letter would take minutes to be refused."""


def heading(lines: Iterator[str], columns: tuple[str, ...]) -> None:
    """Take the heading; raises InvalidField if it is not this one."""
    got = split(next(lines, ""), ",")
    if got != list(columns):
        raise InvalidField(
            "heading", f"expected the columns {', '.join(columns)}, got {', '.join(got)[:200] or 'none'}"
        )


def split(line: str, delimiter: str) -> list[str]:
    """The cells of one line.

    Raises
    ------
    InvalidField
        If it has bytes that are no UTF-8, or quotation marks that do not close.
    """
    if UNREADABLE in line:
        raise InvalidField("line", "expected UTF-8, got other bytes")
    text = line.rstrip("\r\n")
    if delimiter == "\t" or '"' not in text:
        return text.split(delimiter) if text else []
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise InvalidField("line", f"expected comma-separated cells, got invalid CSV: {error}") from None


def each(
    lines: Iterable[str], read: Callable[[int, list[str]], Iterable[Read]], *, first: int, delimiter: str = ","
) -> Iterator[Read | Malformed]:
    """Yield the result of `read` for each line, or the error of the line; lines are numbered from `first`."""
    for number, line in enumerate(lines, first):
        try:
            yield from list(read(number, split(line, delimiter)))
        except InvalidField as error:
            yield malformed(number, error)


def expect(cells: list[str], count: int) -> None:
    """Check the number of cells."""
    if len(cells) != count:
        raise InvalidField("line", f"expected {count} cells, got {len(cells)}")


def once(field: str, text: str, seen: dict[str, int], line: int) -> None:
    """Refuse what an earlier line has; `seen` has the line of each, and this one from now on."""
    first = seen.setdefault(text, line)
    if first != line:
        raise InvalidField(field, f"expected a value that no other line has, got {shown(text)}, as in line {first}")


def real(field: str, text: str, *, low: float = 0.0, high: float = LARGEST_SECONDS) -> float:
    """A finite number in `[low, high]`."""
    if NUMBER.fullmatch(text) is None:
        raise InvalidField(field, f"expected a number, got {shown(text)}")
    return check_number(field, float(text), low=low, high=high)


def positive(field: str, text: str) -> float:
    """A finite number above 0."""
    number = real(field, text)
    if number == 0:
        raise InvalidField(field, f"expected more than 0, got {shown(text)}")
    return number


def whole(field: str, text: str, *, low: int = 0, high: int = LARGEST_STEPS) -> int:
    """A whole number in `[low, high]`, also where it is written as 4.0."""
    if NUMBER.fullmatch(text) is None or not float(text).is_integer():
        raise InvalidField(field, f"expected a whole number, got {shown(text)}")
    return check_integer(field, int(float(text)), low=low, high=high)
