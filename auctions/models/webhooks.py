"""Webhooks of users, how far each has read the events of markets, and the messages that are sent."""

from typing import Final
from uuid import uuid4

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from auctions.models.market import Bid, Market
from cluster.models import Cluster

LONGEST_NAME: Final = 60
LONGEST_URL: Final = 500
LONGEST_TYPE: Final = 20
LONGEST_PROBLEM: Final = 200
LONGEST_SECRET: Final = 200
MESSAGE_PREFIX: Final = "msg_"
"""The first letters of all ids of messages."""
"""Characters of an encrypted secret at most."""


class Webhook(models.Model):
    """An address to which a user lets the events of the user's own bids be sent.

    Its secret is stored encrypted: see `auctions.webhooks.signing`.
    """

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="webhooks")
    name = models.CharField(max_length=LONGEST_NAME)
    url = models.CharField(max_length=LONGEST_URL)
    cluster = models.ForeignKey(Cluster, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    """The only cluster whose events are sent; None for all."""
    of_team = models.BooleanField(default=False)
    """Whether events of bids of the owner's team are sent, too."""
    types = models.JSONField(default=list)
    """The types of events that are sent; all if it is empty."""
    secret = models.CharField(max_length=LONGEST_SECRET, editable=False)
    old_secret = models.CharField(max_length=LONGEST_SECRET, blank=True, editable=False)
    """The secret before the last replacement; messages are signed with both until `old_until`."""
    old_until = models.DateTimeField(null=True, editable=False)
    is_on = models.BooleanField(default=True)
    off_reason = models.CharField(max_length=LONGEST_PROBLEM, blank=True, editable=False)
    """The reason why the service switched it off; empty if its owner did."""
    created_at = models.DateTimeField(editable=False)
    failing_since = models.DateTimeField(null=True, editable=False)
    """Time of the first failure since the last success; None after a success."""
    busy_until = models.DateTimeField(null=True, editable=False)
    """Until then one worker alone sends its messages; None if none does."""

    class Meta:
        ordering = ["-id"]
        constraints = [
            CheckConstraint(condition=~Q(name=""), name="webhook_has_a_name"),
            CheckConstraint(
                condition=Q(old_secret="", old_until=None) | (~Q(old_secret="") & Q(old_until__isnull=False)),
                name="webhook_old_secret_has_end",
            ),
            CheckConstraint(condition=Q(is_on=False) | Q(off_reason=""), name="webhook_that_is_on_has_no_reason"),
        ]

    def __str__(self) -> str:
        return self.name


class WebhookCursor(models.Model):
    """The version of a market up to which events were made into messages of a webhook."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="cursors")
    market = models.ForeignKey(Market, on_delete=models.CASCADE, related_name="+")
    version = models.PositiveBigIntegerField()

    class Meta:
        constraints = [UniqueConstraint(fields=["webhook", "market"], name="webhook_cursor_once")]

    def __str__(self) -> str:
        return f"{self.webhook} at version {self.version}"


class DeliveryStatus(models.TextChoices):
    """The status of a message."""

    WAITING = "waiting", "Waiting"
    DELIVERED = "delivered", "Delivered"
    GIVEN_UP = "given_up", "Given up"


class Delivery(models.Model):
    """A message of a webhook. Those of one webhook are sent one at a time, in the order of their keys."""

    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, related_name="deliveries")
    message = models.UUIDField(default=uuid4, unique=True)
    """Its id, which stays the same in all attempts."""
    market = models.ForeignKey(Market, null=True, on_delete=models.CASCADE, related_name="+")
    version = models.PositiveBigIntegerField(null=True)
    """Version of the event; None for a test message."""
    bid = models.ForeignKey(Bid, null=True, on_delete=models.CASCADE, related_name="+")
    type = models.CharField(max_length=LONGEST_TYPE)
    body = models.TextField()
    """The bytes that are sent and signed."""
    status = models.CharField(max_length=10, choices=DeliveryStatus, default=DeliveryStatus.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField()
    next_at = models.DateTimeField(null=True)
    """Time of the next attempt while it waits."""
    tried_at = models.DateTimeField(null=True)
    """Time of the last attempt."""
    answer = models.PositiveIntegerField(null=True)
    """Status of the last answer; None if there was none."""
    problem = models.CharField(max_length=LONGEST_PROBLEM, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            UniqueConstraint(fields=["webhook", "market", "version", "bid", "type"], name="delivery_once"),
            CheckConstraint(condition=Q(status__in=DeliveryStatus.values), name="delivery_status_known"),
            CheckConstraint(
                condition=Q(status=DeliveryStatus.WAITING, next_at__isnull=False)
                | (~Q(status=DeliveryStatus.WAITING) & Q(next_at=None)),
                name="delivery_that_waits_has_a_time",
            ),
        ]
        indexes = [
            Index(fields=["webhook", "id"], condition=Q(status=DeliveryStatus.WAITING), name="delivery_waiting"),
            Index(fields=["created_at"], name="delivery_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.type} to {self.webhook}"

    @property
    def message_id(self) -> str:
        """The id of the message as its header has it."""
        return MESSAGE_PREFIX + self.message.hex
