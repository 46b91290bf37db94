"""Machines that jobs hold, their chunks in queues, and their plans."""

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint

from auctions.models.market import Bid
from cluster.models import MachineType, Server


class Commitment(models.Model):
    """Machines of one type on one server held for a bid in slots [start, end)."""

    bid = models.ForeignKey(Bid, models.PROTECT, related_name="commitments")
    server = models.ForeignKey(Server, models.PROTECT, related_name="commitments")
    machine_type = models.ForeignKey(MachineType, models.PROTECT, related_name="commitments")
    count = models.PositiveIntegerField()
    start = models.BigIntegerField()
    end = models.BigIntegerField(help_text="First slot after the window; cancelling the job makes it smaller.")

    class Meta:
        ordering = ["start", "server", "machine_type"]
        constraints = [
            CheckConstraint(condition=Q(count__gte=1), name="commitment_count_at_least_1"),
            CheckConstraint(condition=Q(end__gte=F("start")), name="commitment_window_forward"),
        ]
        indexes = [Index(fields=["end"], name="commitment_by_end")]

    def __str__(self) -> str:
        return f"{self.count} x {self.machine_type} on {self.server} in [{self.start}, {self.end})"


class OutageKind(models.TextChoices):
    """The way in which a server is taken out of service."""

    DRAIN = "drain", "Drain"
    LOST = "lost", "Lost"


class Outage(models.Model):
    """An operator's statement about a server: it takes no new work from a slot on, or it is lost.

    Each statement has a row; the row without an end is in force.
    """

    server = models.ForeignKey(Server, models.CASCADE, related_name="outages")
    kind = models.CharField(max_length=5, choices=OutageKind)
    from_slot = models.BigIntegerField(help_text="First slot in which the server takes no new work.")
    deadline = models.BigIntegerField(
        null=True, help_text="Slot in which jobs that still hold the server are moved or fail; null if they may finish."
    )
    out_slot = models.BigIntegerField(
        null=True, help_text="First slot in which nobody holds the server: it was lost, or its deadline was reached."
    )
    reason = models.CharField(max_length=200, blank=True)
    reported_at = models.DateTimeField()
    reported_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    version = models.PositiveBigIntegerField(help_text="Version of the market's event that recorded this row.")
    ended_slot = models.BigIntegerField(null=True, help_text="First slot in which this outage was no longer in force.")
    ended_version = models.PositiveBigIntegerField(null=True)

    class Meta:
        ordering = ["-version"]
        constraints = [
            UniqueConstraint(fields=["server"], condition=Q(ended_version__isnull=True), name="outage_in_force_once"),
            CheckConstraint(condition=Q(kind__in=OutageKind.values), name="outage_kind_known"),
            CheckConstraint(
                condition=Q(deadline__isnull=True) | Q(deadline__gte=F("from_slot")), name="outage_deadline_after_start"
            ),
            CheckConstraint(
                condition=Q(ended_slot__isnull=True, ended_version__isnull=True)
                | Q(ended_slot__isnull=False, ended_version__isnull=False),
                name="outage_ended_wholly",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} of {self.server} from slot {self.from_slot}"


class QueuedChunks(models.Model):
    """Data chunks of a bid in one worker's queue. Jobs share workers there, in the order of their ranks."""

    bid = models.ForeignKey(Bid, models.PROTECT, related_name="queued")
    server = models.ForeignKey(Server, models.PROTECT, related_name="queued")
    machine_type = models.ForeignKey(MachineType, models.PROTECT, related_name="queued")
    worker = models.IntegerField(
        help_text="Number of the worker among the server's workers of that type; -1 if each chunk has its own."
    )
    count = models.PositiveIntegerField()
    since = models.BigIntegerField(help_text="Slot in which the chunks were sent.")
    release = models.BigIntegerField(
        help_text="Slot in which the upload ends; delays may change after the chunks were sent."
    )
    order = models.PositiveBigIntegerField(
        help_text="Number of the job among all queued jobs; it breaks ties between equal ranks."
    )
    each = models.BigIntegerField(help_text="Processing time of one chunk there, in billionths of a slot.")
    rank = models.BigIntegerField(
        help_text="Rank of the job: chunks x billionths of a slot for each with communication, plus the handicap."
    )
    handicap = models.BigIntegerField(
        default=0, help_text="Part of the rank that ageing added, in billionths of a slot."
    )
    until = models.BigIntegerField(null=True, help_text="Slot in which chunks that were not complete left the queue.")
    done = models.PositiveIntegerField(null=True, help_text="Number of chunks that were complete then.")

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
    """A worker works on queued chunks from `start` to `end`, in billionths of a slot; the row is never changed."""

    queued = models.ForeignKey(QueuedChunks, models.PROTECT, related_name="segments")
    count = models.PositiveIntegerField(default=1, help_text="Number of workers in parallel, in the cloud.")
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
    """A worker interrupted a chunk for a chunk of another bid, at a time in billionths of a slot."""

    queued = models.ForeignKey(QueuedChunks, models.PROTECT, related_name="preemptions")
    by = models.ForeignKey(QueuedChunks, models.PROTECT, related_name="preempted")
    at = models.BigIntegerField()

    class Meta:
        ordering = ["at", "queued"]

    def __str__(self) -> str:
        return f"{self.queued} left at {self.at} for {self.by.bid}"


class PsHost(models.TextChoices):
    """The place of the parameter server of a queued job."""

    EDGE = "edge", "Edge"
    CLOUD = "cloud", "Cloud, like all workers of the job"
    FALLBACK = "fallback", "Cloud, because none was free at the edge"
    NONE = "none", "None was free"


class PsAssignment(models.Model):
    """A parameter server assigned to a queued job while the job runs without a break, in billionths of a slot."""

    bid = models.ForeignKey(Bid, models.PROTECT, related_name="ps_assignments")
    host = models.CharField(max_length=8, choices=PsHost)
    server = models.ForeignKey(
        Server,
        models.PROTECT,
        null=True,
        related_name="ps_assignments",
        help_text="Server at the edge; null for the cloud.",
    )
    machine_type = models.ForeignKey(MachineType, models.PROTECT, related_name="ps_assignments")
    start = models.BigIntegerField()
    end = models.BigIntegerField(help_text="End so far; it grows while the job runs.")

    class Meta:
        ordering = ["start", "bid"]
        constraints = [
            CheckConstraint(condition=Q(end__gt=F("start")), name="ps_assignment_forward"),
            CheckConstraint(condition=Q(host__in=PsHost.values), name="ps_assignment_host_known"),
            CheckConstraint(
                condition=Q(host=PsHost.EDGE) ^ Q(server__isnull=True), name="ps_assignment_server_at_edge"
            ),
        ]
        indexes = [Index(fields=["end"], name="ps_assignment_by_end")]

    def __str__(self) -> str:
        return f"parameter server of {self.bid} from {self.start} to {self.end}"


class PlanChange(models.Model):
    """One step of a plan that is not a promise: the start and completion that were planned from this event on."""

    bid = models.ForeignKey(Bid, models.PROTECT, related_name="plan_changes")
    version = models.PositiveBigIntegerField(help_text="Version of the event that changed the plan.")
    at = models.DateTimeField()
    slot = models.BigIntegerField(help_text="First slot that could be used.")
    start = models.BigIntegerField(null=True, help_text="None if no start is planned.")
    completion = models.BigIntegerField(null=True, help_text="None if no completion is planned.")

    class Meta:
        ordering = ["version"]
        constraints = [UniqueConstraint(fields=["bid", "version"], name="plan_change_once")]

    def __str__(self) -> str:
        return f"plan of {self.bid} at version {self.version}"
