"""Noise on a plan's page: a chart, its table and its CSV file, with the spread in the address."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from studies.models import Plan
from studies.split_learning.api.examples import TINY
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import submit_plan
from tests.studies.plans.here import compute_here


@pytest.fixture
def plan(alice: User) -> Plan:
    return submit_plan(alice, PlanRequest.from_json({"instance": TINY}))


@pytest.fixture
def done(plan: Plan) -> Plan:
    assert compute_here()
    plan.refresh_from_db()
    return plan


def test_chart_table_and_file_report_the_same(done: Plan, as_alice: Client) -> None:
    asked = {"spread": "0.5", "draws": "5"}
    page = as_alice.get(f"/plans/{done.pk}/", asked).text
    assert '<option value="0.5" selected>50 %' in page
    assert '<noscript><p class="muted">The table needs JavaScript' in page
    assert f"/plans/{done.pk}/noise.json?spread=0.5&amp;draws=5" in page
    drawn = as_alice.get(f"/plans/{done.pk}/noise.json", asked).json()
    bars, worst = drawn["data"]
    assert bars["y"][0] == "priorities as sent"
    assert "5 draws" in drawn["note"]
    assert "50 %" in drawn["note"]
    rows = as_alice.get(f"/plans/{done.pk}/noise.csv", asked).text.splitlines()
    assert rows[0].startswith("draw,planned_slots,priorities_slots,first_come_slots,replanned_slots,bound_slots")
    cells = [[int(cell) for cell in row.split(",")] for row in rows[1:]]
    assert len(cells) == 5
    assert worst["x"] == [max(row[n] for row in cells) for n in range(2, 6)]
    text = as_alice.get(f"/plans/{done.pk}/noise", asked).text
    for name, mean in zip(bars["y"], bars["x"], strict=True):
        assert f">{name}<" in text
        assert f">{mean:.1f}<" in text


def test_before_there_is_a_plan_nothing_is_drawn_and_said_so(plan: Plan, as_alice: Client) -> None:
    drawn = as_alice.get(f"/plans/{plan.pk}/noise.json").json()
    assert (drawn["data"], drawn["note"]) == ([], "There is no plan to be disturbed yet.")
    assert as_alice.get(f"/plans/{plan.pk}/noise").text.strip() == ""
    # The page links to the file before there is a plan, too.
    assert f'href="/plans/{plan.pk}/noise.csv"' in as_alice.get(f"/plans/{plan.pk}/").text
    (header,) = as_alice.get(f"/plans/{plan.pk}/noise.csv").text.splitlines()
    assert header.startswith("draw,planned_slots")


def test_an_address_that_asks_for_nonsense_is_answered_in_words(done: Plan, as_alice: Client) -> None:
    asked = {"spread": "<b>"}
    assert "<b>" not in as_alice.get(f"/plans/{done.pk}/", asked).text
    assert "expected a number" in as_alice.get(f"/plans/{done.pk}/noise.json", asked).json()["note"]
    assert as_alice.get(f"/plans/{done.pk}/noise.csv", asked).status_code == 404


def test_it_is_the_owners_and_the_operators_alone(
    done: Plan, as_alice: Client, as_bob: Client, as_operator: Client
) -> None:
    for part in ("noise", "noise.json", "noise.csv"):
        path = f"/plans/{done.pk}/{part}"
        assert [one.get(path).status_code for one in (as_alice, as_operator, as_bob)] == [200, 200, 404]
    tag = as_alice.get(f"/plans/{done.pk}/noise.json").headers["ETag"]
    again = as_alice.get(f"/plans/{done.pk}/noise.json", headers={"If-None-Match": tag})
    assert again.status_code == 304
