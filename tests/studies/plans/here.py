"""Plans computed in the test's own process: what a worker's process would answer, without starting one."""

from threading import Event
from typing import Any

from django.contrib.auth.models import User

from cluster.models import Cluster
from studies.background import states
from studies.background.models import JobState
from studies.background.processes import conclude
from studies.job_tables import PLANS
from studies.models import Plan, PlanRun
from studies.split_learning.api.examples import TINY
from studies.split_learning.plans.child import answer
from studies.split_learning.plans.computing import PlanProgress, order_of
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.readings import clients_of
from studies.split_learning.plans.submission import submit_plan
from studies.split_learning.runs.requests import PlanRunRequest, submit_run


def completed_plan(owner: User) -> Plan:
    """A plan of the smallest instance, computed."""
    plan = submit_plan(owner, PlanRequest.from_json({"instance": TINY}))
    assert compute_here()
    plan.refresh_from_db()
    return plan


def compute_here() -> bool:
    """Compute the next plan that waits; False if there is none."""
    attempt = states.claim_next(PLANS)
    if attempt is None:
        return False
    progress = PlanProgress()
    answer(order_of(attempt), Event(), progress.take)
    conclude(attempt, progress)
    return True


def ran(plan: Plan, cluster: Cluster, *, late_s: float = 0.05) -> PlanRun:
    """A completed run of two batches, in which each task was this late."""
    run = submit_run(plan.owner, plan, PlanRunRequest(cluster, slot_s=0.1, batches=2))
    rows: list[list[Any]] = []
    for batch in range(2):
        for j, client in enumerate(clients_of(plan)):
            ends = client.release, client.forward[-1][1] + client.gap, client.completion
            for kind, end in zip(("release", "gap", "tail"), ends, strict=True):
                loss = 1.5 - batch if kind == "gap" else None
                rows.append([batch, j, kind, 0, 0.0, end * 0.1 + late_s, loss])
            for kind in ("forward", "backward"):
                pieces = enumerate(getattr(client, kind))
                rows += [[batch, j, kind, n, a * 0.1 + late_s, b * 0.1 + late_s, None] for n, (a, b) in pieces]
    measured = [[(plan.makespan or 0) * 0.1 + late_s, 1.5 - batch] for batch in range(2)]
    PlanRun.objects.filter(pk=run.pk).update(begun=2, tasks=rows, measured=measured)
    PlanRun.objects.filter(pk=run.pk).update(state=JobState.COMPLETED, ended_at=run.submitted_at)
    run.refresh_from_db()
    return run
