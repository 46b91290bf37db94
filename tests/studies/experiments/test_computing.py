"""Runs in processes: to their ends, the same bytes each time, cancelled, given back, begun again."""

import json
from datetime import timedelta
from io import StringIO
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import F

from auctions.domain.errors import WrongState
from scheduling.model.decision import canonical
from scheduling.policies.standing import StandingRule
from scheduling.registry import make_policy
from studies.background import dead_workers, states
from studies.background.models import JobState, Stage
from studies.experiments import computing, readings, tables
from studies.experiments.computing import compute_some
from studies.experiments.requests import cancel, rerun
from studies.job_tables import RUNS
from studies.models import Experiment, Run
from studies.workloads.traces.reading import read_text
from studies.workloads.traces.source import TraceSource
from studies.workloads.traces.upload import keep
from studies.workloads.workload import run as run_here
from tests.studies.experiments.conftest import PHILLY_HEAD, matrix, submitted, uploaded
from tests.studies.experiments.here import compute_here
from tests.traces import Traces


@pytest.mark.thorough
def test_an_experiment_is_computed_compared_and_gives_the_same_bytes_again(alice: User) -> None:
    source = {"trace": uploaded(alice).pk, "gpus": 8, "slot_s": 3600}
    experiment = submitted(alice, matrix(workloads=[source]))
    while compute_some():
        pass
    assert readings.progress_of(experiment).state == JobState.COMPLETED
    results = readings.results_of(experiment)
    _is_what_the_core_finds(experiment, results)
    _adds_up(results)

    again = rerun(alice, experiment)
    assert compute_here() == 6, "without a process"
    compared = readings.comparison_of(again)
    assert compared is not None
    assert (compared.same, compared.differ, compared.open, compared.same_sources) == (6, (), 0, True)
    identities = [[cell.identity for cell in readings.results_of(one).cells] for one in (experiment, again)]
    assert identities[0] == identities[1]
    assert len(set(identities[0])) == 6


def _is_what_the_core_finds(experiment: Experiment, results: readings.Results) -> None:
    workload = TraceSource.from_json(experiment.matrix["workloads"][0]["source"]).draw(read_text(PHILLY_HEAD), 2)
    (cell,) = (cell for cell in results.cells if cell.run.policy == 1 and cell.run.seed == 2)
    replayed = run_here(workload, make_policy("fifo", {}))
    whole = cell.outcome
    assert whole is not None
    assert canonical(whole["outcome"]) == canonical(json.loads(canonical(replayed.outcome.to_json())))
    assert cell.document is not None
    assert cell.document["outcome"] == {key: value for key, value in whole["outcome"].items() if key != "tenants"}
    assert {"malformed", "refused"} <= whole["workload"].keys() - cell.document["workload"].keys()
    assert cell.run.workload_sha256 == workload.sha256
    assert cell.run.decided == cell.run.jobs == 40


def _adds_up(results: readings.Results) -> None:
    assert [row.completed for row in results.rows] == [2, 2]
    for row in results.rows:
        welfare, ratio = row.values["welfare"], row.values["ratio"]
        assert welfare is not None
        assert ratio is not None
        assert (welfare.n, ratio.n) == (2, 2)
        assert ratio.mean <= 1
    (bound,) = results.bound_rows
    assert bound.value.n == 2
    assert "synthetic" in " ".join(results.notes)
    assert len(list(tables.run_rows(results))) == 7
    assert {len(row) for row in tables.run_rows(results)} == {len(next(iter(tables.run_rows(results))))}


@pytest.mark.thorough
def test_a_run_that_cannot_be_says_why_and_the_others_go_on(alice: User) -> None:
    experiment = submitted(alice)
    Experiment.objects.filter(pk=experiment.pk).update(
        matrix={
            **experiment.matrix,
            "policies": [{"name": "oasis", "parameters": {}}, experiment.matrix["policies"][1]],
        }
    )
    compute_some()
    progress = readings.progress_of(experiment)
    assert (progress.completed, progress.failed, progress.state) == (4, 2, JobState.FAILED)
    assert Run.objects.filter(state=JobState.FAILED).exclude(error="").count() == 2


def test_a_trace_of_which_no_line_can_become_a_job_fails_in_words(alice: User, traces: Traces) -> None:
    text, table = traces.gavel_few.read_text(), '{"v100": {"(\'M\', 1)": {"null": 2}}}'
    trace, _ = keep(alice, text, label="", source="", throughputs=table)
    experiment = submitted(alice, matrix(workloads=[{"trace": trace.pk, "gpus": 8}], seeds=[1]))
    assert compute_here() == 3
    assert readings.progress_of(experiment).state == JobState.FAILED
    (error,) = {run.error for run in experiment.runs.all()}
    assert error.startswith(
        "trace: expected a line that can become a job, got none; line 1: model: expected a model with a measured"
    )


def test_a_gavel_trace_with_its_throughputs_runs_as_the_command_runs_it(alice: User, traces: Traces) -> None:
    path = traces.gavel_few
    trace, _ = keep(alice, path.read_text(), label="", source="", throughputs=traces.throughputs.read_text())
    experiment = submitted(alice, matrix(workloads=[{"trace": trace.pk, "gpus": 16, "reference": "p100"}],
                                     policies=[{"name": "fifo"}], seeds=[3], bound=False))  # fmt: skip
    assert compute_here() == 1
    reported, table = StringIO(), str(traces.throughputs)
    call_command("replay", str(path), "--gpus=16", "--throughputs", table, "--reference=p100", "--seed=3", "--json",
                 stdout=reported)  # fmt: skip
    (cell,) = readings.results_of(experiment).cells
    whole = cell.outcome
    assert whole is not None
    assert whole["outcome"] == json.loads(reported.getvalue())["outcome"]
    assert whole["outcome"]["jobs"]["completed"] == 15


def test_rejected_bids_stand_unless_an_experiment_says_otherwise_or_is_from_before_bids_could(alice: User) -> None:
    body = matrix(workloads=[{"trace": uploaded(alice).pk, "gpus": 16}], policies=[{"name": "dps"}], seeds=[1],
                  bound=False)  # fmt: skip
    standing, final, earlier = (submitted(alice, one) for one in (body, {**body, "standing": False}, body))
    del earlier.matrix["standing"]
    earlier.save()
    assert [readings.bids_stand(one) for one in (standing, final, earlier)] == [True, False, False]
    assert compute_here() == 3
    cells = [readings.results_of(one).cells[0] for one in (standing, final, earlier)]
    whole = [cell.outcome or {} for cell in cells]
    assert [one.get("standing") for one in whole] == [StandingRule().to_json(), None, None]
    assert whole[0]["outcome"]["acceptance"] > whole[1]["outcome"]["acceptance"]
    assert cells[1].run.outcome_sha256 == cells[2].run.outcome_sha256
    assert cells[0].identity != cells[1].identity == cells[2].identity


def test_a_parameter_that_came_with_an_upgrade_has_the_value_of_before(alice: User) -> None:
    workloads = [{"trace": uploaded(alice).pk, "gpus": 16}]
    body = matrix(workloads=workloads, policies=[{"name": "completions"}], seeds=[1], bound=False)
    experiment = submitted(alice, body)
    (policy,) = experiment.matrix["policies"]
    now = dict(policy["parameters"])
    del policy["parameters"]["beside"]
    experiment.save(update_fields=["matrix"])
    assert compute_here() == 1
    (cell,) = readings.results_of(experiment).cells
    assert cell.outcome is not None
    assert cell.outcome["policy"]["parameters"] == {**now, "beside": False} != now


def test_files_beside_a_trace_make_it_what_the_command_makes_of_them(alice: User, traces: Traces) -> None:
    cases: list[tuple[Path, dict[str, Any], str]] = [
        (traces.tiresias, {"machines": traces.nodes, "quotas": traces.quotas}, "tenant"),
        (traces.gavel_few, {"gpus": 16, "step_times": traces.throughputs, "reference": "p100"}, "value"),
        (traces.philly_day, {"gpus": 16, "step_times": traces.placements, "batch": 8, "jobs": 40}, "value"),
    ]
    for path, options, drawn in cases:
        reported = StringIO()
        arguments = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        call_command("replay", str(path), *arguments, "--policy=fifo", "--seed=3", "--json", stdout=reported)
        numbers = {name: _kept(alice, value) for name, value in options.items()}
        body = matrix(workloads=[{"trace": _kept(alice, path), **numbers}],
                      policies=[{"name": "fifo"}], seeds=[3], bound=False)  # fmt: skip
        experiment = submitted(alice, body)
        assert compute_here() == 1
        (cell,) = readings.results_of(experiment).cells
        whole, document = cell.outcome, json.loads(reported.getvalue())
        assert whole is not None, cell.run.error
        assert whole["outcome"] == document["outcome"]
        assert drawn in whole["workload"]["synthetic"] == document["synthetic"]
        assert readings.results_of(experiment).is_synthetic("fairness", 0) == (drawn == "tenant")
        assert ("tenants synthetic" in whole["workload"]["note"]) == (drawn == "tenant")


def _kept(owner: User, value: Any) -> Any:
    """The number of a file, once it is uploaded; other values as they are."""
    if not isinstance(value, Path):
        return value
    return keep(owner, value.read_text(), label="", source=value.name)[0].pk


def test_a_run_that_a_worker_gives_back_while_it_is_cancelled_is_cancelled(alice: User) -> None:
    experiment = submitted(alice, matrix(policies=[{"name": "fifo"}], seeds=[1], bound=False))
    attempt = states.claim_next(RUNS)
    assert attempt is not None
    assert cancel(experiment) == 1
    states.release(attempt)
    assert states.claim_next(RUNS) is None
    assert readings.progress_of(experiment).state == JobState.CANCELLED


@pytest.mark.django_db
def test_what_was_deleted_cannot_be_cancelled() -> None:
    with pytest.raises(WrongState, match="Run 7 was deleted"):
        states.cancel(RUNS, 7)


def test_seeds_of_one_bound_are_distinguished_in_the_gap(alice: User) -> None:
    experiment = submitted(alice, matrix(policies=[{"name": "fifo"}]))
    compute_here()
    for run in experiment.runs.all():
        document = json.loads(run.outcome)
        if run.policy is None:
            document["bound"]["value"] = 12.0
        else:
            document["outcome"]["welfare"] = {1: 4.0, 2: 10.0}[run.seed]
        run.outcome = json.dumps(document)
        run.save()
    (bound,) = readings.results_of(experiment).bound_rows
    assert bound.gap == pytest.approx(12 / 4 - 1)


@pytest.mark.thorough
def test_what_is_cancelled_is_not_begun_and_what_runs_ends_at_once(alice: User) -> None:
    large = {"generator": "dps", "setting": {"jobs": 3000, "servers": 100}}
    experiment = submitted(alice, matrix(workloads=[large], bound=False))

    def somebody_cancels() -> bool:
        if experiment.runs.filter(state=JobState.RUNNING, decided__gt=0, policy=0).exists():
            cancel(experiment)
        return False

    compute_some(somebody_cancels)
    progress = readings.progress_of(experiment)
    assert progress.state == JobState.CANCELLED
    assert (progress.completed, progress.cancelled) == (0, 4)


def test_a_worker_that_stops_gives_its_run_back(alice: User) -> None:
    experiment = submitted(alice)
    asks = iter([False, False])
    assert compute_some(lambda: next(asks, True)) == 1
    assert readings.progress_of(experiment).queued == 6
    assert set(experiment.runs.values_list("decided", flat=True)) == {0}


@pytest.mark.thorough
def test_a_run_of_a_dead_worker_is_begun_again(alice: User) -> None:
    experiment = submitted(alice, matrix(policies=[{"name": "fifo"}], seeds=[1], bound=False))
    dead = states.claim_next(RUNS)
    assert dead is not None
    assert compute_some() == 0, "its worker may live"
    Run.objects.update(heartbeat_at=F("heartbeat_at") - timedelta(seconds=2 * dead_workers.STALE_S))
    assert compute_some() == 1
    (run,) = experiment.runs.all()
    assert (run.state, run.attempts) == (JobState.COMPLETED, 2)
    assert not states.finish(dead, outcome="late")


def test_a_process_that_dies_fails_its_run_and_the_next_gets_a_new_one(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = submitted(alice, matrix(bound=False, seeds=[1]))
    monkeypatch.setattr(computing, "COMMAND", ("false",))
    assert compute_some() == 2
    assert [run.error for run in experiment.runs.all()] == ["Its process ended without an answer (status 1)."] * 2


@pytest.mark.thorough
def test_a_process_that_loads_kernels_says_so_and_is_ended_at_once(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = submitted(alice, matrix(bound=False, seeds=[1]))
    monkeypatch.setattr(computing, "COMMAND", ("sleep", "60"))
    stages: list[str] = []

    def somebody_cancels() -> bool:
        progress = readings.progress_of(experiment)
        stages.append(progress.stage)
        if progress.stage:
            cancel(experiment)
        return False

    began = monotonic()
    assert compute_some(somebody_cancels) == 1
    assert Stage.LOADING in stages
    assert readings.progress_of(experiment).state == JobState.CANCELLED
    assert monotonic() - began < 30
