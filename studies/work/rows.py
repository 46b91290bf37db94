"""What every row of work that a worker computes has in common."""

from typing import Final

from django.db import models
from django.db.models import CheckConstraint, Q


class WorkState(models.TextChoices):
    """Where work is on its way."""

    WAITING = "waiting", "Waiting"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    CANCELLED = "cancelled", "Cancelled"


OPEN: Final = (WorkState.WAITING, WorkState.RUNNING)
ENDED: Final = frozenset({WorkState.DONE, WorkState.FAILED, WorkState.CANCELLED})


class Work(models.Model):
    """Something that a worker computes. Only `studies/work/states.py` writes its state."""

    state = models.CharField(max_length=10, choices=WorkState, default=WorkState.WAITING)
    cancel_asked = models.BooleanField(default=False)
    attempts = models.PositiveIntegerField(
        default=0, help_text="How often it was begun; who computes an earlier one writes nothing any more."
    )
    submitted_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    beat_at = models.DateTimeField(null=True, help_text="When its worker was last alive.")
    ended_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True)

    class Meta:
        abstract = True
        constraints = [
            CheckConstraint(condition=Q(state__in=WorkState.values), name="%(class)s_state_known"),
            CheckConstraint(
                condition=Q(state__in=OPEN, ended_at__isnull=True) | Q(state__in=sorted(ENDED), ended_at__isnull=False),
                name="%(class)s_ended_when_it_says_so",
            ),
            CheckConstraint(
                condition=~Q(state=WorkState.RUNNING) | Q(started_at__isnull=False, beat_at__isnull=False),
                name="%(class)s_running_was_started",
            ),
        ]

    @property
    def ended(self) -> bool:
        """Whether nothing about it changes any more."""
        return self.state in ENDED

    def took_s(self) -> float | None:
        """Seconds from its start to its end; None without both."""
        if self.started_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.started_at).total_seconds()
