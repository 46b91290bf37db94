"""REST operations on counterfactuals, for operators, and on alternatives of a bid, for its owner and operators."""

from typing import Final

from django.http import Http404, HttpResponse
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from auctions.api.base import (
    bid_of,
    market_named,
    operated_market,
)
from auctions.api.described import CLUSTER, SEQUENCE
from auctions.counterfactual.alternatives import alternatives
from auctions.models import Market
from studies.background import states
from studies.background.idempotency import IdempotencyKey, create_once
from studies.background.rest import accepted, body_of, csv_file, no_body, page_of
from studies.counterfactuals import readings
from studies.counterfactuals.api.examples import EXAMPLES
from studies.counterfactuals.api.schemas import (
    AlternativesOut,
    ComparedBids,
    CounterfactualOut,
    CounterfactualPage,
    CounterfactualRow,
)
from studies.counterfactuals.requests import CounterfactualIn, Question, create
from studies.counterfactuals.table import COUNTERFACTUALS
from studies.models import Counterfactual
from web.headers import idempotency_key
from web.openapi import (
    KEY,
    PAGES,
    READ,
    REPLAYED,
    WRITE,
    answered,
    describe,
    examples,
    query,
)
from web.parameters import known_parameters
from web.refusals import refuse
from web.renderers import CsvRenderer
from web.views import ApiView, user_of

MOST_ROWS: Final = 500
NUMBER: Final = OpenApiParameter(
    "counterfactual",
    {"type": "integer", "minimum": 1},
    OpenApiParameter.PATH,
    description="Number of the counterfactual.",
)
LOCATION: Final = answered("Location", "Address of the counterfactual.", [200, 202])
CHANGED: Final = query("changed", str, "true: only bids that come out differently.", enum=["true", "false"])
ROWS: Final = [
    CHANGED,
    query("after", {"type": "integer", "minimum": 0}, "Only bids beyond this number; from `next` of a page."),
]
CONFLICTS: Final = (*READ, 409)


class Counterfactuals(ApiView):
    """List and create the counterfactuals of a market."""

    @describe(
        "List counterfactuals",
        {200: CounterfactualPage},
        READ,
        parameters=[CLUSTER, *PAGES],
        operation_id="counterfactuals_list",
    )
    def get(self, request: Request, cluster: str) -> Response:
        """List the counterfactuals of the market, newest first. For operators only."""
        found = readings.visible(user_of(request), _market(request, cluster)).defer("result")
        return page_of(self, request, found, CounterfactualRow)

    @describe(
        "Create a counterfactual",
        {200: CounterfactualOut, 202: CounterfactualOut},
        WRITE,
        request=CounterfactualIn,
        parameters=[CLUSTER, KEY, LOCATION, REPLAYED],
        examples=examples(EXAMPLES),
        operation_id="counterfactuals_create",
    )
    def post(self, request: Request, cluster: str) -> Response:
        """Decide the market's record so far again with another policy. For operators only.

        Answers 202 with the place in the queue; a worker computes the result. Answers 200 if the same key was sent
        before and the computation has ended.
        """
        body, market, owner = body_of(request), _market(request, cluster), user_of(request)
        key = IdempotencyKey.of(idempotency_key(request), {"cluster": cluster, **body})
        made = create_once(Counterfactual, owner, key, lambda: create(owner, market, Question.from_json(body), key))
        location = reverse("api-counterfactual", args=[cluster, made.row.pk])
        document = CounterfactualOut.write(made.row)
        return accepted(document, location, is_open=not made.row.ended, created=made.created)


class OneCounterfactual(ApiView):
    """Read or delete one counterfactual."""

    @describe(
        "Read a counterfactual",
        {200: CounterfactualOut},
        READ,
        parameters=[CLUSTER, NUMBER],
        operation_id="counterfactuals_read",
    )
    def get(self, request: Request, cluster: str, counterfactual: int) -> Response:
        """Return its state and progress, and both sets of totals once it is completed."""
        known_parameters(request)
        return Response(CounterfactualOut.write(_found(request, cluster, counterfactual)))

    @describe(
        "Delete a counterfactual",
        {204: None},
        READ,
        parameters=[CLUSTER, NUMBER],
        operation_id="counterfactuals_delete",
    )
    def delete(self, request: Request, cluster: str, counterfactual: int) -> Response:
        """Delete a counterfactual; a running one is cancelled first."""
        known_parameters(request)
        _found(request, cluster, counterfactual).delete()
        return Response(status=204)


class Cancel(ApiView):
    """Cancel a counterfactual."""

    @describe(
        "Cancel a counterfactual",
        {200: CounterfactualOut},
        WRITE,
        request=None,
        parameters=[CLUSTER, NUMBER],
        operation_id="counterfactuals_cancel",
    )
    def post(self, request: Request, cluster: str, counterfactual: int) -> Response:
        """Cancel it. A running one ends within seconds; 409 if it has already ended."""
        no_body(request)
        found = _found(request, cluster, counterfactual)
        states.cancel(COUNTERFACTUALS, found.pk)
        found.refresh_from_db()
        return Response(CounterfactualOut.write(found))


class Bids(ApiView):
    """List each bid as recorded and as it would have been."""

    @describe(
        "Read bids of a counterfactual",
        {200: ComparedBids},
        READ,
        parameters=[CLUSTER, NUMBER, *ROWS],
        operation_id="counterfactuals_bids",
    )
    def get(self, request: Request, cluster: str, counterfactual: int) -> Response:
        """Return the recorded and the counterfactual result of each bid, by number; empty before it is completed."""
        known_parameters(request, "changed", "after")
        found, changed, after = _found(request, cluster, counterfactual), _changed(request), _after(request)
        rows = [row for row in readings.rows_of(found, changed=changed) if row.sequence > after]
        page, more = rows[:MOST_ROWS], len(rows) > MOST_ROWS
        beyond = None
        if more:
            address = reverse("api-counterfactual-bids", args=[cluster, counterfactual])
            only = "changed=true&" if changed else ""
            beyond = request.build_absolute_uri(f"{address}?{only}after={page[-1].sequence}")
        return Response(ComparedBids.write({"next": beyond, "results": page}))


class Table(ApiView):
    """Return the results of all bids as a table."""

    renderer_classes = (CsvRenderer, JSONRenderer)

    @describe(
        "Download a counterfactual",
        {(200, "text/csv"): OpenApiTypes.STR},
        READ,
        parameters=[CLUSTER, NUMBER, CHANGED],
        operation_id="counterfactuals_csv",
    )
    def get(self, request: Request, cluster: str, counterfactual: int) -> HttpResponse:
        """Return one row for each bid, as CSV; 404 before it is completed."""
        known_parameters(request, "changed")
        found = _found(request, cluster, counterfactual)
        if found.result is None:
            raise Http404(
                f"Counterfactual {counterfactual} has no rows yet: it is {found.get_state_display().lower()}."
            )
        rows = readings.table(readings.rows_of(found, changed=_changed(request)))
        return csv_file(rows, f"counterfactual-{found.pk}.csv")


class BidAlternatives(ApiView):
    """Compare one bid with other statements of the same bid."""

    @describe(
        "Read alternatives of a bid",
        {200: AlternativesOut},
        CONFLICTS,
        parameters=[CLUSTER, SEQUENCE],
        operation_id="bids_alternatives",
    )
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """Return what another value or time would have brought, on the book that the bid was decided against.

        Answers 409 while the bid waits, and where too many events must be replayed to restore that book.
        """
        known_parameters(request)
        market = market_named(cluster)
        found = alternatives(bid_of(request, market, sequence), caller=user_of(request).pk)
        return Response(AlternativesOut.write(found, slot_s=market.cluster.slot_seconds))


def _market(request: Request, cluster: str) -> Market:
    refusal = "Counterfactuals show everybody's bids: they are for operators."
    return operated_market(request, cluster, refusal=refusal)


def _found(request: Request, cluster: str, number: int) -> Counterfactual:
    market = _market(request, cluster)
    found = readings.visible(user_of(request), market).filter(pk=number).first()
    if found is None:
        raise Http404(f"There is no counterfactual {number} of {cluster}.")
    return found


def _changed(request: Request) -> bool:
    text = request.query_params.get("changed", "false")
    if text not in ("true", "false"):
        raise refuse("changed", "expected true or false")
    return text == "true"


def _after(request: Request) -> int:
    text = request.query_params.get("after", "0")
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise refuse("after", "expected a whole number of at least 0")
    return int(text)
