"""Sends the messages of webhooks: one at a time for each webhook, several webhooks at a time.

A worker that sends for a webhook holds its row until `busy_until`. If the worker dies, the message still waits, and
another worker sends it again after that time: a receiver may get a message twice, by the same id, and never misses one.
A message that fails is tried again, later each time, and those after it wait. After the last attempt it is given up. A
webhook without a success for days is switched off; its messages and its cursors stay where they are.

Owners of webhooks take turns: next is the owner of the fewest messages that are being sent. So slow receivers of one
owner keep no message of another waiting for longer than one attempt.
"""

import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from threading import Lock
from time import monotonic
from typing import Final

from django.db import transaction
from django.db.models import Min, Q

from auctions.models import Delivery, DeliveryStatus, Webhook
from auctions.webhooks import messages, signing
from auctions.webhooks.sending import Outcome, send
from cluster import clock

BACKOFF_S: Final = (5, 30, 120, 600, 1_800, 7_200, 21_600, 43_200)
"""Time from each failed attempt to the next; after one more failure a message is given up, a day after the first."""
OFF_AFTER: Final = timedelta(days=3)
"""Time without a success after which a webhook is switched off."""
AT_ONCE: Final = 8
"""Messages that a worker sends at a time, of as many webhooks."""
TURN_S: Final = 20.0
"""Time after which a worker begins no further message in a turn."""
LOOK_S: Final = 1.0
"""Time after which a worker that waits for answers looks for new messages."""
MOST_DUE: Final = 1_000
"""Messages among which the next ones are chosen, those that are due for the longest time."""
HELD: Final = timedelta(seconds=90)
"""Time for which a worker may send for a webhook; one attempt takes less, with a slow look-up of the host's name."""
CLOCKS_APART: Final = timedelta(minutes=2)
"""Time by which clocks of workers may differ; a time that lies further ahead is of a clock that was set back since."""
GONE: Final = 410
"""Answer of a receiver that wants nothing more."""

log = logging.getLogger(__name__)
_turn = Lock()
"""One thread of a process sends: further ones are for other tasks."""


def deliver(stopping: Callable[[], bool] = bool) -> int:
    """Send what is due, for a while; return the number of attempts."""
    if not _turn.acquire(blocking=False):
        return 0
    try:
        return _send_due(stopping)
    finally:
        _turn.release()


def _send_due(stopping: Callable[[], bool]) -> int:
    ends, looked, count = monotonic() + TURN_S, float("-inf"), 0
    under_way: dict[Future[Outcome], Delivery] = {}
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="webhook") as pool:
        while True:
            if monotonic() < ends and not stopping():
                if monotonic() >= looked + LOOK_S:
                    messages.derive()
                    looked = monotonic()
                for delivery in claim(AT_ONCE - len(under_way)):
                    under_way[pool.submit(_send, delivery)] = delivery
            if not under_way:
                return count
            done, _ = wait(under_way, timeout=LOOK_S, return_when=FIRST_COMPLETED)
            for future in done:
                record(under_way.pop(future), future.result())
                count += 1


def _send(delivery: Delivery) -> Outcome:
    """Make one attempt; this uses no database, so that no connection waits for a receiver."""
    body = delivery.body.encode()
    try:
        headers = signing.signed(delivery.webhook, delivery.message_id, body, clock.now())
    except signing.SecretUnreadable:
        return Outcome(problem="the secret cannot be read since the service has another key; replace it")
    try:
        return send(delivery.webhook.url, headers, body)
    except Exception:  # a mistake here must not keep the messages of others
        log.exception("sending message %s failed", delivery.message)
        return Outcome(problem="the service failed to send it")


def claim(most: int) -> list[Delivery]:
    """Return the next messages of up to `most` webhooks whose messages are due, and hold these webhooks.

    Owners take turns; of one owner's messages the one that is due for the longest time comes first.
    """
    now = clock.now()
    found: list[Delivery] = []
    held = Webhook.objects.filter(busy_until__gte=now).values_list("owner", flat=True)
    sending = Counter(held)
    free = Webhook.objects.filter(_is_free(now), is_on=True, owner__is_active=True)
    waiting = Delivery.objects.filter(status=DeliveryStatus.WAITING, webhook__in=free).order_by()
    first = waiting.values("webhook").annotate(first=Min("pk")).values("first")
    due = Delivery.objects.filter(_is_due(now), pk__in=first).order_by("next_at", "pk")
    rows = list(due.values_list("pk", "webhook_id", "webhook__owner")[:MOST_DUE])
    while rows and len(found) < most:
        key, webhook, owner = rows.pop(min(range(len(rows)), key=lambda i: sending[rows[i][2]]))
        delivery = _held(key, webhook, now)
        if delivery is not None:
            found.append(delivery)
            sending[owner] += 1
    return found


def _is_free(now: datetime) -> Q:
    return Q(busy_until=None) | Q(busy_until__lt=now) | Q(busy_until__gt=now + HELD + CLOCKS_APART)


def _is_due(now: datetime) -> Q:
    """Return the condition for messages that wait for no later attempt, whatever the clock was when they came."""
    return Q(attempts=0) | Q(next_at__lte=now) | Q(tried_at__gt=now + CLOCKS_APART)


def _held(key: int, webhook_id: int, now: datetime) -> Delivery | None:
    """Hold a webhook and return its message; None if another worker holds it, or if nobody may read the message.

    Since the message was read as due, another worker may have tried it, or the owner has switched the webhook off.
    """
    free = Webhook.objects.filter(_is_free(now), pk=webhook_id, is_on=True)
    if not free.update(busy_until=now + HELD):
        return None
    related = ("webhook__owner", "bid", "market__cluster")
    due = Delivery.objects.filter(_is_due(now), pk=key, status=DeliveryStatus.WAITING)
    delivery = due.select_related(*related).first()
    if delivery is not None and _may_be_sent(delivery):
        return delivery
    if delivery is not None:
        _end(delivery, DeliveryStatus.GIVEN_UP, problem="its owner may not read this bid any more")
    Webhook.objects.filter(pk=webhook_id).update(busy_until=None)
    return None


def _may_be_sent(delivery: Delivery) -> bool:
    """Return whether the owner still sees the bid: one may have left a team."""
    if delivery.bid is None or delivery.market is None:
        return True
    delivery.bid.market = delivery.market
    return messages.sees(delivery.webhook, delivery.bid)


def record(delivery: Delivery, outcome: Outcome) -> None:
    """Write the result of an attempt, and let go of the webhook."""
    now = clock.now()
    with transaction.atomic():
        webhook = Webhook.objects.select_for_update(no_key=True).filter(pk=delivery.webhook_id).first()
        if webhook is None:
            return  # it was deleted meanwhile
        delivery.attempts, delivery.tried_at, delivery.answer = delivery.attempts + 1, now, outcome.answer
        webhook.busy_until = None
        if outcome.is_success:
            webhook.failing_since = None
            _end(delivery, DeliveryStatus.DELIVERED)
        elif webhook.url == delivery.webhook.url:  # another address is tried at once, whatever a former one answers
            webhook.failing_since = webhook.failing_since or now
            _fail(webhook, delivery, outcome, now)
        webhook.save(update_fields=["busy_until", "failing_since", "is_on", "off_reason"])


def _fail(webhook: Webhook, delivery: Delivery, outcome: Outcome, now: datetime) -> None:
    """Let a message be tried again later, or give it up; switch off a webhook that fails for too long."""
    if delivery.attempts > len(BACKOFF_S):
        _end(delivery, DeliveryStatus.GIVEN_UP, problem=outcome.problem)
    else:
        delivery.problem = outcome.problem
        delivery.next_at = now + timedelta(seconds=BACKOFF_S[delivery.attempts - 1])
        delivery.save(update_fields=["attempts", "tried_at", "answer", "problem", "next_at"])
    if outcome.answer == GONE:
        webhook.is_on, webhook.off_reason = False, "the receiver answered 410: it wants nothing more"
    elif webhook.failing_since is not None and now - webhook.failing_since >= OFF_AFTER:
        webhook.is_on, webhook.off_reason = False, f"no message was delivered for {OFF_AFTER.days} days"


def _end(delivery: Delivery, status: DeliveryStatus, *, problem: str = "") -> None:
    delivery.status, delivery.next_at, delivery.problem = status, None, problem
    delivery.save(update_fields=["status", "attempts", "tried_at", "answer", "problem", "next_at"])
