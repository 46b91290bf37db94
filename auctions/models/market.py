"""Markets, their bids with decisions and payments, and their events."""

from typing import Final
from uuid import uuid4

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint

from accounts.models import Team
from cluster.database.compact import CompactJSONField, CompactTextField
from cluster.database.prepared import Prepared
from cluster.models import Cluster
from scheduling.model.errors import InvalidField, PolicyMissing, UnknownPolicy, in_words
from scheduling.policies.base import Policy
from scheduling.registry import recorded_policy
from web.numbers import money


class Market(models.Model):
    """The market of one cluster. `version` counts its events; every writer holds this row's lock."""

    cluster = models.OneToOneField(Cluster, models.PROTECT, related_name="market")
    token = models.UUIDField(
        default=uuid4, unique=True, editable=False, help_text="Key of the market's book in a process's memory."
    )
    version = models.PositiveBigIntegerField(default=0, editable=False)
    ledger_version = models.PositiveBigIntegerField(
        default=0, editable=False, help_text="Version of the last event that changed the data decisions depend on."
    )
    submitted = models.PositiveBigIntegerField(
        default=0, editable=False, help_text="Sequence number of the last submitted bid."
    )
    inventory_version = models.PositiveBigIntegerField(
        default=0, editable=False, help_text="Version of the event that holds the inventory in force."
    )
    policy_number = models.PositiveIntegerField(
        default=0, editable=False, help_text="Number of the policy version in force."
    )
    is_open = models.BooleanField(default=True, help_text="A closed market accepts no bids.")
    turns_from = models.PositiveBigIntegerField(
        default=0, editable=False, help_text="Version after which owners take turns; before, bids were in order."
    )
    teams_pooled_from = models.PositiveBigIntegerField(
        default=0,
        editable=False,
        help_text="Version after which a team is one owner in pools of prices; before, each user was.",
    )
    sealed_version = models.PositiveBigIntegerField(
        default=0, editable=False, help_text="Version of the last archived event; 0 if nothing is archived."
    )
    keep_days = models.PositiveIntegerField(
        null=True, editable=False, help_text="Days after which events are archived; null if they are kept."
    )
    planning_failed = models.BooleanField(
        default=False, editable=False, help_text="Whether the policy failed when it last planned jobs."
    )
    standing_rule = models.JSONField(
        null=True, editable=False, help_text="Rule of standing bids that an event stated last; null if none is known."
    )
    slot = models.BigIntegerField(default=0, editable=False, help_text="Last slot that began and was processed.")
    now = models.BigIntegerField(
        default=0, editable=False, help_text="First slot on sale when the ledger last changed."
    )

    def __str__(self) -> str:
        return f"Market of {self.cluster}"


class PolicyVersion(models.Model):
    """A policy and its parameters, in force from one event on. It is never edited: a later version replaces it."""

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

    @classmethod
    def in_force(cls, market_id: int) -> "PolicyVersion":
        """Return the version by which a market decides."""
        found = _IN_FORCE.first(market_id)
        if found is None:
            raise cls.DoesNotExist(f"The market {market_id} has no policy.")
        return found

    def policy(self) -> Policy:
        """Return the policy with these parameters; raises PolicyMissing if this version does not have it."""
        try:
            return recorded_policy(self.name, self.parameters)
        except (UnknownPolicy, InvalidField) as error:
            why = f"{self.name}: {in_words(error)}" if isinstance(error, InvalidField) else str(error)
            name = self.market.cluster.name
            words = f"the market {name} decides no bids: this version does not have its policy ({why})"
            raise PolicyMissing(f"{words}; an operator has to run the version that has it") from error


_IN_FORCE = Prepared(lambda market: PolicyVersion.objects.filter(market=market).order_by("-number")[:1], int)


class BidState(models.TextChoices):
    """The state of a bid."""

    SUBMITTED = "submitted", "Waiting"
    STANDING = "standing", "Standing"
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
"""States of a bid that no policy has decided."""
WITHDRAWABLE: Final = UNDECIDED | {BidState.STANDING}
"""States of a bid that its owner may withdraw."""
TERMINAL: Final = frozenset(
    {BidState.COMPLETED, BidState.REJECTED, BidState.WITHDRAWN, BidState.CANCELLED, BidState.FAILED}
)


class Bid(models.Model):
    """A request to train one job. `sequence` is the order of submission, assigned under the market's lock."""

    market = models.ForeignKey(Market, models.PROTECT, related_name="bids", db_index=False)
    """It has no index of its own: those of `Meta` begin with it."""
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="bids", db_index=False)
    """It has no index of its own: `bid_of_owner` begins with it."""
    team = models.ForeignKey(Team, models.PROTECT, null=True, related_name="bids", db_index=False)
    """The owner's team when it was submitted: its members see the bid. None if the owner had none."""
    sequence = models.PositiveBigIntegerField()
    idempotency_key = models.CharField(max_length=140, null=True)
    body_digest = models.CharField(
        max_length=64,
        blank=True,
        help_text="SHA-256 of the canonical body, to compare requests with the same idempotency key; empty without"
        " one.",
    )
    label = models.CharField(max_length=120, blank=True)
    trace_context = models.CharField(
        max_length=55,
        blank=True,
        default="",
        help_text="Where its decision belongs in a trace of OpenTelemetry; empty if none is recorded.",
    )
    submitted_at = models.DateTimeField()
    submitted_s = models.FloatField(help_text="Cluster time of submission, seconds after the epoch.")
    arrival_slot = models.BigIntegerField()
    body = CompactJSONField(help_text="The request as it was sent, in seconds, MB and Mbit/s.")
    program = models.JSONField(
        null=True, help_text="The `program` of the body, by which bids are found; null if it names none."
    )
    resolved_request = CompactJSONField(
        help_text="The request with the data of the model's profile; it refers to servers and machine types by name,"
        " so it stays valid if the inventory changes."
    )
    core_bid = CompactJSONField(
        help_text="The bid as the policy reads it, in slots and exact rationals, by position in the inventory."
    )
    inventory_version = models.PositiveBigIntegerField(help_text="Version of the inventory to which `core_bid` refers.")
    state = models.CharField(max_length=12, choices=BidState, default=BidState.SUBMITTED)
    stands_until = models.BigIntegerField(
        null=True, help_text="Last slot in which it is tried again; null if its first rejection was final."
    )
    tried_slot = models.BigIntegerField(
        null=True, help_text="First slot on sale when a standing bid was last tried, or was rejected first."
    )
    tries = models.PositiveIntegerField(default=0, help_text="How often it was tried again after its first rejection.")
    unrecorded_withdrawal = models.BooleanField(
        default=False,
        help_text="Whether it was withdrawn while it stood, and the event of the next slot is still to name it.",
    )
    value = models.FloatField(null=True, help_text="Value at the granted completion.")
    payment = models.FloatField(null=True)
    start_slot = models.BigIntegerField(null=True, help_text="None while no start is planned.")
    completion_slot = models.BigIntegerField(null=True, help_text="None while no completion is planned.")
    ended_slot = models.BigIntegerField(
        null=True,
        help_text="Slot in which the job was cancelled, failed or ended early: the first that it no longer held.",
    )
    end_reason = models.CharField(max_length=400, blank=True, help_text="Reason why the job failed.")
    refund = models.FloatField(default=0.0, help_text="Amount paid back to the owner of a failed job.")
    kept_from = models.BigIntegerField(
        null=True, help_text="First slot in which the promise is kept by machines other than those in the receipt."
    )
    seal = models.ForeignKey("auctions.Seal", models.PROTECT, null=True, related_name="bids", db_index=False)
    """Seal of the archive that has its request, its receipts and its events; None while they are here."""

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
                condition=~Q(state=BidState.STANDING) | Q(stands_until__isnull=False),
                name="bid_standing_has_end",
            ),
            CheckConstraint(
                condition=Q(stands_until__isnull=True, tried_slot__isnull=True, tries=0)
                | Q(stands_until__isnull=False, tried_slot__gte=F("arrival_slot")),
                name="bid_tried_if_it_stands",
            ),
            CheckConstraint(
                condition=Q(unrecorded_withdrawal=False) | Q(state=BidState.WITHDRAWN, stands_until__isnull=False),
                name="bid_withdrawn_while_it_stood",
            ),
            CheckConstraint(
                condition=Q(value__isnull=False, payment__isnull=False) | ~Q(state__in=sorted(ADMITTED)),
                name="bid_admitted_has_value",
            ),
            CheckConstraint(
                condition=~Q(state__in=(BidState.RUNNING, BidState.COMPLETED)) | Q(start_slot__isnull=False),
                name="bid_running_has_start",
            ),
            CheckConstraint(
                condition=~Q(state=BidState.COMPLETED) | Q(completion_slot__isnull=False) | Q(ended_slot__isnull=False),
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
            Index(fields=["market", "sequence"], condition=Q(state=BidState.SUBMITTED), name="bid_waiting"),
            # PostgreSQL stores a value of few once for many rows. With the sequence it would take five times as much.
            Index(fields=["market", "state"], name="bid_in_state"),
            Index(fields=["owner", "market"], name="bid_of_owner"),
            Index(fields=["team"], condition=Q(team__isnull=False), name="bid_of_team"),
            Index(fields=["market", "-sequence"], condition=Q(stands_until__isnull=False), name="bid_that_stood"),
            Index(fields=["market"], condition=Q(unrecorded_withdrawal=True), name="bid_unrecorded_withdrawal"),
        ]

    def __str__(self) -> str:
        return f"bid {self.sequence}"

    @property
    def started(self) -> bool:
        """Whether its job has started; a job that was cancelled or failed before its start has not."""
        if self.ended_slot is not None and self.state != BidState.COMPLETED:
            return self.start_slot is not None and self.start_slot < self.ended_slot
        return self.state in (BidState.RUNNING, BidState.COMPLETED)

    @property
    def completed_early(self) -> bool:
        """Whether its training ended before the completion that was planned."""
        return self.state == BidState.COMPLETED and self.ended_slot is not None

    @property
    def completed_slot(self) -> int | None:
        """The slot at whose start the job is complete; for a job that was complete early, the slot of its real end."""
        return self.ended_slot if self.completed_early else self.completion_slot


class _Receipt(models.Model):
    """A decision as canonical text; a replay must give the same bytes."""

    ledger_version = models.PositiveBigIntegerField(help_text="Ledger version at which the bid was decided.")
    version = models.PositiveBigIntegerField(help_text="Version of the event that recorded this row.")
    inventory_version = models.PositiveBigIntegerField(help_text="Version of the inventory to which positions refer.")
    slot = models.BigIntegerField(help_text="First slot on sale.")
    decided_at = models.DateTimeField()
    decided_s = models.FloatField(help_text="Cluster time of the decision, seconds after the epoch.")
    latency_ms = models.FloatField(help_text="Duration of the policy's decision.")
    standalone_value = models.FloatField(
        help_text="Standalone value: the bid's term in the zero-price bound, as in the receipt."
    )
    receipt = CompactTextField()

    class Meta:
        abstract = True


class FirstDecision(_Receipt):
    """The rejection after which a bid stands. Prices learn from it; the bid's last decision has a row of its own."""

    bid = models.OneToOneField(Bid, models.PROTECT, related_name="first_decision")
    policy = models.ForeignKey(PolicyVersion, models.PROTECT, related_name="first_decisions", db_index=False)

    def __str__(self) -> str:
        return f"first decision on {self.bid}"


class DecisionRecord(_Receipt):
    """The receipt of a decided bid. A standing bid has one when it no longer stands."""

    bid = models.OneToOneField(Bid, models.PROTECT, related_name="decision")
    policy = models.ForeignKey(PolicyVersion, models.PROTECT, related_name="decisions", db_index=False)
    costs = models.JSONField(
        null=True,
        help_text="Posted cost of each slot from the schedule's start on; null if jobs do not pay, or if costs were not"
        " stored yet.",
    )
    stood_from = models.BigIntegerField(
        null=True, help_text="First slot on sale when the bid began to stand; null if it was decided once."
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
        return f"{money(self.amount)} for {self.bid}"


class EventKind(models.TextChoices):
    """The kind of an event."""

    OPENED = "opened", "Opened"
    INVENTORY = "inventory", "Inventory changed"
    POLICY = "policy", "Policy changed"
    SUBMITTED = "submitted", "Bid submitted"
    STANDING = "standing", "Bid stands"
    WITHDRAWN = "withdrawn", "Bid withdrawn"
    QUARANTINED = "quarantined", "Bid quarantined"
    RETRIED = "retried", "Bid back in the queue"
    ADMITTED = "admitted", "Bid admitted"
    REJECTED = "rejected", "Bid rejected"
    SLOT = "slot", "Slots passed"
    CANCELLED = "cancelled", "Job cancelled"
    FAILED = "failed", "Job failed"
    COMPLETED = "completed", "Job completed early"


class Event(models.Model):
    """One event of a market; the events in order of version, with the bids, are all that a replay needs.

    `payload` by kind: `opened` and `inventory` hold the inventory snapshot (inventory, horizon and the row keys of its
    positions). If an operator took a server out of service or returned it, `service` says so, and `failed` names the
    jobs whose promise was broken by it. For each of these jobs a `failed` event follows, whose `by` is the version of
    the `inventory` event. `policy` holds the policy's name and parameters. `slot` holds the sequence numbers of the
    jobs that began and completed, and under `standing` the turn of standing bids (`auctions.engine.standing.Turn`),
    whose admissions are the events that follow. `withdrawn` names the standing bids that were withdrawn since the slot
    before: they have no event of their own, which would show others that a bid stood. A `completed` event ends a job
    before its last slot; `begun` is the last slot that had begun. Under a policy that plans, `moves` holds the new
    schedules of jobs from then on, in positions of the inventory then in force. `plan_failed` says that the policy
    failed; jobs then kept what they held.
    The field `slot` is the first slot that could still be traded; for a `slot` event, the last slot that began.
    """

    market = models.ForeignKey(Market, models.PROTECT, related_name="events", db_index=False)
    """It has no index of its own: that of the versions begins with it."""
    version = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=12, choices=EventKind)
    at = models.DateTimeField()
    slot = models.BigIntegerField()
    bid = models.ForeignKey(Bid, models.PROTECT, null=True, related_name="events", db_index=False)
    """It has no index: events are looked up by version, also those that leave with an archived bid."""
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
    version = models.PositiveBigIntegerField(help_text="Version of the event that recorded this row.")
    policy = models.ForeignKey(PolicyVersion, models.PROTECT, related_name="errors")
    bid = models.ForeignKey(
        Bid, models.PROTECT, null=True, related_name="policy_errors", help_text="None if planning failed."
    )
    at = models.DateTimeField()
    slot = models.BigIntegerField(help_text="First slot on sale.")
    error = models.TextField(help_text="Class and message of the exception.")
    traceback = models.TextField(help_text="Empty if planning failed with the same error as before.")

    class Meta:
        ordering = ["-version"]
        constraints = [UniqueConstraint(fields=["market", "version"], name="policy_error_once")]

    def __str__(self) -> str:
        return f"error of {self.policy} at version {self.version}"
