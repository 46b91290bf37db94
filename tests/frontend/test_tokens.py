"""The page of a user's tokens."""

import re

from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from accounts.models import Token
from accounts.tokens import NewToken, issue

PAGE = "/account/tokens/"
FORM = {"name": "nightly", "scope": "bid", "cluster": "", "expires_in_days": ""}


def shown(text: str) -> str:
    found = re.search(r'<pre id="token">(\S+)</pre>', text)
    assert found
    return found[1]


def accepted(token: str) -> bool:
    return APIClient().get("/api/v1/clusters", headers={"Authorization": f"Token {token}"}).status_code == 200


def test_a_token_is_shown_once_and_then_only_its_beginning(as_alice: Client) -> None:
    answer = as_alice.post(PAGE, FORM)
    text = shown(answer.text)
    assert accepted(text)
    assert "no-store" in answer.headers["Cache-Control"]
    page = as_alice.get(PAGE).text
    assert text not in page
    assert text[:8] in page


def test_a_token_is_replaced_and_ended(as_alice: Client) -> None:
    old = shown(as_alice.post(PAGE, FORM).text)
    new = shown(as_alice.post(f"{PAGE}{Token.objects.get().pk}/rotate/").text)
    assert (accepted(old), accepted(new)) == (False, True)
    for token in Token.objects.all():
        assert as_alice.post(f"{PAGE}{token.pk}/end/").status_code == 302
    assert not accepted(new)
    assert "You have no tokens yet." in as_alice.get(PAGE).text


def test_an_expired_token_is_not_replaced(as_alice: Client, alice: User) -> None:
    as_alice.post(PAGE, FORM)
    token = Token.objects.get()
    Token.objects.update(expires_at=token.created_at)
    assert "This token has expired." in as_alice.post(f"{PAGE}{token.pk}/rotate/", follow=True).text
    assert "expired" in as_alice.get(PAGE).text


def test_a_wrong_form_names_each_wrong_field_and_issues_nothing(as_alice: Client) -> None:
    answer = as_alice.post(PAGE, {"name": "", "scope": "all", "cluster": "mars", "expires_in_days": "0"})
    assert answer.status_code == 422
    assert set(answer.context["form"].errors) == {"name", "scope", "cluster", "expires_in_days"}
    assert not Token.objects.exists()


def test_tokens_of_another_user_are_404_and_in_no_list(as_bob: Client, as_operator: Client, alice: User) -> None:
    token = issue(alice, NewToken("secret name")).token
    for client in (as_bob, as_operator):
        assert "secret name" not in client.get(PAGE).text
        for deed in ("rotate", "end"):
            assert client.post(f"{PAGE}{token.pk}/{deed}/").status_code == 404
    assert Token.objects.count() == 1


def test_a_visitor_is_sent_to_the_login_page(db: None, client: Client) -> None:
    for path in (PAGE, f"{PAGE}1/end/", f"{PAGE}1/rotate/"):
        answer = client.post(path)
        assert (answer.status_code, answer.headers["Location"]) == (302, "/login/?unsent=&next=/")
