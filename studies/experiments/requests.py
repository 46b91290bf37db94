"""Create, rerun, cancel and delete experiments."""

from django.contrib.auth.models import User
from django.db import transaction

from accounts.rights import check_cluster
from auctions.domain.errors import WrongState
from cluster.clock import now
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from studies.background import states
from studies.background.creating import NO_KEY, IdempotencyKey, creating
from studies.experiments.request import ExperimentRequest
from studies.job_tables import RUNS
from studies.models import Experiment, Run, Trace


def create(owner: User, request: ExperimentRequest, key: IdempotencyKey = NO_KEY) -> Experiment:
    """Store an experiment whose runs wait for a worker.

    Raises
    ------
    TooManyOpen
        If the owner would have too many open runs.
    InvalidField
        If a trace was deleted after the request was checked.
    """
    for i, workload in enumerate(request.document["workloads"]):
        check_cluster(owner, workload.get("cluster"), f"workloads[{i}].cluster")
    read = {trace.pk for trace in request.traces}
    cells = _cells(request.document)
    with creating(RUNS, owner, count=len(cells)):
        # Lock in order, so that two requests cannot deadlock; deleting a trace locks it, too.
        there = set(Trace.objects.select_for_update().filter(pk__in=read).order_by("pk").values_list("pk", flat=True))
        if there != read:
            raise InvalidField("workloads", f"trace {min(read - there)} was deleted")
        made = Experiment.objects.create(
            owner=owner,
            label=request.label,
            matrix=request.document,
            submitted_at=now(),
            idempotency_key=key.key,
            body_digest=key.digest,
        )
        made.traces.set(read)
        _add_runs(made, cells)
    return made


def rerun(owner: User, experiment: Experiment) -> Experiment:
    """Create the same runs again, to compare their outcomes.

    Raises
    ------
    TooManyOpen
        If the owner would have too many open runs.
    WrongState
        If the experiment was deleted since it was looked up.
    """
    cells = _cells(experiment.matrix)
    with creating(RUNS, owner, count=len(cells)):
        # The original must exist at the commit. A trace stays while an experiment reads it.
        numbers = [experiment.pk, *([] if experiment.rerun_of_id is None else [experiment.rerun_of_id])]
        there = {row.pk: row for row in Experiment.objects.select_for_update().filter(pk__in=numbers).order_by("pk")}
        if experiment.pk not in there:
            raise WrongState(f"Experiment {experiment.pk} was deleted; it cannot be run again.")
        made = Experiment.objects.create(
            owner=owner,
            label=experiment.label,
            matrix=experiment.matrix,
            rerun_of=there.get(experiment.rerun_of_id or experiment.pk, there[experiment.pk]),
            submitted_at=now(),
        )
        made.traces.set(experiment.traces.values_list("pk", flat=True))
        _add_runs(made, cells)
    return made


def delete(experiment: Experiment) -> None:
    """Delete it with its runs; running ones are cancelled. An experiment that repeats it stays without a comparison.

    This takes the lock of the experiment, as `rerun` does: no rerun can start between the check and the deletion.
    """
    with transaction.atomic():
        found = Experiment.objects.select_for_update().filter(pk=experiment.pk).first()
        if found is not None:
            found.delete()


def cancel(experiment: Experiment) -> int:
    """End waiting runs and ask the workers of running ones to stop; raises WrongState if there are none.

    This takes the same lock as `delete`: both lock many runs, and different orders could cause a deadlock.
    """
    with transaction.atomic():
        list(Experiment.objects.select_for_update().filter(pk=experiment.pk).values_list("pk"))
        count = states.cancel_open(experiment.runs.all())
    if count == 0:
        raise WrongState(f"All runs of experiment {experiment.pk} have ended; nothing is left to be cancelled.")
    return count


Cell = tuple[int, int | None, int]
"""Workload, policy (None: the bound) and seed of a run; the first two by their index."""


def _cells(matrix: Json) -> list[Cell]:
    """Return the runs of an experiment: all policies of a seed before the next seed."""
    policies = [*([None] if matrix["bound"] else []), *range(len(matrix["policies"]))]
    workloads = range(len(matrix["workloads"]))
    return [(workload, policy, seed) for seed in matrix["seeds"] for workload in workloads for policy in policies]


def _add_runs(experiment: Experiment, cells: list[Cell]) -> None:
    Run.objects.bulk_create(
        Run(
            experiment=experiment,
            number=number,
            workload=workload,
            policy=policy,
            seed=seed,
            submitted_at=experiment.submitted_at,
        )
        for number, (workload, policy, seed) in enumerate(cells, 1)
    )
