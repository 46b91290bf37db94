"""REST operations on traces: upload, list, read and delete."""

from typing import Any, Final

from django.conf import settings
from django.http import Http404
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from studies.background.rest import page_of
from studies.experiments import readings
from studies.experiments.api.examples import TRACE_TEXT, TRACES
from studies.experiments.api.schemas import LONGEST_SOURCE, TraceIn, TraceOut, TracePage, TraceRow
from studies.experiments.request import LONGEST_LABEL
from studies.models import Trace
from studies.workloads.traces.upload import delete, keep
from web.openapi import PAGES, READ, WRITE, answered, describe, examples, query
from web.parameters import known_parameters
from web.parsers import CsvParser, LargeJSONParser
from web.views import ApiView, user_of

TRACE: Final = OpenApiParameter(
    "trace", {"type": "integer", "minimum": 1}, OpenApiParameter.PATH, description="Number of the trace."
)
BESIDE_TEXT: Final = [
    query("label", {"type": "string", "minLength": 1, "maxLength": LONGEST_LABEL}, "With text/csv: your name for it."),
    query("source", {"type": "string", "minLength": 1, "maxLength": LONGEST_SOURCE}, "With text/csv: its file's name."),
]
LOCATION: Final = answered("Location", "Address of the trace.", [200, 201])


class Traces(ApiView):
    """List and upload public traces: jobs, and files that describe machines, step times or quotas."""

    parser_classes = (LargeJSONParser, CsvParser)
    body_limit_bytes = settings.PLAN_BODY_LIMIT_BYTES

    @describe("List traces", {200: TracePage}, READ, parameters=PAGES, operation_id="traces_list")
    def get(self, request: Request) -> Response:
        """List your traces, or all traces for an operator, newest first."""
        return page_of(self, request, readings.visible_traces(user_of(request)), TraceRow)

    @describe(
        "Upload a trace",
        {200: TraceOut, 201: TraceOut},
        WRITE,
        request={"application/json": TraceIn, "text/csv": OpenApiTypes.STR},
        parameters=[*BESIDE_TEXT, LOCATION],
        examples=[
            *examples(TRACES),
            OpenApiExample("Four jobs", value=TRACE_TEXT, request_only=True, media_type="text/csv"),
        ],
        operation_id="traces_upload",
    )
    def post(self, request: Request) -> Response:
        """Upload a trace as its publisher distributes it, with any delimiter; 200 if you have it already."""
        body: Any = request.data
        if request.content_type.partition(";")[0].strip() == CsvParser.media_type:
            known_parameters(request, "label", "source")
            body = {"text": body.get("csv", ""), **request.query_params.dict()}  # an empty body is not parsed
        else:
            known_parameters(request)
        trace, new = keep(user_of(request), **TraceIn.read(dict(body)))
        response = Response(TraceOut.write(trace), status=201 if new else 200)
        response["Location"] = reverse("api-trace", args=[trace.pk])
        return response


class OneTrace(ApiView):
    """Read or delete one trace."""

    @describe("Read a trace", {200: TraceOut}, READ, parameters=[TRACE], operation_id="traces_read")
    def get(self, request: Request, trace: int) -> Response:
        """Return its description and its malformed lines."""
        known_parameters(request)
        return Response(TraceOut.write(_found(request, trace)))

    @describe("Delete a trace", {204: None}, (*READ, 409), parameters=[TRACE], operation_id="traces_delete")
    def delete(self, request: Request, trace: int) -> Response:
        """Delete the trace; 409 while an experiment reads it."""
        known_parameters(request)
        delete(_found(request, trace))
        return Response(status=204)


def _found(request: Request, number: int) -> Trace:
    trace = readings.visible_traces(user_of(request)).filter(pk=number).first()
    if trace is None:
        raise Http404(f"There is no trace {number} of yours.")
    return trace
