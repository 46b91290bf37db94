"""Tables of traces, and of the background jobs of offline studies."""

from typing import Final

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, Index, Q

from auctions.models import Market
from cluster.models import Cluster
from cluster.traces.formats import FORMATS
from studies.background.models import BackgroundJob, JobState, Requestable, unique_key

MOST_SECONDS: Final = 600
"""Largest time budget of a plan."""


class ComparisonKind(models.TextChoices):
    """The kind of comparison for which a plan was requested with another one."""

    ITSELF = "", "For itself"
    METHOD = "method", "Another method"
    HELPER = "helper", "More helpers"
    REPLAN = "replan", "Again, after changes"
    SLOT = "slot", "Another length of slots"


class Plan(BackgroundJob, Requestable):
    """A plan of parallel split learning that a user requested. Times in slots of `slot_ms` where no unit is said."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="plans")
    label = models.CharField(max_length=120, blank=True)
    cluster = models.ForeignKey(
        Cluster, models.SET_NULL, null=True, related_name="plans", help_text="Whose servers the helpers are."
    )
    of = models.ForeignKey(
        "self", models.CASCADE, null=True, related_name="others", help_text="The plan with which it is compared."
    )
    comparison = models.CharField(max_length=10, choices=ComparisonKind, default=ComparisonKind.ITSELF, blank=True)
    instance = models.JSONField(help_text="In the format of instance files.")
    origin = models.JSONField(null=True, help_text="The scenario or profile it was made of, as it was asked.")
    helpers = models.PositiveIntegerField()
    clients = models.PositiveIntegerField()
    slot_ms = models.PositiveIntegerField()
    method = models.CharField(max_length=40)
    seconds = models.FloatField(help_text="Budget of time, from when its kernels are loaded.")
    seed = models.PositiveBigIntegerField(default=0)
    lower_bound = models.PositiveBigIntegerField(null=True)
    makespan = models.PositiveBigIntegerField(null=True)
    note = models.CharField(max_length=200, blank=True)
    steps = models.JSONField(default=list, help_text="[seconds, lower bound, makespan or null, note] of each step.")
    result = models.JSONField(null=True, help_text="The plan itself, helpers and clients by number.")

    class Meta:
        ordering = ["-pk"]
        constraints = [
            *BackgroundJob.Meta.constraints,
            CheckConstraint(condition=Q(comparison__in=ComparisonKind.values), name="plan_comparison_known"),
            unique_key("plan"),
            CheckConstraint(condition=Q(seconds__gt=0, seconds__lte=MOST_SECONDS), name="plan_seconds_in_range"),
            CheckConstraint(
                condition=~Q(state=JobState.COMPLETED)
                | Q(result__isnull=False, makespan__isnull=False, lower_bound__isnull=False),
                name="plan_completed_has_result",
            ),
            CheckConstraint(
                condition=Q(makespan__isnull=True)
                | Q(lower_bound__isnull=True)
                | Q(makespan__gte=models.F("lower_bound")),
                name="plan_never_below_its_bound",
            ),
        ]
        indexes = [Index(fields=["state", "id"], name="plan_by_state"), Index(fields=["owner", "-id"], name="plan_of")]

    def __str__(self) -> str:
        return f"plan {self.pk}"

    @property
    def gap(self) -> float | None:
        """Largest excess of the makespan over the optimum, relative to the bound; None if one is unknown or 0."""
        return share_above(self.makespan, self.lower_bound)

    @property
    def optimal(self) -> bool:
        """Whether no plan is better, which is proven."""
        return self.makespan is not None and self.makespan == self.lower_bound


def share_above(makespan: float | None, bound: int | None) -> float | None:
    """Return makespan / bound - 1, which is 0 where both are 0; None if one is unknown, or only the bound is 0."""
    if makespan is None or bound is None:
        return None
    if makespan == bound:
        return 0.0
    return makespan / bound - 1 if bound else None


LONGEST_SLOT_S: Final = 10.0
"""Longest slot in which a plan is run, seconds."""
MOST_BATCHES: Final = 100
"""Largest number of batches of a run."""


class PlanRun(BackgroundJob, Requestable):
    """A plan that is run with its clients and helpers as processes, on the machine of a cluster that executes."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="plan_runs")
    plan = models.ForeignKey(Plan, models.CASCADE, related_name="runs")
    cluster = models.ForeignKey(
        Cluster, models.CASCADE, related_name="plan_runs", help_text="The cluster under whose limits it runs."
    )
    slot_s = models.FloatField(help_text="Length of a slot in this run, seconds.")
    batches = models.PositiveIntegerField(help_text="Number of batches.")
    begun = models.PositiveIntegerField(default=0, help_text="Batches that have begun.")
    measured = models.JSONField(
        default=list, help_text="[makespan in seconds, mean loss of all clients] of each batch, once it is completed."
    )
    tasks = models.JSONField(
        null=True,
        help_text="Measured tasks: [batch, client, kind, part, start, end, loss or null], seconds since its batch.",
    )

    class Meta:
        ordering = ["-pk"]
        constraints = [
            *BackgroundJob.Meta.constraints,
            unique_key("plan_run"),
            CheckConstraint(condition=Q(slot_s__gt=0, slot_s__lte=LONGEST_SLOT_S), name="plan_run_slot_in_range"),
            CheckConstraint(
                condition=Q(batches__gte=1, batches__lte=MOST_BATCHES, begun__lte=models.F("batches")),
                name="plan_run_batches_in_range",
            ),
            CheckConstraint(
                condition=~Q(state=JobState.COMPLETED) | Q(tasks__isnull=False), name="plan_run_completed_has_tasks"
            ),
        ]
        indexes = [
            Index(fields=["state", "id"], name="plan_run_by_state"),
            Index(fields=["plan", "-id"], name="plan_run_of"),
        ]

    def __str__(self) -> str:
        return f"run {self.pk} of plan {self.plan_id}"


class Trace(models.Model):
    """A file of a public trace, as its publisher distributes it: jobs, or data about machines, step times or quotas."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="traces")
    label = models.CharField(max_length=120, blank=True)
    source = models.CharField(max_length=200, blank=True, help_text="Name of the file.")
    format = models.CharField(max_length=40)
    sha256 = models.CharField(max_length=64, help_text="Of its text in UTF-8, hex.")
    text = models.TextField()
    records = models.PositiveIntegerField(help_text="Lines that are jobs, machines or what else the file holds.")
    malformed_lines = models.PositiveIntegerField(help_text="Lines that are no record.")
    malformed = models.JSONField(default=list, help_text="The first of them: line, field and message.")
    throughputs = models.JSONField(null=True, help_text="Mini-batches a second on one GPU, by GPU type and model.")
    throughputs_sha256 = models.CharField(max_length=64, blank=True, help_text="Of the text they came in, hex.")
    submitted_at = models.DateTimeField()

    class Meta:
        ordering = ["-pk"]
        constraints = [
            models.UniqueConstraint(fields=["owner", "sha256", "throughputs_sha256"], name="trace_once_an_owner"),
            CheckConstraint(condition=Q(records__gte=1), name="trace_has_records"),
        ]

    def __str__(self) -> str:
        return self.label or self.source or f"trace {self.pk}"

    @property
    def kind(self) -> str:
        """The kind of its records, as in `cluster.traces.formats.KINDS`."""
        return FORMATS[self.format].kind

    @property
    def gpu_types(self) -> list[str]:
        """GPU types for which its throughputs are; empty if it has none."""
        return sorted(self.throughputs or ())

    @property
    def holds(self) -> str:
        """The same in words."""
        return self.kind.replace("_", " ")


class Experiment(Requestable):
    """Policies x workloads x seeds. Its state is that of its runs."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="experiments")
    label = models.CharField(max_length=120, blank=True)
    matrix = models.JSONField(
        help_text="Workloads, policies with all parameters, seeds, and whether bounds are computed."
    )
    traces = models.ManyToManyField(Trace, related_name="experiments", help_text="Traces that its workloads read.")
    rerun_of = models.ForeignKey(
        "self",
        models.SET_NULL,
        null=True,
        related_name="reruns",
        help_text="The experiment that it repeats, with which it is compared.",
    )
    submitted_at = models.DateTimeField()

    class Meta:
        ordering = ["-pk"]
        constraints = [unique_key("experiment")]
        indexes = [Index(fields=["owner", "-id"], name="experiment_of")]

    def __str__(self) -> str:
        return f"experiment {self.pk}"


class Run(BackgroundJob):
    """One cell of an experiment: a workload with a seed, under a policy or for the bound that holds for all."""

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="runs")
    number = models.PositiveIntegerField(help_text="Within its experiment, from 1.")
    workload = models.PositiveIntegerField(help_text="Index in the matrix.")
    policy = models.PositiveIntegerField(null=True, help_text="Index in the matrix; null: the bound.")
    seed = models.PositiveBigIntegerField()
    decided = models.PositiveIntegerField(default=0, help_text="Jobs decided so far.")
    jobs = models.PositiveIntegerField(null=True, help_text="Number of jobs, known once the workload is drawn.")
    outcome = models.TextField(blank=True, help_text="Canonical JSON: the same bytes for the same run.")
    outcome_sha256 = models.CharField(max_length=64, blank=True)
    workload_sha256 = models.CharField(max_length=64, blank=True)
    timing = models.JSONField(null=True, help_text="Measured speed, which differs from run to run.")
    commit = models.CharField(max_length=64, blank=True)
    sources = models.CharField(max_length=64, blank=True, help_text="SHA-256 of the code that ran.")

    class Meta:
        ordering = ["experiment", "number"]
        constraints = [
            *BackgroundJob.Meta.constraints,
            models.UniqueConstraint(fields=["experiment", "number"], name="run_number_once"),
            CheckConstraint(
                condition=~Q(state=JobState.COMPLETED)
                | (Q(timing__isnull=False) & ~Q(outcome="") & ~Q(outcome_sha256="") & ~Q(sources="")),
                name="run_completed_has_outcome",
            ),
        ]
        indexes = [Index(fields=["state", "id"], name="run_by_state")]

    def __str__(self) -> str:
        return f"run {self.number} of experiment {self.experiment_id}"


class Counterfactual(BackgroundJob, Requestable):
    """A market's record replayed under another policy, up to its `version` at the time of the request."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="counterfactuals")
    market = models.ForeignKey(Market, models.CASCADE, related_name="counterfactuals")
    policy = models.CharField(max_length=60)
    parameters = models.JSONField(help_text="All parameters of the policy.")
    since = models.PositiveBigIntegerField(help_text="Number of the first bid that the other policy decides.")
    version = models.PositiveBigIntegerField(help_text="Version of the market up to which its record is replayed.")
    slot = models.BigIntegerField(help_text="The last slot that had begun at that version.")
    submitted = models.PositiveBigIntegerField(help_text="Number of bids submitted by then.")
    replayed = models.PositiveBigIntegerField(default=0, help_text="Events replayed so far.")
    events = models.PositiveBigIntegerField(null=True, help_text="Events to be replayed.")
    decided = models.PositiveBigIntegerField(null=True, help_text="Decisions that the other policy makes.")
    changed = models.PositiveBigIntegerField(null=True, help_text="How many of them would have been different.")
    result = models.JSONField(null=True, help_text="The comparison: totals, and a row for each bid.")

    class Meta:
        ordering = ["-pk"]
        constraints = [
            *BackgroundJob.Meta.constraints,
            CheckConstraint(
                condition=~Q(state=JobState.COMPLETED)
                | Q(result__isnull=False, decided__isnull=False, changed__isnull=False),
                name="counterfactual_completed_has_result",
            ),
            unique_key("counterfactual"),
            CheckConstraint(
                condition=Q(changed__isnull=True) | Q(changed__lte=models.F("decided")),
                name="counterfactual_changes_few",
            ),
        ]
        indexes = [
            Index(fields=["state", "id"], name="counterfactual_by_state"),
            Index(fields=["market", "-id"], name="counterfactual_of"),
        ]

    def __str__(self) -> str:
        return f"counterfactual {self.pk}"
