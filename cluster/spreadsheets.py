"""Rows of CSV files that people open in spreadsheets."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a formula, white space that spreadsheets drop before it, and characters read as these."""


def inert(rows: Iterable[Sequence[Any]]) -> Iterator[list[Any]]:
    """The rows with no text that a spreadsheet takes for a formula: names and labels are what users wrote."""
    for row in rows:
        yield [f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULAS) else cell for cell in row]
