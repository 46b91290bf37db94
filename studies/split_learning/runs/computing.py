"""Run plans whose runs are queued. The worker starts the processes, watches them, and ends them.

If a worker dies, its processes end by themselves when the longest time of the run is over; the worker of the next run
on this cluster ends them before.
"""

import os
import shutil
from pathlib import Path
from time import monotonic

from django.conf import settings

from execution.engines.base import EngineError
from execution.engines.local import LocalEngine
from execution.models import Execution
from execution.starting import limits_of, refusal, user_of
from scheduling.model.errors import SchedulingError
from studies.background import states
from studies.background.models import JobState
from studies.background.processes import BEAT_S, EVERY_S, Gone, NoAnswer, Stopping, guarded, is_cancelled
from studies.background.states import Attempt
from studies.job_tables import PLAN_RUNS
from studies.models import PlanRun
from studies.split_learning import plan_runs
from studies.split_learning.plan_runs import Conditions
from studies.split_learning.plans.readings import core_plan
from studies.split_learning.runs.requests import open_clusters


class Stopped(Exception):
    """Raised when the worker has to stop."""


class _Watch:
    """Writes progress, and ends the run if it is cancelled or deleted, or if the worker has to stop."""

    def __init__(self, attempt: Attempt[PlanRun], stopping: Stopping) -> None:
        self._attempt, self._stopping = attempt, stopping
        self._begun = 0
        self._looked = self._written = monotonic()

    def __call__(self, begun: int) -> None:
        """Note the number of batches that have begun; raises Gone, NoAnswer or Stopped."""
        moment = monotonic()
        if moment - self._looked < EVERY_S:
            return
        self._looked = moment
        if self._stopping():
            raise Stopped
        if begun != self._begun or moment - self._written >= BEAT_S:
            if not states.progress(self._attempt, begun=begun):
                raise Gone
            self._begun, self._written = begun, moment
        if is_cancelled(self._attempt):
            raise NoAnswer("It was cancelled.")


def compute_next(stopping: Stopping = lambda: False) -> bool:
    """Run the next plan; False if no run is queued. `stopping` says whether this worker has to stop."""
    attempt = states.claim_next(PLAN_RUNS)
    if attempt is None:
        return False
    row = attempt.row.select_related("plan", "cluster").first()
    if row is None:
        return True
    with guarded(attempt):
        _compute(attempt, row, stopping)
    return True


def _compute(attempt: Attempt[PlanRun], row: PlanRun, stopping: Stopping) -> None:
    conditions, root = _conditions(row), runs_root(row.cluster.name)
    _remove_left(root, but=attempt)
    place = root / f"{row.pk}-{attempt.number}"
    place.mkdir(parents=True)
    try:
        engine = LocalEngine(place / "processes", ["local"])
        tasks = plan_runs.run(core_plan(row.plan), engine, place / "run", conditions, _Watch(attempt, stopping))
    except Stopped:
        states.release(attempt)
    except (SchedulingError, EngineError) as error:
        states.fail(attempt, str(error))
    else:
        rows = [[t.batch, t.client, t.kind, t.part, t.start_s, t.end_s, t.loss] for t in tasks]
        measured = list(zip(plan_runs.makespans(tasks), plan_runs.mean_losses(tasks), strict=True))
        states.finish(attempt, begun=row.batches, measured=measured, tasks=rows)
    finally:
        shutil.rmtree(place)


def _conditions(row: PlanRun) -> Conditions:
    """Return how its processes are started; raises NoAnswer if they may not be."""
    execution = Execution.objects.filter(cluster=row.cluster_id).select_related("cluster").first()
    if execution is None or not open_clusters().filter(pk=row.cluster_id).exists():
        raise NoAnswer(f"The cluster {row.cluster.name} no longer runs plans.")
    problem = refusal(execution, is_root=os.geteuid() == 0)
    if problem:
        raise NoAnswer(problem)
    return Conditions(row.slot_s, row.batches, user=user_of(execution, row.owner_id), limits=limits_of(execution))


def runs_root(cluster: str) -> Path:
    """Return the directory with those of the runs under way on a cluster's machine."""
    return Path(settings.EXECUTION_DIR) / cluster / "plan-runs"


def _remove_left(root: Path, *, but: Attempt[PlanRun]) -> None:
    """End what runs whose worker died have left behind, and remove their directories."""
    places = list(root.iterdir()) if root.exists() else []
    going = PLAN_RUNS.rows.filter(state=JobState.RUNNING).exclude(pk=but.pk).values_list("pk", "attempts")
    names = {f"{pk}-{number}" for pk, number in going}
    for place in places:
        if place.name not in names:
            engine = LocalEngine(place / "processes", ["local"])
            plan_runs.end_all(engine, list(engine.list()))
            shutil.rmtree(place)
