"""Checks of servers that were taken out of service, and of refunds of failed jobs."""

from django.db.models import F, Q

from auctions.domain.refunds import Refund, refund_of
from auctions.engine.outages import state_of
from auctions.history.audit_rows import DOCUMENTS
from auctions.models import (
    Bid,
    BidState,
    Commitment,
    DecisionRecord,
    Event,
    EventKind,
    Market,
    Outage,
    Segment,
)
from cluster.database.paging import in_pages
from scheduling.preemptive.workers import TICKS


def refunds_match(market: Market) -> list[str]:
    """Check that the refund of each failed job is that of its event: the cost of its slots or the operator's choice."""
    events = Event.objects.filter(market=market, kind=EventKind.FAILED, bid__seal=None)
    said = dict(events.values_list("bid_id", "payload"))
    problems = []
    bids = Bid.objects.filter(market=market, seal=None).defer("body", "resolved_request", "core_bid")
    for bid in in_pages(bids, by="sequence"):
        payload = said.get(bid.pk, {})
        # Events recorded before refunds were introduced do not state one.
        refund, how = payload.get("refund", 0.0), Refund(payload.get("how", Refund.NONE))
        if bid.refund != refund or not 0 <= bid.refund <= (bid.payment or 0.0):
            problems.append(
                f"bid {bid.sequence} paid {bid.payment}, was paid back {bid.refund}; its event says {refund}"
            )
        elif bid.state == BidState.FAILED and refund_of(bid, how, now=bid.ended_slot or 0) != refund:
            problems.append(f"bid {bid.sequence} was paid back {refund}, which is not {how}")
        if bid.end_reason != payload.get("reason", ""):
            problems.append(f"bid {bid.sequence} failed for another reason than its event says")
    return problems + _wrongly_kept(market)


def _wrongly_kept(market: Market) -> list[str]:
    """Return promises whose `kept_from` is not the slot of the first event that gave them other machines."""
    first: dict[str, int] = {}
    for event in Event.objects.filter(market=market, kind=EventKind.INVENTORY).order_by("version"):
        for move in event.payload.get("moves", ()):
            if move["schedule"] is not None and move["schedule"]["placements"]:
                first.setdefault(move["job"], event.slot)
    kept = Bid.objects.filter(market=market).exclude(kept_from=None).order_by("sequence")
    return [
        f"bid {sequence} has other machines from slot {slot} on, its events say {first.get(str(sequence))}"
        for sequence, slot in kept.values_list("sequence", "kept_from")
        if first.get(str(sequence)) != slot
    ]


def costs_match(market: Market) -> list[str]:
    """Check that the costs of a schedule's slots add up to the payment."""
    rows = DecisionRecord.objects.filter(bid__market=market).exclude(costs=None).select_related("bid")
    problems = []
    for row in in_pages(rows.defer("receipt", *DOCUMENTS), by="pk"):
        costs, paid = list(row.costs or []), row.bid.payment or 0.0
        if abs(sum(costs) - paid) > 1e-9 * max(1.0, paid) or min(costs, default=0.0) < 0:
            problems.append(f"bid {row.bid.sequence} paid {paid}, its slots cost {sum(costs)}")
    return problems


def nobody_is_out_of_service(market: Market) -> list[str]:
    """Check that no job holds a server, and no worker is busy there, from the slot it was lost until it returned."""
    problems = []
    for row in Outage.objects.filter(server__cluster=market.cluster).select_related("server"):
        name, until = row.server.name, Q() if row.ended_slot is None else Q(start__lt=row.ended_slot)
        rows = Commitment.objects.filter(until, server=row.server, end__gt=F("start")).select_related("bid")
        if row.out_slot is not None and row.out_slot != row.ended_slot:
            held = rows.filter(end__gt=row.out_slot)
            problems += [f"bid {held.bid.sequence} holds server {name}, lost in slot {row.out_slot}" for held in held]
            late = Segment.objects.filter(queued__server=row.server, end__gt=row.out_slot * TICKS)
            if row.ended_slot is not None:
                late = late.filter(start__lt=row.ended_slot * TICKS)
            problems += [f"workers of server {name} are busy after slot {row.out_slot}"] * late.exists()
        elif row.out_slot is None:
            new = rows.filter(end__gt=row.from_slot, bid__decision__version__gt=row.version)
            if row.ended_version is not None:
                new = new.filter(bid__decision__version__lt=row.ended_version)
            problems += [f"bid {one.bid.sequence} was put on server {name}, which was drained" for one in new]
    return problems + _unsaid(market)


def _unsaid(market: Market) -> list[str]:
    """Return servers whose outage differs from the state in the last event about them."""
    said: dict[str, str] = {}
    for event in Event.objects.filter(market=market, kind=EventKind.INVENTORY).order_by("version"):
        if "service" in event.payload:
            said[event.payload["service"]["server"]] = event.payload["service"]["state"]
    rows = Outage.objects.filter(server__cluster=market.cluster, ended_version=None).select_related("server")
    states = {row.server.name: state_of(row) for row in rows}
    names = {*states, *(name for name, state in said.items() if state != "in_service")}
    return [
        f"server {name} is {states.get(name, 'in_service')}, its events say {said.get(name, 'nothing')}"
        for name in sorted(names)
        if states.get(name) != said.get(name) and market.cluster.servers.filter(name=name).exists()
    ]
