"""Operations on bids: submit, quote, read, withdraw, cancel."""

from typing import Any, Final

from django.http import Http404
from django.urls import reverse
from rest_framework.request import Request
from rest_framework.response import Response

from auctions.api import documents
from auctions.api.base import (
    bid_of,
    cluster_named,
    market_named,
)
from auctions.api.bodies import MOST_BIDS, BidIn, BulkIn
from auctions.api.described import ANSWERED, CLUSTER, SEQUENCE
from auctions.api.examples import (
    BIDS,
    BULK,
)
from auctions.api.filters import (
    BidPages,
    filtered,
)
from auctions.api.serializers import (
    BidOut,
    BidPage,
    BulkOut,
    ChangesOut,
    MachinesOut,
    PreemptionsOut,
    QuoteOut,
    ScheduleOut,
    SegmentsOut,
)
from auctions.engine import submission
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.models import UNDECIDED, Bid, BidState
from auctions.state.market_snapshot import one_version
from cluster.models import Cluster
from cluster.operators import is_operator
from scheduling.model.validation import check_object
from web.headers import idempotency_key, wait_s
from web.openapi import (
    KEY,
    PAGES,
    PREFER,
    READ,
    REPLAYED,
    SLOT,
    WRITE,
    describe,
    examples,
    query,
)
from web.parameters import known_parameters
from web.refusals import refuse
from web.views import ApiView, user_of
from web.waiting import wait_until_settled

FILTERS: Final = [
    query("state", str, "Only bids in these states; may be repeated.", enum=BidState.values, many=True),
    query("label", {"type": "string", "minLength": 1}, "Only bids of this label."),
    query("owner", {"type": "string", "minLength": 1}, "Only bids of this user; operators only."),
    query("admitted", str, "Only admitted bids, or only rejected ones.", enum=["true", "false"]),
    query("from_slot", SLOT, "Arrived in this slot or later."),
    query("before_slot", SLOT, "Arrived before this slot."),
    *PAGES,
]


class Bids(ApiView):
    """The bids of a cluster."""

    @describe("List bids", {200: BidPage}, READ, parameters=[CLUSTER, *FILTERS], operation_id="bids_list")
    @one_version()
    def get(self, request: Request, cluster: str) -> Response:
        """Your bids, or all of them for an operator, newest first."""
        market = market_named(cluster)
        bids = Bid.objects.filter(market=market).select_related("owner")
        if not is_operator(request.user):
            bids = bids.filter(owner=request.user.pk)
        pages = BidPages()
        page = pages.paginate_queryset(filtered(request, bids), request, view=self) or []
        results = [documents.brief(bid, market.cluster) for bid in page]
        return Response({"next": pages.get_next_link(), "previous": pages.get_previous_link(), "results": results})

    @describe(
        "Submit a bid",
        {200: BidOut, 201: BidOut, 202: BidOut},
        WRITE,
        request=BidIn,
        parameters=[CLUSTER, KEY, PREFER, *ANSWERED],
        examples=examples(BIDS),
        operation_id="bids_submit",
    )
    def post(self, request: Request, cluster: str) -> Response:
        """202 while undecided; 201 with the decision after `Prefer: wait`; 200 if decided and the key came before."""
        known_parameters(request)
        key, wait = idempotency_key(request), wait_s(request)
        found = cluster_named(cluster)
        body = dict(request.data)
        submitted = submission.submit_bid(cluster=found, owner=user_of(request), body=body, idempotency_key=key)
        bid = submitted.bid
        waited = wait is not None and wait_until_settled(bid, wait, waiting=(BidState.SUBMITTED,))
        code = 202 if bid.state in UNDECIDED else 201 if submitted.created else 200
        response = Response(documents.full(bid, found), status=code)
        response["Location"] = reverse("api-bid", args=[found.name, bid.sequence])
        if waited:
            response["Preference-Applied"] = f"wait={wait}"
        if not submitted.created:
            response["Idempotency-Replayed"] = "true"
        return response


class BulkBids(ApiView):
    """Many bids at once."""

    @describe(
        "Submit many bids",
        {200: BulkOut, 202: BulkOut},
        WRITE,
        request=BulkIn,
        parameters=[CLUSTER, KEY, REPLAYED],
        examples=examples({"Two at once": BULK}),
        operation_id="bids_submit_bulk",
    )
    def post(self, request: Request, cluster: str) -> Response:
        """Stores all of these bids in this order, or none; 200 if the key came before."""
        known_parameters(request)
        key, found = idempotency_key(request), cluster_named(cluster)
        bodies = check_object("", dict(request.data), required=["bids"])["bids"]
        if not isinstance(bodies, list) or not 1 <= len(bodies) <= MOST_BIDS:
            raise refuse("bids", f"expected a list of 1 to {MOST_BIDS} bids")
        stored = submission.submit_bids(cluster=found, owner=user_of(request), bodies=bodies, idempotency_key=key)
        replayed = not all(one.created for one in stored)
        answer = {"results": [documents.brief(one.bid, found) for one in stored]}
        response = Response(answer, status=200 if replayed else 202)
        if replayed:
            response["Idempotency-Replayed"] = "true"
        return response


class Quotes(ApiView):
    """What a bid would get."""

    @describe(
        "Ask for a quote",
        {200: QuoteOut},
        WRITE,
        request=BidIn,
        parameters=[CLUSTER],
        operation_id="quote",
        examples=examples(BIDS),
    )
    def post(self, request: Request, cluster: str) -> Response:
        """The decision this bid would get now; binds nobody, changes nothing."""
        known_parameters(request)
        found = cluster_named(cluster)
        return Response(documents.quoted(submission.quote(cluster=found, body=dict(request.data)), found))


class OneBid(ApiView):
    """One bid."""

    @describe("Read a bid", {200: BidOut}, READ, parameters=[CLUSTER, SEQUENCE], operation_id="bids_read")
    @one_version()
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """The bid with its receipt."""
        known_parameters(request)
        bid, found = _found(request, cluster, sequence)
        return Response(documents.full(bid, found))


class BidSchedule(ApiView):
    """The schedule of one bid."""

    @describe("Read a schedule", {200: ScheduleOut}, READ, parameters=[CLUSTER, SEQUENCE], operation_id="bids_schedule")
    @one_version()
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """What is held for the job as it stands; 404 if nothing was granted."""
        known_parameters(request)
        bid, found = _found(request, cluster, sequence)
        schedule = documents.schedule_of(bid, found)
        if schedule is None:
            raise Http404(f"Bid {sequence} has no schedule: it is {bid.get_state_display().lower()}.")
        return Response(schedule)


class BidChanges(ApiView):
    """How the plan of one bid changed."""

    @describe(
        "Read how a plan changed", {200: ChangesOut}, READ, parameters=[CLUSTER, SEQUENCE], operation_id="bids_changes"
    )
    @one_version()
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """Each start and completion that was planned for the job, and from when on."""
        known_parameters(request)
        bid, found = _found(request, cluster, sequence)
        return Response({"results": documents.changes_of(bid, found)})


class BidMachines(ApiView):
    """How many machines one bid holds, slot by slot."""

    @describe(
        "Read machines by slot", {200: MachinesOut}, READ, parameters=[CLUSTER, SEQUENCE], operation_id="bids_machines"
    )
    @one_version()
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """Workers and parameter servers in each slot, past and planned."""
        known_parameters(request)
        bid, found = _found(request, cluster, sequence)
        return Response({"results": documents.machines_of(bid, found)})


class BidSegments(ApiView):
    """When workers process chunks of one bid."""

    @describe("Read segments", {200: SegmentsOut}, READ, parameters=[CLUSTER, SEQUENCE], operation_id="bids_segments")
    @one_version()
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """What workers took from their queues, and will take as forecast; empty where jobs book slots."""
        known_parameters(request)
        bid, found = _found(request, cluster, sequence)
        return Response({"results": documents.segments_of(bid, found)})


class BidPreemptions(ApiView):
    """Who displaced chunks of one bid."""

    @describe(
        "Read preemptions", {200: PreemptionsOut}, READ, parameters=[CLUSTER, SEQUENCE], operation_id="bids_preemptions"
    )
    @one_version()
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """Each time a worker left a chunk in the middle for another job's."""
        known_parameters(request)
        bid, found = _found(request, cluster, sequence)
        return Response({"results": documents.preemptions_of(bid, found, user_of(request))})


class Withdraw(ApiView):
    """Take back a bid."""

    @describe(
        "Withdraw a bid",
        {200: BidOut},
        WRITE,
        request=None,
        parameters=[CLUSTER, SEQUENCE],
        operation_id="bids_withdraw",
    )
    def post(self, request: Request, cluster: str, sequence: int) -> Response:
        """For a bid that waits or is quarantined; 409 once it is decided."""
        bid, found = _to_change(request, cluster, sequence)
        return Response(documents.full(withdraw_bid(bid), found))


class Cancel(ApiView):
    """End a job."""

    @describe(
        "Cancel a job", {200: BidOut}, WRITE, request=None, parameters=[CLUSTER, SEQUENCE], operation_id="bids_cancel"
    )
    def post(self, request: Request, cluster: str, sequence: int) -> Response:
        """Frees the future slots of a planned or running job; what it paid stays paid. 409 in any other state."""
        bid, found = _to_change(request, cluster, sequence)
        return Response(documents.full(cancel_job(bid), found))


def _found(request: Request, cluster: str, sequence: int) -> tuple[Bid, Cluster]:
    market = market_named(cluster)
    return bid_of(request, market, sequence), market.cluster


def _to_change(request: Request, cluster: str, sequence: int) -> tuple[Bid, Cluster]:
    known_parameters(request)
    data: Any = request.data
    check_object("", dict(data), required=[])
    return _found(request, cluster, sequence)
