"""Rows read in pages: between two pages no cursor is open.

An open cursor keeps a read snapshot. On SQLite a write on the same connection then fails at once if anybody has
committed since, whatever the timeout is; on PostgreSQL it holds a transaction or a copy of all rows.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

from django.db.models import QuerySet

Row = TypeVar("Row")


def in_pages(rows: "QuerySet[Any, Row]", *, by: str, size: int = 500) -> Iterator[Row]:
    """The rows in the order of a column that is unique among them, whatever their own order was."""
    for page in pages(rows, by=by, size=size):
        yield from page


def pages(rows: "QuerySet[Any, Row]", *, by: str, size: int = 500) -> Iterator[list[Row]]:
    """The same rows, page by page; no page is empty."""
    ordered = rows.order_by(by)
    page = list(ordered[:size])
    while page:
        yield page
        if len(page) < size:
            return
        page = list(ordered.filter(**{f"{by}__gt": getattr(page[-1], by)})[:size])
