"""Readings of runs of plans for pages, REST and CSV."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from django.contrib.auth.models import User
from django.db.models import QuerySet

from studies.models import Plan, PlanRun
from studies.split_learning.plan_runs import PASSES, Task
from studies.split_learning.plans.readings import names, visible_plans

LARGE: Final = ("tasks",)
"""Large columns that lists do not read."""


def visible_runs(viewer: User, plan: Plan) -> "QuerySet[PlanRun]":
    """Return the runs of a plan for its owner and for operators; an empty set for anyone else."""
    found = PlanRun.objects.filter(plan=plan).select_related("owner", "cluster", "plan")
    return found if visible_plans(viewer).filter(pk=plan.pk).exists() else found.none()


def tasks_of(run: PlanRun) -> list[Task]:
    """Return the measured tasks, batch by batch in the order of their starts; empty before the run is completed."""
    return [Task(*row) for row in run.tasks or []]


@dataclass(frozen=True)
class Batch:
    """One batch of a run beside the plan."""

    batch: int
    planned_s: float
    """The makespan of the plan, seconds in this run's slots."""
    measured_s: float
    longer: float
    """measured_s / planned_s - 1."""
    mean_loss: float
    """Mean loss of all clients."""


def planned_s(run: PlanRun) -> float:
    """Return the planned makespan of a batch, seconds."""
    return (run.plan.makespan or 0) * run.slot_s


def batches_of(run: PlanRun) -> list[Batch]:
    """Return the batches in order; empty before the run is completed."""
    planned = planned_s(run)
    return [
        Batch(n, planned, measured, measured / planned - 1, loss) for n, (measured, loss) in enumerate(run.measured)
    ]


@dataclass(frozen=True)
class MeasuredPiece:
    """A measured part of a pass on a helper; slots with fractions."""

    helper: str
    client: str
    kind: str
    start: float
    end: float


def pieces_of(run: PlanRun, batch: int) -> list[MeasuredPiece]:
    """Return what helpers really did in a batch, by time; empty before the run is completed."""
    helpers, clients = names(run.plan)
    of = _helpers(run.plan)
    return [
        MeasuredPiece(helpers[of[t.client]], clients[t.client], t.kind, t.start_s / run.slot_s, t.end_s / run.slot_s)
        for t in tasks_of(run)
        if t.batch == batch and t.kind in PASSES
    ]


def task_rows(plan: Plan, tasks: Sequence[Task]) -> Iterator[Sequence[object]]:
    """Return the measured tasks as CSV: a header, then a row for each; seconds since the beginning of the batch."""
    yield "batch", "helper", "client", "task", "part", "start_s", "end_s", "loss"
    helpers, clients = names(plan)
    of = _helpers(plan)
    for t in tasks:
        loss = "" if t.loss is None else round(t.loss, 4)
        who = helpers[of[t.client]], clients[t.client]
        yield t.batch, *who, t.kind, t.part, round(t.start_s, 4), round(t.end_s, 4), loss


def _helpers(plan: Plan) -> list[int]:
    """Return the number of each client's helper."""
    return [row["helper"] for row in (plan.result or {"schedule": []})["schedule"]]
