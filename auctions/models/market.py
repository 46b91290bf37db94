"""Markets, their bids with decisions and payments, and their events."""

from typing import Final
from uuid import uuid4

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint

from cluster.models import Cluster


class Market(models.Model):
    """The market of one cluster. `version` counts its events; every writer holds this row's lock."""

    cluster = models.OneToOneField(Cluster, models.PROTECT, related_name="market")
    token = models.UUIDField(
        default=uuid4, unique=True, editable=False, help_text="Names the market's book in a process's memory."
    )
    version = models.PositiveBigIntegerField(default=0, editable=False)
    ledger_version = models.PositiveBigIntegerField(
        default=0, editable=False, help_text="Version of the last event that moved what decisions depend on."
    )
    submitted = models.PositiveBigIntegerField(default=0, editable=False, help_text="Last sequence number given out.")
    inventory_version = models.PositiveBigIntegerField(
        default=0, editable=False, help_text="Version of the event that holds the inventory in force."
    )
    is_open = models.BooleanField(default=True, help_text="A closed market takes no bids.")
    planning_failed = models.BooleanField(
        default=False, editable=False, help_text="The policy failed when it last looked at the plan of its jobs."
    )
    slot = models.BigIntegerField(default=0, editable=False, help_text="Last slot whose beginning was processed.")
    now = models.BigIntegerField(
        default=0, editable=False, help_text="First slot that could still be traded when the ledger last moved."
    )

    def __str__(self) -> str:
        return f"Market of {self.cluster}"


class PolicyVersion(models.Model):
    """A policy with its parameters, in force from one event on; it is never edited; a later version replaces it."""

    market = models.ForeignKey(Market, models.PROTECT, related_name="policies")
    number = models.PositiveIntegerField()
    name = models.CharField(max_length=60)
    parameters = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")

    class Meta:
        ordering = ["-number"]
        constraints = [UniqueConstraint(fields=["market", "number"], name="policy_version_once")]

    def __str__(self) -> str:
        return f"{self.name} (version {self.number})"


class BidState(models.TextChoices):
    """The state of a bid."""

    SUBMITTED = "submitted", "Waiting"
    PLANNED = "planned", "Planned"
    RUNNING = "running", "Running"
    COMPLETED = "completed", "Completed"
    REJECTED = "rejected", "Rejected"
    WITHDRAWN = "withdrawn", "Withdrawn"
    QUARANTINED = "quarantined", "Quarantined"
    CANCELLED = "cancelled", "Cancelled"
    FAILED = "failed", "Failed"


ADMITTED: Final = frozenset(
    {BidState.PLANNED, BidState.RUNNING, BidState.COMPLETED, BidState.CANCELLED, BidState.FAILED}
)
UNDECIDED: Final = frozenset({BidState.SUBMITTED, BidState.QUARANTINED})
"""States of a bid that no policy has decided, and that its owner may withdraw."""
TERMINAL: Final = frozenset(
    {BidState.COMPLETED, BidState.REJECTED, BidState.WITHDRAWN, BidState.CANCELLED, BidState.FAILED}
)


class Bid(models.Model):
    """One offer. `sequence` is its place in the market's queue, given out under the market's lock."""

    market = models.ForeignKey(Market, models.PROTECT, related_name="bids")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="bids")
    sequence = models.PositiveBigIntegerField()
    idempotency_key = models.CharField(max_length=140, null=True)
    body_digest = models.CharField(max_length=64, help_text="SHA-256 of the canonical body, for a reused key.")
    label = models.CharField(max_length=120, blank=True)
    submitted_at = models.DateTimeField()
    submitted_s = models.FloatField(help_text="Cluster time of submission, seconds after the epoch.")
    arrival_slot = models.BigIntegerField()
    body = models.JSONField(help_text="As sent, in seconds, MB and Mbit/s.")
    offer = models.JSONField(
        help_text="As sent, with the model's profile filled in: by name, so that it outlives a changed inventory."
    )
    core = models.JSONField(help_text="As decided, in slots and exact rationals; positions are those of the inventory.")
    inventory_version = models.PositiveBigIntegerField(help_text="Version of the inventory that `core` speaks of.")
    state = models.CharField(max_length=12, choices=BidState, default=BidState.SUBMITTED)
    value = models.FloatField(null=True, help_text="Worth at the completion granted.")
    payment = models.FloatField(null=True)
    start_slot = models.BigIntegerField(null=True, help_text="None while the job waits in line without a start.")
    completion_slot = models.BigIntegerField(null=True, help_text="None while nothing is planned.")
    ended_slot = models.BigIntegerField(null=True, help_text="Slot in which it was cancelled or failed.")
    ended_why = models.CharField(max_length=400, blank=True, help_text="Why it failed, in words.")
    refund = models.FloatField(default=0.0, help_text="What a failed job's owner was paid back.")
    kept_from = models.BigIntegerField(
        null=True, help_text="Slot from which on a promise is kept by other machines than its receipt names."
    )

    class Meta:
        ordering = ["-sequence"]
        constraints = [
            UniqueConstraint(fields=["market", "sequence"], name="bid_sequence_once"),
            UniqueConstraint(
                fields=["market", "owner", "idempotency_key"],
                condition=Q(idempotency_key__isnull=False),
                name="bid_idempotency_key_once",
            ),
            CheckConstraint(condition=Q(state__in=BidState.values), name="bid_state_known"),
            CheckConstraint(
                condition=Q(value__isnull=False, payment__isnull=False) | ~Q(state__in=sorted(ADMITTED)),
                name="bid_admitted_has_value",
            ),
            CheckConstraint(
                condition=~Q(state__in=(BidState.RUNNING, BidState.COMPLETED)) | Q(start_slot__isnull=False),
                name="bid_running_has_start",
            ),
            CheckConstraint(
                condition=~Q(state=BidState.COMPLETED) | Q(completion_slot__isnull=False),
                name="bid_completed_has_completion",
            ),
            CheckConstraint(
                condition=~Q(state=BidState.PLANNED)
                | Q(start_slot__isnull=True, completion_slot__isnull=True)
                | Q(start_slot__isnull=False, completion_slot__isnull=False),
                name="bid_planned_has_both_or_neither",
            ),
            CheckConstraint(
                condition=Q(payment__isnull=True) | (Q(payment__gte=0) & Q(payment__lte=F("value"))),
                name="bid_pays_at_most_its_value",
            ),
            CheckConstraint(
                condition=Q(refund=0) | (Q(state=BidState.FAILED) & Q(refund__gt=0) & Q(refund__lte=F("payment"))),
                name="bid_refund_within_payment",
            ),
            CheckConstraint(
                condition=Q(start_slot__isnull=True)
                | (
                    Q(start_slot__gte=F("arrival_slot"))
                    & (Q(completion_slot__isnull=True) | Q(completion_slot__gt=F("start_slot")))
                ),
                name="bid_runs_after_arrival",
            ),
        ]
        indexes = [
            Index(fields=["market", "state", "sequence"], name="bid_by_state"),
            Index(fields=["market", "owner", "-sequence"], name="bid_by_owner"),
        ]

    def __str__(self) -> str:
        return f"bid {self.sequence}"

    @property
    def started(self) -> bool:
        """Whether its job has started; a job that was cancelled or failed before its start has not."""
        if self.ended_slot is not None:
            return self.start_slot is not None and self.start_slot < self.ended_slot
        return self.state in (BidState.RUNNING, BidState.COMPLETED)


class DecisionRecord(models.Model):
    """The receipt of a decided bid as canonical text; a replay must give the same bytes."""

    bid = models.OneToOneField(Bid, models.PROTECT, related_name="decision")
    policy = models.ForeignKey(PolicyVersion, models.PROTECT, related_name="decisions")
    ledger_version = models.PositiveBigIntegerField(help_text="The ledger version it was decided against.")
    version = models.PositiveBigIntegerField(help_text="Version of the event that recorded it.")
    inventory_version = models.PositiveBigIntegerField(help_text="Version of the inventory its positions speak of.")
    slot = models.BigIntegerField(help_text="First slot that could still be traded.")
    decided_at = models.DateTimeField()
    decided_s = models.FloatField(help_text="Cluster time of the decision, seconds after the epoch.")
    latency_ms = models.FloatField(help_text="Time the policy took.")
    ceiling = models.FloatField(help_text="Its term in the zero-price bound, as in the receipt.")
    receipt = models.TextField()
    costs = models.JSONField(
        null=True,
        help_text="Posted cost of each slot from the schedule's start on; null where nobody pays, or decided before"
        " this was kept.",
    )

    def __str__(self) -> str:
        return f"decision on {self.bid}"


class Payment(models.Model):
    """The payment of an admitted bid: the posted cost of its schedule at the decision.

    It is not paid back on cancellation. The refund of a failed job is in `Bid.refund`.
    """

    bid = models.OneToOneField(Bid, models.PROTECT, related_name="charge")
    amount = models.FloatField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [CheckConstraint(condition=Q(amount__gte=0), name="payment_not_negative")]

    def __str__(self) -> str:
        return f"{self.amount:.2f} for {self.bid}"


class EventKind(models.TextChoices):
    """The kind of an event."""

    OPENED = "opened", "Opened"
    INVENTORY = "inventory", "Inventory changed"
    POLICY = "policy", "Policy changed"
    SUBMITTED = "submitted", "Bid submitted"
    WITHDRAWN = "withdrawn", "Bid withdrawn"
    QUARANTINED = "quarantined", "Bid quarantined"
    RETRIED = "retried", "Bid back in the queue"
    ADMITTED = "admitted", "Bid admitted"
    REJECTED = "rejected", "Bid rejected"
    SLOT = "slot", "Slots passed"
    CANCELLED = "cancelled", "Job cancelled"
    FAILED = "failed", "Job failed"


class Event(models.Model):
    """One event of a market; the events in order of version, with the bids, are all that a replay needs.

    `payload` by kind: `opened` and `inventory` hold the inventory snapshot (inventory, horizon and the row keys of its
    positions). If an operator took a server out of service or returned it, `service` says so, and `failed` names the
    jobs whose promise was broken by it. For each of these jobs a `failed` event follows, whose `by` is the version of
    the `inventory` event. `policy` holds the policy's name and parameters. `slot` holds the sequence numbers of the
    jobs that began and completed. Under a policy that plans, `moves` holds the new schedules of jobs from then on, in
    positions of the inventory then in force. `plan_failed` says that the policy failed; jobs then kept what they held.
    The field `slot` is the first slot that could still be traded; for a `slot` event, the last slot that began.
    """

    market = models.ForeignKey(Market, models.PROTECT, related_name="events")
    version = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=12, choices=EventKind)
    at = models.DateTimeField()
    slot = models.BigIntegerField()
    bid = models.ForeignKey(Bid, models.PROTECT, null=True, related_name="events")
    payload = models.JSONField(default=dict)

    class Meta:
        ordering = ["version"]
        constraints = [
            UniqueConstraint(fields=["market", "version"], name="event_version_once"),
            CheckConstraint(condition=Q(kind__in=EventKind.values), name="event_kind_known"),
        ]

    def __str__(self) -> str:
        return f"version {self.version}: {self.get_kind_display()}"


class PolicyError(models.Model):
    """An error that a policy raised instead of an answer, for operators only.

    If the policy failed to decide, the bid is quarantined. If it failed to plan, all jobs keep what they hold.
    """

    market = models.ForeignKey(Market, models.PROTECT, related_name="policy_errors")
    version = models.PositiveBigIntegerField(help_text="Version of the event that recorded it.")
    policy = models.ForeignKey(PolicyVersion, models.PROTECT, related_name="errors")
    bid = models.ForeignKey(
        Bid, models.PROTECT, null=True, related_name="policy_errors", help_text="None where planning failed."
    )
    at = models.DateTimeField()
    slot = models.BigIntegerField(help_text="First slot that could still be traded.")
    error = models.TextField(help_text="Class and message of the exception.")
    traceback = models.TextField(help_text="Empty where planning failed with the error before.")

    class Meta:
        ordering = ["-version"]
        constraints = [UniqueConstraint(fields=["market", "version"], name="policy_error_once")]

    def __str__(self) -> str:
        return f"error of {self.policy} at version {self.version}"
