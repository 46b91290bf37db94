"""Single sign-on against a provider in the process of the test."""

import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from accounts.invitations import invite
from accounts.models import Identity, Membership, Role
from accounts.teams import create_team
from config.environment import single_sign_on_problems
from tests.accounts.provider import CLIENT, SECRET, Provider, provider

BEGIN = "/login/single-sign-on/"
BACK = "/login/single-sign-on/return/"
ACCOUNT = "/account/single-sign-on/"
LINK, UNLINK = f"{ACCOUNT}link/", f"{ACCOUNT}unlink/"


@pytest.fixture
def there(settings: LazySettings, db: None) -> Iterator[Provider]:
    """A provider that is configured, and makes accounts."""
    with provider() as found:
        settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = found.issuer, CLIENT, SECRET
        settings.OIDC_NEW_ACCOUNTS = True
        yield found


def log_in(there: Provider, client: Client | None = None, *, wanted: str = "", **changed: str) -> tuple[Client, Any]:
    """The browser and the last answer of a whole login; `changed` is what comes back otherwise."""
    client = client or Client()
    sent = client.get(BEGIN, {"next": wanted} if wanted else {})
    assert sent.status_code == 302
    assert sent.headers["Location"].startswith(f"{there.issuer}/authorize?")
    return client, client.get(BACK, {**there.logs_in(sent.headers["Location"]), **changed})


def user_of(client: Client) -> str | None:
    """The name of the user who is logged in."""
    key = client.session.get("_auth_user_id")
    return None if key is None else User.objects.get(pk=key).username


def refused(answer: Any, client: Client) -> str:
    """The reason why a login was refused: nobody is logged in, and nothing was stored."""
    assert (answer.status_code, answer.headers["Location"].partition("?")[0]) == (302, "/login/")
    assert user_of(client) is None
    assert not Identity.objects.exists()
    return client.get("/login/").text


def test_a_person_logs_in_and_is_the_same_account_the_next_time(there: Provider) -> None:
    client, answer = log_in(there)
    assert (answer.status_code, answer.headers["Location"], user_of(client)) == (302, "/", "bella")
    there.claims |= {"preferred_username": "renamed", "email": "other@example.org"}
    again, _ = log_in(there)
    assert user_of(again) == "bella"
    assert (User.objects.count(), Identity.objects.get().subject) == (1, "7")
    assert not User.objects.get().has_usable_password()


def test_the_request_has_a_state_a_nonce_and_pkce(there: Provider) -> None:
    log_in(there)
    assert {"state", "nonce", "code_challenge"} <= set(there.asked)
    assert there.asked["code_challenge_method"] == "S256"
    assert there.asked["redirect_uri"] == f"http://testserver{BACK}"
    assert there.tokens[0]["redirect_uri"] == f"http://testserver{BACK}"


@pytest.mark.parametrize("wanted", ["/plans/", "/account/tokens/?page=2"])
def test_one_comes_where_one_wanted_to_go(there: Provider, wanted: str) -> None:
    assert log_in(there, wanted=wanted)[1].headers["Location"] == wanted


@pytest.mark.parametrize("wanted", ["https://evil.example.org/", "//evil.example.org/", "javascript:alert(1)"])
def test_one_is_not_sent_elsewhere(there: Provider, wanted: str) -> None:
    assert log_in(there, wanted=wanted)[1].headers["Location"] == "/"


@pytest.mark.parametrize("wanted", ["x", "plans", "#f", "?a=b", "plans/", "../plans/"])
def test_an_address_that_is_not_whole_is_not_followed(there: Provider, wanted: str) -> None:
    client, answer = log_in(there, wanted=wanted)
    assert (answer.status_code, answer.headers["Location"], user_of(client)) == (302, "/", "bella")


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": None},
        {"aud": "another service"},
        {"aud": ["another service"]},
        {"aud": None},
        {"iss": "https://evil.example.org"},
        {"iss": None},
        {"exp": 1},
        {"exp": None},
        {"sub": None},
        {"sub": ""},
        {"azp": "another service"},
    ],
    ids=str,
)
def test_a_token_with_a_wrong_claim_is_refused(there: Provider, claims: dict[str, Any]) -> None:
    there.claims |= claims
    client, answer = log_in(there)
    assert "The login was refused" in refused(answer, client)


def unsigned(there: Provider) -> str:
    _, payload, _ = there.id_token().split(".")
    return f"eyJhbGciOiJub25lIn0.{payload}."


def by_client_secret(there: Provider) -> str:
    claims = jwt.decode(there.id_token(), there.key).claims
    return jwt.encode({"alg": "HS256", "kid": "one"}, claims, OctKey.import_key(SECRET))


def without_signature(there: Provider) -> str:
    return there.id_token().rpartition(".")[0] + "."


@pytest.mark.parametrize("made", [unsigned, by_client_secret, without_signature, lambda _: "no token"])
def test_a_token_that_the_provider_did_not_sign_is_refused(there: Provider, made: Callable[[Provider], str]) -> None:
    client = Client()
    back = there.logs_in(client.get(BEGIN).headers["Location"])
    there.token = made(there)
    refused(client.get(BACK, back), client)


@pytest.mark.parametrize("subject", ["x" * 256, "a\x00b", "a\nb"])
def test_a_subject_that_no_provider_may_give_is_refused(there: Provider, subject: str) -> None:
    there.claims = {"sub": subject}
    client, answer = log_in(there)
    assert "invalid claim sub" in refused(answer, client)
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("email", "kept"),
    [
        ("bella@example.org", "bella@example.org"),
        ("b@" + "e" * 60 + ("." + "e" * 60) * 4 + ".org", ""),
        (["bella@example.org"], ""),
        ("bella@example.org\x00", ""),
        ("bella", ""),
    ],
)
def test_a_new_account_has_only_an_address_that_is_one(there: Provider, email: object, kept: str) -> None:
    there.claims = {"sub": "7", "preferred_username": "bella", "email": email, "email_verified": True}
    client, _ = log_in(there)
    assert user_of(client) == "bella"
    assert User.objects.get().email == kept


def test_a_token_of_another_key_is_refused(there: Provider) -> None:
    there.signs_with = RSAKey.generate_key(2048, {"kid": "one"})
    client, answer = log_in(there)
    refused(answer, client)


def test_a_new_key_of_the_provider_is_read(there: Provider) -> None:
    log_in(there)
    there.key = RSAKey.generate_key(2048, {"kid": "two", "use": "sig"})
    there.token = None
    client = Client()
    back = there.logs_in(client.get(BEGIN).headers["Location"])
    claims = jwt.decode(there.id_token(), there.key).claims
    there.token = jwt.encode({"alg": "RS256", "kid": "two"}, claims, there.key)
    client.get(BACK, back)
    assert user_of(client) == "bella"


def test_an_answer_without_an_id_token_is_refused(there: Provider) -> None:
    there.has_id_token = False
    client, answer = log_in(there)
    assert "there is no ID token" in refused(answer, client)


def test_an_answer_that_this_session_did_not_ask_for_is_refused(there: Provider) -> None:
    client, answer = log_in(there, state="another")
    refused(answer, client)
    stolen = there.logs_in(Client().get(BEGIN).headers["Location"])
    other = Client()
    refused(other.get(BACK, stolen), other)
    assert not there.tokens


def test_an_answer_is_taken_once(there: Provider) -> None:
    client = Client()
    back = there.logs_in(client.get(BEGIN).headers["Location"])
    client.get(BACK, back)
    client.logout()
    assert client.get(BACK, back).headers["Location"] == "/login/"
    assert user_of(client) is None


def test_a_person_who_does_not_agree_is_not_logged_in(there: Provider) -> None:
    client = Client()
    client.get(BEGIN)
    answer = client.get(BACK, {"error": "access_denied", "error_description": "<b>text of the provider</b>"})
    text = refused(answer, client)
    assert "access denied" in text
    assert "text of the provider" not in text


def test_nobody_lets_the_page_say_something_by_an_address(there: Provider) -> None:
    client = Client()
    text = refused(client.get(BACK, {"error": "Your account is locked: call 555-0100"}), client)
    assert "The login was refused: OAuthError." in text
    assert "555-0100" not in text


def test_a_provider_that_names_another_issuer_is_not_asked(there: Provider) -> None:
    there.says_issuer = "https://evil.example.org"
    client = Client()
    assert "does not answer" in refused(client.get(BEGIN), client)


def test_a_provider_may_end_its_issuer_with_a_slash(there: Provider) -> None:
    there.slash = "/"
    client, _ = log_in(there)
    assert user_of(client) == "bella"
    assert Identity.objects.get().issuer == there.issuer
    there.claims["iss"] = there.issuer  # not as its document writes it
    assert user_of(log_in(there)[0]) is None


def test_a_provider_that_is_away_is_said_to_be(settings: LazySettings, db: None) -> None:
    with provider() as found:
        pass
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET = found.issuer, CLIENT, SECRET
    client = Client()
    assert "does not answer" in refused(client.get(BEGIN), client)
    answer = client.get(BEGIN, {"next": "/plans/"})
    assert answer.headers["Location"] == "/login/?next=%2Fplans%2F"


@pytest.mark.parametrize(
    "document",
    [
        [],
        None,
        "down for maintenance",
        {},
        {"authorization_endpoint": None},
        {"token_endpoint": 5},
        {"id_token_signing_alg_values_supported": 5},
    ],
)
def test_a_provider_whose_document_is_wrong_for_a_while_is_away_for_that_while(
    there: Provider, monkeypatch: pytest.MonkeyPatch, document: Any
) -> None:
    right, client = there.document(), Client()
    with monkeypatch.context() as patch:
        wrong = {**right, **document} if isinstance(document, dict) and document else document
        patch.setattr(there, "document", lambda: wrong)
        assert "does not answer as it should" in refused(client.get(BEGIN), client)
        assert "does not answer as it should" in refused(client.get(BACK, {"code": "x", "state": "y"}), client)
    assert user_of(log_in(there, client)[0]) == "bella"


def test_a_name_that_is_taken_is_not_that_account(there: Provider) -> None:
    User.objects.create_superuser("bella", password="x")
    client, _ = log_in(there)
    assert user_of(client) == "bella-2"


@pytest.mark.parametrize(
    ("wanted", "name"),
    [("\uff42\uff45\uff4c\uff4c\uff41", "bella-2"), ("bella\u0301", "bell\u00e1"), ("\ufdfa" * 150, None)],
)
def test_a_name_is_compared_as_it_is_stored(there: Provider, wanted: str, name: str | None) -> None:
    User.objects.create_user("bella")
    there.claims["preferred_username"] = wanted
    client, _ = log_in(there)
    stored = User.objects.get(username=user_of(client))
    assert name in (None, stored.username)
    stored.clean_fields(exclude=["password"])


def test_without_new_accounts_a_stranger_is_not_let_in(there: Provider, settings: LazySettings) -> None:
    settings.OIDC_NEW_ACCOUNTS = False
    client, answer = log_in(there)
    assert "There is no account for you here yet" in refused(answer, client)
    assert not User.objects.exists()


@pytest.mark.parametrize(
    ("allowed", "claims", "expected"),
    [
        (True, {"email": "Alice@example.org", "email_verified": True}, "alice"),
        (True, {"email": "alice@example.org", "email_verified": False}, None),
        (True, {"email": "alice@example.org", "email_verified": "true"}, None),
        (True, {"email": "alice@example.org"}, None),
        (True, {"email": "", "email_verified": True}, None),
        (True, {"email": "two@example.org", "email_verified": True}, None),
        (False, {"email": "alice@example.org", "email_verified": True}, None),
    ],
)
def test_an_account_is_found_by_a_verified_address_if_that_is_allowed(
    there: Provider, settings: LazySettings, allowed: bool, claims: dict[str, Any], expected: str | None
) -> None:
    settings.OIDC_NEW_ACCOUNTS, settings.OIDC_MATCH_EMAIL = False, allowed
    User.objects.create(username="alice", email="alice@example.org")
    for name in ("bob", "bella"):
        User.objects.create(username=name, email="two@example.org")
    there.claims |= claims
    client, _ = log_in(there)
    assert user_of(client) == expected


def test_an_address_that_only_the_database_takes_for_the_same_finds_no_account(
    there: Provider, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.OIDC_NEW_ACCOUNTS, settings.OIDC_MATCH_EMAIL = False, True
    User.objects.create_superuser("mike", email="Mike@example.org")
    # As PostgreSQL compares: upper case of a dotless i is I.
    rows = User.objects.filter(email__iexact="mike@example.org", identities=None)
    monkeypatch.setattr(User.objects, "filter", lambda **_: rows)
    for email, expected in (("m\u0131ke@example.org", None), ("mike@example.org", "mike")):
        there.claims |= {"email": email, "email_verified": True}
        assert user_of(log_in(there)[0]) == expected


def test_an_account_that_is_linked_is_not_found_by_its_address_again(there: Provider, settings: LazySettings) -> None:
    settings.OIDC_NEW_ACCOUNTS, settings.OIDC_MATCH_EMAIL = False, True
    User.objects.create(username="alice", email="alice@example.org")
    there.claims |= {"email": "alice@example.org", "email_verified": True}
    assert user_of(log_in(there)[0]) == "alice"
    there.claims["sub"] = "8"  # another person has got the address
    assert user_of(log_in(there)[0]) is None


def test_a_closed_account_is_not_let_in(there: Provider) -> None:
    log_in(there)
    User.objects.update(is_active=False)
    client, answer = log_in(there)
    assert user_of(client) is None
    assert answer.headers["Location"] == "/login/"


def test_the_login_page_has_a_button_if_there_is_a_provider(there: Provider, settings: LazySettings) -> None:
    settings.OIDC_NAME = "Example"
    text = Client().get("/login/", {"next": "/plans/"}).text
    assert f'href="{BEGIN}?next=%2Fplans%2F">Log in with Example</a>' in text
    assert 'name="password"' in text
    settings.OIDC_ISSUER = ""
    assert BEGIN not in Client().get("/login/").text
    assert [Client().get(path).status_code for path in (BEGIN, BACK)] == [404, 404]


def test_passwords_can_be_switched_off(there: Provider, settings: LazySettings) -> None:
    User.objects.create_superuser("root", password="correct horse")
    form = {"username": "root", "password": "correct horse"}
    token = "/api/v1/token"
    assert Client().post(token, form, content_type="application/json").status_code == 200
    settings.PASSWORD_LOGINS = False
    client = Client()
    assert 'name="password"' not in client.get("/login/").text
    assert client.post("/login/", form).status_code == 403
    client.post("/admin/login/", form)
    assert user_of(client) is None
    refusal = client.post(token, form, content_type="application/json")
    assert (refusal.status_code, "switched off" in refusal.text) == (400, True)
    client, _ = log_in(there)
    assert client.get("/account/password/").status_code == 404
    assert "/account/password/" not in client.get("/account/tokens/").text


def test_who_was_invited_logs_in_at_the_provider_where_passwords_are_off(
    there: Provider, settings: LazySettings
) -> None:
    settings.PASSWORD_LOGINS = False
    team = create_team("vision", "Vision")
    made = invite(team, Role.BIDDER, days=7, by=User.objects.create(username="root", is_superuser=True))
    path = f"/invitations/{made.link_text}/"
    client = Client()
    assert client.get(path).headers["Location"].startswith("/login/?next=")
    client, answer = log_in(there, client, wanted=path)
    assert answer.headers["Location"] == path
    client.post(path)
    assert Membership.objects.get().user.username == "bella"


def test_a_session_is_a_new_one_after_the_login(there: Provider) -> None:
    client = Client()
    client.get(BEGIN)
    before = client.session.session_key
    log_in(there, client)
    assert client.session.session_key != before


COMPLETE = {"issuer": "https://id.example.org", "client": "x", "client_secret": "y"}


@pytest.mark.parametrize(
    ("changed", "has_passwords", "named"),
    [
        ({}, True, []),
        ({}, False, []),
        ({"issuer": "", "client": "", "client_secret": ""}, True, []),
        ({"issuer": "", "client": "", "client_secret": ""}, False, ["SHADOWPRICE_PASSWORD_LOGINS"]),
        ({"client": "", "client_secret": ""}, True, ["SHADOWPRICE_OIDC_CLIENT_ID", "SHADOWPRICE_OIDC_CLIENT_SECRET"]),
        ({"issuer": ""}, True, ["SHADOWPRICE_OIDC_ISSUER"]),
        ({"issuer": "http://id.example.org"}, True, ["SHADOWPRICE_OIDC_ISSUER"]),
        ({"issuer": "http://127.0.0.1:9"}, True, []),
    ],
)
def test_settings_that_are_not_complete_are_refused(
    changed: dict[str, str], has_passwords: bool, named: list[str]
) -> None:
    found = single_sign_on_problems(**{**COMPLETE, **changed}, has_passwords=has_passwords)
    assert [problem.partition(":")[0] for problem in found] == named


def signed_in(name: str = "alice", password: str | None = "only-for-tests") -> Client:
    """The browser of a user who logged in without the provider."""
    client = Client()
    client.force_login(User.objects.create_user(name, password=password))
    return client


def sent_to(client: Client) -> str:
    """The address of the provider to which the form of a link leads: the page itself goes there, since a browser
    follows no redirection of a form to another service (form-action).
    """
    sent = client.post(LINK)
    assert sent.status_code == 200
    (found,) = re.findall('<meta http-equiv="refresh" content="0; url=([^"]+)">', sent.text)
    return unescape(found)


def link(there: Provider, client: Client) -> str:
    """The page after the whole way to the provider and back."""
    address = sent_to(client)
    assert address.startswith(f"{there.issuer}/authorize?")
    answer = client.get(BACK, there.logs_in(address))
    assert (answer.status_code, answer.headers["Location"]) == (302, ACCOUNT)
    return client.get(ACCOUNT).text


def test_a_user_links_an_account_logs_in_with_it_and_ends_the_link(there: Provider) -> None:
    client = signed_in()
    assert "Your account is not linked" in client.get(ACCOUNT).text
    assert "Your account is linked with single sign-on" in link(there, client)
    assert (user_of(client), User.objects.count()) == ("alice", 1)
    assert "Your account is linked with" in link(there, client)  # once more changes nothing
    assert Identity.objects.count() == 1
    other, _ = log_in(there)
    assert user_of(other) == "alice"
    client.post(UNLINK)
    assert "Your account is not linked" in client.get(ACCOUNT).text
    assert not Identity.objects.exists()


def test_neither_a_person_nor_an_account_is_linked_twice(there: Provider) -> None:
    link(there, signed_in())
    bob = signed_in("bob")
    assert "This person is linked with another account here" in link(there, bob)
    there.claims["sub"] = "8"
    link(there, bob)
    there.claims["sub"] = "9"
    assert "This account is linked with another person" in link(there, bob)
    found = Identity.objects.order_by("subject").values_list("subject", "user__username")
    assert list(found) == [("7", "alice"), ("8", "bob")]


@pytest.mark.parametrize("has_passwords", [True, False])
def test_a_link_without_which_nobody_could_log_in_stays(
    there: Provider, settings: LazySettings, has_passwords: bool
) -> None:
    settings.PASSWORD_LOGINS = has_passwords
    client = signed_in(password=None if has_passwords else "only-for-tests")
    link(there, client)
    client.post(UNLINK)
    assert "You have no password, so you could not log in without this link." in client.get(ACCOUNT).text
    assert Identity.objects.count() == 1


def test_only_the_user_who_asked_is_linked(there: Provider) -> None:
    client = signed_in()
    address = sent_to(client)
    client.force_login(User.objects.create_user("bob"))
    answer = client.get(BACK, there.logs_in(address))
    assert answer.headers["Location"] == "/login/"
    assert not Identity.objects.exists()
    address = sent_to(client)
    client.logout()
    assert client.get(BACK, there.logs_in(address)).headers["Location"].startswith("/login/")
    assert not Identity.objects.exists()


def test_a_login_after_a_link_that_was_left_is_a_login(there: Provider) -> None:
    client = signed_in()
    client.post(LINK)
    log_in(there, client)
    assert user_of(client) == "bella"
    assert Identity.objects.get().user.username == "bella"


def test_a_refusal_at_the_provider_links_nothing(there: Provider) -> None:
    client = signed_in()
    state = there.logs_in(sent_to(client))["state"]
    client.get(BACK, {"error": "access_denied", "state": state})
    assert "The login was refused: access denied." in client.get(ACCOUNT).text
    assert not Identity.objects.exists()


def test_links_are_for_users_who_are_logged_in_and_need_a_form(there: Provider) -> None:
    assert Client().get(ACCOUNT).status_code == 302
    for path in (LINK, UNLINK):
        assert Client().post(path).headers["Location"].startswith("/login/")
        assert signed_in(path).get(path).status_code == 405
        strict = Client(enforce_csrf_checks=True)
        strict.force_login(User.objects.get(username=path))
        assert strict.post(path).status_code == 403


def test_without_a_provider_there_is_no_page_of_links(db: None) -> None:
    client = signed_in()
    assert "/account/single-sign-on/" not in client.get("/account/tokens/").text
    assert client.get(ACCOUNT).status_code == 404
    assert {client.post(path).status_code for path in (LINK, UNLINK)} == {404}
