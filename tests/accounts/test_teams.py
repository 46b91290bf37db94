"""Teams: what members see and do, by role; operators of single clusters; clusters restricted to teams; invitations."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from accounts import teams
from accounts.errors import NotAllowed, NotPossible
from accounts.models import ClusterTeams, Invitation, Membership, Role, Team
from accounts.rights import Rights, operates, rights_of, visible_clusters
from accounts.tokens import NewToken, issue
from auctions.engine import decision_queue
from auctions.history.audit_pass import EventPass
from auctions.models import Bid, BidState, Market, Publication
from auctions.readings import publications
from tests.accounts.members import BASE, again, member, page_of
from tests.auctions.worlds import body, make_cluster, make_market, make_operator, make_user, submit

LAB = f"{BASE}/clusters/lab"
PAGES = "/markets/lab"


def decided(market: Market, owner: User) -> Bid:
    bid = submit(market, owner, label="secret")
    decision_queue.process_pending(market.pk)
    bid.refresh_from_db()
    return bid


def test_rights_take_one_query_and_agree_with_what_the_rows_say(market: Market, members: dict[Role, User]) -> None:
    user = again(members[Role.OPERATOR])
    with CaptureQueriesContext(connection) as asked:
        rights = rights_of(user)
        assert rights_of(user) is rights
    assert len(asked) == 1
    assert rights == Rights(team=Team.objects.get().pk, role=Role.OPERATOR)


def test_a_bid_is_that_of_the_team_which_its_owner_had_then(
    market: Market, team: Team, members: dict[Role, User]
) -> None:
    alone = make_user("alone")
    before = submit(market, alone)
    teams.add_member(team, alone, Role.BIDDER)
    after = submit(market, again(alone))
    assert (before.team_id, after.team_id) == (None, team.pk)
    assert after.team_id == submit(market, members[Role.BIDDER]).team_id


def test_members_see_the_bids_of_the_team_and_nobody_else_does(
    market: Market, members: dict[Role, User], client_of: Callable[[User], APIClient]
) -> None:
    decided(market, members[Role.BIDDER])
    other = make_user("other")
    teams.add_member(teams.create_team("other", "Other"), other, Role.ADMINISTRATOR)
    for user, code in [*((one, 200) for one in members.values()), (other, 404), (make_user("alone"), 404)]:
        found = client_of(again(user))
        assert found.get(f"{LAB}/bids/1").status_code == code
        assert len(found.get(f"{LAB}/bids").json()["results"]) == (code == 200)
        page = page_of(user)
        assert page.get(f"{PAGES}/bids/1/").status_code == code
        assert ("secret" in page.get(f"{PAGES}/bids/").text) == (code == 200)


@pytest.mark.parametrize("by_page", [False, True])
@pytest.mark.parametrize("role", Role)
def test_operators_of_a_team_end_its_bids_and_others_do_not(
    market: Market, members: dict[Role, User], client_of: Callable[[User], APIClient], role: Role, by_page: bool
) -> None:
    bid = decided(market, make_user("owner"))
    Bid.objects.update(team=Team.objects.get())
    may = role in (Role.OPERATOR, Role.ADMINISTRATOR)
    if by_page:
        page = page_of(members[role])
        assert ("Cancel the job" in page.get(f"{PAGES}/bids/1/").text) == may
        assert page.post(f"{PAGES}/bids/1/cancel/").status_code == (302 if may else 403)
    else:
        answer = client_of(again(members[role])).post(f"{LAB}/bids/1/cancel", {}, format="json")
        assert answer.status_code == (200 if may else 403)
    bid.refresh_from_db()
    assert (bid.state == BidState.CANCELLED) == may


@pytest.mark.parametrize("role", Role)
def test_viewers_submit_nothing(market: Market, members: dict[Role, User], role: Role) -> None:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {issue(members[role], NewToken('script')).text}")
    for path, sent in (("bids", body()), ("bids/bulk", {"bids": [body()]})):
        answer = client.post(f"{LAB}/{path}", sent, format="json")
        assert answer.status_code == (403 if role == Role.VIEWER else 202)
    assert client.post(f"{LAB}/quotes", body(), format="json").status_code == 200
    form = {"model": "ResNet-50", "epochs": "1", "value": "100", "form": "constant", "label": "", "key": "k"}
    page = page_of(members[role]).post(f"{PAGES}/submit/", form)
    assert ("Viewers of a team submit no bids." in page.text) == (role == Role.VIEWER)
    quoted = page_of(members[role]).post(f"{PAGES}/quote/", form).json()
    assert quoted["errors"] == ({"__all__": "Viewers of a team submit no bids."} if role == Role.VIEWER else {})
    assert Bid.objects.count() == (0 if role == Role.VIEWER else 3)


def test_a_bid_may_need_a_team(market: Market, team: Team, members: dict[Role, User]) -> None:
    words = "Bids of lab need a team, and you are in none: ask an administrator of a team for an invitation."
    alone, form = (
        make_user("alone"),
        {"model": "ResNet-50", "epochs": "1", "value": "100", "form": "constant", "key": "k"},
    )
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {issue(alone, NewToken('script')).text}")
    first = client.post(f"{LAB}/bids", body(), format="json", headers={"Idempotency-Key": "first"})
    assert first.status_code == 202
    teams.change_cluster_teams(market.cluster, operated_by=None, is_restricted=False, needs_team=True, teams=[])
    for path, sent in (("bids", body()), ("bids/bulk", {"bids": [body()]})):
        answer = client.post(f"{LAB}/{path}", sent, format="json")
        assert (answer.status_code, answer.json()["detail"]) == (403, words)
    repeated = client.post(f"{LAB}/bids", body(), format="json", headers={"Idempotency-Key": "first"})
    assert repeated.json()["sequence"] == first.json()["sequence"]
    assert client.post(f"{LAB}/quotes", body(), format="json").status_code == 200
    assert words in page_of(alone).post(f"{PAGES}/submit/", form).text
    quoted = page_of(alone).post(f"{PAGES}/quote/", form).json()
    assert (quoted["errors"], "Would be" in quoted["html"]) == ({"__all__": words}, True)
    assert Bid.objects.count() == 1
    assert submit(market, members[Role.BIDDER]).team_id == team.pk
    with pytest.raises(NotAllowed):
        submit(market, make_operator())
    teams.remove_member(team, Membership.objects.get(user=members[Role.BIDDER]))
    with pytest.raises(NotAllowed):
        submit(market, again(members[Role.BIDDER]))
    teams.change_cluster_teams(market.cluster, operated_by=None, is_restricted=False, teams=[])
    assert submit(market, again(alone)).team_id is None


@pytest.mark.parametrize("role", Role)
def test_operators_of_the_operating_team_operate_that_cluster_alone(
    market: Market, team: Team, members: dict[Role, User], client_of: Callable[[User], APIClient], role: Role
) -> None:
    elsewhere = make_market(make_cluster("elsewhere"))
    decided(market, make_user("stranger"))
    teams.change_cluster_teams(market.cluster, operated_by=team, is_restricted=False, teams=[])
    may = role in (Role.OPERATOR, Role.ADMINISTRATOR)
    user = again(members[role])
    assert (operates(user, market.cluster), operates(user, elsewhere.cluster)) == (may, False)
    client, page = client_of(user), page_of(user)
    assert client.get(f"{LAB}/servers").status_code == (200 if may else 403)
    assert client.get(f"{BASE}/clusters/elsewhere/servers").status_code == 403
    assert client.get(f"{LAB}/bids/1").status_code == (200 if may else 404)
    assert page.get(f"{PAGES}/servers/").status_code == (200 if may else 404)
    assert page.get("/markets/elsewhere/servers/").status_code == 404
    assert (f'href="{PAGES}/servers/"' in page.get(f"{PAGES}/").text) == may
    assert page.get("/admin/", follow=True).status_code == 403
    small = APIClient()
    small.credentials(HTTP_AUTHORIZATION=f"Token {issue(user, NewToken('small', 'bid')).text}")
    assert small.get(f"{LAB}/servers").status_code == 403


def test_a_restricted_cluster_does_not_exist_for_others(
    market: Market, team: Team, members: dict[Role, User], client_of: Callable[[User], APIClient]
) -> None:
    alone, bidder, olga = make_user("alone"), members[Role.BIDDER], make_operator()
    assert submit(market, alone).sequence == 1
    teams.change_cluster_teams(market.cluster, operated_by=None, is_restricted=True, teams=[team])
    for user, may in ((alone, False), (bidder, True), (olga, True)):
        client, page = APIClient(), page_of(user)
        client.credentials(HTTP_AUTHORIZATION=f"Token {issue(user, NewToken('script')).text}")
        code = 200 if may else 404
        for path in ("", "/bids", "/summary", "/prices", "/bids/1/schedule"):
            expected = 404 if path == "/bids/1/schedule" else code
            assert client.get(f"{LAB}{path}").status_code == expected, path
        assert client.post(f"{LAB}/quotes", body(), format="json").status_code == code
        answer = client.post(f"{LAB}/bids", body(), format="json")
        assert answer.status_code == (202 if may else 404), answer.content
        for sent, right in (({"bids": [body()]}, 202), ({"bids": []}, 400)):
            bulk = [client.post(f"{BASE}/clusters/{name}/bids/bulk", sent, format="json") for name in ("lab", "none")]
            assert [one.status_code for one in bulk] == [right if may else 404, 404]
        assert len(client.get(f"{BASE}/clusters").json()["results"]) == may
        for path in ("", "bids/", "submit/", "version", "tiles.json", "events", "figures/prices.json", "compiling"):
            assert page.get(f"{PAGES}/{path}").status_code == (204 if path == "events" else code), path
        assert ("/markets/lab/" in page.get("/").text) == may
        asked = {"name": "n", "scope": "bid", "cluster": "lab"}
        assert client.post(f"{BASE}/tokens", asked, format="json").status_code == (201 if may else 400)
    ClusterTeams.objects.all().delete()
    teams.noted(market.cluster)
    assert submit(market, again(alone)).sequence == 6


@pytest.mark.parametrize(
    ("query", "headers"), [("?unknown=1", {}), ("", {"HTTP_IDEMPOTENCY_KEY": "two words"})], ids=["parameter", "key"]
)
def test_errors_of_a_submission_say_nothing_of_a_restricted_cluster(
    market: Market, team: Team, client_of: Callable[[User], APIClient], query: str, headers: dict[str, Any]
) -> None:
    teams.change_cluster_teams(market.cluster, operated_by=None, is_restricted=True, teams=[team])
    client = client_of(make_user("alone"))
    for path in ("bids", "bids/bulk", "quotes"):
        here, nowhere = (
            client.post(f"{BASE}/clusters/{name}/{path}{query}", {"model": "x"}, format="json", **headers)
            for name in ("lab", "none")
        )
        assert here.status_code == nowhere.status_code
        assert here.text.replace("lab", "none") == nowhere.text


def test_what_is_planned_or_simulated_on_a_restricted_cluster_is_refused(
    market: Market, client_of: Callable[[User], APIClient]
) -> None:
    from studies.split_learning.api.examples import DESCRIBED

    teams.change_cluster_teams(market.cluster, operated_by=None, is_restricted=True, teams=[])
    client = client_of(make_user("alone"))
    helpers = [{**one, "name": name} for one, name in zip(DESCRIBED["helpers"], ("edge-0", "edge-1"), strict=False)]
    asked = {"profile": {**DESCRIBED, "helpers": helpers}, "cluster": "lab"}
    answer = client.post(f"{BASE}/plans", asked, format="json")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, "cluster"), answer.content
    assert not visible_clusters(make_user("other")).exists()


def test_a_team_counts_as_one_owner_of_published_sums(market: Market, team: Team) -> None:
    owners = [make_user(f"owner-{i}") for i in range(publications.LEAST_OWNERS)]
    for owner in owners[:2]:
        teams.add_member(team, owner, Role.BIDDER)
    for owner in owners:
        decided(market, again(owner))
    market.refresh_from_db()
    assert publications.publish(market) is None
    decided(market, make_user("one more"))
    market.refresh_from_db()
    assert publications.publish(market) is not None
    assert EventPass(market).publications.found() == []
    Bid.objects.filter(owner=owners[2]).update(team=team)
    assert Publication.objects.exists()
    assert len(EventPass(market).publications.found()) == 1


def test_the_last_administrator_stays(team: Team, members: dict[Role, User], client_of: Any) -> None:
    client = client_of(members[Role.ADMINISTRATOR])
    path = f"{BASE}/teams/vision/members"
    assert client.put(f"{path}/administrator", {"role": "viewer"}, format="json").status_code == 409
    assert client.delete(f"{path}/administrator").status_code == 409
    assert client.put(f"{path}/bidder", {"role": "administrator"}, format="json").status_code == 200
    assert client.delete(f"{path}/administrator").status_code == 204
    assert set(team.memberships.values_list("role", flat=True)) == {"viewer", "operator", "administrator"}


def test_the_page_offers_the_last_administrator_no_way_out(team: Team, members: dict[Role, User]) -> None:
    page = page_of(members[Role.ADMINISTRATOR])
    own = Membership.objects.get(user=members[Role.ADMINISTRATOR]).pk
    ways = [f"/account/team/members/{own}/{way}/" for way in ("role", "remove")]
    shown = page.get("/account/team/").text
    assert (any(way in shown for way in ways), "The last administrator stays" in shown) == (False, True)
    teams.change_role(team, Membership.objects.get(user=members[Role.BIDDER]), Role.ADMINISTRATOR)
    shown = page.get("/account/team/").text
    assert (all(way in shown for way in ways), "The last administrator stays" in shown) == (True, False)


def test_an_administrator_whose_account_is_closed_is_none(
    team: Team, members: dict[Role, User], client_of: Any
) -> None:
    """Else the last one who can act may leave, and nobody of the team could change members any more."""
    closed = member(team, "closed", Role.ADMINISTRATOR)
    User.objects.filter(pk=closed.pk).update(is_active=False)
    client, path = client_of(members[Role.ADMINISTRATOR]), f"{BASE}/teams/vision/members"
    assert client.put(f"{path}/administrator", {"role": "viewer"}, format="json").status_code == 409
    assert client.delete(f"{path}/administrator").status_code == 409
    assert "The last administrator stays" in page_of(members[Role.ADMINISTRATOR]).get("/account/team/").text
    assert client.delete(f"{path}/closed").status_code == 204


def test_what_another_request_has_done_to_a_member_meanwhile_counts(team: Team, members: dict[Role, User]) -> None:
    read = Membership.objects.get(user=members[Role.BIDDER])
    teams.change_role(team, Membership.objects.get(pk=read.pk), Role.ADMINISTRATOR)
    teams.remove_member(team, Membership.objects.get(user=members[Role.ADMINISTRATOR]))
    for act in (lambda: teams.remove_member(team, read), lambda: teams.change_role(team, read, Role.VIEWER)):
        read.role = Role.BIDDER
        with pytest.raises(NotPossible, match="the last administrator"):
            act()
    gone = Membership.objects.get(user=members[Role.VIEWER])
    teams.remove_member(team, Membership.objects.get(pk=gone.pk))
    with pytest.raises(NotPossible, match="is no member of Vision any more"):
        teams.change_role(team, gone, Role.BIDDER)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.BIDDER, Role.OPERATOR, None])
def test_only_administrators_change_members_and_invite(
    team: Team, members: dict[Role, User], client_of: Any, role: Role | None
) -> None:
    user = make_user("stranger") if role is None else again(members[role])
    client, page, code = client_of(user), page_of(user), 404 if role is None else 403
    rows = list(Membership.objects.values())
    path = f"{BASE}/teams/vision"
    assert client.put(f"{path}/members/bidder", {"role": "administrator"}, format="json").status_code == code
    assert client.delete(f"{path}/members/administrator").status_code == code
    assert client.get(f"{path}/invitations").status_code == code
    assert client.post(f"{path}/invitations", {"role": "administrator"}, format="json").status_code == code
    other = Membership.objects.get(role=Role.ADMINISTRATOR).pk
    for deed, data in (("role", {"role": "viewer"}), ("remove", {})):
        assert page.post(f"/account/team/members/{other}/{deed}/", data).status_code == 404
    sent = page.post("/account/team/", {"role": "administrator", "days": "7"})
    assert sent.status_code == (200 if role is None else 403)
    assert list(Membership.objects.values()) == rows
    assert not Invitation.objects.exists()


def test_those_who_administer_a_team_are_named_as_each_is_asked(team: Team, members: dict[Role, User]) -> None:
    elsewhere = member(teams.create_team("speech", "Speech"), "elsewhere", Role.ADMINISTRATOR)
    root = User.objects.create_superuser("root")
    closed = make_operator("closed")
    User.objects.filter(pk=closed.pk).update(is_active=False)
    may = make_user("may")
    may.user_permissions.add(Permission.objects.get(codename="change_cluster"))
    everybody = User.objects.all()
    assert {*members.values(), elsewhere, root, closed, may, make_operator()} <= set(everybody)
    assert set(teams.administrators_of(team)) == {one for one in everybody if teams.may_administer(again(one), team)}


@pytest.mark.usefixtures("market", "team")
def test_errors_say_which_users_and_teams_there_are_to_operators_alone(client_of: Any) -> None:
    olga, stranger = client_of(make_operator()), client_of(make_user("stranger"))
    new = {"name": "two", "title": "Two", "administrator": "nobody"}
    change = {"operated_by": "none", "is_restricted": False, "teams": ["none"]}
    for client, fields in (
        (olga, [["unknown", "administrator"], ["unknown", "operated_by", "teams[0]"]]),
        (stranger, [["unknown"]] * 2),
    ):
        answers = [
            client.post(f"{BASE}/teams?unknown=1", new, format="json"),
            client.put(f"{LAB}/teams?unknown=1", change, format="json"),
        ]
        assert [[row["field"] for row in answer.json()["errors"]] for answer in answers] == fields


def test_operators_make_teams_and_say_which_clusters_they_have(market: Market, client_of: Any) -> None:
    make_user("alice")
    olga, stranger = client_of(make_operator()), client_of(make_user("stranger"))
    asked = {"name": "vision", "title": "Vision", "administrator": "alice"}
    assert stranger.post(f"{BASE}/teams", asked, format="json").status_code == 403
    assert olga.post(f"{BASE}/teams", asked, format="json").status_code == 201
    assert olga.post(f"{BASE}/teams", asked, format="json").status_code == 400
    assert olga.post(f"{BASE}/teams", {**asked, "name": "two"}, format="json").status_code == 409
    assert not Team.objects.filter(name="two").exists()
    change = {"operated_by": "vision", "is_restricted": True, "needs_team": True, "teams": ["vision"]}
    assert stranger.put(f"{LAB}/teams", change, format="json").status_code == 403
    assert olga.put(f"{LAB}/teams", change, format="json").json() == change
    assert client_of(again(User.objects.get(username="stranger"))).get(f"{LAB}/teams").status_code == 404
    alice = client_of(again(User.objects.get(username="alice")))
    assert alice.get(f"{LAB}/teams").json() == change
    assert alice.put(f"{LAB}/teams", change, format="json").status_code == 403
    wrong = olga.put(f"{LAB}/teams", {**change, "teams": ["none"]}, format="json")
    assert [row["field"] for row in wrong.json()["errors"]] == ["teams[0]"]
    several = {**change, "operated_by": "x", "is_restricted": 1, "teams": ["vision", "y", "z"]}
    wrong = olga.put(f"{LAB}/teams", several, format="json")
    assert {row["field"] for row in wrong.json()["errors"]} == {"operated_by", "is_restricted", "teams[1]", "teams[2]"}
    several = {"name": "two words", "title": "", "administrator": "nobody"}
    wrong = olga.post(f"{BASE}/teams", several, format="json")
    assert {row["field"] for row in wrong.json()["errors"]} == set(several)
    assert stranger.post(f"{BASE}/teams", several, format="json").status_code == 403
    page = page_of(make_operator("olivia"))
    for path in ("team", "clusterteams"):
        assert page.get(f"/admin/accounts/{path}/").status_code == 200


def test_operators_find_the_users_that_they_make_members_by_their_names(market: Market) -> None:
    field = {"app_label": "accounts", "model_name": "membership", "field_name": "user"}
    make_user("bidder", email="mailbox@example.org")
    page = page_of(make_operator())

    def found(term: str) -> list[str]:
        answer = page.get("/admin/autocomplete/", {**field, "term": term})
        assert answer.status_code == 200
        return [one["text"] for one in answer.json()["results"]]

    assert found("BID") == ["bidder"]
    assert found("mailbox") == []
    narrowed = make_user("narrowed")
    narrowed.user_permissions.add(Permission.objects.get(codename="change_cluster"))
    assert page_of(narrowed).get("/admin/autocomplete/", {**field, "term": "bid"}).status_code == 403
