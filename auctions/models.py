"""The live market: bids, decisions, commitments, payments and the events that made them.

Constraints stand first: what the database refuses, no code can store.
"""

from typing import Final
from uuid import uuid4

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint

from cluster.models import Cluster, MachineType, Server


class Market(models.Model):
    """The market of one cluster. `version` counts its events; whoever writes to the market holds this row's lock."""

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
    slot = models.BigIntegerField(default=0, editable=False, help_text="Last slot whose beginning was processed.")
    now = models.BigIntegerField(
        default=0, editable=False, help_text="First slot that could still be traded when the ledger last moved."
    )

    def __str__(self) -> str:
        return f"Market of {self.cluster}"


class PolicyVersion(models.Model):
    """A policy with its parameters, as in force from one event on; never edited, only followed by another."""

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
    """Where a bid is on its way."""

    SUBMITTED = "submitted", "Waiting"
    PLANNED = "planned", "Planned"
    RUNNING = "running", "Running"
    COMPLETED = "completed", "Completed"
    REJECTED = "rejected", "Rejected"
    WITHDRAWN = "withdrawn", "Withdrawn"
    CANCELLED = "cancelled", "Cancelled"
    FAILED = "failed", "Failed"


ADMITTED: Final = frozenset(
    {BidState.PLANNED, BidState.RUNNING, BidState.COMPLETED, BidState.CANCELLED, BidState.FAILED}
)
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
    state = models.CharField(max_length=10, choices=BidState, default=BidState.SUBMITTED)
    value = models.FloatField(null=True, help_text="Worth at the completion granted.")
    payment = models.FloatField(null=True)
    start_slot = models.BigIntegerField(null=True, help_text="None while the job waits in line without a start.")
    completion_slot = models.BigIntegerField(null=True, help_text="None while nothing is planned.")
    ended_slot = models.BigIntegerField(null=True, help_text="Slot in which it was cancelled or failed.")

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


class DecisionRecord(models.Model):
    """The receipt of a decided bid: canonical text, byte for byte what a replay must give again."""

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

    def __str__(self) -> str:
        return f"decision on {self.bid}"


class Commitment(models.Model):
    """Machines of one type on one server held for a bid in slots [start, end)."""

    bid = models.ForeignKey(Bid, models.PROTECT, related_name="commitments")
    server = models.ForeignKey(Server, models.PROTECT, related_name="commitments")
    machine_type = models.ForeignKey(MachineType, models.PROTECT, related_name="commitments")
    count = models.PositiveIntegerField()
    start = models.BigIntegerField()
    end = models.BigIntegerField(help_text="Cut short when the job is cancelled.")

    class Meta:
        ordering = ["start", "server", "machine_type"]
        constraints = [
            CheckConstraint(condition=Q(count__gte=1), name="commitment_count_at_least_1"),
            CheckConstraint(condition=Q(end__gte=F("start")), name="commitment_window_forward"),
        ]
        indexes = [Index(fields=["end"], name="commitment_by_end")]

    def __str__(self) -> str:
        return f"{self.count} x {self.machine_type} on {self.server} in [{self.start}, {self.end})"


class QueuedChunks(models.Model):
    """Data chunks of a bid sent to one worker's queue; jobs share workers there, in the order of their ranks."""

    bid = models.ForeignKey(Bid, models.PROTECT, related_name="queued")
    server = models.ForeignKey(Server, models.PROTECT, related_name="queued")
    machine_type = models.ForeignKey(MachineType, models.PROTECT, related_name="queued")
    worker = models.IntegerField(help_text="Which of the server's workers of that type; -1: one of its own for each.")
    count = models.PositiveIntegerField()
    since = models.BigIntegerField(help_text="Slot in which they were sent.")
    release = models.BigIntegerField(
        help_text="Slot at which they are uploaded; delays may change after they were sent."
    )
    order = models.PositiveBigIntegerField(help_text="Of the job among those ever queued: breaks ties of ranks.")
    each = models.BigIntegerField(help_text="Billionths of a slot that one of them takes there.")
    rank = models.BigIntegerField(
        help_text="Of the job: chunks x billionths of a slot each with communication, and the handicap."
    )
    handicap = models.BigIntegerField(default=0, help_text="What ageing added to the rank, in billionths of a slot.")
    until = models.BigIntegerField(null=True, help_text="Slot in which what was not complete was taken out again.")
    done = models.PositiveIntegerField(null=True, help_text="Chunks that were complete then.")

    class Meta:
        ordering = ["since", "server", "machine_type", "worker"]
        constraints = [
            CheckConstraint(condition=Q(count__gte=1), name="queued_count_at_least_1"),
            CheckConstraint(
                condition=Q(until__isnull=True, done__isnull=True) | Q(until__gte=F("since"), done__lte=F("count")),
                name="queued_taken_out_in_part",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.count} chunks of {self.bid} on {self.server}"


class Segment(models.Model):
    """A worker at work on queued chunks from `start` to `end`, in billionths of a slot; never rewritten."""

    queued = models.ForeignKey(QueuedChunks, models.PROTECT, related_name="segments")
    count = models.PositiveIntegerField(default=1, help_text="Workers side by side, in the cloud.")
    start = models.BigIntegerField()
    end = models.BigIntegerField()

    class Meta:
        ordering = ["start", "queued"]
        constraints = [
            CheckConstraint(condition=Q(count__gte=1), name="segment_count_at_least_1"),
            CheckConstraint(condition=Q(end__gt=F("start")), name="segment_forward"),
        ]
        indexes = [Index(fields=["end"], name="segment_by_end")]

    def __str__(self) -> str:
        return f"{self.queued} from {self.start} to {self.end}"


class Preemption(models.Model):
    """A worker left a chunk in the middle for another bid's, at an instant in billionths of a slot."""

    queued = models.ForeignKey(QueuedChunks, models.PROTECT, related_name="preemptions")
    by = models.ForeignKey(QueuedChunks, models.PROTECT, related_name="preempted")
    at = models.BigIntegerField()

    class Meta:
        ordering = ["at", "queued"]

    def __str__(self) -> str:
        return f"{self.queued} left at {self.at} for {self.by.bid}"


class PsHost(models.TextChoices):
    """Where the parameter server of a queued job is."""

    EDGE = "edge", "Edge"
    CLOUD = "cloud", "Cloud, as the whole job"
    FALLBACK = "fallback", "Cloud, as none of the edge was free"
    NONE = "none", "None was free"


class Tenure(models.Model):
    """A parameter server kept for a queued job while it runs without a break, in billionths of a slot."""

    bid = models.ForeignKey(Bid, models.PROTECT, related_name="tenures")
    host = models.CharField(max_length=8, choices=PsHost)
    server = models.ForeignKey(Server, models.PROTECT, null=True, related_name="tenures", help_text="Of the edge.")
    machine_type = models.ForeignKey(MachineType, models.PROTECT, related_name="tenures")
    start = models.BigIntegerField()
    end = models.BigIntegerField(help_text="Grows while the job runs on.")

    class Meta:
        ordering = ["start", "bid"]
        constraints = [
            CheckConstraint(condition=Q(end__gt=F("start")), name="tenure_forward"),
            CheckConstraint(condition=Q(host__in=PsHost.values), name="tenure_host_known"),
            CheckConstraint(condition=Q(host=PsHost.EDGE) ^ Q(server__isnull=True), name="tenure_server_at_edge"),
        ]
        indexes = [Index(fields=["end"], name="tenure_by_end")]

    def __str__(self) -> str:
        return f"parameter server of {self.bid} from {self.start} to {self.end}"


class PlanChange(models.Model):
    """One step of a plan that is no promise: from this event on the job was to start and complete then."""

    bid = models.ForeignKey(Bid, models.PROTECT, related_name="plan_changes")
    version = models.PositiveBigIntegerField(help_text="Version of the event that changed it.")
    at = models.DateTimeField()
    slot = models.BigIntegerField(help_text="First slot that could still be used.")
    start = models.BigIntegerField(null=True, help_text="None: in line without a start.")
    completion = models.BigIntegerField(null=True, help_text="None: nothing is planned.")

    class Meta:
        ordering = ["version"]
        constraints = [UniqueConstraint(fields=["bid", "version"], name="plan_change_once")]

    def __str__(self) -> str:
        return f"plan of {self.bid} at version {self.version}"


class Payment(models.Model):
    """What an admitted bid pays: the posted cost of its schedule when it was decided. Not refunded on cancellation."""

    bid = models.OneToOneField(Bid, models.PROTECT, related_name="charge")
    amount = models.FloatField()
    created_at = models.DateTimeField()

    class Meta:
        constraints = [CheckConstraint(condition=Q(amount__gte=0), name="payment_not_negative")]

    def __str__(self) -> str:
        return f"{self.amount:.2f} for {self.bid}"


class EventKind(models.TextChoices):
    """What can happen to a market."""

    OPENED = "opened", "Opened"
    INVENTORY = "inventory", "Inventory changed"
    POLICY = "policy", "Policy changed"
    SUBMITTED = "submitted", "Bid submitted"
    WITHDRAWN = "withdrawn", "Bid withdrawn"
    ADMITTED = "admitted", "Bid admitted"
    REJECTED = "rejected", "Bid rejected"
    SLOT = "slot", "Slots passed"
    CANCELLED = "cancelled", "Job cancelled"
    FAILED = "failed", "Job failed"


class Event(models.Model):
    """One step of a market; the steps in order of version are all that a replay needs.

    `payload` by kind: `opened` and `inventory` hold the layout (inventory, horizon and the keys of the rows behind
    its positions), `policy` the policy's name and parameters, `slot` the sequence numbers that began and completed.
    Under a policy that plans, `moves` holds what jobs hold from then on instead of what they held, in positions of the
    inventory then in force.
    `slot` is the first slot that could still be traded; of a `slot` event, the last slot that began.
    """

    market = models.ForeignKey(Market, models.PROTECT, related_name="events")
    version = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=10, choices=EventKind)
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


class SlotPrice(models.Model):
    """Posted prices of a slot as they stood when it began, and how full it was: the past of the charts.

    Under a policy that queues, workers are in use that are busy in some part of the slot; see `Tenure` for their
    parameter servers.
    """

    market = models.ForeignKey(Market, models.PROTECT, related_name="slot_prices")
    slot = models.BigIntegerField()
    inventory_version = models.PositiveBigIntegerField(help_text="Version of the inventory its positions speak of.")
    prices = models.JSONField(help_text="S x R, money per unit and slot.")
    used = models.JSONField(help_text="S x R, units.")

    class Meta:
        ordering = ["slot"]
        constraints = [UniqueConstraint(fields=["market", "slot"], name="slot_price_once")]

    def __str__(self) -> str:
        return f"prices of slot {self.slot}"


class BoundKind(models.TextChoices):
    """How an upper bound on welfare was proved."""

    ZERO_PRICE = "zero_price", "Zero-price bound"
    POSTED_PRICE = "posted_price", "Posted-price bound (weak duality)"


class Quotients(models.Model):
    """How near a market that queues came to the least its latest complete jobs could have taken, derived from rows.

    `findings` is `Findings` of `auctions.quotients` as JSON.
    """

    market = models.OneToOneField(Market, models.CASCADE, related_name="quotients")
    basis = models.CharField(max_length=80, help_text="What it was computed from: complete jobs, servers, policy.")
    findings = models.JSONField()
    took_ms = models.FloatField()
    computed_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "quotients"

    def __str__(self) -> str:
        return f"quotients of {self.market}"


class Certificate(models.Model):
    """A proved upper bound on the welfare any scheduler could have had from the bids decided so far.

    Both bounds are kept; `kind` and `value` are the smaller one. Bids that wait or were withdrawn are in neither
    the bound nor the welfare. What can no longer change is kept as sums: the terms of bids whose whole window has
    passed, and price x capacity of the slots before those windows of the others.
    """

    market = models.OneToOneField(Market, models.CASCADE, related_name="certificate")
    version = models.PositiveBigIntegerField(help_text="The market's version it speaks of.")
    kind = models.CharField(max_length=12, choices=BoundKind)
    value = models.FloatField()
    zero_price = models.FloatField()
    posted_price = models.FloatField()
    welfare = models.FloatField(help_text="Of the same bids, at that version.")
    gap = models.FloatField(help_text="(bound - welfare) / bound; 0 when the bound is 0.")
    decided = models.PositiveBigIntegerField(help_text="Bids it covers.")
    loose = models.PositiveBigIntegerField(
        default=0, help_text="Bids for which the zero-price term stood in, for lack of time or after a new inventory."
    )
    took_ms = models.FloatField()
    computed_at = models.DateTimeField()
    settled_bids = models.PositiveBigIntegerField(default=0, editable=False)
    settled_loose = models.PositiveBigIntegerField(default=0, editable=False)
    settled_terms = models.FloatField(default=0.0, editable=False)
    settled_ceilings = models.FloatField(default=0.0, editable=False)
    settled_through = models.BigIntegerField(null=True, editable=False, help_text="Slots before it are in the sum.")
    settled_capacity = models.FloatField(default=0.0, editable=False)

    class Meta:
        constraints = [CheckConstraint(condition=Q(kind__in=BoundKind.values), name="certificate_kind_known")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()}: {self.value:.2f}"
