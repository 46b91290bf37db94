"""CSV files that people download and open in spreadsheets."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

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


def csv_file(rows: Iterable[Sequence[Any]], name: str) -> HttpResponse:
    """Answer with a table as a file of this name."""
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    csv.writer(response, lineterminator="\n").writerows(inert(rows))
    return response


def inert(rows: Iterable[Sequence[Any]]) -> Iterator[list[Any]]:
    """The rows with no text that a spreadsheet takes for a formula: names and labels are what users wrote."""
    for row in rows:
        yield [f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULAS) else cell for cell in row]
