"""REST operations on counterfactuals, for operators, and on alternatives of a bid, for its owner and operators."""

from typing import Final

from django.http import Http404, HttpResponse
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from auctions.api.base import bid_of, market_named, operated_market
from auctions.counterfactual.alternatives import alternatives_of
from auctions.models import Market
from studies.background import states
from studies.background.creating import IdempotencyKey, create_once
from studies.counterfactuals import readings
from studies.counterfactuals.api.examples import EXAMPLES
from studies.counterfactuals.api.schemas import AlternativesOut, ComparedBids, CounterfactualOut, CounterfactualPage
from studies.counterfactuals.requests import CounterfactualIn, CounterfactualRequest, create
from studies.job_tables import COUNTERFACTUALS
from studies.models import Counterfactual
from web.csv_files import CsvView, csv_file
from web.headers import idempotency_key, submitted
from web.openapi import CSV, KEY, PAGES, READ, REPLAYED, WRITE, describe, examples, location, query
from web.pagination import page_of
from web.parameters import whole_number
from web.views import ApiView, no_body, one_of, user_of

MOST_ROWS: Final = 500
CHANGED: Final = query("changed", str, "true: only bids that come out differently.", enum=["true", "false"])
AFTER: Final = query(
    "after", {"type": "integer", "minimum": 0, "maximum": 2**53}, "Only bids beyond this number; from `next` of a page."
)


class Counterfactuals(ApiView):
    """List and create the counterfactuals of a market."""

    @describe(
        "List counterfactuals", {200: CounterfactualPage}, READ, parameters=PAGES, operation_id="counterfactuals_list"
    )
    def get(self, request: Request, cluster: str) -> Response:
        """List the counterfactuals of the market, newest first. For operators only."""
        found = readings.visible(user_of(request), _market(request, cluster)).defer("result")
        return page_of(self, request, found, CounterfactualPage)

    @describe(
        "Create a counterfactual",
        {200: CounterfactualOut, 202: CounterfactualOut},
        WRITE,
        request=CounterfactualIn,
        parameters=[KEY, location("counterfactual", [200, 202]), REPLAYED],
        examples=examples(EXAMPLES),
        operation_id="counterfactuals_create",
    )
    def post(self, request: Request, cluster: str) -> Response:
        """Decide the market's record so far again with another policy. For operators only.

        Answers 202 with the place in the queue; a worker computes the result. Answers 200 if the same key was sent
        before and the computation has ended.
        """
        body, market, owner = dict(request.data), _market(request, cluster), user_of(request)
        key = IdempotencyKey.of(idempotency_key(request), {"cluster": cluster, **body})
        made = create_once(
            Counterfactual, owner, key, lambda: create(owner, market, CounterfactualRequest.from_json(body), key)
        )
        return submitted(
            CounterfactualOut.write(made.row),
            status=200 if made.row.ended else 202,
            location=reverse("api-counterfactual", args=[cluster, made.row.pk]),
            repeated=not made.created,
        )


class OneCounterfactual(ApiView):
    """Read or delete one counterfactual."""

    @describe("Read a counterfactual", {200: CounterfactualOut}, READ, operation_id="counterfactuals_read")
    def get(self, request: Request, cluster: str, counterfactual: int) -> Response:
        """Return its state and progress, and both sets of totals once it is completed."""
        return Response(CounterfactualOut.write(_found(request, cluster, counterfactual)))

    @describe("Delete a counterfactual", {204: None}, READ, operation_id="counterfactuals_delete")
    def delete(self, request: Request, cluster: str, counterfactual: int) -> Response:
        """Delete a counterfactual; a running one is cancelled first."""
        _found(request, cluster, counterfactual).delete()
        return Response(status=204)


class Cancel(ApiView):
    """Cancel a counterfactual."""

    @describe("Cancel a counterfactual", {200: CounterfactualOut}, WRITE, operation_id="counterfactuals_cancel")
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
        parameters=[CHANGED, AFTER],
        operation_id="counterfactuals_bids",
    )
    def get(self, request: Request, cluster: str, counterfactual: int) -> Response:
        """Return the recorded and the counterfactual result of each bid, by number; empty before it is completed."""
        found, changed = _found(request, cluster, counterfactual), _changed(request)
        after = whole_number(request, "after") or 0
        rows = [row for row in readings.rows_of(found, changed=changed) if row.sequence > after]
        page, more = rows[:MOST_ROWS], len(rows) > MOST_ROWS
        beyond = None
        if more:
            address = reverse("api-counterfactual-bids", args=[cluster, counterfactual])
            only = "changed=true&" if changed else ""
            beyond = request.build_absolute_uri(f"{address}?{only}after={page[-1].sequence}")
        return Response(ComparedBids.write({"next": beyond, "results": page}))


class Table(CsvView):
    """Return the results of all bids as a table."""

    @describe("Download a counterfactual", CSV, READ, parameters=[CHANGED], operation_id="counterfactuals_csv")
    def get(self, request: Request, cluster: str, counterfactual: int) -> HttpResponse:
        """Return one row for each bid, as CSV; 404 before it is completed."""
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
        (*READ, 409),
        operation_id="bids_alternatives",
    )
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """Return what another value or time would have brought, on the book that the bid was decided against.

        Answers 409 while the bid waits, once that book is archived, where too many events must be replayed to
        restore it, and for a bid that competed with others: it would show what bids that stand state.
        """
        market = market_named(cluster)
        found = alternatives_of(bid_of(request, market, sequence), caller=user_of(request).pk)
        return Response(AlternativesOut.write(found, slot_s=market.cluster.slot_seconds))


def _market(request: Request, cluster: str) -> Market:
    refusal = "Counterfactuals show everybody's bids: they are for operators."
    return operated_market(request, cluster, refusal=refusal)


def _found(request: Request, cluster: str, number: int) -> Counterfactual:
    found = readings.visible(user_of(request), _market(request, cluster))
    return one_of(found, f"There is no counterfactual {number} of {cluster}.", pk=number)


def _changed(request: Request) -> bool:
    return bool(request.query_params.get("changed") == "true")
