"""Plans made again on pages: the form says what is wrong, the new page what changed."""

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from studies.models import ComparisonKind, Plan
from studies.split_learning.api.examples import TINY
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import submit_plan
from tests.studies.plans.here import completed_plan, compute_here

FORM = {"label": "after lunch", "seconds": "5"}


@pytest.fixture
def done(alice: User) -> Plan:
    return completed_plan(alice)


def sent(client: Client, plan: Plan, **changes: Any) -> Any:
    return client.post(f"/plans/{plan.pk}/again/", {**FORM, **changes})


def test_a_form_leads_to_a_plan_that_says_what_changed(done: Plan, as_alice: Client) -> None:
    assert "Plan again after changes" in as_alice.get(f"/plans/{done.pk}/").text
    assert '<option value="tablet">' in as_alice.get(f"/plans/{done.pk}/again/").text
    more = json.dumps({"join": [{"name": "drone", "like": "phone"}]})
    answer = sent(as_alice, done, drop=["phone"], slower="tablet 1.5\n\n", more=more)
    again = Plan.objects.get(comparison=ComparisonKind.REPLAN)
    assert answer.headers["Location"] == f"/plans/{again.pk}/"
    assert compute_here()
    text = as_alice.get(f"/plans/{again.pk}/").text
    for words in (f"against plan {done.pk}: 2 kept, 1 joined, 1 dropped", "free to move", ">drone<", ">dropped<"):
        assert words in text
    rows = as_alice.get(f"/plans/{again.pk}/changes.csv").text.splitlines()
    assert rows[0] == "client,helper,what,completion_before,completion"
    assert rows[-1].startswith("phone,,dropped,")
    assert len(rows) == 1 + 4
    before = as_alice.get(f"/plans/{done.pk}/").text
    assert "Planned again after changes" in before
    assert f"{again.pk}: after lunch" in before


def test_a_whole_instance_and_helpers_that_are_gone(done: Plan, as_alice: Client) -> None:
    assert sent(as_alice, done, gone=["laptop"]).status_code == 302
    assert sent(as_alice, done, more=json.dumps({"instance": TINY})).status_code == 302
    sizes = done.others.order_by("pk").values_list("helpers", "clients")
    assert list(sizes) == [(1, 3), (2, 3)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({}, "__all__", "at least one"),
        ({"drop": ["fridge"]}, "drop", "valid choice"),
        ({"slower": "tablet"}, "slower", "a client and a factor"),
        ({"slower": "fridge 2"}, "slower", "expected a client (phone, camera, tablet)"),
        ({"slower": "tablet much"}, "slower", "number"),
        ({"more": "{"}, "more", "expected JSON"),
        ({"more": "[]"}, "more", "object"),
        ({"more": '{"drop": []}'}, "more", "Expected keys without a field of the form, got drop."),
        ({"more": '{"join": [{"name": "phone", "like": "camera"}]}'}, "more", "expected a name that no client has"),
        ({"more": json.dumps(TINY), "drop": ["phone"]}, "more", "whole instance"),
        ({"drop": ["phone", "camera", "tablet"]}, "drop", "expected at least one client to be left"),
        ({"seconds": "0"}, "seconds", "0.1"),
    ],
)
def test_a_form_that_is_wrong_says_so_beside_its_field(
    done: Plan, as_alice: Client, changes: dict[str, Any], field: str, words: str
) -> None:
    answer = sent(as_alice, done, **changes)
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == [field]
    assert words in answer.text, answer.context["form"].errors
    assert Plan.objects.count() == 1


def test_each_wrong_line_of_slower_clients_is_named(done: Plan, as_alice: Client) -> None:
    answer = sent(as_alice, done, slower="tablet\ntablet 2\ncamera 1.5\ncamera\ntablet  3")
    assert answer.status_code == 422
    assert answer.context["form"].errors["slower"] == [
        "Expected a client and a factor on every line, got 'tablet'.",
        "Expected a client and a factor on every line, got 'camera'.",
        "Expected each client on one line, got 'tablet' again: 'tablet  3'.",
    ]
    assert Plan.objects.count() == 1


def test_only_what_is_there_is_planned_again_and_by_nobody_else(
    done: Plan, alice: User, as_alice: Client, as_bob: Client
) -> None:
    assert as_bob.get(f"/plans/{done.pk}/again/").status_code == 404
    assert sent(as_bob, done, drop=["phone"]).status_code == 404
    waiting = submit_plan(alice, PlanRequest.from_json({"instance": TINY}))
    assert "Plan again after changes" not in as_alice.get(f"/plans/{waiting.pk}/").text
    answer = sent(as_alice, waiting, drop=["phone"])
    assert answer.status_code == 422
    assert "has no schedule" in answer.text
