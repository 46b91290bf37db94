"""Create runs of plans: who may run one where, and how long it may take."""

# ruff: noqa: D101 (the name of a class says what it describes, and its fields have help texts)
from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from django.contrib.auth.models import User
from django.db.models import QuerySet

from accounts.rights import sees
from cluster.clock import now
from cluster.models import Cluster
from execution.models import EngineKind
from scheduling.model.errors import InvalidField
from studies.background.creating import NO_KEY, IdempotencyKey, creating
from studies.job_tables import PLAN_RUNS
from studies.models import LONGEST_SLOT_S, MOST_BATCHES, Plan, PlanRun
from studies.split_learning.plan_runs import setting_of
from studies.split_learning.plans.readings import core_plan
from studies.split_learning.plans.submission import locked
from studies.split_learning.schemas.request import ClusterName
from web.fields import Integer, Number
from web.schema import Schema

LONGEST_S: Final = 600.0
"""Longest planned time of all batches of a run together, seconds."""
LEAST_SLOT_S: Final = 0.001
SLOT_S: Final = 0.05
BATCHES: Final = 3


class PlanRunIn(Schema):
    cluster = ClusterName(
        required=False,
        allow_null=True,
        help_text="Name of the cluster on whose machine it runs; that of the plan if not given.",
    )
    slot_s = Number(
        LEAST_SLOT_S, LONGEST_SLOT_S, default=SLOT_S, help_text=f"Length of a slot, seconds; {SLOT_S:g} if not given."
    )
    batches = Integer(1, MOST_BATCHES, default=BATCHES, help_text=f"Number of batches; {BATCHES} if not given.")


@dataclass(frozen=True)
class PlanRunRequest:
    """A request for a run."""

    cluster: Cluster | None = None
    """The cluster on whose machine it runs; None for that of the plan."""
    slot_s: float = SLOT_S
    """Length of a slot, seconds."""
    batches: int = BATCHES

    @classmethod
    def from_json(cls, body: object, *, closed: Container[str] = ()) -> "PlanRunRequest":
        """Read the body of a request; raises InvalidField that names each wrong field.

        Clusters whose names are in `closed` do not exist for who asks.
        """
        return cls(**PlanRunIn.read(body, closed=closed))


def open_clusters() -> "QuerySet[Cluster]":
    """Return the clusters on whose machine their operators let users run plans."""
    found = Cluster.objects.filter(execution__is_on=True, execution__runs_plans=True)
    return found.filter(execution__engine=EngineKind.LOCAL).order_by("name")


def submit_run(owner: User, plan: Plan, request: PlanRunRequest, key: IdempotencyKey = NO_KEY) -> PlanRun:
    """Store a run of the plan for a worker.

    Raises
    ------
    NothingYet
        If there is no plan yet.
    TooManyOpen
        If the owner has too many open runs.
    InvalidField
        If the cluster runs no plans, the plan has too many processes or a pass without slots, or the batches take too
        long.
    WrongState
        If the plan was deleted.
    """
    cluster = _cluster_of(plan, request, owner)
    found = core_plan(plan)
    setting_of(found, request.slot_s, request.batches)
    planned_s = request.batches * found.makespan * request.slot_s
    if planned_s > LONGEST_S:
        raise InvalidField(
            "batches", f"expected batches that take at most {LONGEST_S:g} s by the plan, got {planned_s:,.1f} s"
        )
    with locked(owner, plan), creating(PLAN_RUNS, owner, count=1):
        return PlanRun.objects.create(
            owner=owner,
            plan=plan,
            cluster=cluster,
            slot_s=request.slot_s,
            batches=request.batches,
            submitted_at=now(),
            idempotency_key=key.key,
            body_digest=key.digest,
        )


def _cluster_of(plan: Plan, request: PlanRunRequest, owner: User) -> Cluster:
    cluster = request.cluster or plan.cluster
    allowed = {one.pk: one for one in open_clusters() if sees(owner, one.name)}
    if cluster is None or cluster.pk not in allowed:
        names = ", ".join(one.name for one in allowed.values()) or "there is none"
        got = "none" if cluster is None else cluster.name
        raise InvalidField("cluster", f"expected a cluster whose operator lets users run plans ({names}), got {got}")
    return cluster
