"""Operations on bids: submit, quote, read, withdraw, cancel."""

from dataclasses import replace
from typing import Final

from django.http import Http404
from django.urls import reverse
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import Scope
from accounts.rights import sees
from auctions.api.base import bid_and_cluster, cluster_named, market_named
from auctions.api.bid_shapes import (
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
from auctions.api.bodies import BulkIn
from auctions.api.examples import BIDS, BULK
from auctions.api.filters import check_owner, filtered
from auctions.domain.bid_check import BidIn
from auctions.engine import submission
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.models import UNDECIDED, Bid, BidState
from auctions.readings import publications, queues, schedules, visibility
from auctions.state.market_snapshot import one_version
from cluster.models import Cluster
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Json
from web.headers import idempotency_key, submitted, wait_s
from web.openapi import (
    KEY,
    PAGES,
    READ,
    REPLAYED,
    SLOT,
    WAITED,
    WRITE,
    describe,
    examples,
    location,
    prefer,
    query,
)
from web.pagination import page_of
from web.views import ApiView, no_body, user_of
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


def _check_owner(request: Request, cluster: str) -> None:
    check_owner(request, market_named(cluster))


def _check_bid(request: Request, cluster: str) -> None:
    if not sees(request.user, cluster):  # of submissions the permission has not looked
        raise Http404
    body, found = dict(request.data), market_named(cluster).cluster
    submission.check_bids(cluster=found, owner=user_of(request), bodies=[body], where="")


def _check_bids(request: Request, cluster: str) -> None:
    found = market_named(cluster).cluster
    submission.check_bids(cluster=found, owner=user_of(request), bodies=_bodies(request, found))


def _bodies(request: Request, cluster: Cluster) -> list[Json]:
    """Return the bids of a bulk submission. If another key is wrong, the error names what is wrong in the bids, too."""
    try:
        return list(BulkIn.read(request.data)["bids"])
    except InvalidField as error:
        wrong = list(error.all_wrong)
        if {one.field for one in wrong}.isdisjoint({"", "bids"}):  # else there is no list of bids
            bodies = dict(request.data)["bids"]
            try:
                submission.check_bids(cluster=cluster, owner=user_of(request), bodies=bodies)
            except InvalidField as of_bids:
                wrong += of_bids.all_wrong
        refuse_all(wrong)
        raise


class Bids(ApiView):
    """The bids of a cluster."""

    submits = True

    @describe("List bids", {200: BidPage}, READ, parameters=FILTERS, reads=_check_owner, operation_id="bids_list")
    @one_version()
    def get(self, request: Request, cluster: str) -> Response:
        """Your bids and those of your team, or all of them for an operator, newest first."""
        market = market_named(cluster)
        bids = visibility.bids(market, user_of(request)).select_related("owner").defer(*visibility.STATED)
        return page_of(self, request, filtered(request, bids, market), BidPage, by="-sequence", cluster=market.cluster)

    @describe(
        "Submit a bid",
        {200: BidOut, 201: BidOut, 202: BidOut},
        WRITE,
        request=BidIn,
        reads=_check_bid,
        parameters=[KEY, prefer("for the decision"), location("bid", [200, 201, 202]), WAITED, REPLAYED],
        examples=examples(BIDS),
        operation_id="bids_submit",
    )
    def post(self, request: Request, cluster: str) -> Response:
        """202 while undecided; 201 with the decision after `Prefer: wait`; 200 if decided and the key came before."""
        key, wait = idempotency_key(request), wait_s(request)
        body = dict(request.data)
        try:
            made = submission.submit_bid(cluster=cluster, owner=user_of(request), body=body, idempotency_key=key)
        except Cluster.DoesNotExist:
            cluster_named(cluster)
            raise
        bid, found = made.bid, made.bid.market.cluster
        waited = wait is not None and wait_until_settled(bid, wait, waiting=(BidState.SUBMITTED,), user=bid.owner_id)
        return submitted(
            BidOut.write(bid, cluster=found),
            status=202 if bid.state in UNDECIDED else 201 if made.created else 200,
            location=reverse("api-bid", args=[found.name, bid.sequence]),
            waited=wait if waited else None,
            repeated=not made.created,
        )


class BulkBids(ApiView):
    """Many bids at once."""

    @describe(
        "Submit many bids",
        {200: BulkOut, 202: BulkOut},
        WRITE,
        request=BulkIn,
        reads=_check_bids,
        parameters=[KEY, REPLAYED],
        examples=examples({"Two at once": BULK}),
        operation_id="bids_submit_bulk",
    )
    def post(self, request: Request, cluster: str) -> Response:
        """Stores all of these bids in this order, or none; 200 if the key came before."""
        key, found = idempotency_key(request), cluster_named(cluster)
        bodies = _bodies(request, found)
        stored = submission.submit_bids(cluster=found, owner=user_of(request), bodies=bodies, idempotency_key=key)
        repeated = not all(one.created for one in stored)
        answer = BulkOut.write({"results": [one.bid for one in stored]}, cluster=found)
        return submitted(answer, status=200 if repeated else 202, repeated=repeated)


class Quotes(ApiView):
    """Quotes for bids."""

    scope_of_changes = Scope.READ  # a quote changes nothing

    @describe(
        "Ask for a quote",
        {200: QuoteOut},
        WRITE,
        request=BidIn,
        reads=_check_bid,
        operation_id="quote",
        examples=examples(BIDS),
    )
    @one_version()
    def post(self, request: Request, cluster: str) -> Response:
        """The decision that this bid would get now. It binds nobody and changes nothing."""
        body, market = dict(request.data), market_named(cluster)
        quote = submission.quote(market=market, body=body, bidder=user_of(request))
        if quote.stands_until is not None:
            past = publications.standing_past(market, user_of(request))
            quote = replace(quote, standing_wait=past.wait, standing_admitted_share=past.admitted_share)
        return Response(QuoteOut.write(quote, cluster=market.cluster))


class OneBid(ApiView):
    """One bid."""

    @describe("Read a bid", {200: BidOut}, READ, operation_id="bids_read")
    @one_version()
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """The bid with its receipt."""
        bid, found = bid_and_cluster(request, cluster, sequence)
        return Response(BidOut.write(bid, cluster=found))


class BidSchedule(ApiView):
    """The schedule of one bid."""

    @describe("Read a schedule", {200: ScheduleOut}, READ, operation_id="bids_schedule")
    @one_version()
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """Return the present schedule of the job; 404 if nothing was granted."""
        bid, found = bid_and_cluster(request, cluster, sequence)
        schedule = schedules.schedule_of(bid)
        if schedule is None:
            raise Http404(f"Bid {sequence} has no schedule: it is {bid.get_state_display().lower()}.")
        return Response(ScheduleOut.write(schedule, cluster=found))


class BidChanges(ApiView):
    """The changes of one bid's plan."""

    @describe("Read how a plan changed", {200: ChangesOut}, READ, operation_id="bids_changes")
    @one_version()
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """Each planned start and completion of the job, with the time from which it was the plan."""
        bid, found = bid_and_cluster(request, cluster, sequence)
        return Response(ChangesOut.write({"results": bid.plan_changes.all()}, cluster=found))


class BidMachines(ApiView):
    """The number of machines that one bid holds, slot by slot."""

    @describe("Read machines by slot", {200: MachinesOut}, READ, operation_id="bids_machines")
    @one_version()
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """Workers and parameter servers in each slot, past and planned."""
        bid, found = bid_and_cluster(request, cluster, sequence)
        return Response(MachinesOut.write({"results": schedules.machines_of(bid)}, cluster=found))


class BidSegments(ApiView):
    """The times in which workers process chunks of one bid."""

    @describe("Read segments", {200: SegmentsOut}, READ, operation_id="bids_segments")
    @one_version()
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """The times at which workers process chunks of the job; future ones are forecasts. Empty without queues."""
        bid, found = bid_and_cluster(request, cluster, sequence)
        return Response(SegmentsOut.write({"results": schedules.segments_of(bid, found)}, cluster=found))


class BidPreemptions(ApiView):
    """Preemptions of one bid."""

    @describe("Read preemptions", {200: PreemptionsOut}, READ, operation_id="bids_preemptions")
    @one_version()
    def get(self, request: Request, cluster: str, sequence: int) -> Response:
        """Each time that a worker interrupted a chunk of the job for a chunk of another job."""
        bid, found = bid_and_cluster(request, cluster, sequence)
        rows = queues.displacements(bid, user_of(request))
        return Response(PreemptionsOut.write({"results": rows}, cluster=found))


class Withdraw(ApiView):
    """Take back a bid."""

    @describe(
        "Withdraw a bid",
        {200: BidOut},
        WRITE,
        operation_id="bids_withdraw",
    )
    def post(self, request: Request, cluster: str, sequence: int) -> Response:
        """Withdraws a bid that is undecided, standing or quarantined; 409 in any other state."""
        no_body(request)
        bid, found = _to_end(request, cluster, sequence)
        return Response(BidOut.write(withdraw_bid(bid), cluster=found))


class Cancel(ApiView):
    """End a job."""

    @describe("Cancel a job", {200: BidOut}, WRITE, operation_id="bids_cancel")
    def post(self, request: Request, cluster: str, sequence: int) -> Response:
        """Ends a planned or running job and frees its future slots, without a refund. 409 in any other state."""
        no_body(request)
        bid, found = _to_end(request, cluster, sequence)
        return Response(BidOut.write(cancel_job(bid), cluster=found))


def _to_end(request: Request, cluster: str, sequence: int) -> tuple[Bid, Cluster]:
    bid, found = bid_and_cluster(request, cluster, sequence)
    if not visibility.may_end(bid, user_of(request)):
        raise PermissionDenied("Only the owner of this bid, and operators of the team, may end it.")
    return bid, found
