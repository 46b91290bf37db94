"""Other lengths of slots: the same devices, asked once each, drawn when there are some, with a table."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from frontend.figures import plan_slots
from studies.models import ComparisonKind, Plan
from studies.split_learning.api.examples import DESCRIBED, TINY
from studies.split_learning.plans.comparisons import Length
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import compare_slot_lengths, submit_plan
from tests.studies.plans.here import compute_here

SCENARIO = {"number": 2, "model": "vgg19", "clients": 4, "helpers": 2, "seed": 3, "slot_ms": 400}


@pytest.mark.thorough
@pytest.mark.parametrize("body", [{"profile": {**DESCRIBED, "slot_ms": 400}}, {"scenario": SCENARIO}])
def test_makespans_by_length_are_listed_and_drawn(body: dict[str, object], alice: User, as_alice: Client) -> None:
    plan = submit_plan(alice, PlanRequest.from_json(body))
    page = f"/plans/{plan.pk}/"
    assert as_alice.get(f"{page}slots.json").json()["data"] == []
    as_alice.post(f"{page}slots/")
    assert "Every length was submitted before" in as_alice.post(f"{page}slots/", follow=True).text
    while compute_here():
        pass
    plans = list(Plan.objects.order_by("slot_ms"))
    assert [one.slot_ms for one in plans] == [50, 100, 200, 400, 800, 1600]
    # Rounded up, slots that are multiples of others make no time shorter.
    spans = [(one.makespan or 0) * one.slot_ms for one in plans]
    assert all(one.optimal for one in plans)
    assert spans == sorted(spans)
    assert {tuple(one.instance["clients"][0].items()) for one in plans} == {tuple(plan.instance["clients"][0].items())}
    drawn = as_alice.get(f"{page}slots.json").json()
    assert drawn["data"][0]["x"] == [50, 100, 200, 400, 800, 1600]
    rows = as_alice.get(f"{page}slots.csv").text.splitlines()
    assert rows[0] == "slot_ms,makespan_slots,makespan_ms,lower_bound_slots,lower_bound_ms,compute_s"
    assert [int(row.split(",")[2]) for row in rows[1:]] == spans
    text = as_alice.get(page).text
    assert "What the length of a slot costs" in text
    assert f">{spans[0]}<" in text


def test_an_instance_in_slots_has_no_other_lengths(alice: User, as_alice: Client) -> None:
    plan = submit_plan(alice, PlanRequest.from_json({"instance": TINY}))
    assert "Other lengths" not in as_alice.get(f"/plans/{plan.pk}/").text
    answer = as_alice.post(f"/plans/{plan.pk}/slots/", follow=True)
    assert "got one with times in slots" in answer.text
    assert not plan.others.exists()


def test_a_length_can_be_compared_further(alice: User) -> None:
    plan = submit_plan(alice, PlanRequest.from_json({"scenario": SCENARIO}))
    shorter = compare_slot_lengths(alice, plan)[0]
    assert (shorter.slot_ms, shorter.comparison) == (50, ComparisonKind.SLOT)
    assert [one.slot_ms for one in compare_slot_lengths(alice, shorter)] == [6, 12, 25, 100, 200]


def test_what_is_not_there_yet_is_left_out() -> None:
    lengths = [Length(1, 50, None, None, None), Length(2, 100, 7, 6, 0.5)]
    assert plan_slots.figure(lengths).data == []
    assert [list(row) for row in plan_slots.table(lengths).rows] == [
        [50, "", "", "", "", ""],
        [100, 7, 700, 6, 600, 0.5],
    ]
