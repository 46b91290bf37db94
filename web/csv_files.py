"""CSV files that people download and open in spreadsheets."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np
from django.http import HttpResponse
from rest_framework.renderers import JSONRenderer

from web.views import ApiView

FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters of a formula, white space that spreadsheets drop before it, and characters read as these."""


class CsvRenderer(JSONRenderer):
    """Lets a client accept CSV; it renders only errors, which stay JSON."""

    media_type = "text/csv"
    format = "csv"


class CsvView(ApiView):
    """An operation that answers with a CSV file."""

    renderer_classes = (CsvRenderer, JSONRenderer)


class Writable(Protocol):
    """A file or an answer that takes text."""

    def write(self, text: str, /) -> object:
        """Take the next part."""


def csv_file(rows: Iterable[Sequence[Any]], name: str) -> HttpResponse:
    """Answer with a table as a file of this name."""
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    write_rows(response, rows)
    return response


def write_rows(file: Writable, rows: Iterable[Sequence[Any]]) -> None:
    """Write a table in the form that all CSV files have, those of commands, too."""
    csv.writer(file, lineterminator="\n").writerows(cells(rows))


def cells(rows: Iterable[Sequence[Any]]) -> Iterator[list[Any]]:
    """The rows with truth values in words, and with no text that a spreadsheet takes for a formula."""
    for row in rows:
        yield [_cell(value) for value in row]


def _cell(value: Any) -> Any:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    # Names and labels are what users wrote.
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value
