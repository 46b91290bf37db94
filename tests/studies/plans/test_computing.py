"""Computing plans in processes: to their ends, once, cancelled, and after a worker died."""

import json
import sys
from datetime import timedelta
from subprocess import run
from time import monotonic

import psycopg2
import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.db.models import F, QuerySet

from scheduling.split_learning.document import read_split_learning
from scheduling.split_learning.methods import answer_of
from studies.background import dead_workers, states
from studies.background.models import JobState, Stage
from studies.job_tables import PLANS
from studies.models import Plan
from studies.split_learning.plans import child, computing, readings
from studies.split_learning.plans.computing import PlanProgress, compute_next
from tests.studies.plans.conftest import large, submitted, tiny
from tests.studies.plans.here import compute_here


def after(plan: Plan) -> Plan:
    plan.refresh_from_db()
    return plan


@pytest.mark.thorough
def test_it_computes_a_plan_and_proves_it(alice: User) -> None:
    plan = submitted(alice)
    assert compute_next()
    plan = after(plan)
    assert plan.state == JobState.COMPLETED, plan.error
    assert plan.optimal
    assert plan.result is not None
    assert plan.makespan == max(plan.result["completion"])
    assert plan.steps[-1][1:3] == [plan.lower_bound, plan.makespan]
    assert plan.started_at is not None
    assert not compute_next(), "a plan that is done is never computed twice"


@pytest.mark.thorough
def test_the_process_finds_what_the_core_finds(alice: User) -> None:
    plans = [submitted(alice, tiny(method=name, seed=7)) for name in ("random", "balanced-greedy")]
    assert compute_next()
    assert compute_here(), "in no other process"
    for plan in map(after, plans):
        found = answer_of(read_split_learning(plan.instance), plan.method, left=lambda: 5.0, seed=7)
        assert plan.makespan == found.plan.makespan


@pytest.mark.thorough
def test_what_has_no_plan_says_why(alice: User) -> None:
    body = tiny(method="exact")
    for helper in body["instance"]["helpers"]:
        helper["memory_gb"] = 3.25  # together as much as is needed, but for two clients at one helper too little
    plan = submitted(alice, body)
    assert compute_next()
    plan = after(plan)
    assert plan.state == JobState.FAILED
    assert "no assignment of clients to helpers is within memory" in plan.error
    assert any(f"client {name} needs" in plan.error for name in readings.names(plan)[1])


@pytest.mark.thorough
def test_a_cancelled_plan_ends_in_the_middle_of_a_step_and_keeps_the_best_it_has(alice: User) -> None:
    plan = submitted(alice, large())
    cancelled_at: list[float] = []

    def somebody_cancels() -> bool:
        if not cancelled_at and after(plan).makespan is not None:
            states.cancel(PLANS, plan.pk)
            cancelled_at.append(monotonic())
        return False

    assert compute_next(somebody_cancels)
    assert monotonic() - cancelled_at[0] < computing.LONGEST_CANCEL_S + 10
    plan = after(plan)
    assert plan.state == JobState.CANCELLED
    assert plan.makespan is not None
    if plan.result is not None:  # it was between two steps, not within one
        assert plan.result["makespan"] == plan.makespan


@pytest.mark.thorough
def test_a_plan_whose_kernels_are_loaded_says_so_and_is_cancelled_at_once(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = submitted(alice)
    monkeypatch.setattr(computing, "COMMAND", ("sleep", "60"))
    monkeypatch.setattr(computing, "LONGEST_CANCEL_S", 60.0)

    def somebody_cancels() -> bool:
        if after(plan).stage == Stage.LOADING and not plan.cancel_requested:
            states.cancel(PLANS, plan.pk)
        return False

    began = monotonic()
    assert compute_next(somebody_cancels)
    assert (after(plan).state, plan.stage, plan.makespan) == (JobState.CANCELLED, Stage.BEGUN, None)
    assert monotonic() - began < 30


@pytest.mark.thorough
def test_the_best_plan_that_was_reported_is_kept_though_its_process_gave_no_answer(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, plan = submitted(alice), submitted(alice)
    assert compute_here()
    result = after(done).result
    assert result is not None
    reported = result | {"lower_bound": 20}
    rows = [{"ready": True}, {"step": [0.1, 20, 27, "found"]}, {"best": reported}, {"step": [0.2, 21, 27, "bound"]}]
    script = "".join(f"echo '{json.dumps(row)}'; " for row in rows)
    monkeypatch.setattr(computing, "COMMAND", ("sh", "-c", f"{script} exec sleep 60"))
    monkeypatch.setattr(computing, "LONGEST_CANCEL_S", 0.0)

    def somebody_cancels() -> bool:
        if after(plan).lower_bound == 21 and not plan.cancel_requested:
            states.cancel(PLANS, plan.pk)
        return False

    assert compute_next(somebody_cancels)
    assert (after(plan).state, plan.makespan, plan.lower_bound) == (JobState.CANCELLED, 27, 21)
    assert plan.result == reported | {"lower_bound": 21}


def test_what_a_solver_prints_is_not_taken_for_a_report() -> None:
    printed = "HighsMipSolverData: a line of the solver"
    script = (
        "import os; from studies.background.child import own_output; reported = own_output();"
        f" os.write(1, b'{printed}'); reported.write('{{}}\\n'); reported.flush(); print('{printed}')"
    )
    ended = run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("{}\n", f"{printed}{printed}\n")


def test_plans_are_reported_as_they_become_better_but_not_all_the_time() -> None:
    plan = answer_of(read_split_learning(tiny()["instance"]), "balanced-greedy", left=lambda: 5.0, seed=1).plan
    reported: list[int] = []
    better = child.Better(lambda row: reported.append(row["best"]["makespan"]))
    better.look(plan, 1)
    better.not_before = 0.0
    better.look(plan, 2)
    assert reported == [plan.makespan], "the second is no better"
    better.makespan = plan.makespan + 1
    better.look(plan, 2)
    better.makespan = plan.makespan + 1
    better.look(plan, 2)
    assert len(reported) == 2, "the last was reported just now"


def test_a_plan_that_is_deleted_ends_its_process(alice: User) -> None:
    plan = submitted(alice, large())

    def somebody_deletes() -> bool:
        Plan.objects.filter(pk=plan.pk).delete()
        return False

    began = monotonic()
    assert compute_next(somebody_deletes)
    assert monotonic() - began < 60 < plan.seconds
    assert not Plan.objects.exists()


@pytest.mark.thorough
def test_a_worker_that_stops_gives_its_plan_back(alice: User) -> None:
    plan = submitted(alice)
    assert compute_next(stopping=lambda: True)
    assert after(plan).state == JobState.QUEUED
    assert compute_here()
    assert after(plan).state == JobState.COMPLETED


@pytest.mark.thorough
def test_a_plan_of_a_dead_worker_is_begun_again_and_what_that_would_write_is_lost(alice: User) -> None:
    plan = submitted(alice)
    dead = states.claim_next(PLANS)
    assert dead is not None
    assert states.claim_next(PLANS) is None, "its worker may live"
    _age(plan)
    assert compute_here()
    assert after(plan).state == JobState.COMPLETED
    assert not states.progress(dead, note="late")
    assert not states.finish(dead, result={"makespan": 1}, makespan=1, lower_bound=1)
    assert not states.fail(dead, "late")
    assert after(plan).note != "late"
    assert plan.attempts == 2


def test_a_plan_that_kills_its_workers_fails(alice: User) -> None:
    plan = submitted(alice)
    for _ in range(states.MOST_ATTEMPTS):
        assert states.claim_next(PLANS) is not None
        _age(plan)
    assert states.claim_next(PLANS) is None
    assert after(plan).state == JobState.FAILED
    assert "died" in plan.error


def test_a_process_that_ends_without_an_answer_is_reported(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = submitted(alice)
    monkeypatch.setattr(computing, "COMMAND", ("false",))
    assert compute_next()
    assert after(plan).state == JobState.FAILED
    assert "status 1" in plan.error


def test_a_plan_whose_process_is_not_ready_in_time_is_begun_again_three_times_at_most(
    alice: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    plan = submitted(alice)
    monkeypatch.setattr(computing, "COMMAND", ("sleep", "60"))
    monkeypatch.setattr(computing, "LONGEST_START_S", 0.0)
    for attempt in (1, 2):
        assert compute_next()
        assert (after(plan).state, plan.attempts, plan.error, plan.started_at) == ("queued", attempt, "", None)
    assert compute_next()
    assert (after(plan).state, plan.attempts) == ("failed", 3)
    assert plan.error == "Its process was not ready within 0 s."
    assert len(caplog.records) == 3
    assert all(record.exc_info is None for record in caplog.records)
    assert not compute_next()


def test_a_plan_goes_on_while_the_database_is_away(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = submitted(alice)
    command = 'echo \'{"ready": true}\'; sleep 1; echo \'{"error": "its own"}\'; exec sleep 60'
    monkeypatch.setattr(computing, "COMMAND", ("sh", "-c", command))
    first, away = QuerySet.first, [gone(), gone()]

    def first_of(rows: "QuerySet[Plan]") -> Plan | None:
        if away and rows.query.deferred_loading == ({"cancel_requested"}, False):
            raise away.pop()
        return first(rows)

    monkeypatch.setattr(QuerySet, "first", first_of)
    assert compute_next()
    assert (after(plan).state, plan.attempts, plan.error, away) == (JobState.FAILED, 1, "its own", [])


def gone() -> OperationalError:
    error = OperationalError("server closed the connection unexpectedly")
    error.__cause__ = psycopg2.OperationalError()  # without a code, as there is no connection
    return error


@pytest.mark.thorough
def test_a_method_that_does_not_end_is_ended(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = submitted(alice)
    monkeypatch.setattr(computing, "COMMAND", ("sh", "-c", "echo '{\"ready\": true}'; exec sleep 60"))
    monkeypatch.setattr(computing, "LONGEST_ANSWER_S", -4.5)
    assert compute_next()
    assert after(plan).state == JobState.FAILED
    assert "did not end" in plan.error


def test_a_cancelled_plan_whose_worker_died_is_cancelled_without_being_computed(alice: User) -> None:
    plan = submitted(alice)
    assert states.claim_next(PLANS) is not None
    states.cancel(PLANS, plan.pk)
    _age(plan)
    assert not compute_next()
    assert after(plan).state == JobState.CANCELLED


def test_only_as_many_as_may_are_computed_at_once(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted(alice), submitted(alice)
    assert states.claim_next(PLANS) is not None
    assert states.claim_next(PLANS) is None
    monkeypatch.setattr("django.conf.settings.PLANS_AT_ONCE", None)
    assert states.claim_next(PLANS) is not None


def test_steps_that_find_nothing_new_are_kept_but_for_the_first_and_the_latest() -> None:
    progress = PlanProgress()
    for second in range(10):
        progress.take({"step": [second, 5, 9, "search"]})
    progress.take({"step": [10, 6, 9, "proof"]})
    assert [step[0] for step in progress.steps] == [0, 9, 10]
    for second in range(11, 3000):
        progress.take({"step": [second, second, 5000, "proof"]})
    assert len(progress.steps) <= computing.MOST_STEPS
    assert (progress.steps[0][0], progress.steps[-1][0]) == (0, 2999)


def _age(plan: Plan) -> None:
    long_ago = timedelta(seconds=2 * dead_workers.STALE_S)
    Plan.objects.filter(pk=plan.pk).update(heartbeat_at=F("heartbeat_at") - long_ago)
