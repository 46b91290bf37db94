"""Requests that another request is faster than."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError
from rest_framework.test import APIClient

from accounts import teams, tokens
from accounts.models import Team
from auctions.engine import budgets, intake
from auctions.engine.submission import submit_bid
from auctions.models import Bid, Budget
from cluster.database.busy import is_overtaken
from tests.accounts.members import page_of
from tests.auctions.worlds import body, make_market, make_operator, make_user

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_team_that_gets_a_bid_while_it_is_deleted_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    market, team = make_market(), teams.create_team("vision", "Vision")
    submit_bid(cluster=market.cluster, owner=make_user("dora"), body=body())

    def delete(self: Team) -> None:
        """Delete it after Django has found no bid of it, and then there is one."""
        Bid.objects.update(team=self)
        Team.objects.filter(pk=self.pk)._raw_delete("default")

    monkeypatch.setattr(Team, "delete", delete)
    boss = page_of(User.objects.create_superuser("boss"))
    boss.raise_request_exception = False
    answer = boss.post(f"/admin/accounts/team/{team.pk}/delete/", {"post": "yes"})
    assert answer.status_code == 409
    assert "Another request has meanwhile" in answer.content.decode()
    assert Team.objects.filter(pk=team.pk).exists()


def test_a_bid_of_a_user_who_is_deleted_meanwhile_is_refused(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    market, dora = make_market(), make_user("dora")
    record: Any = vars(intake)["record_bids"]

    def deleted(*args: Any) -> None:
        User.objects.filter(pk=dora.pk)._raw_delete("default")
        record(*args)

    monkeypatch.setattr(intake, "record_bids", deleted)
    client = APIClient(raise_request_exception=False)
    client.force_authenticate(dora)
    answer = client.post(f"/api/v1/clusters/{market.cluster.name}/bids", body(), format="json")
    assert answer.status_code == 409
    assert answer.json()["detail"].startswith("Another request has meanwhile stored or deleted")
    assert "Another request was faster" in caplog.text
    assert not Bid.objects.exists()


def test_an_account_that_is_deleted_meanwhile_gets_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    dora = make_user("dora")
    issue = tokens.issue

    def deleted(user: User, *args: Any, **kwargs: Any) -> Any:
        User.objects.filter(pk=dora.pk).delete()
        return issue(user, *args, **kwargs)

    monkeypatch.setattr(tokens, "issue", deleted)
    client = APIClient(raise_request_exception=False)
    client.force_authenticate(dora)
    answer = client.post("/api/v1/tokens", {"name": "laptop", "scope": "read"}, format="json")
    assert answer.status_code == 409
    assert answer.json()["detail"].endswith("nothing was stored. Look at what is there now before you send it again.")


def test_a_team_that_is_deleted_meanwhile_gets_no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    team = teams.create_team("vision", "Vision")
    set_budget = budgets.set_budget

    def deleted(*args: Any, **kwargs: Any) -> Budget:
        Team.objects.filter(pk=team.pk).delete()
        return set_budget(*args, **kwargs)

    monkeypatch.setattr(budgets, "set_budget", deleted)
    client = APIClient(raise_request_exception=False)
    client.force_authenticate(make_operator("olga"))
    answer = client.put("/api/v1/teams/vision/budget", {"period": "month", "credits": 1000}, format="json")
    assert answer.status_code == 409
    assert answer.json()["detail"].startswith("Another request has meanwhile stored or deleted")
    assert not Budget.objects.exists()


def test_a_name_that_exists_once_is_taken_meanwhile_and_another_rule_is_a_mistake() -> None:
    Team.objects.create(name="vision", title="Vision")
    with pytest.raises(IntegrityError) as twice:
        Team.objects.create(name="vision", title="Vision")
    assert is_overtaken(twice.value)
    with pytest.raises(IntegrityError) as empty:
        Team.objects.create(name="other", title="")
    assert not is_overtaken(empty.value)
