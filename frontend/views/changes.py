"""The record of who changed what, for operators."""

from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from cluster.operators import is_operator
from frontend.access import page_view, viewer_of
from frontend.presenters import changes
from frontend.presenters.listing import listing
from web.csv_files import csv_file

MOST_ROWS: Final = 10_000
"""Entries of one CSV file; filters choose others."""


@page_view
def change_list(request: HttpRequest) -> HttpResponse:
    """List the entries that the filters in the address let pass, newest first."""
    chosen = _chosen(request)
    context = listing(request, changes.entries(chosen), chosen)
    context["most_rows"] = MOST_ROWS
    context["rows"] = [changes.change(entry) for entry in context["page"].object_list]
    return render(request, "frontend/changes.html", context)


@page_view
def change_csv(request: HttpRequest) -> HttpResponse:
    """Return the same as CSV, a row for each field."""
    rows = changes.csv_rows(changes.entries(_chosen(request))[:MOST_ROWS])
    return csv_file([changes.HEADER, *rows], "changes.csv", line_end="\r\n")


def _chosen(request: HttpRequest) -> dict[str, str]:
    """Return the filters in the address; 404 for others than operators."""
    if not is_operator(viewer_of(request)):
        raise Http404
    return {name: request.GET.get(name, "").strip()[:200] for name in changes.FILTERS}
