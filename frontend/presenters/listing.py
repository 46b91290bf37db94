"""Paginated lists whose filters are in the address."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property

PER_PAGE: Final = 25


class _Pages(Paginator):  # type: ignore[type-arg]  # it takes no parameter at run time
    """Pages of rows whose number may be known."""

    def __init__(self, rows: "QuerySet[Any] | Sequence[Any]", per_page: int, known: int | None) -> None:
        super().__init__(rows, per_page)
        self._known = known

    @cached_property
    def count(self) -> int:
        """The number of rows; they are counted if it is not known."""
        return super().count if self._known is None else self._known


def listing(
    request: HttpRequest,
    rows: "QuerySet[Any] | Sequence[Any]",
    chosen: Mapping[str, str] | None = None,
    *,
    per_page: int = PER_PAGE,
    count: int | None = None,
) -> dict[str, Any]:
    """Return the context of a list's template: the requested page of rows, the filters, and as `query` the part of the
    address that keeps the filters on other pages.

    `chosen` holds the filters in the address; a filter that is not set is empty. `count` is the number of rows if it is
    known: to count very many takes the database long.
    """
    kept = {name: value for name, value in (chosen or {}).items() if value}
    return {
        **(chosen or {}),
        "page": _Pages(rows, per_page, count).get_page(request.GET.get("page")),
        "query": f"{urlencode(kept)}&" if kept else "",
    }
