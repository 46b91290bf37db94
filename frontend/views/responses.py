"""Responses of pages: built only if their data has changed, as figures, as tables, or after an action."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, JsonResponse
from django.shortcuts import render
from django.utils.cache import patch_cache_control

from accounts.rights import operates
from auctions.models import Market
from auctions.readings.publications import sees_all, unrecorded_withdrawals
from auctions.state.market_snapshot import market_snapshot
from cluster.database.prepared import Prepared
from frontend.access import viewer_of
from frontend.figures.base import Drawing, Table
from scheduling.model.errors import InvalidField, in_words
from web.csv_files import csv_file
from web.errors import ServiceError
from web.problems import too_many
from web.throttles import PasswordThrottle

_COMPUTED = Prepared(
    lambda pk: Market.objects.filter(pk=pk).values_list("certificate__version", "competitive_ratio__computed_at"), int
)
"""Versions of what is derived from a market."""


def unless_known(
    request: HttpRequest, market: Market, build: Callable[[], HttpResponse], *more: object
) -> HttpResponse:
    """Return 304 if the viewer has this version of a market, or else the response; call it in a `market_view`.

    The version is that of the market's data: its events, withdrawals that none of them records yet, derived results,
    the slot and what the viewer may see; `more` is what the response shows beyond that.
    """
    computed = _COMPUTED.first(market.pk)
    viewer, seen = viewer_of(request), market_snapshot(market)
    rights = (operates(viewer, market.cluster), sees_all(market, viewer))
    withdrawals = unrecorded_withdrawals(market, viewer)
    parts = (seen.market.version, withdrawals, computed, seen.moment.now, *rights, *more)
    return unless_tagged(request, parts, build)


def unless_tagged(request: HttpRequest, parts: tuple[object, ...], build: Callable[[], HttpResponse]) -> HttpResponse:
    """Return 304 if the viewer has the response that these parts identify, or else the response with its ETag."""
    tag = tag_of(request, parts)
    known = [part.strip().removeprefix("W/") for part in request.headers.get("If-None-Match", "").split(",")]
    response = HttpResponseNotModified() if tag in known else build()
    response.headers["ETag"] = tag
    patch_cache_control(response, private=True, no_cache=True)
    return response


def tag_of(request: HttpRequest, parts: tuple[object, ...]) -> str:
    """Return the ETag of what these parts identify for this viewer at this address."""
    whole = (*parts, viewer_of(request).pk, request.get_full_path())
    return f'"{sha256(repr(whole).encode()).hexdigest()[:24]}"'


def part_response(
    request: HttpRequest, parts: tuple[object, ...], template: str, context: Callable[[], dict[str, Any]]
) -> HttpResponse:
    """Return the part of a page that changes, for open pages."""
    return unless_tagged(request, parts, lambda: render(request, template, context()))


def version_response(request: HttpRequest, parts: tuple[object, ...]) -> HttpResponse:
    """Return the tag of a page as text, by which open pages see whether it changed."""
    words = f"version {tag_of(request, parts)}"
    return unless_tagged(request, parts, lambda: HttpResponse(words, content_type="text/plain"))


def figure_response(drawing: Drawing) -> HttpResponse:
    """Return a figure as Plotly's JSON."""
    return JsonResponse(drawing.to_json())


def csv_response(table: Table, filename: str) -> HttpResponse:
    """Return a table as a file to download."""
    return csv_file([table.header, *table.rows], filename)


def say_done(request: HttpRequest, act: Callable[[], str]) -> bool:
    """Do something and show its message on the next page, or why it was refused; return whether it was done."""
    try:
        messages.success(request, act())
    except (ServiceError, InvalidField) as error:
        say_refused(request, error)
        return False
    return True


def say_refused(request: HttpRequest, error: Exception) -> None:
    """Show on the next page why something was refused."""
    messages.error(request, in_words(error))


def too_often(request: HttpRequest, what: str) -> HttpResponse | None:
    """Return the refusal of a request that checks or stores a password, or begins a login, if its address sent too
    many; `what` names them. None if it may go on.
    """
    throttle = PasswordThrottle()
    if throttle.allow_request(request, None):  # type: ignore[arg-type]  # of Django's request it reads the same
        return None
    return too_many(request, f"Too many {what}; try again a little later.", wait_s=throttle.wait() or 60.0)
