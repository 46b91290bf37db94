"""Addresses that no row can have: PostgreSQL fails on a query with the character NUL, where SQLite finds nothing."""

from collections.abc import Callable

from django.core.exceptions import SuspiciousOperation
from django.http import Http404, HttpRequest, HttpResponseBase


def refuse_nul(get_response: Callable[[HttpRequest], HttpResponseBase]) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: 404 for a path with NUL, 400 for a query with it. Operations of REST name the parameter."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        if "\0" in request.path:
            raise Http404
        if "%00" in request.META.get("QUERY_STRING", "") and not request.path.startswith("/api/"):
            raise SuspiciousOperation("The query contains NUL.")
        return get_response(request)

    return middleware
