"""Abstract models of background jobs."""

from typing import Final

from django.db import models
from django.db.models import CheckConstraint, Q, UniqueConstraint

from studies.background import child


class JobState(models.TextChoices):
    """State of a background job."""

    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    COMPLETED = "completed", "Completed"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


class Stage(models.TextChoices):
    """The preparation of running work; empty after the work has begun."""

    BEGUN = "", ""
    LOADING = child.LOADING, "It loads kernels; where they must be compiled first, that takes a minute or two."
    DRAWING = child.DRAWING, "It draws its jobs."


OPEN: Final = (JobState.QUEUED, JobState.RUNNING)
ENDED: Final = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})


class BackgroundJob(models.Model):
    """A background job that a worker computes. Only `studies/background/states.py` writes its state."""

    state = models.CharField(max_length=10, choices=JobState, default=JobState.QUEUED)
    stage = models.CharField(max_length=20, choices=Stage, default=Stage.BEGUN, blank=True)
    cancel_requested = models.BooleanField(default=False)
    attempts = models.PositiveIntegerField(
        default=0, help_text="How often it was begun; who computes an earlier one writes nothing any more."
    )
    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    heartbeat_at = models.DateTimeField(null=True, help_text="When its worker was last alive.")
    ended_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)

    class Meta:
        abstract = True
        constraints = [
            CheckConstraint(condition=Q(state__in=JobState.values), name="%(class)s_state_known"),
            CheckConstraint(
                condition=Q(state__in=OPEN, ended_at__isnull=True) | Q(state__in=sorted(ENDED), ended_at__isnull=False),
                name="%(class)s_ended_when_it_says_so",
            ),
            CheckConstraint(
                condition=~Q(state=JobState.RUNNING) | Q(started_at__isnull=False, heartbeat_at__isnull=False),
                name="%(class)s_running_was_started",
            ),
            CheckConstraint(
                condition=Q(stage="") | Q(stage__in=Stage.values, state=JobState.RUNNING),
                name="%(class)s_stage_of_what_runs",
            ),
        ]

    @property
    def ended(self) -> bool:
        """Whether the work has ended, so that it no longer changes."""
        return self.state in ENDED

    @property
    def duration_s(self) -> float | None:
        """Seconds from start to end; None if one of them is missing."""
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()


class Requestable(models.Model):
    """Work that its `owner` may request with an idempotency key: the same key returns the same row (`unique_key`)."""

    idempotency_key = models.CharField(max_length=140, null=True)
    body_digest = models.CharField(max_length=64, blank=True, help_text="SHA-256 of the body that brought the key.")

    class Meta:
        abstract = True


def unique_key(name: str) -> UniqueConstraint:
    """Return the constraint that no two rows of an owner have the same key."""
    return UniqueConstraint(
        fields=["owner", "idempotency_key"],
        condition=Q(idempotency_key__isnull=False),
        name=f"{name}_idempotency_key_once",
    )
