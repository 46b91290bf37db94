"""The list of bids, and the page of one bid: its receipt, its schedule, and forms to withdraw or cancel it."""

from collections.abc import Callable, Mapping
from math import ceil, floor
from typing import Final
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from accounts.rights import operates, rights_of
from auctions.counterfactual.alternatives import SEALED, competed
from auctions.domain.bid_conversion import policy_in_force
from auctions.domain.money import money_of
from auctions.engine.jobs import cancel_job, retry_bid, withdraw_bid
from auctions.engine.standing_quote import standing_of
from auctions.models import ADMITTED, WITHDRAWABLE, Bid, BidState, Commitment, DecisionRecord, FirstDecision, Market
from auctions.readings import market_readings, visibility
from auctions.readings import queues as queue_readings
from auctions.readings.schedules import last_record
from auctions.state.market_snapshot import market_snapshot
from frontend.access import action_view, bid_numbered, market_named, market_view, timeline_of, viewer_of
from frontend.figures import gantt
from frontend.figures import machines as counts
from frontend.figures.base import Drawing, Table
from frontend.figures.timeline import MARGIN_SLOTS
from frontend.presenters import plans, queues, trainings
from frontend.presenters.listing import listing
from frontend.presenters.states import IN_LINE, LOOKS, WAITS, look_of
from frontend.views.responses import csv_response, figure_response, say_done, unless_known
from scheduling.model.decision import Decision, parse
from scheduling.policies.base import Objective
from scheduling.policies.posted_price import CENT
from scheduling.registry import POLICIES


@market_view
def bid_list(request: HttpRequest, name: str) -> HttpResponse:
    """List the bids the viewer may see, the newest first; the filters are in the address."""
    market, viewer = market_named(request, name), viewer_of(request)
    everything = visibility.bids(market, viewer).select_related("owner")
    state, text = request.GET.get("state", ""), request.GET.get("label", "").strip()
    sees_all = operates(viewer, market.cluster)
    mine = sees_all and "mine" in request.GET
    found = everything.order_by("-sequence").defer(*visibility.STATED)
    if state in BidState.values:
        found = found.filter(state=state)
    if state == IN_LINE:
        found = found.filter(state=BidState.PLANNED, start_slot__isnull=True)
    if mine:
        found = found.filter(owner=viewer)
    if text:
        found = found.filter(label__icontains=text)
    chosen = {"state": state, "label": text, "mine": "1" if mine else ""}
    # Sequence numbers have no gaps.
    count = market.submitted if sees_all and not any(chosen.values()) else None
    context = {
        **listing(request, found, chosen, count=count),
        "market": market,
        "line": timeline_of(market),
        "states": [*((key.value, look.label) for key, look in LOOKS.items()), (IN_LINE, WAITS.label)],
        "pays": policy_in_force(market.cluster).objective is Objective.WELFARE
        or everything.filter(payment__gt=0).exists(),
        "any_at_all": everything.exists(),
    }
    return render(request, "frontend/bids.html", context)


@market_view
def bid_page(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Show one bid with its receipt."""
    market, bid = bid_numbered(request, name, number)
    training = trainings.context(market, bid, request.GET.get("generation", ""), viewer_of(request))
    return render(request, "frontend/bid.html", {**_context(request, market, bid), **training})


@market_view
def receipt(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Return the part of a bid's page that changes, for open pages."""
    market, bid = bid_numbered(request, name, number)
    return unless_known(
        request, market, lambda: render(request, "frontend/_receipt.html", _context(request, market, bid))
    )


def _schedule(market: Market, bid: Bid) -> Drawing:
    spans = _spans(bid)
    window = (bid.arrival_slot, bid.arrival_slot + 24)
    if spans:
        first, last = floor(min(s.start for s in spans)), ceil(max(s.end for s in spans))
        window = (first - MARGIN_SLOTS, last + MARGIN_SLOTS)
    return gantt.figure(spans, timeline_of(market), now=market_snapshot(market).moment.now, window=window)


def _machines(market: Market, bid: Bid) -> Drawing:
    held, now = market_readings.machines(bid), market_snapshot(market).moment.now
    return counts.figure(held, timeline_of(market), now=now)


FIGURES: Final[Mapping[str, Callable[[Market, Bid], Drawing]]] = {"schedule": _schedule, "machines": _machines}


@market_view
def figure(request: HttpRequest, name: str, number: int, chart: str) -> HttpResponse:
    """Return the bid's own Gantt chart, or the machines that its job holds in each slot."""
    market, bid = bid_numbered(request, name, number)
    if chart not in FIGURES:
        raise Http404
    return unless_known(request, market, lambda: figure_response(FIGURES[chart](market, bid)), trainings.mark(bid))


def _segments(market: Market, bid: Bid, viewer: User) -> Table:
    """Return when workers process the job's chunks, in the past and as forecast."""
    names = queues.Names.of(market.cluster_id)
    return queues.segments_table(queue_readings.stretches_of(bid), names, timeline_of(market))


def _preemptions(market: Market, bid: Bid, viewer: User) -> Table:
    """Return when workers interrupted the job's chunks for those of other jobs."""
    return queues.preemptions_table(queue_readings.displacements(bid, viewer), timeline_of(market))


TABLES: Final[Mapping[str, Callable[[Market, Bid, User], Table]]] = {
    "schedule": lambda market, bid, _: gantt.table(_spans(bid), timeline_of(market)),
    "machines": lambda market, bid, _: counts.table(market_readings.machines(bid), timeline_of(market)),
    "plan": lambda market, bid, _: plans.table(plans.steps(bid.plan_changes.all()), timeline_of(market)),
    "segments": _segments,
    "preemptions": _preemptions,
}


@market_view
def table(request: HttpRequest, name: str, number: int, chart: str) -> HttpResponse:
    """Return the data of a chart of the bid as CSV."""
    market, bid = bid_numbered(request, name, number)
    if chart not in TABLES:
        raise Http404
    suffix = "" if chart == "schedule" else f"-{chart}"
    return csv_response(TABLES[chart](market, bid, viewer_of(request)), f"{name}-bid-{number}{suffix}.csv")


@action_view
def withdraw(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Withdraw a bid that is not decided, or that stands."""
    return _do(request, name, number, deed=withdraw_bid, done="The bid was withdrawn.")


@action_view
def retry(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Put a quarantined bid back in the decision queue; for operators."""
    if not rights_of(viewer_of(request)).operates(name):
        raise PermissionDenied
    return _do(request, name, number, deed=retry_bid, done="The bid is back in the queue.")


@action_view
def cancel(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Cancel a job and free its remaining slots."""
    done = "The job was cancelled; its remaining slots are free."
    return _do(request, name, number, deed=cancel_job, done=done)


def _do(request: HttpRequest, name: str, number: int, *, deed: Callable[[Bid], Bid], done: str) -> HttpResponse:
    """Apply an action to the user's own bid and return to its page, which shows the result."""
    _, bid = bid_numbered(request, name, number)
    if not visibility.may_end(bid, viewer_of(request)):
        raise PermissionDenied

    def act() -> str:
        deed(bid)
        return done

    say_done(request, act)
    return redirect("bid", name=name, number=number)


def _context(request: HttpRequest, market: Market, bid: Bid) -> dict[str, object]:
    record, may_end = last_record(bid), visibility.may_end(bid, viewer_of(request))
    decision = None if record is None or bid.seal_id is not None else Decision.from_json(parse(record.receipt))
    counter = None if decision is None else decision.counter
    standing = standing_of(bid) if bid.state == BidState.STANDING else None
    again, again_value = "", None if counter is None else counter.least_value + CENT
    if standing is not None and standing.least_value is not None:
        again_value = standing.least_value  # prices have moved since the first decision
    if again_value is not None:
        query = urlencode({"from": bid.sequence, "value": f"{again_value:.2f}"})
        again = f"{reverse('submit', args=[market.cluster.name])}?{query}"
    rows = Commitment.objects.filter(bid=bid).select_related("server", "machine_type")
    placements = [row for row in rows if row.end > row.start]  # the others were cut before they began
    windows = {(row.start, row.end) for row in placements}
    steps = plans.steps(bid.plan_changes.all())
    held = market_readings.machines(bid)
    is_plan = bid.state == BidState.PLANNED and bool(steps)
    is_ended = bid.ended_slot is not None and not bid.completed_early
    return {
        "market": market,
        "bid": bid,
        "line": timeline_of(market),
        "record": record,
        "decision": decision,
        "again": again,
        "again_value": again_value,
        "elapsed": None if bid.completed_slot is None or is_ended else bid.completed_slot - bid.arrival_slot,
        "placements": placements,
        "pays": record is None or POLICIES[record.policy.name].objective is Objective.WELFARE,
        "stated": "weight" if "weight" in bid.resolved_request else "value",
        "archive": bid.seal,
        "sealed": SEALED if competed(bid) else "",
        "was_admitted": bid.state in ADMITTED if decision is None else decision.admitted,
        "steps": steps,
        # Only a job whose plan may change has steps.
        "is_plan": is_plan,
        "start_words": _start_words(bid, is_plan=is_plan),
        "place": plans.place_of(bid, now=market_snapshot(market).moment.now) if steps else None,
        "runs": counts.runs(held),
        "seen": look_of(bid, may_move=bool(steps)),
        "window": windows.pop() if len(windows) == 1 else None,
        "queues": queues.places(bid),
        "losses": queues.losses(bid, viewer_of(request)),
        "late": queues.lateness(bid, steps),
        "money": money_of(bid),
        "stood_from": _stood_from(bid, record),
        "standing": standing,
        "can_withdraw": bid.state in WITHDRAWABLE and may_end,
        "can_retry": operates(viewer_of(request), market.cluster) and bid.state == BidState.QUARANTINED,
        "problem": bid.policy_errors.select_related("policy").first()
        if operates(viewer_of(request), market.cluster) and bid.state == BidState.QUARANTINED
        else None,
        "can_fail": operates(viewer_of(request), market.cluster) and bid.state in (BidState.PLANNED, BidState.RUNNING),
        "refunds": [("undelivered", "what was not delivered"), ("full", "all"), ("none", "nothing")],
        "can_cancel": bid.state in (BidState.PLANNED, BidState.RUNNING) and may_end,
    }


def _stood_from(bid: Bid, record: DecisionRecord | FirstDecision | None) -> int | None:
    """Return the slot from which on a bid stands or stood; None if it never did."""
    if record is None or bid.stands_until is None:
        return None
    return record.stood_from if isinstance(record, DecisionRecord) else record.slot


def _start_words(bid: Bid, *, is_plan: bool) -> str:
    """Return the label of the start."""
    if bid.started:
        return "Started"
    if bid.ended_slot is not None:
        return "Would have started"
    return "Planned start" if is_plan else "Starts"


def _spans(bid: Bid) -> list[gantt.Span]:
    held = Commitment.objects.filter(bid=bid).select_related("server", "machine_type")
    who = f"bid {bid.sequence}{': ' + bid.label if bid.label else ''}"
    names = queues.Names.of(bid.market.cluster_id)
    ran = trainings.spans(bid, who)
    state = "promised" if ran else bid.state
    return (
        [
            gantt.Span(
                group=f"{row.server.name} · {row.machine_type.name}",
                who=who,
                state=state,
                machine=row.machine_type.name,
                is_ps=row.machine_type.role == "ps",
                count=row.count,
                start=row.start,
                end=row.end,
            )
            for row in held
            if row.end > row.start
        ]
        + [
            gantt.Span(
                group=f"{names.servers[s.server_id]} · {names.machines[s.machine_type_id]}",
                who=who,
                state=state,
                machine=names.machines[s.machine_type_id],
                is_ps=False,
                count=s.count,
                start=s.start,
                end=s.end,
            )
            for s in queue_readings.stretches_of(bid)
        ]
        + ran
    )
