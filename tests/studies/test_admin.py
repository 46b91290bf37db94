"""Plans in the admin: filtered, shown, never changed, cancelled by operators alone."""

import pytest
from django.contrib.auth.models import Permission
from django.test import Client

from studies.background.models import JobState
from studies.models import Plan
from studies.split_learning.api.examples import TINY
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import submit_plan
from tests.auctions.worlds import make_operator, make_user
from tests.studies.plans.here import compute_here

LIST = "/admin/studies/plan/"


@pytest.fixture
def operator(client: Client, db: None) -> Client:
    client.force_login(make_operator())
    return client


@pytest.fixture
def plans(db: None) -> list[Plan]:
    """One that is computed and one that waits."""
    alice = make_user("alice")
    kept = [
        submit_plan(alice, PlanRequest.from_json({"instance": TINY, "method": name, "label": f"by {name}"}))
        for name in ("balanced-greedy", "exact")
    ]
    assert compute_here()
    return kept


def test_plans_are_filtered_and_shown_without_what_is_large(operator: Client, plans: list[Plan]) -> None:
    text = operator.get(LIST).text
    assert "by exact" in text
    assert f'href="/plans/{plans[0].pk}/"' in text
    waiting = operator.get(f"{LIST}?state=queued").text
    assert "by exact" in waiting
    assert "by balanced-greedy" not in waiting
    assert "by exact" not in operator.get(f"{LIST}?method=balanced-greedy").text
    one = operator.get(f"{LIST}{plans[0].pk}/change/")
    assert "tail" not in one.text
    assert 'name="_save"' not in one.text


def test_nothing_is_added_changed_or_deleted(operator: Client, plans: list[Plan]) -> None:
    assert operator.get(f"{LIST}add/").status_code == 403
    for part in ("change", "delete"):
        assert operator.post(f"{LIST}{plans[0].pk}/{part}/", {"post": "yes"}).status_code == 403
    assert Plan.objects.count() == 2


def test_what_waits_is_cancelled_and_what_ended_is_reported(operator: Client, plans: list[Plan]) -> None:
    sent = {"action": "cancel", "_selected_action": [plan.pk for plan in plans]}
    text = operator.post(LIST, sent, follow=True).text
    assert "is being cancelled" in text
    assert "nothing is left to be cancelled" in text
    assert Plan.objects.get(method="exact").state == JobState.CANCELLED


def test_a_permission_on_plans_alone_does_not_open_the_admin(client: Client, plans: list[Plan]) -> None:
    bob = make_user("bob", is_staff=True)
    bob.user_permissions.add(Permission.objects.get(codename="view_plan"))
    client.force_login(bob)
    sent = {"action": "cancel", "_selected_action": [plan.pk for plan in plans]}
    assert client.get(LIST, follow=True).status_code == 403
    assert client.post(LIST, sent, follow=True).status_code == 403
    assert Plan.objects.get(method="exact").state == JobState.QUEUED


def test_permissions_on_a_model_narrow_what_an_operator_does_in_the_admin(client: Client, plans: list[Plan]) -> None:
    bob = make_user("bob")
    bob.user_permissions.add(Permission.objects.get(codename="change_cluster"))
    client.force_login(bob)
    assert client.get("/admin/").status_code == 200
    assert client.get(LIST).status_code == 403
