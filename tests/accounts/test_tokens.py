"""A token is that of an active user, costs one query, reaches as far as its scope and cluster, and ends in time."""

import math
import secrets
import sqlite3
from collections import OrderedDict
from contextlib import closing
from datetime import datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import requests
from django.apps import apps
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from accounts import authentication, tokens
from accounts.errors import TooManyTokens, WrongToken
from accounts.models import Scope, Token
from accounts.tokens import MOST_BY_PASSWORD, NewToken, digest_of, issue
from auctions.engine import decision_queue
from auctions.models import Bid, Market
from cluster import clock
from cluster.models import Cluster
from tests.auctions.worlds import body, make_cluster, make_market, make_operator, make_user, submit
from tests.faults import crowd
from tests.faults.installation import start_web
from tests.processes import DATABASE, free_port, make_tables, python_env

BASE = "/api/v1"
LAB = f"{BASE}/clusters/lab"


def with_token(text: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {text}")
    return client


@pytest.fixture
def text(alice: User) -> str:
    return issue(alice, NewToken("script")).text


@pytest.fixture
def client(text: str) -> APIClient:
    return with_token(text)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let the wall clock be later."""
    now = clock.now()

    def pass_time(**parts: int) -> datetime:
        at = now + timedelta(**parts)
        monkeypatch.setattr(clock, "now", lambda: at)
        return at

    return pass_time


def test_a_token_is_asked_for_once_with_its_user_and_its_cluster(client: APIClient) -> None:
    client.get(f"{BASE}/clusters")
    with CaptureQueriesContext(connection) as asked:
        assert client.get(f"{BASE}/clusters").status_code == 200
    assert sum("accounts_token" in query["sql"] for query in asked) == 1
    others = [query["sql"] for query in asked if "accounts_token" not in query["sql"]]
    assert not [sql for sql in others if "auth_user" in sql and "auth_permission" not in sql]


def test_a_user_who_is_not_active_is_refused(client: APIClient, alice: User) -> None:
    User.objects.filter(pk=alice.pk).update(is_active=False)
    answer = client.get(f"{BASE}/clusters")
    assert (answer.status_code, answer.json()["detail"]) == (401, "User inactive or deleted.")


@pytest.mark.parametrize("token", ["none", "%s", "\x7f", "a" * 10_000])
def test_a_token_that_nobody_has_is_refused(db: None, token: str) -> None:
    answer = with_token(token).get(f"{BASE}/clusters")
    assert (answer.status_code, answer.json()["detail"]) == (401, "Invalid token.")


def test_only_a_digest_is_stored(text: str) -> None:
    row = Token.objects.get()
    assert row.digest == digest_of(text)
    assert text not in repr(list(Token.objects.values()))
    assert row.hint == text[:8]
    assert with_token(row.digest).get(f"{BASE}/clusters").status_code == 401


def test_the_last_use_is_written_once_a_minute(client: APIClient, later: Any) -> None:
    assert Token.objects.get().last_used_at is None
    times = []
    for seconds in (0, 1, 59, 60, 61):
        at = later(seconds=seconds)
        with CaptureQueriesContext(connection) as asked:
            assert client.get(f"{BASE}/clusters").status_code == 200
        wrote = sum(query["sql"].startswith("UPDATE") for query in asked)
        times.append((wrote, Token.objects.get().last_used_at == at))
    assert times == [(1, True), (0, False), (0, False), (1, True), (0, False)]


@pytest.mark.slow
def test_a_read_does_not_wait_for_the_last_use(tmp_path: Path, shared: Path) -> None:
    env = python_env(tmp_path, SHADOWPRICE_LOCK_TIMEOUT_S="3600", DJANGO_SETTINGS_MODULE="tests.settings")
    make_tables(env, shared=shared)
    token, port = crowd.call("prepare", "dps", env=env)[0], free_port()
    web = start_web(port, env, tmp_path / "web.log")
    try:
        with closing(sqlite3.connect(tmp_path / DATABASE, timeout=60, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # the lock that a write needs
            url, headers = f"http://127.0.0.1:{port}{BASE}/clusters", {"Authorization": f"Token {token}"}
            assert requests.get(url, headers=headers, timeout=60).status_code == 200
            uses = "SELECT count(last_used_at) FROM accounts_token"
            assert other.execute(uses).fetchone() == (0,)
            other.execute("ROLLBACK")
            assert requests.get(url, headers=headers, timeout=60).status_code == 200
            assert other.execute(uses).fetchone() == (1,)
    finally:
        web.end()


def test_of_requests_at_the_same_time_one_writes_the_use(text: str, later: Any) -> None:
    row, other = Token.objects.get(), Token.objects.get()
    authentication._note_use(row, first := later(seconds=1))
    authentication._note_use(other, later(seconds=2))
    assert Token.objects.get().last_used_at == first


def test_a_token_ends_when_it_expires(alice: User, later: Any) -> None:
    client = with_token(issue(alice, NewToken("short", expires_in_days=1)).text)
    later(hours=23)
    assert client.get(f"{BASE}/clusters").status_code == 200
    later(hours=25)
    answer = client.get(f"{BASE}/clusters")
    assert (answer.status_code, answer.json()["detail"]) == (401, "The token has expired.")


@pytest.mark.parametrize(
    ("scope", "answers"),
    [(Scope.READ, (200, 200, 403)), (Scope.BID, (200, 200, 202)), (Scope.OPERATE, (200, 200, 202))],
)
def test_a_scope_to_read_quotes_but_changes_nothing(
    market: Market, alice: User, scope: Scope, answers: tuple[int, ...]
) -> None:
    client = with_token(issue(alice, NewToken("script", scope)).text)
    sent = [
        client.get(f"{LAB}/bids"),
        client.post(f"{LAB}/quotes", body(), format="json"),
        client.post(f"{LAB}/bids", body(), format="json"),
    ]
    assert tuple(answer.status_code for answer in sent) == answers
    assert Bid.objects.count() == (scope != Scope.READ)


def test_an_operator_s_token_of_a_smaller_scope_is_that_of_a_bidder(market: Market, alice: User) -> None:
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    olga, root = make_operator(), make_user("root", is_superuser=True)
    for user in (olga, root):
        codes = [
            with_token(issue(user, NewToken(scope, scope)).text).get(f"{LAB}/{path}").status_code
            for scope in Scope.values
            for path in ("bids/1", "servers")
        ]
        assert codes == [404, 403, 404, 403, 200, 200]


def test_a_token_of_one_cluster_does_nothing_elsewhere(market: Market, alice: User) -> None:
    make_market(make_cluster("elsewhere"))
    here = issue(alice, NewToken("here", cluster=Cluster.objects.get(name="lab")))
    client = with_token(here.text)
    assert client.post(f"{LAB}/bids", body(), format="json").status_code == 202
    assert client.get(f"{BASE}/clusters").status_code == 200
    for path in ("clusters/elsewhere/bids", "clusters/elsewhere", "plans", "experiments", "tokens"):
        answer = client.get(f"{BASE}/{path}")
        assert (answer.status_code, answer.json()["detail"]) == (403, "This token is for cluster lab only.")
    assert client.post(f"{BASE}/clusters/elsewhere/bids", body(), format="json").status_code == 403


def test_a_token_is_issued_listed_and_ended_by_rest(market: Market, client: APIClient) -> None:
    asked = {"name": "nightly", "scope": "bid", "cluster": "lab", "expires_in_days": 3}
    answer = client.post(f"{BASE}/tokens", asked, format="json")
    assert (answer.status_code, answer["Cache-Control"]) == (201, "no-store")
    made = answer.json()
    assert made["token"].startswith("sp_")
    assert (made["name"], made["scope"], made["cluster"]) == ("nightly", "bid", "lab")
    listed = client.get(f"{BASE}/tokens").json()["results"]
    assert [row["name"] for row in listed] == ["nightly", "script"]
    assert "token" not in listed[0]
    assert with_token(made["token"]).get(f"{LAB}/bids").status_code == 200
    assert client.delete(answer["Location"]).status_code == 204
    assert with_token(made["token"]).get(f"{LAB}/bids").status_code == 401


def test_every_wrong_field_of_a_new_token_is_named(client: APIClient) -> None:
    asked = {"name": "", "scope": "all", "expires_in_days": 0, "more": 1, "cluster": "mars"}
    answer = client.post(f"{BASE}/tokens", asked, format="json")
    assert answer.status_code == 400
    assert {row["field"] for row in answer.json()["errors"]} == set(asked)
    wrong = client.post(f"{BASE}/tokens", {"name": "n", "scope": "bid", "cluster": "mars"}, format="json")
    assert [row["field"] for row in wrong.json()["errors"]] == ["cluster"]
    assert Token.objects.count() == 1


def test_a_token_issues_none_that_reaches_further(market: Market, alice: User) -> None:
    for new in (NewToken("r", Scope.READ), NewToken("b", Scope.BID)):
        client = with_token(issue(alice, new).text)
        assert client.post(f"{BASE}/tokens", {"name": "n", "scope": "read"}, format="json").status_code == 403
    short = issue(alice, NewToken("short", expires_in_days=2))
    client = with_token(short.text)
    asked = {"name": "long", "scope": "operate"}
    assert client.post(f"{BASE}/tokens", {**asked, "expires_in_days": 3}, format="json").status_code == 400
    made = client.post(f"{BASE}/tokens", asked, format="json").json()
    assert datetime.fromisoformat(made["expires_at"]) == short.token.expires_at


def test_a_replaced_token_is_accepted_as_long_as_was_asked_for(alice: User, later: Any) -> None:
    old = issue(alice, NewToken("script", Scope.READ, expires_in_days=10))
    client = with_token(old.text)
    answer = client.post(f"{BASE}/tokens/{old.token.pk}/rotate", {"overlap_s": 60}, format="json")
    assert answer.status_code == 201
    made = answer.json()
    assert (made["name"], made["scope"]) == ("script", "read")
    later(seconds=59)
    assert client.get(f"{BASE}/clusters").status_code == 200
    later(seconds=70)
    assert client.get(f"{BASE}/clusters").status_code == 401
    assert with_token(made["token"]).get(f"{BASE}/clusters").status_code == 200
    later(days=9)
    assert with_token(made["token"]).get(f"{BASE}/clusters").status_code == 200
    later(days=11)
    assert with_token(made["token"]).get(f"{BASE}/clusters").status_code == 401


@pytest.mark.parametrize("days", [None, 10])
def test_a_token_is_replaced_though_the_clock_was_set_back(alice: User, later: Any, days: int | None) -> None:
    later(days=1)
    old = issue(alice, NewToken("script", expires_in_days=days))
    later(days=0)
    client = with_token(old.text)
    answer = client.post(f"{BASE}/tokens/{old.token.pk}/rotate", {"overlap_s": 60}, format="json")
    assert answer.status_code == 201
    later(seconds=61)
    assert client.get(f"{BASE}/clusters").status_code == 401
    assert with_token(answer.json()["token"]).get(f"{BASE}/clusters").status_code == 200


def test_an_expired_token_is_not_replaced(alice: User, client: APIClient, later: Any) -> None:
    old = issue(alice, NewToken("old", expires_in_days=1))
    later(days=2)
    answer = client.post(f"{BASE}/tokens/{old.token.pk}/rotate", {}, format="json")
    assert (answer.status_code, answer.json()["detail"]) == (409, "This token has expired.")


def test_a_small_token_replaces_itself_only(market: Market, alice: User) -> None:
    other = issue(alice, NewToken("other")).token
    for new in (NewToken("r", Scope.READ), NewToken("here", cluster=market.cluster)):
        client = with_token(issue(alice, new).text)
        assert client.post(f"{BASE}/tokens/{other.pk}/rotate", {}, format="json").status_code == 403


def test_a_token_that_ends_replaces_none_by_one_that_ends_later(alice: User, later: Any) -> None:
    endless, longer = (issue(alice, NewToken("a", expires_in_days=days)).token for days in (None, 9))
    as_long, own = (issue(alice, NewToken("b", expires_in_days=7)) for _ in range(2))
    for other in (endless, longer):
        answer = with_token(own.text).post(f"{BASE}/tokens/{other.pk}/rotate", {}, format="json")
        assert answer.status_code == 403
        assert "end later" in answer.json()["detail"]
        assert Token.objects.filter(pk=other.pk, expires_at=other.expires_at).exists()
    at = later(days=1)
    Token.objects.filter(pk=as_long.token.pk).update(expires_at=at + timedelta(days=5), created_at=at)
    assert with_token(own.text).post(f"{BASE}/tokens/{as_long.token.pk}/rotate", {}, format="json").status_code == 201
    assert with_token(own.text).post(f"{BASE}/tokens/{own.token.pk}/rotate", {}, format="json").status_code == 201


def test_a_user_has_a_limited_number_of_tokens(alice: User, monkeypatch: pytest.MonkeyPatch, later: Any) -> None:
    monkeypatch.setattr(tokens, "MOST_TOKENS", 2)
    issue(alice, NewToken("first", expires_in_days=1))
    issue(alice, NewToken("second"))
    with pytest.raises(TooManyTokens):
        issue(alice, NewToken("third"))
    later(days=2)
    issue(alice, NewToken("third"))
    assert Token.objects.count() == 3
    later(days=40)
    Token.objects.filter(name="second").delete()
    issue(alice, NewToken("fourth"))
    assert set(Token.objects.values_list("name", flat=True)) == {"third", "fourth"}, "expired long ago: deleted"


def test_each_password_brings_a_token_and_those_used_last_are_kept(db: None) -> None:
    bob = User.objects.create_user("bob", password="correct horse")
    kept = issue(bob, NewToken("by password"))
    first, second, *_ = [tokens.issue_by_password(bob) for _ in range(MOST_BY_PASSWORD)]
    assert with_token(first.text).get(f"{BASE}/clusters").status_code == 200
    answer = APIClient().post(f"{BASE}/token", {"username": "bob", "password": "correct horse"}, format="json")
    assert with_token(answer.json()["token"]).get(f"{BASE}/clusters").status_code == 200
    assert Token.objects.filter(user=bob).count() == MOST_BY_PASSWORD + 1
    assert with_token(first.text).get(f"{BASE}/clusters").status_code == 200, "it was used later"
    assert with_token(second.text).get(f"{BASE}/clusters").status_code == 401
    assert with_token(kept.text).get(f"{BASE}/clusters").status_code == 200, "it was not issued for a password"


def test_another_password_ends_the_tokens_of_the_former_one_and_no_others(db: None) -> None:
    bob = User.objects.create_user("bob", password="correct horse")
    kept, first = issue(bob, NewToken("script")), tokens.issue_by_password(bob)
    replaced = tokens.rotate(first.token, overlap_s=60)
    other = tokens.issue_by_password(make_user("other"))
    for password in ("correct horse", "another horse"):
        assert bob.check_password(password) == (password == "correct horse")
    assert with_token(first.text).get(f"{BASE}/clusters").status_code == 200
    bob.set_password("another horse")
    bob.save()
    codes = [with_token(one.text).get(f"{BASE}/clusters").status_code for one in (first, replaced, kept, other)]
    assert codes == [401, 401, 200, 200]


def test_a_stronger_hash_of_the_same_password_ends_no_token(db: None, settings: Any) -> None:
    bob = User.objects.create_user("bob", password="correct horse")
    token = tokens.issue_by_password(bob)
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.ScryptPasswordHasher", *settings.PASSWORD_HASHERS]
    before = bob.password
    assert bob.check_password("correct horse")
    bob.refresh_from_db()
    assert bob.password != before
    assert with_token(token.text).get(f"{BASE}/clusters").status_code == 200


def test_a_token_that_is_accepted_besides_the_one_that_replaces_it_counts(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MOST_TOKENS", 2)
    first = issue(alice, NewToken("first")).token
    tokens.rotate(first, overlap_s=60)
    with pytest.raises(TooManyTokens):
        tokens.rotate(first, overlap_s=60)
    tokens.rotate(first)
    tokens.end(first)
    with pytest.raises(WrongToken, match="was ended"):
        tokens.rotate(first)


@pytest.mark.parametrize("created", ["2026-01-02 03:04:05.678", "2026-01-02 03:04:05"])
def test_a_migration_carries_former_tokens_over_and_drops_their_texts(alice: User, created: str) -> None:
    former = "0123456789abcdef0123456789abcdef01234567"
    carry_over = import_module("accounts.migrations.0002_carry_tokens_over").carry_over
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE authtoken_token (key varchar(40), created datetime, user_id integer)")
        cursor.execute("INSERT INTO authtoken_token VALUES (%s, %s, %s)", [former, created, alice.pk])

    class Editor:
        pass

    editor: Any = Editor()
    editor.connection = connection
    carry_over(apps, editor)
    row = Token.objects.get()
    assert (row.user, row.scope, row.expires_at, row.cluster) == (alice, Scope.OPERATE, None, None)
    assert row.created_at.isoformat().startswith("2026-01-02T03:04:05")
    assert with_token(former).get(f"{BASE}/clusters").status_code == 200
    assert "authtoken_token" not in connection.introspection.table_names()
    carry_over(apps, editor)
    assert Token.objects.count() == 1


def test_operators_see_tokens_in_the_admin_and_end_them(text: str) -> None:
    client = Client()
    client.force_login(make_operator())
    page = client.get("/admin/accounts/token/")
    assert page.status_code == 200
    assert text[:8] in page.text
    assert text not in page.text
    assert digest_of(text) not in page.text
    assert client.get("/admin/accounts/token/add/").status_code == 403
    data = {"action": "delete_selected", "_selected_action": [Token.objects.get().pk], "post": "yes"}
    client.post("/admin/accounts/token/", data)
    assert not Token.objects.exists()


def answered(client: APIClient) -> tuple[int, int]:
    """Status of an answer, and the queries for it that look for a token."""
    with CaptureQueriesContext(connection) as asked:
        status = client.get(f"{BASE}/clusters").status_code
    found = [query["sql"] for query in asked if "accounts_token" in query["sql"]]
    return status, sum(sql.startswith("SELECT") for sql in found)


def test_after_some_made_up_tokens_of_an_address_the_database_is_asked_for_listed_ones_alone(
    alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.throttles.MadeUpTokenThrottle.THROTTLE_RATES", {"made_up_token": "3/minute"})
    monkeypatch.setattr("accounts.authentication._listed", (-math.inf, frozenset()))
    used, fresh = (with_token(issue(alice, NewToken(name)).text) for name in ("used", "fresh"))
    assert answered(used) == (200, 1)
    made_up = [with_token(secrets.token_hex()) for _ in range(5)]
    assert [answered(one) for one in made_up] == [(401, 1)] * 3 + [(429, 1), (429, 0)]  # the list is read once
    assert [answered(one) for one in made_up] == [(401, 0)] * 3 + [(429, 0)] * 2  # those are known, and count once
    refused = made_up[-1].get(f"{BASE}/clusters")
    assert 0 < int(refused.headers["Retry-After"]) <= 60
    assert answered(used) == (200, 1)
    assert answered(fresh) == (200, 1)
    newer = with_token(issue(alice, NewToken("newer")).text)
    assert answered(newer) == (429, 0)  # without a query it may be a made-up one
    newer.defaults["REMOTE_ADDR"] = "192.0.2.7"
    assert answered(newer) == (200, 1)


def test_the_list_of_tokens_has_the_latest_and_is_read_again_once_it_is_old(
    alice: User, monkeypatch: pytest.MonkeyPatch, later: Any
) -> None:
    monkeypatch.setattr("web.throttles.MadeUpTokenThrottle.THROTTLE_RATES", {"made_up_token": "0/minute"})
    monkeypatch.setattr(authentication, "_listed", (-math.inf, frozenset()))
    monkeypatch.setattr(authentication, "MOST_LISTED", 2)
    clients = list[APIClient]()
    for hours, name in enumerate(("first", "second", "third")):
        later(hours=hours)
        clients.append(with_token(issue(alice, NewToken(name)).text))
    assert [answered(one) for one in clients] == [(429, 1), (200, 1), (200, 1)]
    Token.objects.filter(name="first").update(last_used_at=later(hours=4))
    assert answered(clients[0]) == (429, 0)
    read_at, digests = authentication._listed
    monkeypatch.setattr(authentication, "_listed", (read_at - 2 * authentication.LISTED_S, digests))
    assert answered(clients[0]) == (200, 2)


def test_a_process_remembers_a_limited_number_of_tokens(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accounts.authentication.MOST_KNOWN", 2)
    monkeypatch.setattr("accounts.authentication._known", OrderedDict())
    first, second, third = (with_token(secrets.token_hex()) for _ in range(3))
    assert [answered(one) for one in (first, second, first)] == [(401, 1), (401, 1), (401, 0)]
    assert [answered(one) for one in (third, second, first)] == [(401, 1), (401, 0), (401, 1)]
