"""Webhooks as their owners make and change them. The secret is returned when it is made, and cannot be read again."""

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from auctions.domain.errors import TooManyWebhooks, WrongState
from auctions.models import Delivery, DeliveryStatus, Webhook
from auctions.models.webhooks import MESSAGE_PREFIX
from auctions.webhooks import messages, signing
from auctions.webhooks.addresses import checked_url
from cluster import clock
from cluster.models import Cluster

MOST_WEBHOOKS: Final = 10
"""Largest number of webhooks of a user."""
LONGEST_OVERLAP_S: Final = 7 * 86400


@dataclass(frozen=True)
class WebhookRequest:
    """A webhook as its owner states it."""

    name: str
    url: str
    cluster: Cluster | None = None
    of_team: bool = False
    types: tuple[str, ...] = ()
    """Types of events that are sent; all if it is empty."""


@dataclass(frozen=True)
class Made:
    """A webhook, and its secret, which nobody can read again."""

    webhook: Webhook
    secret: str


def of_user(user: User) -> "QuerySet[Webhook]":
    """Return the user's webhooks, newest first."""
    return Webhook.objects.filter(owner=user).select_related("cluster")


def create(user: User, request: WebhookRequest) -> Made:
    """Store a webhook; events from now on are sent.

    Raises
    ------
    InvalidField
        If no webhook may be sent to the address.
    TooManyWebhooks
        If the user has `MOST_WEBHOOKS`.
    """
    fields = _fields(request)
    with transaction.atomic():
        User.objects.select_for_update(no_key=True).get(pk=user.pk)
        if Webhook.objects.filter(owner=user).count() >= MOST_WEBHOOKS:
            raise TooManyWebhooks(f"You have {MOST_WEBHOOKS} webhooks; delete one first.")
        webhook = Webhook.objects.create(owner=user, secret=signing.new_secret(), created_at=clock.now(), **fields)
        messages.start_cursors(webhook)
    return Made(webhook, signing.secret_of(webhook.secret))


def change(webhook: Webhook, request: WebhookRequest, *, is_on: bool) -> Webhook:
    """Change a webhook; one that is switched on again, or has another address, goes on where it stopped, at once. Of
    clusters that it did not follow it sends what happens from now on.

    Raises
    ------
    InvalidField
        If no webhook may be sent to the address.
    WrongState
        If it was deleted.
    """
    fields = _fields(request)
    with transaction.atomic():
        held = messages.locked(webhook)
        if is_on and (not held.is_on or held.url != fields["url"]):  # what failed at another address says nothing
            held.off_reason, held.failing_since = "", None
            held.deliveries.filter(status=DeliveryStatus.WAITING).update(next_at=clock.now(), attempts=0)
        before = held.cluster_id
        for name, value in fields.items():
            setattr(held, name, value)
        held.is_on = is_on
        held.save(update_fields=[*fields, "is_on", "off_reason", "failing_since"])
        messages.follow_from_now(held, before=before)
    return held


def switch_off(webhook: Webhook, reason: str) -> None:
    """Send nothing more, and let the owner read why; messages that wait are kept. It may be gone already."""
    Webhook.objects.filter(pk=webhook.pk).update(is_on=False, off_reason=reason)


def rotate(webhook: Webhook, *, overlap_s: int = 0) -> Made:
    """Give a webhook another secret; for `overlap_s` seconds messages are signed with the old one, too.

    An old secret that cannot be read signs nothing: with an overlap, no message could be signed until its end.

    Raises
    ------
    WrongState
        If the webhook was deleted.
    """
    with transaction.atomic():
        held = messages.locked(webhook)
        if overlap_s and signing.is_readable(held.secret):
            held.old_secret, held.old_until = held.secret, clock.now() + timedelta(seconds=overlap_s)
        else:
            held.old_secret, held.old_until = "", None
        held.secret = signing.new_secret()
        held.save(update_fields=["secret", "old_secret", "old_until"])
    return Made(held, signing.secret_of(held.secret))


def encrypt_again() -> tuple[int, int]:
    """Encrypt all stored secrets with the present key; return how many webhooks were read, and how many not.

    Those that cannot be read stay as they are.
    """
    read = unreadable = 0
    for key in Webhook.objects.order_by("pk").values_list("pk", flat=True):
        with transaction.atomic():
            held = Webhook.objects.select_for_update(no_key=True).filter(pk=key).first()
            if held is None:
                continue  # it was deleted meanwhile
            try:
                held.secret = signing.encrypted_again(held.secret)
                held.old_secret = held.old_secret and signing.encrypted_again(held.old_secret)
            except signing.SecretUnreadable:
                unreadable += 1
                continue
            held.save(update_fields=["secret", "old_secret"])
            read += 1
    return read, unreadable


def delete(webhook: Webhook) -> None:
    """Delete a webhook with its deliveries; nothing is sent from now on. It may be gone already.

    It is locked first, as by all that writes its deliveries: none is added after the look at what there is.
    """
    with transaction.atomic():
        held = Webhook.objects.select_for_update().filter(pk=webhook.pk).first()
        if held is not None:
            held.delete()


def deliveries(webhook: Webhook) -> "QuerySet[Delivery]":
    """Return the messages of a webhook, newest first."""
    return webhook.deliveries.select_related("market__cluster", "bid").order_by("-pk")


def delivery(webhook: Webhook, message_id: str) -> Delivery | None:
    """Return the delivery of a message; None if there is none. Keys are not shown: they count all users' messages."""
    try:
        message = UUID(message_id.removeprefix(MESSAGE_PREFIX))
    except ValueError:
        return None
    return deliveries(webhook).filter(message=message).first()


def redeliver(delivery: Delivery) -> Delivery:
    """Send a message again as soon as possible, with the same id; this is out of order.

    Raises
    ------
    WrongState
        If it waits to be sent anyway.
    """
    now = clock.now()
    ended = Delivery.objects.filter(pk=delivery.pk).exclude(status=DeliveryStatus.WAITING)
    if not ended.update(status=DeliveryStatus.WAITING, attempts=0, next_at=now):
        raise WrongState("This message waits to be sent.")
    delivery.refresh_from_db()
    return delivery


def forget(kept_days: int) -> int:
    """Delete deliveries that ended and are older than this; return their number."""
    old = Delivery.objects.filter(created_at__lt=clock.now() - timedelta(days=kept_days))
    count, _ = old.exclude(status=DeliveryStatus.WAITING).delete()
    return count


def _fields(request: WebhookRequest) -> dict[str, Any]:
    url = checked_url(request.url)
    return {**asdict(request), "cluster": request.cluster, "url": url, "types": sorted(set(request.types))}
