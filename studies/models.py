"""What is kept of questions asked offline."""

from typing import Final

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, Index, Q

from cluster.models import Cluster
from studies.work.rows import Work, WorkState

MOST_SECONDS: Final = 600
"""Of a plan's budget of time."""


class Question(models.TextChoices):
    """Why a plan was asked for beside another one."""

    ITSELF = "", "For itself"
    METHOD = "method", "Another method"
    HELPER = "helper", "More helpers"


class Plan(Work):
    """A plan of parallel split learning that somebody asked for. Times in slots of `slot_ms` where no unit is said."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="plans")
    label = models.CharField(max_length=120, blank=True)
    cluster = models.ForeignKey(
        Cluster, models.SET_NULL, null=True, related_name="plans", help_text="Whose servers the helpers are."
    )
    of = models.ForeignKey(
        "self", models.CASCADE, null=True, related_name="others", help_text="The plan it was asked for beside."
    )
    question = models.CharField(max_length=10, choices=Question, default=Question.ITSELF, blank=True)
    instance = models.JSONField(help_text="In the format of instance files.")
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
            *Work.Meta.constraints,
            CheckConstraint(condition=Q(question__in=Question.values), name="plan_question_known"),
            CheckConstraint(condition=Q(seconds__gt=0, seconds__lte=MOST_SECONDS), name="plan_seconds_in_range"),
            CheckConstraint(
                condition=~Q(state=WorkState.DONE)
                | Q(result__isnull=False, makespan__isnull=False, lower_bound__isnull=False),
                name="plan_done_has_result",
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
        """By how much of the bound the plan may be too long; None while either is not known."""
        if self.makespan is None or self.lower_bound is None:
            return None
        return self.makespan / max(1, self.lower_bound) - 1

    @property
    def optimal(self) -> bool:
        """Whether no plan is better, which is proven."""
        return self.makespan is not None and self.makespan == self.lower_bound
