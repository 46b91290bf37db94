"""The physical facts of a cluster, in the operator's units: seconds, MB and Mbit/s."""

import math
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Final
from uuid import uuid4

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import CheckConstraint, Q, UniqueConstraint

NAME: Final = RegexValidator(r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z", "Use letters, digits, dots, dashes and underscores.")
NAME_IN_WORDS: Final = "letters, digits, dots, dashes and underscores, first a letter or a digit"
"""The names that NAME accepts, for messages of the form "expected ..., got ..."."""
SLUG_IN_WORDS: Final = "letters, digits, dashes and underscores"
"""The same of names of clusters and teams."""

YEARS: Final = (1970, 2200)
LARGEST_SECONDS: Final = 1e9
LARGEST_MB: Final = 1e9
LARGEST_MBPS: Final = 1e9
LARGEST_SPEED: Final = 1e5
LARGEST_AMOUNT: Final = 1_000_000
LARGEST_CHUNKS: Final = 10_000
LARGEST_MINIBATCHES: Final = 1_000_000
LARGEST_HORIZON: Final = 10_000


def finite(value: float) -> None:
    """Refuse NaN, which every comparison lets pass, and infinity."""
    if not math.isfinite(value):
        raise ValidationError(f"Expected a finite number, got {value}.")


def in_calendar(moment: datetime) -> None:
    """Refuse years so far away that the instants of slots would leave the calendar."""
    if not YEARS[0] <= moment.year < YEARS[1]:
        raise ValidationError(f"Expected a year from {YEARS[0]} to {YEARS[1] - 1}, got {moment.year}.")


def _at_most(value: float) -> list[Callable[..., None]]:
    return [finite, MinValueValidator(0), MaxValueValidator(value)]


def _whole(least: int, most: int) -> list[Callable[..., None]]:
    return [MinValueValidator(least), MaxValueValidator(most)]


class ClockKind(models.TextChoices):
    """The source of a cluster's time."""

    REAL = "real", "Real time"
    VIRTUAL = "virtual", "Virtual time"


class Cluster(models.Model):
    """A shared cluster: its time line and how much of the future it trades.

    Slot k covers the seconds [k, k + 1) x slot_seconds after the epoch. A virtual clock reads
    `clock_offset_s + clock_speed x (wall - clock_origin)` seconds after the epoch while it runs, and
    `clock_offset_s` while it is stopped.
    """

    name = models.SlugField(unique=True, max_length=60, help_text="Name of the cluster in addresses.")
    title = models.CharField(max_length=120)
    note = models.TextField(blank=True, help_text="Shown on the market's page. State here if values are synthetic.")
    epoch = models.DateTimeField(validators=[in_calendar], help_text="Start of slot 0.")
    slot_seconds = models.PositiveIntegerField(validators=_whole(1, 10**9), help_text="Length of a slot in seconds.")
    horizon_slots = models.PositiveIntegerField(
        validators=_whole(1, LARGEST_HORIZON), help_text="Number of slots on sale, from the next one on."
    )
    standing_by_default = models.BooleanField(
        default=True,
        help_text="Whether bids that do not say so stand: a bid rejected for its price or for lack of room is tried"
        " again. It has no effect where no prices are posted.",
    )
    clock_kind = models.CharField(max_length=10, choices=ClockKind, default=ClockKind.REAL)
    clock_running = models.BooleanField(default=True)
    clock_speed = models.FloatField(
        default=1.0,
        validators=_at_most(LARGEST_SPEED),
        help_text="Cluster seconds per wall-clock second, for a virtual clock.",
    )
    clock_offset_s = models.FloatField(
        default=0.0, help_text="Reading of the clock at `clock_origin`, seconds after the epoch."
    )
    clock_origin = models.DateTimeField(
        null=True, blank=True, help_text="Wall-clock time at which the virtual clock was last set."
    )
    revision = models.UUIDField(
        default=uuid4,
        editable=False,
        help_text="Another one after each change of the cluster, its servers, machine types or models, but for its"
        " clock: what a process has read is valid while the revision is the same.",
    )

    class Meta:
        ordering = ["name"]
        constraints = [
            CheckConstraint(
                condition=Q(slot_seconds__gte=1, slot_seconds__lte=10**9), name="cluster_slot_at_least_1_s"
            ),
            CheckConstraint(
                condition=Q(horizon_slots__gte=1, horizon_slots__lte=LARGEST_HORIZON),
                name="cluster_horizon_at_least_1_slot",
            ),
            # An upper bound is also what refuses infinity, and NaN, which PostgreSQL sorts last.
            CheckConstraint(
                condition=Q(clock_speed__gt=0, clock_speed__lte=LARGEST_SPEED),
                name="cluster_clock_runs_forward",
                violation_error_message=f"The clock must run forward: a speed above 0 and at most {LARGEST_SPEED:g}.",
            ),
            CheckConstraint(condition=Q(clock_kind__in=ClockKind.values), name="cluster_clock_kind_known"),
        ]

    def __str__(self) -> str:
        return self.title

    def get_additional_data(self) -> dict[str, object]:
        """Return whose change an entry of the record about this row is."""
        return {"cluster": self.name}


class Resource(models.Model):
    """Something servers have and machines take: GPUs, cores, or a DPS worker type's own places."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="resources")
    name = models.CharField(max_length=60, validators=[NAME])
    unit = models.CharField(max_length=20, default="unit")
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["position", "pk"]
        constraints = [UniqueConstraint(fields=["cluster", "name"], name="resource_name_once")]

    def __str__(self) -> str:
        return self.name


class MachineRole(models.TextChoices):
    """The role of a machine in its job."""

    WORKER = "worker", "Worker"
    PS = "ps", "Parameter server"


class MachineType(models.Model):
    """A worker type or a parameter-server type."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="machine_types")
    role = models.CharField(max_length=10, choices=MachineRole)
    name = models.CharField(max_length=60, validators=[NAME])
    bandwidth_mbps = models.DecimalField(
        max_digits=14,
        decimal_places=4,
        validators=[MinValueValidator(Decimal("0.0001")), MaxValueValidator(Decimal(10**9))],
        help_text="Bandwidth that one machine reserves, Mbit/s.",
    )
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["role", "position", "pk"]
        constraints = [
            UniqueConstraint(fields=["cluster", "role", "name"], name="machine_type_name_once"),
            CheckConstraint(condition=Q(bandwidth_mbps__gt=0), name="machine_type_has_bandwidth"),
            CheckConstraint(condition=Q(role__in=MachineRole.values), name="machine_type_role_known"),
        ]

    def __str__(self) -> str:
        return self.name


class Demand(models.Model):
    """The demand of a machine of one type for one resource."""

    machine_type = models.ForeignKey(MachineType, models.CASCADE, related_name="demands")
    resource = models.ForeignKey(Resource, models.CASCADE, related_name="demands")
    amount = models.PositiveIntegerField(validators=_whole(1, LARGEST_AMOUNT))

    class Meta:
        constraints = [
            UniqueConstraint(fields=["machine_type", "resource"], name="demand_once"),
            CheckConstraint(condition=Q(amount__gte=1, amount__lte=LARGEST_AMOUNT), name="demand_at_least_1"),
        ]

    def __str__(self) -> str:
        return f"{self.amount} {self.resource}"


class ServerKind(models.TextChoices):
    """Whether a server is at the edge or in the cloud."""

    EDGE = "edge", "Edge"
    CLOUD = "cloud", "Cloud"


class Server(models.Model):
    """One server, or the cloud as one large server."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="servers")
    name = models.CharField(max_length=60, validators=[NAME])
    kind = models.CharField(max_length=10, choices=ServerKind, default=ServerKind.EDGE)
    upload_delay_s = models.FloatField(
        default=0.0,
        validators=_at_most(LARGEST_SECONDS),
        help_text="Default time to upload a job's data, seconds; a bid may state another one.",
    )
    storage_mb = models.FloatField(
        null=True,
        blank=True,
        validators=_at_most(LARGEST_MB),
        help_text="Storage for jobs' data, MB, if the market's policy uses it; empty for no limit.",
    )
    position = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["position", "pk"]
        constraints = [
            UniqueConstraint(fields=["cluster", "name"], name="server_name_once"),
            CheckConstraint(
                condition=Q(storage_mb__isnull=True) | Q(storage_mb__gte=0, storage_mb__lte=LARGEST_MB),
                name="server_storage_not_negative",
            ),
            CheckConstraint(
                condition=Q(upload_delay_s__gte=0, upload_delay_s__lte=LARGEST_SECONDS),
                name="server_delay_not_negative",
            ),
            CheckConstraint(condition=Q(kind__in=ServerKind.values), name="server_kind_known"),
        ]

    def __str__(self) -> str:
        return self.name


class Capacity(models.Model):
    """The capacity of a server for one resource; without a row it is 0."""

    server = models.ForeignKey(Server, models.CASCADE, related_name="capacities")
    resource = models.ForeignKey(Resource, models.CASCADE, related_name="capacities")
    amount = models.PositiveIntegerField(validators=_whole(0, LARGEST_AMOUNT))

    class Meta:
        verbose_name_plural = "capacities"
        constraints = [
            UniqueConstraint(fields=["server", "resource"], name="capacity_once"),
            CheckConstraint(condition=Q(amount__gte=0, amount__lte=LARGEST_AMOUNT), name="capacity_in_range"),
        ]

    def __str__(self) -> str:
        return f"{self.amount} {self.resource}"


class ModelProfile(models.Model):
    """The data that training a named model needs, so that a bid can state only "ResNet-50, 30 epochs"."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="profiles")
    name = models.CharField(max_length=60, validators=[NAME])
    gradient_mb = models.FloatField(
        validators=_at_most(LARGEST_MB), help_text="Size of the gradients, MB; it equals the size of the parameters."
    )
    chunks = models.PositiveIntegerField(validators=_whole(1, LARGEST_CHUNKS), help_text="Number of data chunks.")
    minibatches = models.PositiveIntegerField(
        validators=_whole(1, LARGEST_MINIBATCHES), help_text="Number of mini-batches in a chunk."
    )

    class Meta:
        ordering = ["name"]
        constraints = [
            UniqueConstraint(fields=["cluster", "name"], name="profile_name_once"),
            CheckConstraint(
                condition=Q(gradient_mb__gte=0, gradient_mb__lte=LARGEST_MB), name="profile_gradient_not_negative"
            ),
            CheckConstraint(
                condition=Q(chunks__gte=1, chunks__lte=LARGEST_CHUNKS)
                & Q(minibatches__gte=1, minibatches__lte=LARGEST_MINIBATCHES),
                name="profile_has_data",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class StepTime(models.Model):
    """Seconds one mini-batch takes on a worker of a type, or one parameter update on a PS of a type."""

    profile = models.ForeignKey(ModelProfile, models.CASCADE, related_name="step_times")
    machine_type = models.ForeignKey(MachineType, models.CASCADE, related_name="step_times")
    seconds = models.FloatField(validators=_at_most(LARGEST_SECONDS))

    class Meta:
        constraints = [
            UniqueConstraint(fields=["profile", "machine_type"], name="step_time_once"),
            CheckConstraint(condition=Q(seconds__gte=0, seconds__lte=LARGEST_SECONDS), name="step_time_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.seconds} s"


class TextSample(models.Model):
    """A text with which others that resemble it are compressed (`cluster/database/compact.py`).

    The key follows from the text. A row is never changed and never deleted: stored texts need it.
    """

    key = models.BigIntegerField(primary_key=True)
    text = models.TextField()

    def __str__(self) -> str:
        return f"sample {self.key}"
