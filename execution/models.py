"""Tables of execution: how a cluster executes, programs, and what ran for each bid."""

from typing import Final
from uuid import uuid4

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, URLValidator
from django.db import models
from django.db.models import CheckConstraint, Index, Q, UniqueConstraint

from auctions.models import Bid
from cluster import clock
from cluster.models import NAME, Cluster, MachineType, Server
from web.fields import UNSTORABLE

MOST_ARGUMENTS: Final = 64
LONGEST_ARGUMENT: Final = 1_000
LONGEST_GRACE_S: Final = 3_600
LONGEST_PROBLEM: Final = 1_000


def _is_text(value: object) -> bool:
    """Return whether a value is a text that can be stored, and passed to a program."""
    return isinstance(value, str) and UNSTORABLE.search(value) is None


def texts(value: object) -> None:
    """Refuse anything but a list of texts of which the first is not empty."""
    if not isinstance(value, list) or not all(map(_is_text, value)):
        raise ValidationError(f"Expected a list of texts, got {value!r}.")
    if not value or not value[0]:
        raise ValidationError("Expected the program as the first text, got none.")


def texts_or_none(value: object) -> None:
    """Refuse anything but a list of texts, which may be empty."""
    if value != []:
        texts(value)


def environment(value: object) -> None:
    """Refuse anything but an object of texts by name."""
    if not isinstance(value, dict) or not all(map(_is_text, value.values())):
        raise ValidationError(f"Expected an object of texts, got {value!r}.")
    if wrong := [name for name in value if not name or "=" in name or not _is_text(name)]:
        raise ValidationError(f"Expected names of variables, got {', '.join(map(repr, wrong))}.")


class EngineKind(models.TextChoices):
    """The engine that starts the processes of a cluster."""

    LOCAL = "local", "Processes on this machine"
    SLURM = "slurm", "Slurm"


class Execution(models.Model):
    """The way in which a cluster executes admitted jobs; a cluster without this row does not execute them."""

    cluster = models.OneToOneField(Cluster, models.CASCADE, related_name="execution")
    is_on = models.BooleanField(default=True, help_text="Whether processes are started; those that run are stopped.")
    engine = models.CharField(max_length=10, choices=EngineKind, default=EngineKind.LOCAL)
    grace_s = models.FloatField(
        default=10.0,
        validators=[MinValueValidator(0.1), MaxValueValidator(LONGEST_GRACE_S)],
        help_text="Seconds between SIGTERM and SIGKILL; a job is stopped this long before it gives its machines back.",
    )
    memory_mb = models.PositiveIntegerField(
        null=True,
        blank=True,
        help_text="Largest address space of one process, MB; empty for no limit, as programs on GPUs need it: they"
        " reserve far more than they use.",
    )
    processes = models.PositiveIntegerField(
        default=10_000,
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="Most processes and threads of a user on one server; empty for no limit. Only with first_uid.",
    )
    open_files = models.PositiveIntegerField(
        default=4_096,
        null=True,
        blank=True,
        validators=[MinValueValidator(16)],
        help_text="Most files that one process has open; empty for no limit.",
    )
    file_mb = models.PositiveIntegerField(
        default=100_000,
        null=True,
        blank=True,
        help_text="Largest file that a process may write, MB; empty for no limit.",
    )
    niceness = models.PositiveSmallIntegerField(
        default=10,
        validators=[MaxValueValidator(19)],
        help_text="How much programs give way to other processes of their server, such as this service: 0 to 19.",
    )
    first_uid = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1_000), MaxValueValidator(2**31)],
        help_text="Processes of the user with key k run as system user first_uid + k, which needs an executor that runs"
        " as root; empty: as the executor's own user, for people who trust each other.",
    )
    allow_root = models.BooleanField(
        default=False,
        help_text="Whether programs may run as root, if the executor does and first_uid is empty; else none starts.",
    )
    own_programs = models.BooleanField(
        default=False, help_text="Whether users may bring programs of their own, in archives."
    )
    users_trust_each_other = models.BooleanField(
        default=False,
        help_text="Whether users may bring programs without first_uid: programs of all users then run as one system"
        " user, and can read and change each other's files.",
    )
    runs_plans = models.BooleanField(
        default=False,
        help_text="Whether users may run plans of split learning on this machine, beside the market; they run the"
        " example of this project, with the limits and as the system users of admitted jobs.",
    )
    slurm_configuration = models.CharField(
        max_length=400, blank=True, help_text="Path of slurm.conf, if it is not at its usual place."
    )
    sbatch_options = models.JSONField(
        default=list, blank=True, validators=[texts_or_none], help_text='More options of sbatch: ["--partition=gpu"].'
    )
    addresses = models.JSONField(
        default=dict,
        blank=True,
        validators=[environment],
        help_text="Address at which processes on a server are reached by others, by name of the server; a server that"
        " is not named is this machine.",
    )

    keep_days = models.PositiveIntegerField(
        default=30,
        validators=[MinValueValidator(1), MaxValueValidator(36_500)],
        help_text="Days after which logs, and directories of trainings that ended, are deleted; the directory with the"
        " newest checkpoint of a training is kept three times as long.",
    )
    service_url = models.CharField(
        max_length=200,
        blank=True,
        validators=[URLValidator(schemes=["http", "https"])],
        help_text="Address of this service as programs reach it, such as https://market.example: they may then report"
        " progress by HTTP. Empty: by file only.",
    )

    class Meta:
        verbose_name_plural = "executions"
        constraints = [
            CheckConstraint(condition=Q(grace_s__gt=0, grace_s__lte=LONGEST_GRACE_S), name="execution_grace_in_range"),
            CheckConstraint(condition=Q(engine__in=EngineKind.values), name="execution_engine_known"),
            CheckConstraint(condition=Q(keep_days__gte=1), name="execution_keeps_a_day"),
            CheckConstraint(
                condition=Q(own_programs=False) | Q(first_uid__isnull=False) | Q(users_trust_each_other=True),
                name="execution_own_programs_apart_or_trusted",
            ),
        ]

    def __str__(self) -> str:
        return f"execution of {self.cluster} by {self.get_engine_display()}"

    def get_additional_data(self) -> dict[str, object]:
        """Return whose change an entry of the record about this row is."""
        return {"cluster": self.cluster.name}


class Program(models.Model):
    """A program that bids of a cluster may name. No shell reads its arguments."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="programs")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="programs",
        help_text="The user who brought it, and whose bids alone may name it; null: registered by operators, for all.",
    )
    name = models.CharField(max_length=60, validators=[NAME])
    arguments = models.JSONField(
        validators=[texts], help_text='The program and its first arguments, as a list: ["python3", "train.py"].'
    )
    working_directory = models.CharField(
        max_length=400, blank=True, help_text="Directory on the servers in which it starts; empty with an archive."
    )
    archive_sha256 = models.CharField(
        max_length=64,
        blank=True,
        help_text="SHA-256 of the archive with its files, hex; it starts in the directory to which that is unpacked.",
    )
    archive_bytes = models.PositiveIntegerField(default=0, help_text="Size of the archive.")
    environment = models.JSONField(default=dict, blank=True, validators=[environment])
    is_open = models.BooleanField(default=True, help_text="Whether new bids may name it.")
    created_at = models.DateTimeField(default=clock.now, editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            UniqueConstraint(fields=["cluster", "name"], condition=Q(owner=None), name="program_name_once"),
            UniqueConstraint(fields=["cluster", "owner", "name"], name="program_name_once_an_owner"),
            CheckConstraint(condition=Q(owner=None) | Q(working_directory=""), name="program_of_a_user_has_archive"),
            CheckConstraint(
                condition=Q(working_directory="") & ~Q(archive_sha256="")
                | ~Q(working_directory="") & Q(archive_sha256=""),
                name="program_has_directory_or_archive",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def get_additional_data(self) -> dict[str, object]:
        """Return whose change an entry of the record about this row is."""
        return {"cluster": self.cluster.name}


class TrainingState(models.TextChoices):
    """The state of a bid's training; the bid's own state is that of its promise."""

    WAITING = "waiting", "Waiting for its machines"
    RUNNING = "running", "Running"
    FINISHED = "finished", "Finished"
    STOPPED = "stopped", "Stopped"
    FAILED = "failed", "Failed"


OVER: Final = frozenset({TrainingState.FINISHED, TrainingState.STOPPED, TrainingState.FAILED})
"""States in which nothing more is started for a bid."""


class Training(models.Model):
    """The processes of one bid, from its first start to its end."""

    bid = models.OneToOneField(Bid, models.PROTECT, related_name="training")
    token = models.UUIDField(default=uuid4, unique=True, editable=False, help_text="Part of its processes' names.")
    program = models.ForeignKey(Program, models.PROTECT, related_name="trainings")
    arguments = models.JSONField(default=list, help_text="Arguments of the bid, after those of the program.")
    steps = models.PositiveBigIntegerField(null=True, help_text="Steps in all; null if the bid does not state them.")
    state = models.CharField(max_length=10, choices=TrainingState, default=TrainingState.WAITING)
    reason = models.TextField(blank=True, help_text="Why it is in this state.")
    starts_from = models.ForeignKey(
        "Checkpoint",
        models.SET_NULL,
        null=True,
        related_name="continued",
        help_text="The checkpoint of an earlier training from which it resumes; null if it begins at the first step.",
    )
    step = models.PositiveBigIntegerField(default=0, help_text="Last step that was reported.")
    loss = models.FloatField(null=True, help_text="Loss at that step.")
    stored_steps = models.PositiveIntegerField(
        default=0, help_text="Steps that were stored since they were thinned, and those that were left then."
    )
    retries = models.PositiveIntegerField(
        default=0, help_text="Failures in a row since a checkpoint of a newer step was written."
    )
    wait_until = models.FloatField(
        default=0.0, help_text="Time before which it is not started again, seconds since 1970."
    )

    class Meta:
        ordering = ["-pk"]
        constraints = [
            CheckConstraint(condition=Q(state__in=TrainingState.values), name="training_state_known"),
        ]

    def __str__(self) -> str:
        return f"training of {self.bid}"


class GenerationState(models.TextChoices):
    """The state of a generation."""

    RUNNING = "running", "Running"
    STOPPING = "stopping", "Stopping"
    ENDED = "ended", "Ended"


class Ending(models.TextChoices):
    """The reason for which a generation ended."""

    FINISHED = "finished", "The program finished"
    CHANGED = "changed", "Its machines changed"
    PROMISE_OVER = "promise over", "Its last slot ended"
    CANCELLED = "cancelled", "Its bid was cancelled or failed"
    SWITCHED_OFF = "switched off", "The cluster stopped executing"
    FAULT = "fault", "A process failed"
    LOST = "lost", "A process was lost"


class Generation(models.Model):
    """One constellation of a job's workers and parameter servers. Of each training at most one has not ended."""

    training = models.ForeignKey(Training, models.CASCADE, related_name="generations")
    number = models.PositiveIntegerField()
    fence = models.PositiveBigIntegerField(help_text="Fence of the executor that created it.")
    allocation = models.JSONField(help_text="Its machines: role, server, machine type (keys of rows) and count.")
    slot = models.BigIntegerField(help_text="Slot in which it was started.")
    state = models.CharField(max_length=8, choices=GenerationState, default=GenerationState.RUNNING)
    ending = models.CharField(max_length=12, choices=Ending, blank=True)
    resumed_from = models.ForeignKey("Checkpoint", models.SET_NULL, null=True, related_name="resumed")
    until = models.FloatField(help_text="Time until which its machines are held, seconds since 1970.")
    created_at = models.DateTimeField()
    stopped_at = models.DateTimeField(null=True, help_text="Time at which it was asked to stop.")
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["training", "number"]
        constraints = [
            UniqueConstraint(fields=["training", "number"], name="generation_number_once"),
            UniqueConstraint(
                fields=["training"], condition=~Q(state=GenerationState.ENDED), name="generation_live_once"
            ),
            CheckConstraint(condition=Q(state__in=GenerationState.values), name="generation_state_known"),
            CheckConstraint(
                condition=Q(state=GenerationState.ENDED, ended_at__isnull=False)
                | ~Q(state=GenerationState.ENDED) & Q(ended_at__isnull=True),
                name="generation_ended_has_time",
            ),
        ]
        indexes = [
            Index(fields=["state"], condition=~Q(state=GenerationState.ENDED), name="generation_live"),
        ]

    def __str__(self) -> str:
        return f"generation {self.number} of {self.training}"


class ProcessRole(models.TextChoices):
    """The role of a process in its job."""

    WORKER = "worker", "Worker"
    PS = "ps", "Parameter server"


class ProcessState(models.TextChoices):
    """The state of a process. `sent` is written before the engine is called, so a call may only be repeated."""

    SENT = "sent", "Sent to the engine"
    RUNNING = "running", "Running"
    EXITED = "exited", "Exited"
    LOST = "lost", "Lost"


class Process(models.Model):
    """One process of a generation, on one server."""

    generation = models.ForeignKey(Generation, models.CASCADE, related_name="processes")
    role = models.CharField(max_length=6, choices=ProcessRole)
    rank = models.PositiveIntegerField(help_text="Number among the generation's processes of its role, from 0 on.")
    local_rank = models.PositiveIntegerField(help_text="Number among the generation's processes on its server.")
    server = models.ForeignKey(Server, models.PROTECT, related_name="processes")
    machine_type = models.ForeignKey(MachineType, models.PROTECT, related_name="processes")
    key = models.CharField(max_length=60, unique=True, help_text="Its name in the engine.")
    state = models.CharField(max_length=8, choices=ProcessState, default=ProcessState.SENT)
    code = models.IntegerField(null=True, help_text="Exit code; 128 + the number of a signal that ended it.")
    reason = models.TextField(blank=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    started_slot = models.FloatField(null=True, help_text="Time of its start by the cluster's clock, slots.")
    ended_slot = models.FloatField(null=True, help_text="Time of its end by the cluster's clock, slots.")

    class Meta:
        ordering = ["generation", "-role", "rank"]
        verbose_name_plural = "processes"
        constraints = [
            UniqueConstraint(fields=["generation", "role", "rank"], name="process_rank_once"),
            CheckConstraint(condition=Q(state__in=ProcessState.values), name="process_state_known"),
            CheckConstraint(condition=Q(role__in=ProcessRole.values), name="process_role_known"),
            CheckConstraint(
                condition=Q(state=ProcessState.EXITED, code__isnull=False)
                | ~Q(state=ProcessState.EXITED) & Q(code__isnull=True),
                name="process_exited_has_code",
            ),
        ]

    def __str__(self) -> str:
        return self.key


class Checkpoint(models.Model):
    """A checkpoint that a generation wrote while it was the training's only one."""

    generation = models.ForeignKey(Generation, models.CASCADE, related_name="checkpoints")
    step = models.PositiveBigIntegerField()
    path = models.CharField(max_length=600)
    found_at = models.DateTimeField()
    deleted_at = models.DateTimeField(null=True, help_text="Time at which its directory was deleted as too old.")

    class Meta:
        ordering = ["generation", "step"]
        constraints = [UniqueConstraint(fields=["generation", "step"], name="checkpoint_step_once")]

    def __str__(self) -> str:
        return f"step {self.step} of {self.generation}"


class Progress(models.Model):
    """A step that a generation reported, with its loss."""

    generation = models.ForeignKey(Generation, models.CASCADE, related_name="progress")
    step = models.PositiveBigIntegerField()
    loss = models.FloatField(null=True)
    seconds = models.FloatField(null=True, help_text="Duration of the step, as the program reports it.")
    at = models.DateTimeField()

    class Meta:
        ordering = ["generation", "step"]
        verbose_name_plural = "progress"
        constraints = [
            UniqueConstraint(fields=["generation", "step"], name="progress_step_once"),
            CheckConstraint(
                condition=Q(seconds__isnull=True) | Q(seconds__gte=0), name="progress_seconds_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"step {self.step} of {self.generation}"


class Defect(models.Model):
    """A job on which the executor failed, or the loop of a cluster: it tries again, and deletes the row then."""

    execution = models.ForeignKey(Execution, models.CASCADE, related_name="defects")
    bid = models.ForeignKey(
        Bid, models.CASCADE, null=True, related_name="+", help_text="The job's bid; null for the loop of the cluster."
    )
    problem = models.CharField(max_length=LONGEST_PROBLEM, help_text="The error; the log has where it was raised.")
    failures = models.PositiveIntegerField(help_text="Failures in a row.")
    since = models.DateTimeField(default=clock.now)
    at = models.DateTimeField(help_text="Time of the newest failure.")

    class Meta:
        ordering = ["-pk"]
        constraints = [
            UniqueConstraint(fields=["execution", "bid"], name="defect_of_bid_once"),
            UniqueConstraint(fields=["execution"], condition=Q(bid=None), name="defect_of_cluster_once"),
        ]

    def __str__(self) -> str:
        return f"the executor failed {self.failures} time{'s' * (self.failures != 1)} in a row: {self.problem}"


class Lease(models.Model):
    """The executor that is active. Its fence grows with each holder; a write with an older fence is refused."""

    name = models.CharField(max_length=20, unique=True)
    holder = models.CharField(max_length=120)
    fence = models.PositiveBigIntegerField()
    since = models.FloatField(default=0.0, help_text="Time at which its holder took it, seconds since 1970.")
    until = models.FloatField(help_text="End, seconds since 1970.")

    def __str__(self) -> str:
        return f"{self.holder} with fence {self.fence}"
