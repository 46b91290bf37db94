"""Pages of plans: asked for in a form, watched, compared, enlarged, cancelled; nobody else's."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from frontend.figures import plan_course, plan_gantt
from studies.background import states
from studies.background.models import JobState
from studies.job_tables import PLANS
from studies.models import ComparisonKind, Plan
from studies.split_learning.api.examples import CSV, DESCRIBED, TINY
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.readings import Known, Piece
from studies.split_learning.plans.submission import submit_plan
from tests.studies.plans.here import compute_here

FORM = {"label": "mine", "example": "tiny", "method": "exact", "seconds": "5", "seed": "0"}
PARTS = ("", "part", "tables", "version", "course.json", "gantt.json", "schedule.csv", "course.csv", "clients.csv")


@pytest.fixture
def plan(alice: User) -> Plan:
    return submit_plan(alice, PlanRequest.from_json({"instance": TINY, "label": "secret batch"}))


@pytest.fixture
def done(plan: Plan) -> Plan:
    assert compute_here()
    plan.refresh_from_db()
    return plan


def page(number: int, part: str = "") -> str:
    return f"/plans/{number}/{part}"


def sent(client: Client, **changes: Any) -> Any:
    return client.post("/plans/new/", {**FORM, **changes})


def test_a_form_leads_to_a_plan_and_its_page(as_alice: Client) -> None:
    assert "no plans yet" in as_alice.get("/plans/").text
    answer = sent(as_alice)
    plan = Plan.objects.get()
    assert answer.headers["Location"] == page(plan.pk)
    waiting = as_alice.get(page(plan.pk)).text
    assert "Queued" in waiting
    assert "Cancel</button>" in waiting
    assert compute_here()
    text = as_alice.get(page(plan.pk)).text
    for words in ("proven best", "Paths of clients", "phone", "laptop", "Idle, slots", "Compare methods"):
        assert words in text
    assert "Cancel</button>" not in text
    assert "mine" in as_alice.get("/plans/").text
    assert "No plan matches" in as_alice.get("/plans/?state=failed").text
    assert "mine" in as_alice.get("/plans/?state=completed&method=exact").text


@pytest.mark.thorough
@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_the_owners_and_the_operators_alone(
    done: Plan, as_alice: Client, as_bob: Client, as_operator: Client, client: Client, part: str
) -> None:
    path = page(done.pk, part)
    assert as_bob.get(path).status_code == 404
    assert as_operator.get(path).status_code == 200
    assert Client().get(path).status_code == 302
    answer = as_alice.get(path)
    assert answer.status_code == 200
    assert "<script>" not in answer.text
    if not part.endswith(".csv") and part:
        assert as_alice.get(path, headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304


def test_strangers_change_nothing(plan: Plan, as_bob: Client) -> None:
    assert "secret" not in as_bob.get("/plans/").text
    for act in ("cancel", "compare", "one-more", "delete"):
        assert as_bob.post(page(plan.pk, f"{act}/")).status_code == 404
        assert as_bob.get(page(plan.pk, f"{act}/")).status_code == 405
    assert Plan.objects.get().state == JobState.QUEUED


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"example": ""}, "Expected a pasted or uploaded instance"),
        ({"text": "{"}, "expected JSON"),
        ({"text": '{"helpers": []}'}, "missing"),
        ({"text": json.dumps({**TINY, "tail": [[1]]})}, "instance.tail"),
        ({"text": "helper,client\n"}, "line 1"),
        ({"text": CSV.replace("vm,camera,,2,7", "vm,camera,,2,x")}, "line 3, release"),
        ({"text": json.dumps({**DESCRIBED, "mbps": -1})}, "profile.mbps"),
        ({"method": "magic"}, "valid choice"),
        ({"seconds": "601"}, "600"),
        ({"cluster": "mars"}, "valid choice"),
        ({"text": CSV, "file": SimpleUploadedFile("b.csv", CSV.encode())}, "got both"),
        ({"file": SimpleUploadedFile("b.csv", b"\xff\xfe")}, "UTF-8"),
    ],
)
def test_a_form_that_is_wrong_says_so(as_alice: Client, changes: dict[str, Any], words: str) -> None:
    answer = sent(as_alice, **changes)
    assert answer.status_code == 422
    assert words in answer.text
    assert not Plan.objects.exists()


def test_an_instance_is_pasted_or_uploaded_as_json_or_csv(as_alice: Client) -> None:
    sent(as_alice, text=json.dumps({"instance": TINY}))
    sent(as_alice, text=CSV, slot_ms="50")
    sent(as_alice, file=SimpleUploadedFile("b.csv", CSV.encode()))
    sent(as_alice, example="paper")
    sent(as_alice, text=json.dumps(DESCRIBED))
    sent(as_alice, text=json.dumps({"profile": DESCRIBED}))
    sizes = Plan.objects.order_by("pk").values_list("helpers", "clients", "slot_ms")
    assert list(sizes) == [(2, 3, 100), (2, 2, 50), (2, 2, 1), (2, 10, 180), (2, 4, 200), (2, 4, 200)]


def test_methods_are_compared_and_helpers_added_side_by_side(done: Plan, as_alice: Client) -> None:
    as_alice.post(page(done.pk, "compare/"))
    as_alice.post(page(done.pk, "one-more/"))
    while compute_here():
        pass
    text = as_alice.get(page(done.pk)).text
    for words in ("Methods side by side", "balanced-greedy", "Slots saved by another helper", "Shorter than before"):
        assert words in text
    assert "Compare methods</button>" not in text
    other = done.others.filter(comparison=ComparisonKind.HELPER).get()
    assert f"plan {done.pk}</a>" in as_alice.get(page(other.pk)).text
    assert f'href="{page(other.pk)}"' not in as_alice.get("/plans/").text


def test_a_page_that_asks_hears_of_what_others_found(done: Plan, as_alice: Client) -> None:
    tag = as_alice.get(page(done.pk, "version")).headers["ETag"]
    as_alice.post(page(done.pk, "one-more/"))
    answer = as_alice.get(page(done.pk, "version"), headers={"If-None-Match": tag})
    assert answer.status_code == 200


def test_a_plan_is_cancelled_once_then_deleted(plan: Plan, as_alice: Client) -> None:
    assert "is being cancelled" in as_alice.post(page(plan.pk, "cancel/"), follow=True).text
    assert "nothing is left" in as_alice.post(page(plan.pk, "cancel/"), follow=True).text
    assert "is deleted" in as_alice.post(page(plan.pk, "delete/"), follow=True).text
    assert not Plan.objects.exists()


def test_a_running_plan_shows_what_is_known(plan: Plan, as_alice: Client) -> None:
    attempt = states.claim_next(PLANS)
    assert attempt is not None
    states.progress(attempt, steps=[[0.1, 30, None, "bound"], [0.2, 30, 40, "x"]], lower_bound=30, makespan=40)
    text = as_alice.get(page(plan.pk)).text
    assert "No plan takes fewer than 30" in text
    assert "33.3 %" in text
    drawn = as_alice.get(page(plan.pk, "course.json")).json()
    assert drawn["data"][0]["y"] == [40]
    assert drawn["data"][1]["y"] == [30, 30]
    assert as_alice.get(page(plan.pk, "gantt.json")).json()["data"] == []


def test_the_best_plan_is_seen_beneath_a_bound_that_equals_it() -> None:
    drawn = plan_course.figure([Known(0.1, 30, 30, "bound")], slot_ms=1)
    beneath, above = drawn.data  # in the order in which they are drawn
    assert beneath["y"] == above["y"]
    assert beneath["line"]["width"] > above["line"]["width"]
    assert beneath["marker"]["size"] > above["marker"]["size"]


def test_a_plan_whose_passes_take_no_slot_says_so(alice: User, as_alice: Client) -> None:
    nothing = [[0] * 3] * 2
    instance = {**TINY, "forward": nothing, "backward": nothing}
    plan = submit_plan(alice, PlanRequest.from_json({"instance": instance}))
    assert "There is no plan to be drawn yet." in as_alice.get(page(plan.pk, "gantt.json")).text
    assert compute_here()
    assert "No pass takes a slot." in as_alice.get(page(plan.pk, "gantt.json")).text


@pytest.mark.parametrize("text", [json.dumps(TINY), CSV])
def test_an_uploaded_file_may_begin_with_the_mark_of_its_encoding(as_alice: Client, text: str) -> None:
    file = SimpleUploadedFile("plan.txt", b"\xef\xbb\xbf" + text.encode())
    assert sent(as_alice, example="", file=file).status_code == 302


def test_the_gantt_chart_has_every_piece_and_says_what_it_leaves_out(done: Plan, as_alice: Client) -> None:
    drawn = as_alice.get(page(done.pk, "gantt.json")).json()
    pieces = sum(len(trace["x"]) for trace in drawn["data"])
    assert pieces == len(as_alice.get(page(done.pk, "schedule.csv")).text.splitlines()) - 1
    names = [f"h{i}" for i in range(plan_gantt.LARGEST_HELPERS + 5)]
    many = [Piece(name, "c", "forward", 0, 1) for name in names]
    assert "Helpers 1 to 60 of 65" in plan_gantt.figure(many, names, makespan=1, slot_ms=1).note
    assert plan_gantt.pages(many, names) == [0, 60]
    rest = plan_gantt.figure(many, names, makespan=1, slot_ms=1, first=62)
    assert "Helpers 61 to 65 of 65" in rest.note
    assert sum(len(trace["x"]) for trace in rest.data) == 5
    assert plan_course.figure([], slot_ms=1).data == []


def test_of_many_helpers_the_address_says_which_are_drawn(
    done: Plan, as_alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 'name="from"' not in as_alice.get(page(done.pk)).text
    monkeypatch.setattr(plan_gantt, "LARGEST_HELPERS", 1)
    text = as_alice.get(page(done.pk), {"from": "2"}).text
    assert '<option value="2" selected>2 to 2</option>' in text
    assert "gantt.json?from=2" in text
    for given, first in (("2", 2), ("1", 1), ("", 1), ("0", 1), ("x", 1), ("99", 2)):
        note = as_alice.get(page(done.pk, "gantt.json"), {"from": given}).json()["note"]
        assert f"Helpers {first} to {first} of 2" in note
