"""Answers that the REST operations of all kinds of background jobs share."""

import csv
from collections.abc import Iterable
from io import StringIO
from typing import Any

from django.db.models import QuerySet
from django.http import HttpResponse
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from cluster.spreadsheets import inert
from scheduling.model.types import Json
from web.pagination import NewestFirst
from web.parameters import known_parameters
from web.schema import Schema


def page_of(view: APIView, request: Request, rows: "QuerySet[Any]", shape: type[Schema]) -> Response:
    """Answer with one page of rows, newest first."""
    known_parameters(request, "cursor", "page_size")
    pages = NewestFirst()
    results = [shape.write(row) for row in pages.paginate_queryset(rows, request, view=view) or []]
    return Response({"next": pages.get_next_link(), "previous": pages.get_previous_link(), "results": results})


def body_of(request: Request) -> Json:
    """Return the body of a request that has no query parameters."""
    known_parameters(request)
    data: Any = request.data
    return dict(data)


def no_body(request: Request) -> None:
    """Refuse a request that has query parameters, or a body with any key."""
    Schema.read(body_of(request))


def accepted(document: Json, location: str, *, is_open: bool = True, created: bool = True) -> Response:
    """Answer 202 while the job is open, else 200; `created` is False if an earlier request created it."""
    response = Response(document, status=202 if is_open else 200)
    response["Location"] = location
    if not created:
        response["Idempotency-Replayed"] = "true"
    return response


def csv_file(rows: Iterable[list[object]], name: str) -> HttpResponse:
    """Answer with a table as a file of this name."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(inert(rows))
    response = HttpResponse(text.getvalue(), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
