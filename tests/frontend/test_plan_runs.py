"""Runs of plans on pages: the button, the form, the table, the chart, CSV; nobody else's."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from cluster.models import Cluster
from execution.models import Execution
from frontend.figures import plan_run
from frontend.figures.plan_gantt import LARGEST_BARS
from studies.background.models import JobState
from studies.models import Plan, PlanRun
from studies.split_learning.plans.readings import Piece, names
from studies.split_learning.runs.readings import MeasuredPiece
from studies.split_learning.runs.requests import PlanRunRequest, submit_run
from tests.auctions.worlds import make_cluster
from tests.studies.plans.here import completed_plan, ran

FORM = {"cluster": "lab", "slot_s": "0.1", "batches": "2"}


@pytest.fixture
def lab(db: None) -> Cluster:
    cluster = make_cluster()
    Execution.objects.create(cluster=cluster, runs_plans=True)
    return cluster


@pytest.fixture
def done(alice: User) -> Plan:
    return completed_plan(alice)


def page(plan: Plan, more: str = "") -> str:
    return f"/plans/{plan.pk}/{more}"


def test_the_button_leads_to_a_form_and_the_form_to_a_run(lab: Cluster, done: Plan, as_alice: Client) -> None:
    address = page(done, "runs/new/")
    assert f'href="{address}">Run this plan</a>' in as_alice.get(page(done)).text
    assert '<option value="lab">Lab</option>' in as_alice.get(address).text
    answer = as_alice.post(address, FORM)
    assert answer.headers["Location"] == page(done)
    run = PlanRun.objects.get()
    assert (run.owner, run.cluster, run.slot_s, run.batches, run.state) == (done.owner, lab, 0.1, 2, JobState.QUEUED)
    text = as_alice.get(page(done)).text
    for words in (f"Run {run.pk} is queued.", "Number 1 in the queue.", "0 of 2", "Cancel run"):
        assert words in text


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"cluster": "mars"}, "cluster", "Select a valid choice"),
        ({"slot_s": "0"}, "slot_s", "greater than or equal to 0.001"),
        ({"batches": "x"}, "batches", "Enter a whole number"),
        ({"slot_s": "10", "batches": "90"}, "batches", "at most 600 s by the plan"),
    ],
)
def test_a_wrong_field_is_named(
    lab: Cluster, done: Plan, as_alice: Client, changes: dict[str, str], field: str, words: str
) -> None:
    answer = as_alice.post(page(done, "runs/new/"), {**FORM, **changes})
    assert answer.status_code == 422
    assert words in " ".join(answer.context["form"].errors[field])
    assert not PlanRun.objects.exists()


def test_without_a_cluster_that_runs_plans_there_is_no_button_and_the_form_says_why(
    lab: Cluster, done: Plan, as_alice: Client
) -> None:
    Execution.objects.update(runs_plans=False)
    assert "Run this plan" not in as_alice.get(page(done)).text
    assert "Runs: planned and measured" not in as_alice.get(page(done)).text
    assert "No cluster runs plans now." in as_alice.get(page(done, "runs/new/")).text
    assert as_alice.post(page(done, "runs/new/"), FORM).status_code == 422


def test_planned_and_measured_stand_side_by_side(lab: Cluster, done: Plan, as_alice: Client) -> None:
    run = ran(done, lab)
    text = as_alice.get(page(done)).text
    for words in ("Completed", ">2.700<", ">2.750<", ">1.9 %<", "1.500 to 0.500", f"runs/{run.pk}.csv"):
        assert words in text, words
    drawn = as_alice.get(page(done, "run.json")).json()
    assert drawn["note"].startswith(f"Batch 1 of run {run.pk}: planned 2.700 s (outlined, dotted line), measured 2.750")
    outlined, solid = drawn["data"][:2], drawn["data"][2:]
    assert [trace["name"].split(":")[0] for trace in drawn["data"]] == ["planned"] * 2 + ["measured"] * 2
    for before, after in zip(outlined, solid, strict=True):
        a, b = (dict(zip(trace["text"], trace["base"], strict=True)) for trace in (before, after))
        assert {name: b[name] - a[name] for name in a} == pytest.approx(dict.fromkeys(b, 0.5)), "half a slot late"
        assert before["marker"]["color"] == "rgba(0,0,0,0)"
    csv = as_alice.get(page(done, f"runs/{run.pk}.csv")).text.splitlines()
    assert csv[0] == "batch,helper,client,task,part,start_s,end_s,loss"
    assert len(csv) == 1 + len(run.tasks or [])


def test_the_address_chooses_the_run_and_the_batch(lab: Cluster, done: Plan, as_alice: Client) -> None:
    first, _ = ran(done, lab), ran(done, lab, late_s=1.0)
    for query, words in (
        (f"run={first.pk}&batch=0", f"Batch 0 of run {first.pk}: "),
        (f"run={first.pk}&batch=99", f"Batch 1 of run {first.pk}: "),
        (f"run={first.pk + 7}&batch=x", f"Batch 1 of run {first.pk + 1}: "),
    ):
        assert as_alice.get(page(done, f"run.json?{query}")).json()["note"].startswith(words)
    text = as_alice.get(page(done, f"?run={first.pk}&batch=0")).text
    assert f'<option value="{first.pk}" selected>' in text


def test_one_is_cancelled_and_deleted(lab: Cluster, done: Plan, as_alice: Client) -> None:
    run = submit_run(done.owner, done, PlanRunRequest(lab))
    assert "Completed" not in as_alice.get(page(done, "runs/part")).text
    assert as_alice.get(page(done, "run.json")).json()["note"] == "No run of this plan is completed yet."
    assert as_alice.get(page(done, f"runs/{run.pk}.csv")).status_code == 404
    tag = as_alice.get(page(done, "version")).headers["ETag"]
    as_alice.post(page(done, f"runs/{run.pk}/cancel/"))
    assert as_alice.get(page(done, "version")).headers["ETag"] != tag
    assert "Cancelled" in as_alice.get(page(done, "runs/part")).text
    assert "nothing is left to be cancelled" in as_alice.post(page(done, f"runs/{run.pk}/cancel/"), follow=True).text
    as_alice.post(page(done, f"runs/{run.pk}/delete/"))
    assert not PlanRun.objects.exists()


def test_strangers_neither_see_nor_change_a_run(lab: Cluster, done: Plan, as_bob: Client) -> None:
    run = ran(done, lab)
    for part in ("runs/new/", "runs/part", f"runs/{run.pk}.csv", "run.json"):
        assert as_bob.get(page(done, part)).status_code == 404
    for act in ("runs/new/", f"runs/{run.pk}/cancel/", f"runs/{run.pk}/delete/"):
        assert as_bob.post(page(done, act), FORM).status_code == 404
    assert PlanRun.objects.count() == 1


def test_of_very_many_parts_the_first_are_drawn_which_is_said(done: Plan) -> None:
    count = LARGEST_BARS + 1
    planned = [Piece("vm", "phone", "forward", n, n + 1) for n in range(count)]
    measured = [MeasuredPiece("vm", "phone", "forward", n + 0.5, n + 1.5) for n in range(count)]
    drawn = plan_run.figure(planned, measured, names(done)[0], ends=(count, count), slot_ms=100, note="Run 1.")
    assert [len(trace["x"]) for trace in drawn.data] == [LARGEST_BARS, 0] * 2
    assert drawn.note == "Run 1. The first 1,200 parts of passes are drawn, the CSV file has all."
