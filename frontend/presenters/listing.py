"""Paginated lists whose filters are in the address."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest

PER_PAGE: Final = 25


def listing(
    request: HttpRequest,
    rows: "QuerySet[Any] | Sequence[Any]",
    chosen: Mapping[str, str] | None = None,
    *,
    per_page: int = PER_PAGE,
) -> dict[str, Any]:
    """Return the context of a list's template: the requested page of rows, the filters, and as `query` the part of the
    address that keeps the filters on other pages.

    `chosen` holds the filters in the address; a filter that is not set is empty.
    """
    kept = {name: value for name, value in (chosen or {}).items() if value}
    return {
        **(chosen or {}),
        "page": Paginator(rows, per_page).get_page(request.GET.get("page")),
        "query": f"{urlencode(kept)}&" if kept else "",
    }
