"""Bids, budgets, tokens and pages of a user who leaves the team, becomes a viewer, or is deactivated."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from accounts import teams
from accounts.models import Membership, Role, Team
from accounts.tokens import NewToken, issue
from auctions.engine import decision_queue
from auctions.engine.slots import pass_slots
from auctions.engine.submission import submit_bid
from auctions.models import Bid, BidState, CreditTransaction, Market
from tests.accounts.members import again, member, page_of
from tests.auctions.credits import assert_sound, limit, sums
from tests.auctions.worlds import SLOT_S, body, make_user, sell_out, set_time, submit
from tests.execution.rows import KEY, make_training

LAB, PAGES = "/api/v1/clusters/lab", "/markets/lab"


def leaves(team: Team, user: User) -> None:
    teams.remove_member(team, Membership.objects.get(user=user))


def becomes_viewer(team: Team, user: User) -> None:
    teams.change_role(team, Membership.objects.get(user=user), Role.VIEWER)


def is_deactivated(team: Team, user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


WAYS = [leaves, becomes_viewer, is_deactivated]


@pytest.mark.parametrize("way", WAYS)
def test_bids_that_run_stand_and_wait_go_on_as_those_of_the_team(
    market: Market, team: Team, members: dict[Role, User], way: Callable[[Team, User], None]
) -> None:
    limit(team, 1_000.0)
    user = member(team, "mover", Role.BIDDER)
    decided = submit(market, again(user), 100.0)
    decision_queue.process_pending(market.pk)
    set_time(market, SLOT_S)
    pass_slots(market.pk)
    sell_out(market)
    standing = submit_bid(cluster=market.cluster, owner=again(user), body=body(0.5, standing=True)).bid
    decision_queue.process_pending(market.pk)
    waiting = submit(market, again(user), 90.0)
    standing.refresh_from_db()
    assert standing.state == BidState.STANDING
    way(team, user)
    decision_queue.process_pending(market.pk)
    for slot in range(2, 15):
        set_time(market, slot * SLOT_S)
        pass_slots(market.pk)
        decision_queue.process_pending(market.pk)
    for bid in (decided, standing, waiting):
        bid.refresh_from_db()
        assert bid.team_id == team.pk
        assert bid.state in (BidState.COMPLETED, BidState.REJECTED)
    assert decided.state == BidState.COMPLETED
    paid = sum(bid.payment or 0.0 for bid in (decided, standing, waiting))
    assert sums(team)["left"] == pytest.approx(1_000.0 - paid)
    assert {one.bid_id for one in CreditTransaction.objects.exclude(bid=None)} <= {
        bid.pk for bid in (decided, standing, waiting)
    }
    assert_sound(market)


@pytest.mark.parametrize("way", [leaves, is_deactivated])
def test_nothing_of_the_team_is_shown_any_more(
    market: Market, team: Team, members: dict[Role, User], way: Callable[[Team, User], None]
) -> None:
    limit(team, 1_000.0)
    user = member(team, "mover", Role.ADMINISTRATOR)
    colleague = submit(market, again(members[Role.BIDDER]), 100.0, label="secret")
    make_training(colleague)
    decision_queue.process_pending(market.pk)
    page, token = page_of(user), issue(user, NewToken("script")).text
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    log = f"bids/1/training/logs/{KEY}"
    of_team = [f"/api/v1/teams/{team.name}{one}" for one in ("/members", "/credits", "/invitations")]
    rest = [f"{LAB}/bids/1", f"{LAB}/bids/1/training", f"{LAB}/{log}", *of_team]
    html = [f"{PAGES}/bids/1/", f"{PAGES}/bids/1/training/part", f"{PAGES}/{log}/", f"{PAGES}/{log}/lines"]
    html += [f"{PAGES}/{log}/log.txt", f"{PAGES}/bids/1/receipt"]
    before = {path: client.get(path).status_code for path in rest} | {path: page.get(path).status_code for path in html}
    assert {path: code for path, code in before.items() if code not in (200, 404)} == {}
    seen = [path for path, code in before.items() if code == 200]
    assert len(seen) >= 9, before
    way(team, user)
    for path in rest:
        assert client.get(path).status_code in (401, 403, 404), path
    for path in html:
        assert page.get(path).status_code in (302, 404), path
    assert "secret" not in client.get(f"{LAB}/bids").content.decode()
    for path in (f"{PAGES}/bids/", "/account/team/", "/account/credits/", "/account/changes/", f"{PAGES}/"):
        assert "secret" not in page.get(path, follow=True).text
    for path in (f"{PAGES}/bids/1/cancel/", f"{PAGES}/bids/1/withdraw/"):
        assert page.post(path).status_code in (302, 404)
    colleague.refresh_from_db()
    assert colleague.state in (BidState.PLANNED, BidState.RUNNING)


def test_who_has_left_sees_and_ends_own_bids_alone_and_a_new_bid_is_of_no_team(
    market: Market, team: Team, members: dict[Role, User], client_of: Callable[[User], APIClient]
) -> None:
    limit(team, 1_000.0)
    user = member(team, "mover", Role.OPERATOR)
    submit(market, again(members[Role.BIDDER]), 100.0)
    submit(market, again(user), 100.0)
    decision_queue.process_pending(market.pk)
    leaves(team, user)
    client = client_of(again(user))
    assert [one["sequence"] for one in client.get(f"{LAB}/bids").json()["results"]] == [2]
    assert client.post(f"{LAB}/bids/1/cancel", {}, format="json").status_code == 404
    assert client.post(f"{LAB}/bids/2/cancel", {}, format="json").status_code == 200
    other = teams.create_team("other", "Other")
    teams.add_member(other, user, Role.BIDDER)
    assert submit(market, again(user), 100.0).team_id == other.pk
    assert page_of(make_user("nobody")).get(f"{PAGES}/bids/2/").status_code == 404
    colleague = page_of(members[Role.VIEWER])
    assert [colleague.get(f"{PAGES}/bids/{n}/").status_code for n in (1, 2, 3)] == [200, 200, 404]
    assert_sound(market)


def test_a_deactivated_user_s_session_and_tokens_end_at_once(market: Market, team: Team) -> None:
    user = member(team, "mover", Role.BIDDER)
    submit(market, again(user), 100.0)
    page, client = page_of(user), APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {issue(user, NewToken('script')).text}")
    assert (page.get(f"{PAGES}/bids/1/").status_code, client.get(f"{LAB}/bids/1").status_code) == (200, 200)
    is_deactivated(team, user)
    assert client.get(f"{LAB}/bids/1").status_code == 401
    assert client.post(f"{LAB}/bids", body(), format="json").status_code == 401
    for answer in (page.get(f"{PAGES}/bids/1/"), page.post(f"{PAGES}/bids/1/withdraw/"), page.get(f"{PAGES}/events")):
        assert answer.status_code in (204, 302)
    assert Bid.objects.get().state == BidState.SUBMITTED
