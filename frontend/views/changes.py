"""The record of who changed what, for operators, operators of a cluster and administrators of a team."""

from typing import Final

from auditlog.models import LogEntry
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from accounts.rights import rights_of
from frontend.access import page_view, viewer_of
from frontend.presenters import changes
from frontend.presenters.listing import listing
from web.csv_files import csv_file

MOST_ROWS: Final = 10_000
"""Entries of one CSV file; filters choose others."""


@page_view
def change_list(request: HttpRequest) -> HttpResponse:
    """List the entries that the viewer may read and the filters in the address let pass, newest first."""
    chosen = _chosen(request)
    context = listing(request, changes.entries(_visible(request), chosen), chosen)
    context["most_rows"] = MOST_ROWS
    context["all_clusters"] = with_address = _sees_addresses(request)
    context["rows"] = [changes.change(entry, with_address=with_address) for entry in context["page"].object_list]
    return render(request, "frontend/changes.html", context)


@page_view
def change_csv(request: HttpRequest) -> HttpResponse:
    """Return the same as CSV, a row for each field."""
    found = changes.entries(_visible(request), _chosen(request))[:MOST_ROWS]
    rows = changes.csv_rows(found, with_address=_sees_addresses(request))
    return csv_file([changes.HEADER, *rows], "changes.csv")


def _visible(request: HttpRequest) -> "QuerySet[LogEntry]":
    found = changes.visible_entries(viewer_of(request))
    if found is None:
        raise Http404
    return found


def _sees_addresses(request: HttpRequest) -> bool:
    return rights_of(viewer_of(request)).operates_all


def _chosen(request: HttpRequest) -> dict[str, str]:
    """Return the filters in the address."""
    return {name: request.GET.get(name, "").strip()[:200] for name in changes.FILTERS}
