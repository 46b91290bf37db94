"""Nobody but operators of the cluster puts a bid back in the queue on which the policy failed."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from rest_framework.test import APIClient

from accounts import teams
from accounts.models import Role, Scope, Team
from accounts.tokens import NewToken, issue
from auctions.domain import transitions
from auctions.engine import decision_queue
from auctions.models import Bid, BidState, Event, Market
from tests.accounts.members import member, page_of
from tests.auctions.worlds import make_operator, make_user, submit

REST = "/api/v1/clusters/lab/bids/1/retry"
PAGE = "/markets/lab/bids/1/retry/"
ADMIN = "/admin/auctions/bid/"


@pytest.fixture
def unlucky(market: Market, team: Team) -> Bid:
    """A quarantined bid of a bidder of the team."""
    bid = submit(market, member(team, "owner", Role.BIDDER))
    transitions.quarantine(bid)
    return bid


def assert_left_alone(bid: Bid) -> None:
    bid.refresh_from_db()
    assert bid.state == BidState.QUARANTINED
    assert not Event.objects.filter(kind="retried").exists()


def by_token(user: User, scope: Scope) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {issue(user, NewToken('test', scope=scope)).text}")
    return client


def asked_in_admin(bid: Bid) -> dict[str, object]:
    return {"action": "retry", "_selected_action": [bid.pk]}


def test_bidders_viewers_other_teams_and_operators_of_the_team_alone_do_not(
    unlucky: Bid, members: dict[Role, User], client_of: Callable[[User], APIClient]
) -> None:
    other = make_user("other")
    teams.add_member(teams.create_team("other", "Other"), other, Role.ADMINISTRATOR)
    inactive = make_operator("gone")
    User.objects.filter(pk=inactive.pk).update(is_active=False)
    staff = make_user("staff", is_staff=True)
    staff.user_permissions.set(Permission.objects.filter(content_type__app_label="auctions"))
    inside = [unlucky.owner, *members.values()]
    for user, code in [*((one, 403) for one in inside), (other, 404), (make_user("alone"), 404), (staff, 404)]:
        assert client_of(User.objects.get(pk=user.pk)).post(REST, {}, format="json").status_code in (403, code)
        page = page_of(user)
        assert page.post(PAGE).status_code in (403, code)
        assert "Put back in the queue" not in page.get("/markets/lab/bids/1/").text
        assert page.post(ADMIN, asked_in_admin(unlucky)).status_code in (302, 403)
        assert_left_alone(unlucky)
    assert by_token(inactive, Scope.OPERATE).post(REST, {}, format="json").status_code == 401
    nobody = Client()
    for answer in (nobody.post(PAGE), nobody.post(ADMIN, asked_in_admin(unlucky)), page_of(inactive).post(PAGE)):
        assert (answer.status_code, "/login/" in answer["Location"]) == (302, True)
    assert APIClient().post(REST, {}, format="json").status_code == 401
    assert_left_alone(unlucky)


def test_an_operator_does_so_by_a_token_that_may_operate_alone_and_operators_of_another_cluster_do_not(
    unlucky: Bid, market: Market, team: Team, members: dict[Role, User], client_of: Callable[[User], APIClient]
) -> None:
    operator = make_operator()
    for scope in set(Scope) - {Scope.OPERATE}:
        assert by_token(operator, scope).post(REST, {}, format="json").status_code == 403
        assert_left_alone(unlucky)
    teams.change_cluster_teams(market.cluster, operated_by=team, is_restricted=False, teams=[])
    for role in (Role.VIEWER, Role.BIDDER):
        assert client_of(User.objects.get(pk=members[role].pk)).post(REST, {}, format="json").status_code == 403
        assert page_of(members[role]).post(PAGE).status_code == 403
    assert_left_alone(unlucky)
    assert page_of(operator).get(PAGE).status_code == 405
    assert client_of(User.objects.get(pk=members[Role.OPERATOR].pk)).post(REST, {}, format="json").status_code == 200
    decision_queue.process_pending(market.pk)
    again = client_of(operator).post(REST, {}, format="json")
    assert (again.status_code, "only a bid that is quarantined" in again.json()["detail"]) == (409, True)
