"""REST operations on traces: upload, list, read and delete."""

from typing import Final

from django.conf import settings
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.model.types import Json
from studies.experiments import readings
from studies.experiments.api.examples import TRACE_TEXT, TRACES
from studies.experiments.api.schemas import LONGEST_SOURCE, TraceIn, TraceOut, TracePage
from studies.experiments.request import LONGEST_LABEL
from studies.models import Trace
from studies.workloads.traces.upload import delete, keep
from web.headers import submitted
from web.openapi import PAGES, READ, WRITE, describe, examples, location, query
from web.pagination import page_of
from web.parsers import CsvParser, LargeJSONParser, csv_text
from web.views import ApiView, one_of, user_of

BESIDE_TEXT: Final = [
    query("label", {"type": "string", "minLength": 1, "maxLength": LONGEST_LABEL}, "With text/csv: your name for it."),
    query("source", {"type": "string", "minLength": 1, "maxLength": LONGEST_SOURCE}, "With text/csv: its file's name."),
]


class Traces(ApiView):
    """List and upload public traces: jobs, and files that describe machines, step times or quotas."""

    parser_classes = (LargeJSONParser, CsvParser)
    body_limit_bytes = settings.PLAN_BODY_LIMIT_BYTES

    @describe("List traces", {200: TracePage}, READ, parameters=PAGES, operation_id="traces_list")
    def get(self, request: Request) -> Response:
        """List your traces, or all traces for an operator, newest first."""
        return page_of(self, request, readings.visible_traces(user_of(request)), TracePage)

    @describe(
        "Upload a trace",
        {200: TraceOut, 201: TraceOut},
        WRITE,
        reads=lambda request: TraceIn.read(_body(request)),
        request={"application/json": TraceIn, "text/csv": OpenApiTypes.STR},
        parameters=[*BESIDE_TEXT, location("trace", [200, 201])],
        examples=[
            *examples(TRACES),
            OpenApiExample("Four jobs", value=TRACE_TEXT, request_only=True, media_type="text/csv"),
        ],
        operation_id="traces_upload",
    )
    def post(self, request: Request) -> Response:
        """Upload a trace as its publisher distributes it, with any delimiter; 200 if you have it already."""
        trace, new = keep(user_of(request), **TraceIn.read(_body(request)))
        address = reverse("api-trace", args=[trace.pk])
        return submitted(TraceOut.write(trace), status=201 if new else 200, location=address)


class OneTrace(ApiView):
    """Read or delete one trace."""

    @describe("Read a trace", {200: TraceOut}, READ, operation_id="traces_read")
    def get(self, request: Request, trace: int) -> Response:
        """Return its description and its malformed lines."""
        return Response(TraceOut.write(_found(request, trace)))

    @describe("Delete a trace", {204: None}, (*READ, 409), operation_id="traces_delete")
    def delete(self, request: Request, trace: int) -> Response:
        """Delete the trace; 409 while an experiment reads it."""
        delete(_found(request, trace))
        return Response(status=204)


def _body(request: Request) -> Json:
    """Return the JSON body, or the one that is equal to the CSV text and the query."""
    text = csv_text(request)
    return dict(request.data) if text is None else {"text": text, **request.query_params.dict()}


def _found(request: Request, number: int) -> Trace:
    return one_of(readings.visible_traces(user_of(request)), f"There is no trace {number} of yours.", pk=number)
