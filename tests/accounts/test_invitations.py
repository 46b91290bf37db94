"""Links by which users join teams: who may send, accept and withdraw them."""

from collections.abc import Callable
from datetime import timedelta
from smtplib import SMTPRecipientsRefused
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from rest_framework.test import APIClient

from accounts import invitations, teams
from accounts.errors import InvitationOver
from accounts.models import Invitation, Membership, Role, Scope, Team
from accounts.tokens import NewToken, issue
from cluster import clock
from frontend.forms.team import AccountForm
from tests.accounts.members import BASE, again, member, page_of
from tests.auctions.worlds import make_operator, make_user


def test_an_invitation_is_accepted_once_by_a_user_who_has_the_link(
    team: Team, members: dict[Role, User], client_of: Any
) -> None:
    client = client_of(members[Role.ADMINISTRATOR])
    made = client.post(f"{BASE}/teams/vision/invitations", {"role": "bidder"}, format="json").json()
    assert [row["id"] for row in client.get(f"{BASE}/teams/vision/invitations").json()["results"]] == [made["id"]]
    sent = {"invitation": made["invitation"]}
    for user, code in (("first", 200), ("second", 404)):
        assert client_of(make_user(user)).post(f"{BASE}/invitations/accept", sent, format="json").status_code == code
    assert Membership.objects.get(user__username="first").role == Role.BIDDER
    wrong = client_of(make_user("third")).post(f"{BASE}/invitations/accept", {"invitation": "1:x"}, format="json")
    assert (wrong.status_code, wrong.json()["detail"]) == (404, "This is not the link of an invitation.")


def test_an_invitation_ends_by_time_and_by_its_withdrawal(
    team: Team, members: dict[Role, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    by, page = members[Role.ADMINISTRATOR], Client()
    old, gone = (invitations.invite(team, Role.VIEWER, days=1, by=by) for _ in range(2))
    page_of(by).post(f"/account/team/invitations/{gone.pk}/withdraw/")
    assert "was withdrawn" in page.get(f"/invitations/{gone.link_text}/").text
    later = clock.now() + timedelta(days=1)
    monkeypatch.setattr(clock, "now", lambda: later)
    answer = page.get(f"/invitations/{old.link_text}/")
    assert (answer.status_code, "has expired" in answer.text) == (404, True)


@pytest.mark.django_db(transaction=True)
def test_two_requests_at_once_do_not_exceed_the_limit(team: Team, members: dict[Role, User]) -> None:
    """The second of two requests that would both count 99 waits for the lock of the team."""
    statements = list[tuple[str, bool]]()

    def noted(execute: Callable[..., Any], sql: str, *args: Any) -> Any:
        what = sql.partition(" WHERE ")[0].rpartition(" FROM ")[2] if sql.startswith("SELECT") else sql[:6]
        statements.append((what, connection.in_atomic_block))
        return execute(sql, *args)

    with connection.execute_wrapper(noted):
        invitations.invite(team, Role.VIEWER, days=1, by=members[Role.ADMINISTRATOR])
    first, *_, last = [of for of in statements if of[0] in ('"accounts_team"', '"accounts_invitation"', "INSERT")]
    assert (first, last) == (('"accounts_team"', True), ("INSERT", True))


@pytest.mark.parametrize("is_removed", [True, False])
def test_who_is_no_administrator_any_more_cannot_come_back_by_an_own_invitation(
    team: Team, members: dict[Role, User], client_of: Any, is_removed: bool
) -> None:
    former, other = members[Role.ADMINISTRATOR], member(team, "second", Role.ADMINISTRATOR)
    own, others = (invitations.invite(team, Role.ADMINISTRATOR, days=30, by=by) for by in (former, other))
    client, path = client_of(other), f"{BASE}/teams/vision/members/administrator"
    if is_removed:
        assert client.delete(path).status_code == 204
    else:
        assert client.put(path, {"role": "viewer"}, format="json").status_code == 200
    answer = client_of(again(former)).post(f"{BASE}/invitations/accept", {"invitation": own.link_text}, format="json")
    assert answer.status_code == 404
    assert list(invitations.open_invitations(team)) == [others]


@pytest.mark.parametrize("former", ["removed", "viewer", "operator", "superuser"])
def test_whose_right_to_invite_ended_elsewhere_cannot_come_back_by_an_own_invitation(team: Team, former: str) -> None:
    eve, others = make_operator("eve"), member(team, "other", Role.ADMINISTRATOR)
    if former in ("removed", "viewer"):
        eve.groups.clear()
        teams.add_member(team, eve, Role.ADMINISTRATOR)
    elif former == "superuser":
        eve.groups.clear()
        User.objects.filter(pk=eve.pk).update(is_superuser=True)
    own, other = (invitations.invite(team, Role.ADMINISTRATOR, days=30, by=again(by)) for by in (eve, others))
    assert set(invitations.open_invitations(team)) == {own, other}
    assert invitations.found(own.link_text) == own
    eve.groups.clear()  # as in the admin
    User.objects.filter(pk=eve.pk).update(is_superuser=False)
    Membership.objects.filter(user=eve).update(role=Role.VIEWER)
    if former == "removed":
        Membership.objects.filter(user=eve).delete()
    assert set(invitations.open_invitations(team)) == {other}
    with pytest.raises(InvitationOver, match="was withdrawn"):
        invitations.accept(own.link_text, again(eve))


@pytest.mark.parametrize("is_deleted", [True, False])
def test_an_invitation_by_a_user_whose_account_is_closed_is_over(
    team: Team, members: dict[Role, User], is_deleted: bool
) -> None:
    former = members[Role.ADMINISTRATOR]
    made = invitations.invite(team, Role.ADMINISTRATOR, days=30, by=former)
    if is_deleted:
        former.delete()
    else:
        User.objects.filter(pk=former.pk).update(is_active=False)
    assert "was withdrawn" in Client().get(f"/invitations/{made.link_text}/").text
    with pytest.raises(InvitationOver):
        invitations.accept(made.link_text, make_user("again"))
    assert not invitations.open_invitations(team).exists()


def test_who_has_no_account_makes_one_with_the_link(team: Team, members: dict[Role, User]) -> None:
    by = members[Role.ADMINISTRATOR]
    page_of(by).post("/account/team/", {"role": "bidder", "days": "7"})
    shown = page_of(by).get("/account/team/").text
    link = f"/invitations/{Invitation.objects.get().link_text}/"
    assert link in shown
    page = Client()
    wrong = page.post(link, {"username": "administrator", "password1": "1234", "password2": "other"})
    assert (wrong.status_code, set(wrong.context["form"].errors)) == (422, {"username", "password1", "password2"})
    data = {"username": "new", "password1": "correct horse battery", "password2": "correct horse battery"}
    assert page.post(link, data).headers["Location"] == "/account/team/"
    assert "Vision" in page.get("/account/team/").text
    assert Membership.objects.get(user__username="new").role == Role.BIDDER
    assert Client().get(link).status_code == 404


def test_the_name_of_an_account_is_not_another_one_in_capitals(team: Team, members: dict[Role, User]) -> None:
    made = invitations.invite(team, Role.BIDDER, days=7, by=members[Role.ADMINISTRATOR])
    data = {"username": "Administrator", "password1": "correct horse battery", "password2": "correct horse battery"}
    answer = Client().post(f"/invitations/{made.link_text}/", data)
    assert (answer.status_code, "already exists" in answer.text) == (422, True)
    assert not User.objects.filter(username="Administrator").exists()


def test_a_name_that_is_taken_while_its_account_is_made_is_said_to_be(
    team: Team, members: dict[Role, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = invitations.invite(team, Role.BIDDER, days=7, by=members[Role.ADMINISTRATOR])
    checked = AccountForm.is_valid

    def is_valid(form: AccountForm) -> bool:
        found = checked(form)
        User.objects.get_or_create(username="new")  # as the same form, sent twice at a time, does
        return found

    monkeypatch.setattr(AccountForm, "is_valid", is_valid)
    data = {"username": "new", "password1": "correct horse battery", "password2": "correct horse battery"}
    answer = Client().post(f"/invitations/{made.link_text}/", data)
    assert (answer.status_code, "A user with that username already exists." in answer.text) == (422, True)
    assert list(invitations.open_invitations(team)) == [made]


def test_a_member_of_another_team_cannot_join(team: Team, members: dict[Role, User]) -> None:
    made = invitations.invite(team, Role.BIDDER, days=7, by=members[Role.ADMINISTRATOR])
    other = make_user("other")
    teams.add_member(teams.create_team("other", "Other"), other, Role.BIDDER)
    shown = page_of(other).get(f"/invitations/{made.link_text}/").text
    assert ("you are a member of Other already" in shown, "<button>Join" in shown) == (True, False)
    shown = page_of(members[Role.BIDDER]).get(f"/invitations/{made.link_text}/").text
    assert ("you are a member of it already" in shown, "<button>Join" in shown) == (True, False)
    answer = page_of(other).post(f"/invitations/{made.link_text}/", follow=True)
    assert "is a member of a team already" in answer.text
    assert invitations.open_invitations(team).count() == 1


def test_an_invitation_is_sent_where_a_server_is_configured(
    team: Team, members: dict[Role, User], settings: Any, mailoutbox: Any
) -> None:
    page = page_of(members[Role.ADMINISTRATOR])
    data = {"role": "bidder", "days": "7", "email": "new@example.org"}
    page.post("/account/team/", data)
    assert not mailoutbox, "no server is configured: the form has no such field"
    settings.EMAIL_HOST = "mail.example.org"
    page.post("/account/team/", data)
    sent = Invitation.objects.get(email="new@example.org")
    assert [mail.to for mail in mailoutbox] == [["new@example.org"]]
    assert sent.link_text in mailoutbox[0].body


def test_invitations_that_are_withdrawn_count_among_those_a_mailbox_and_a_user_may_be_sent(
    team: Team, members: dict[Role, User], settings: Any, mailoutbox: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMAIL_HOST = "mail.example.org"
    monkeypatch.setattr("web.throttles.InviterThrottle.rate", "5/day")
    page = page_of(members[Role.ADMINISTRATOR])

    def invited(email: str) -> int:
        code: int = page.post("/account/team/", {"role": "bidder", "days": "7", "email": email}).status_code
        for made in invitations.open_invitations(team):
            page.post(f"/account/team/invitations/{made.pk}/withdraw/")
        return code

    asked = ("new@example.org", "NEW@example.org", "new@EXAMPLE.org", "new@example.org")
    assert [invited(one) for one in asked] == [302, 302, 302, 422]
    assert [invited(f"{one}@example.org") for one in "abc"] == [302, 302, 422]
    assert len(mailoutbox) == 5
    assert invited("") == 302, "a link without an e-mail has no such limit"


@pytest.mark.parametrize("error", [ConnectionRefusedError, TimeoutError, SMTPRecipientsRefused({})])
def test_an_invitation_that_the_server_does_not_take_is_a_link_to_copy(
    team: Team, members: dict[Role, User], settings: Any, monkeypatch: pytest.MonkeyPatch, error: Any
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    settings.EMAIL_HOST = "mail.example.org"
    monkeypatch.setattr(invitations, "send_mail", refuse)
    data = {"role": "bidder", "days": "7", "email": "new@example.org"}
    answer = page_of(members[Role.ADMINISTRATOR]).post("/account/team/", data, follow=True)
    assert answer.status_code == 200
    assert "did not take the e-mail to new@example.org" in answer.text
    assert Invitation.objects.get().link_text in answer.text


def test_a_token_that_only_reads_reads_no_invitation(team: Team, members: dict[Role, User]) -> None:
    invitations.invite(team, Role.ADMINISTRATOR, days=1, by=members[Role.ADMINISTRATOR])
    for scope, code in ((Scope.READ, 403), (Scope.BID, 403), (Scope.OPERATE, 200)):
        client = APIClient()
        token = issue(members[Role.ADMINISTRATOR], NewToken("script", scope))
        client.credentials(HTTP_AUTHORIZATION=f"Token {token.text}")
        assert client.get(f"{BASE}/teams/vision/invitations").status_code == code
        assert client.get(f"{BASE}/teams/vision/members").status_code == 200


def test_an_invitation_that_is_withdrawn_while_it_is_accepted_is_over(
    team: Team, members: dict[Role, User], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, asked = invitations.invite(team, Role.BIDDER, days=1, by=members[Role.ADMINISTRATOR]), invitations.found

    def found(text: str) -> Invitation:
        seen = asked(text)
        Invitation.objects.filter(pk=seen.pk).delete()  # by another request
        return seen

    monkeypatch.setattr(invitations, "found", found)
    with pytest.raises(InvitationOver, match="was withdrawn"):
        invitations.accept(made.link_text, make_user("late"))
    assert not Membership.objects.filter(user__username="late").exists()
