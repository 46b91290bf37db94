"""Messages of webhooks, derived from the events of markets.

Each webhook has a cursor in each market: the version up to which events were read. Versions are given under the
market's lock, so no event with a lower version is committed later. Messages and the new cursor are written in one
transaction: an event is read again until they are, and then never again.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.db.models import Count, Q, QuerySet

from accounts.rights import rights_of
from auctions.domain.errors import WrongState
from auctions.models import Bid, Delivery, DeliveryStatus, Event, EventKind, Market, Webhook, WebhookCursor
from cluster import clock
from scheduling.model.types import Json

TEST: Final = "webhook.test"
OF_KIND: Final = {
    EventKind.SUBMITTED: "bid.submitted",
    EventKind.STANDING: "bid.standing",
    EventKind.WITHDRAWN: "bid.withdrawn",
    EventKind.QUARANTINED: "bid.quarantined",
    EventKind.RETRIED: "bid.retried",
    EventKind.ADMITTED: "bid.admitted",
    EventKind.REJECTED: "bid.rejected",
    EventKind.CANCELLED: "bid.cancelled",
    EventKind.FAILED: "bid.failed",
    EventKind.COMPLETED: "bid.completed",
}
"""Types of messages about events of one bid."""
OF_SLOT: Final = {
    "payload__running": "bid.started",
    "payload__completed": "bid.completed",
    "payload__withdrawn": "bid.withdrawn",
    "payload__standing__ended": "bid.rejected",
}
"""Types of messages about the bids that the event of a slot names, in this order."""
TYPES: Final = tuple(sorted({*OF_KIND.values(), *OF_SLOT.values()}))
WITH_MONEY: Final = frozenset({"bid.admitted", "bid.started", "bid.completed", "bid.cancelled", "bid.failed"})
"""Types of messages about jobs, whose value and payment were fixed at the admission."""
WITHOUT_VALUE: Final = frozenset({"bid.cancelled", "bid.failed"})
"""Types of messages about jobs that ended without a value. Messages of before the end state what was granted."""
MOST_WAITING: Final = 1_000
"""Messages of a webhook that wait; its cursor stays where it is while there are as many."""
PAGE: Final = 500
"""Events that are read at a time."""


@dataclass(frozen=True)
class Happened:
    """Something that happened to a bid."""

    version: int
    at: datetime
    slot: int
    type: str
    bid: int
    """The bid's key."""


def derive() -> int:
    """Write the messages about events since the cursors of the webhooks that are on; return their number."""
    webhooks = list(Webhook.objects.filter(is_on=True, owner__is_active=True).select_related("owner", "cluster"))
    if not webhooks:
        return 0
    waiting = dict(
        Delivery.objects.filter(status=DeliveryStatus.WAITING).order_by().values_list("webhook").annotate(n=Count("pk"))
    )
    ready = [webhook for webhook in webhooks if waiting.get(webhook.pk, 0) < MOST_WAITING]
    count = 0
    for market in Market.objects.select_related("cluster").order_by("pk"):
        concerned = [one for one in ready if one.cluster_id in (None, market.cluster_id)]
        count += _derive_of(market, concerned)
    return count


def start_cursors(webhook: Webhook) -> None:
    """Let a new webhook send only what happens from now on."""
    _start(webhook, Market.objects.all())


def follow_from_now(webhook: Webhook, *, before: int | None) -> None:
    """Let a webhook of another cluster than `before` (a key; None for all) send what happens from now on there.

    Its cursors in markets that it did not follow stand where they were when it last did, or was made.
    """
    if before is None or before == webhook.cluster_id:
        return
    entered = Market.objects.exclude(cluster=before)
    if webhook.cluster_id is not None:
        entered = entered.filter(cluster=webhook.cluster_id)
    WebhookCursor.objects.filter(webhook=webhook, market__in=entered).delete()
    _start(webhook, entered)


def _start(webhook: Webhook, markets: "QuerySet[Market]") -> None:
    WebhookCursor.objects.bulk_create(
        WebhookCursor(webhook=webhook, market_id=market, version=version)
        for market, version in markets.order_by("pk").values_list("pk", "version")
    )


def locked(webhook: Webhook) -> Webhook:
    """Return the webhook as it is now, locked until the transaction ends; raises WrongState if it was deleted."""
    rows = Webhook.objects.select_for_update(no_key=True, of=("self",)).select_related("cluster")
    held = rows.filter(pk=webhook.pk).first()
    if held is None:
        raise WrongState(f"The webhook {webhook.name} was deleted.")
    return held


def add_test(webhook: Webhook) -> Delivery:
    """Write a test message; raises WrongState while another one waits, as a receiver needs no more of them."""
    now = clock.now()
    with transaction.atomic():
        locked(webhook)
        if webhook.deliveries.filter(type=TEST, status=DeliveryStatus.WAITING).exists():
            raise WrongState("A test message waits to be sent already.")
        return Delivery.objects.create(
            webhook=webhook, type=TEST, body=_text(TEST, now, {"webhook": webhook.name}), created_at=now, next_at=now
        )


def sees(webhook: Webhook, bid: Bid) -> bool:
    """Return whether the owner of a webhook may read this bid, and wants to hear of it; `bid.market` is known."""
    if bid.owner_id != webhook.owner_id and not webhook.of_team:
        return False
    rights = rights_of(webhook.owner)
    is_own = bid.owner_id == webhook.owner_id
    return rights.sees(bid.market.cluster.name) and (is_own or rights.team == bid.team_id is not None)


def _derive_of(market: Market, webhooks: Sequence[Webhook]) -> int:
    """Write the messages about one market; webhooks whose cursors are equal are served by the same queries."""
    known = dict(WebhookCursor.objects.filter(market=market, webhook__in=webhooks).values_list("webhook", "version"))
    behind: dict[int, list[Webhook]] = defaultdict(list)
    for webhook in webhooks:
        # A market that was opened since has no cursor: all of it is new.
        version = known.get(webhook.pk, 0)
        if version < market.version:
            behind[version].append(webhook)
    return sum(_step(market, since, group) for since, group in sorted(behind.items()))


def _step(market: Market, since: int, webhooks: Sequence[Webhook]) -> int:
    """Write the messages about the next events after `since`, and move the cursors."""
    teams = {rights_of(webhook.owner).team for webhook in webhooks if webhook.of_team} - {None}
    concerned = Bid.objects.filter(market=market).filter(
        Q(owner__in={webhook.owner_id for webhook in webhooks}) | Q(team__in=teams)
    )
    happened, reached = _events(market, since, concerned)
    bids = {bid.pk: bid for bid in concerned.filter(pk__in={one.bid for one in happened}).select_related("owner")}
    for bid in bids.values():
        bid.market = market
    now = clock.now()
    deliveries = [
        Delivery(
            webhook=webhook,
            market=market,
            version=one.version,
            bid=bids[one.bid],
            type=one.type,
            body=_text(one.type, one.at, _data(one, bids[one.bid])),
            created_at=now,
            next_at=now,
        )
        for one in happened
        for webhook in webhooks
        if (not webhook.types or one.type in webhook.types) and sees(webhook, bids[one.bid])
    ]
    with transaction.atomic():
        keys = [webhook.pk for webhook in webhooks]
        held = Webhook.objects.select_for_update(no_key=True).filter(pk__in=keys).order_by("pk")
        present = set(held.values_list("pk", flat=True))  # others were deleted
        cursors = WebhookCursor.objects.filter(market=market, webhook__in=present)
        if cursors.exclude(version=since).exists():
            return 0  # another worker was faster
        cursors.update(version=reached)
        new = present - set(cursors.values_list("webhook", flat=True))
        WebhookCursor.objects.bulk_create(
            WebhookCursor(webhook_id=key, market=market, version=reached) for key in sorted(new)
        )
        Delivery.objects.bulk_create(one for one in deliveries if one.webhook_id in present)
    return len(deliveries)


def _events(market: Market, since: int, concerned: "QuerySet[Bid]") -> tuple[list[Happened], int]:
    """Return what happened to these bids after version `since`, in order, and the version up to which that is all."""
    events = Event.objects.filter(market=market, version__gt=since).order_by("version")
    of_bids = events.filter(kind__in=sorted(OF_KIND), bid__in=concerned)
    of_slots = events.filter(kind=EventKind.SLOT)
    singles = list(of_bids.values_list("version", "at", "slot", "kind", "bid_id")[:PAGE])
    slots = list(of_slots.values_list("version", "at", "slot", *OF_SLOT)[:PAGE])
    reached = min([market.version] + [rows[-1][0] for rows in (singles, slots) if len(rows) == PAGE])
    found = [
        Happened(version, at, slot, OF_KIND[EventKind(kind)], bid)
        for version, at, slot, kind, bid in singles
        if version <= reached
    ]
    numbers = {number for *_, lists in _lists(slots, reached) for number in lists}
    keys = dict(concerned.filter(sequence__in=numbers).values_list("sequence", "pk"))
    for version, at, slot, name, lists in _lists(slots, reached):
        found += [Happened(version, at, slot, OF_SLOT[name], keys[number]) for number in lists if number in keys]
    return sorted(found, key=lambda one: one.version), reached


def _lists(slots: list[Any], reached: int) -> Iterator[tuple[int, datetime, int, str, list[int]]]:
    """Yield the lists of bids in the events of slots: version, time, slot, key of the list, sequence numbers."""
    for version, at, slot, *lists in slots:
        if version <= reached:
            for name, numbers in zip(OF_SLOT, lists, strict=True):
                yield version, at, slot, name, numbers or []


def _data(happened: Happened, bid: Bid) -> Json:
    """Return what a message says of a bid: what its owner reads with `GET .../bids/{sequence}`, too."""
    data: Json = {
        "cluster": bid.market.cluster.name,
        "bid": bid.sequence,
        "label": bid.label,
        "owner": bid.owner.get_username(),
        "slot": happened.slot,
    }
    if happened.type in WITH_MONEY:
        data |= {"value": 0.0 if happened.type in WITHOUT_VALUE else bid.value, "payment": bid.payment}
    if happened.type == OF_KIND[EventKind.FAILED]:
        data |= {"reason": bid.end_reason, "refund": bid.refund}
    return data


def _text(type_: str, at: datetime, data: Json) -> str:
    return json.dumps({"type": type_, "timestamp": at.isoformat(), "data": data}, separators=(",", ":"))
