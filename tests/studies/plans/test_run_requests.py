"""Runs of plans as background jobs: requested by REST, run, read, cancelled, refused, and left by dead workers."""

import csv
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import F
from rest_framework.test import APIClient

from accounts.teams import change_cluster_teams
from auctions.domain.errors import WrongState
from cluster.models import Cluster
from execution.engines.base import EngineError, Start
from execution.engines.local import LocalEngine
from execution.models import Execution
from studies.background import dead_workers, states
from studies.background.models import JobState
from studies.job_tables import PLAN_RUNS
from studies.models import Plan, PlanRun
from studies.split_learning import plan_runs
from studies.split_learning.runs import computing, readings
from studies.split_learning.runs.computing import compute_next
from studies.split_learning.runs.requests import PlanRunRequest, submit_run
from tests.auctions.worlds import make_cluster, make_operator
from tests.processes import wait_until
from tests.studies.plans.conftest import URL, submitted
from tests.studies.plans.test_api import refused
from tests.studies.plans.test_plan_runs import running_below

pytestmark = pytest.mark.clocked

SLEEPS = "import time\ntime.sleep(60)"
FAST = {"slot_s": 0.004, "batches": 2}


@pytest.fixture
def lab(db: None, settings: Any, tmp_path: Path) -> Cluster:
    """A cluster on whose machine users may run plans."""
    settings.EXECUTION_DIR = tmp_path / "execution"
    cluster = make_cluster()
    Execution.objects.create(cluster=cluster, runs_plans=True, allow_root=True)
    return cluster


@pytest.fixture
def sleeping(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Clients and helpers that do nothing."""
    program = tmp_path / "program.py"
    program.write_text(SLEEPS)
    monkeypatch.setattr(plan_runs, "PROGRAM", program)
    monkeypatch.setattr(computing, "EVERY_S", 0.0)
    return program


def address(plan: Plan, more: str = "") -> str:
    return f"{URL}/{plan.pk}/runs{more}"


def asked(plan: Plan, cluster: Cluster) -> PlanRun:
    return submit_run(plan.owner, plan, PlanRunRequest(cluster, **FAST))  # type: ignore[arg-type]


def after(run: PlanRun) -> PlanRun:
    run.refresh_from_db()
    return run


def test_a_plan_that_was_deleted_is_not_run(lab: Cluster, done: Plan) -> None:
    Plan.objects.filter(pk=done.pk).delete()
    with pytest.raises(WrongState, match="was deleted"):
        asked(done, lab)
    assert not PlanRun.objects.exists()


@pytest.mark.thorough
def test_a_plan_is_run_and_planned_and_measured_makespan_are_read(lab: Cluster, done: Plan, api: APIClient) -> None:
    answer = api.post(address(done), {"cluster": "lab", **FAST}, format="json")
    assert answer.status_code == 202, answer.content
    where = answer["Location"]
    waiting = api.get(where).json()
    assert (waiting["state"], waiting["place"], waiting["results"]) == ("queued", 1, [])
    assert api.get(f"{where}/tasks.csv").status_code == 404
    assert compute_next()
    ran = api.get(where).json()
    assert (ran["state"], ran["error"], ran["begun"]) == ("completed", "", 2)
    assert ran["planned_s"] == pytest.approx(ran["results"][0]["planned_s"])
    assert ran["planned_s"] == pytest.approx(27 * 0.004)
    assert [row["batch"] for row in ran["results"]] == [0, 1]
    for row in ran["results"]:
        assert row["planned_s"] == ran["planned_s"]
        assert row["longer"] == pytest.approx(row["measured_s"] / row["planned_s"] - 1)
        assert row["measured_s"] >= row["planned_s"] - 0.002
    assert ran["results"][1]["mean_loss"] < ran["results"][0]["mean_loss"]
    rows = list(csv.DictReader(api.get(f"{where}/tasks.csv").content.decode().splitlines()))
    for row in ran["results"]:
        ends = [float(one["end_s"]) for one in rows if one["batch"] == str(row["batch"])]
        assert max(ends) == pytest.approx(row["measured_s"], abs=1e-4)
    assert {one["client"] for one in rows} == {"phone", "camera", "tablet"}
    assert list((computing.runs_root("lab")).iterdir()) == []
    assert [row["id"] for row in api.get(address(done)).json()["results"]] == [ran["id"]]
    pieces = readings.pieces_of(PlanRun.objects.get(), 1)
    schedule = (done.result or {})["schedule"]
    planned = [piece for row in schedule for piece in (*row["forward"], *row["backward"])]
    assert len(pieces) == len(planned)
    assert api.delete(where).status_code == 204
    assert api.get(where).status_code == 404


def test_it_is_the_owners_and_the_operators_alone(
    lab: Cluster, done: Plan, charlie: APIClient, client_of: Callable[[User], APIClient]
) -> None:
    run, operator = asked(done, lab), client_of(make_operator())
    for more in ("", f"/{run.pk}", f"/{run.pk}/tasks.csv"):
        assert charlie.get(address(done, more)).status_code == 404
    assert charlie.post(address(done), {"cluster": "lab"}, format="json").status_code == 404
    assert charlie.post(address(done, f"/{run.pk}/cancel")).status_code == 404
    assert charlie.delete(address(done, f"/{run.pk}")).status_code == 404
    assert operator.get(address(done, f"/{run.pk}")).status_code == 200
    assert after(run).state == JobState.QUEUED


WRONG = {
    "no cluster": ({}, "cluster", "whose operator lets users run plans (lab), got none"),
    "an unknown cluster": ({"cluster": "mars"}, "cluster", "expected a cluster, got 'mars'"),
    "slots of nothing": ({"cluster": "lab", "slot_s": 0}, "slot_s", "0.001"),
    "long slots": ({"cluster": "lab", "slot_s": 11}, "slot_s", "10"),
    "no batch": ({"cluster": "lab", "batches": 0}, "batches", "1 to 100"),
    "a long run": ({"cluster": "lab", "slot_s": 10, "batches": 3}, "batches", "at most 600 s by the plan, got 810.0 s"),
    "another key": ({"cluster": "lab", "speed": 1}, "speed", "unknown"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_is_refused_by_name_and_nothing_is_stored(
    lab: Cluster, done: Plan, api: APIClient, name: str
) -> None:
    body, field, words = WRONG[name]
    found = refused(api.post(address(done), body, format="json"))
    assert list(found) == [field]
    assert words in found[field]
    assert not PlanRun.objects.exists()


def test_all_wrong_fields_are_named_at_once(lab: Cluster, done: Plan, api: APIClient) -> None:
    found = refused(api.post(address(done), {"cluster": "mars", "slot_s": -1, "batches": "x"}, format="json"))
    assert set(found) == {"cluster", "slot_s", "batches"}


@pytest.mark.parametrize("change", [{"is_on": False}, {"runs_plans": False}, {"engine": "slurm"}])
def test_a_cluster_whose_operator_does_not_allow_it_runs_no_plans(
    lab: Cluster, done: Plan, api: APIClient, change: dict[str, Any]
) -> None:
    run = asked(done, lab)
    Execution.objects.update(**change)
    assert "(there is none), got lab" in refused(api.post(address(done), {"cluster": "lab"}, format="json"))["cluster"]
    assert compute_next()
    assert (after(run).state, run.error) == (JobState.FAILED, "The cluster lab no longer runs plans.")


def test_a_restricted_cluster_is_unknown_to_others(lab: Cluster, done: Plan, api: APIClient) -> None:
    change_cluster_teams(lab, operated_by=None, is_restricted=True, teams=[])
    found = refused(api.post(address(done), {"cluster": "lab"}, format="json"))
    assert found == {"cluster": "expected a cluster, got 'lab'"}


def test_the_cluster_of_the_plan_is_taken_if_none_is_named(lab: Cluster, done: Plan, api: APIClient) -> None:
    Plan.objects.update(cluster=lab)
    assert api.post(address(done), {}, format="json").json()["cluster"] == "lab"


def test_nothing_runs_as_root_unless_the_operator_says_so(
    lab: Cluster, done: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    Execution.objects.update(allow_root=False)
    run = asked(done, lab)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert compute_next()
    assert after(run).state == JobState.FAILED
    assert "programs would run as root" in run.error


def test_it_runs_as_the_system_user_of_its_owner_within_the_clusters_limits(
    lab: Cluster, done: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    Execution.objects.update(first_uid=7_000, allow_root=False, memory_mb=600, processes=70, niceness=3)
    asked(done, lab)
    seen: list[Start] = []

    def launch(engine: LocalEngine, start: Start) -> None:
        seen.append(start)
        raise EngineError("enough")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "chown", lambda *_: None)
    monkeypatch.setattr(LocalEngine, "launch", launch)
    assert compute_next()
    assert PlanRun.objects.get().error == "enough"
    assert seen[0].user == 7_000 + done.owner_id
    limits = seen[0].limits
    assert (limits.memory_mb, limits.processes, limits.niceness, limits.open_files) == (600, 70, 3, 4_096)


def test_one_user_has_few_runs_under_way(lab: Cluster, done: Plan, api: APIClient) -> None:
    for _ in range(settings.OPEN_WORK["plan_runs"]):
        asked(done, lab)
    answer = api.post(address(done), {"cluster": "lab"}, format="json")
    assert answer.status_code == 429
    assert "3 runs of a plan of yours wait or are computed; at most 3 may." in answer.json()["detail"]


def test_there_is_no_run_before_there_is_a_plan(lab: Cluster, alice: User, api: APIClient) -> None:
    plan = submitted(alice)
    assert api.post(address(plan), {"cluster": "lab"}, format="json").status_code == 409


def test_the_same_key_runs_it_once(lab: Cluster, done: Plan, api: APIClient) -> None:
    headers = {"Idempotency-Key": "once"}
    first, again = (api.post(address(done), {"cluster": "lab"}, format="json", headers=headers) for _ in range(2))
    assert first.json()["id"] == again.json()["id"]
    assert again["Idempotency-Replayed"] == "true"
    other = api.post(address(done), {"cluster": "lab", "batches": 4}, format="json", headers=headers)
    assert other.status_code == 409


@pytest.mark.parametrize("act", ["cancel", "delete", "stop"])
def test_its_processes_end_if_it_is_cancelled_or_deleted_or_its_worker_stops(
    lab: Cluster, done: Plan, api: APIClient, sleeping: Path, act: str
) -> None:
    run = asked(done, lab)

    def looks() -> bool:
        wait_until(lambda: bool(running_below(str(sleeping))), what="a process of the run")
        if act == "cancel":
            assert api.post(address(done, f"/{run.pk}/cancel")).status_code == 200
        elif act == "delete":
            run.delete()
        return act == "stop"

    assert compute_next(looks)
    assert not running_below(str(sleeping))
    assert list(computing.runs_root("lab").iterdir()) == []
    if act == "delete":
        assert not PlanRun.objects.exists()
    else:
        assert after(run).state == {"cancel": JobState.CANCELLED, "stop": JobState.QUEUED}[act]


def test_a_process_that_fails_fails_the_run_with_its_last_words(lab: Cluster, done: Plan, sleeping: Path) -> None:
    sleeping.write_text(f"import sys\nif sys.argv[2:] == ['client', '1']: sys.exit('no data')\n{SLEEPS}")
    run = asked(done, lab)
    assert compute_next()
    assert after(run).state == JobState.FAILED
    assert "client-1 ended with exit code 1" in run.error
    assert "no data" in run.error
    assert not running_below(str(sleeping))


def test_what_a_dead_worker_left_ends_before_the_run_begins_again(
    lab: Cluster, done: Plan, sleeping: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = asked(done, lab)

    class Killed(BaseException):
        """The worker dies here: nothing of its own is done any more."""

    def die(*_: object) -> None:
        wait_until(lambda: bool(running_below(str(sleeping))), what="a process of the run")
        raise Killed

    with monkeypatch.context() as dying:
        dying.setattr(computing._Watch, "__call__", die)
        dying.setattr(plan_runs._Processes, "end", lambda _: None)
        dying.setattr("shutil.rmtree", lambda *_: None)
        with pytest.raises(Killed):
            compute_next()
    left = running_below(str(sleeping))
    assert left
    assert not compute_next(), "its worker may live"
    PlanRun.objects.update(heartbeat_at=F("heartbeat_at") - timedelta(seconds=dead_workers.STALE_S + 1))
    seen: list[list[str]] = []

    def looks() -> bool:
        seen.append([line for line in running_below(str(sleeping)) if f"/{run.pk}-1/" in line])
        states.cancel(PLAN_RUNS, run.pk)
        return False

    assert compute_next(looks)
    assert seen == [[]]
    assert (after(run).state, run.attempts) == (JobState.CANCELLED, 2)
    assert not running_below(str(sleeping))
    assert list(computing.runs_root("lab").iterdir()) == []
