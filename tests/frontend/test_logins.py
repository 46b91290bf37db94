"""Failed logins are limited, by account and address, wherever a password is checked."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from threading import Lock
from time import sleep
from typing import Any

import pytest
from axes.models import AccessAttempt, AccessLog
from django.conf import settings
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from auctions.readings import computation_limits
from cluster.addresses import address_of
from tests.auctions.worlds import make_operator

PASSWORD = "correct horse"
HERE, THERE = "192.0.2.1", "198.51.100.7"
OF_BOTH, OF_ADDRESS, OF_NAME = (limit for _, limit in settings.LOGIN_LIMITS)
PROBLEM = "application/problem+json"
Guess = Callable[..., Any]


@dataclass
class StandingTime:
    """A wall clock that moves when a test says so."""

    now: datetime = field(default_factory=timezone.now)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> StandingTime:
    """What the project and django-axes read."""
    standing = StandingTime()
    monkeypatch.setattr("cluster.clock.timezone.now", lambda: standing.now)
    monkeypatch.setattr("axes.handlers.proxy.now", lambda: standing.now)
    return standing


@pytest.fixture(autouse=True)
def _no_rate(db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("web.throttles.PasswordThrottle.THROTTLE_RATES", {"password": "1000/minute"})
    cache.clear()
    yield
    cache.clear()


@pytest.fixture(autouse=True)
def _people(_no_rate: None) -> None:
    for name in ("alice", "bob"):
        User.objects.create_user(name, password=PASSWORD)


def by_page(name: str, password: str, address: str = HERE, **headers: str) -> Any:
    return Client(REMOTE_ADDR=address).post("/login/", {"username": name, "password": password}, headers=headers)


def by_admin(name: str, password: str, address: str = HERE, **headers: str) -> Any:
    """The login of the admin is the same page."""
    client = Client(REMOTE_ADDR=address)
    sent = client.post("/admin/login/", {"username": name, "password": password}, headers=headers)
    assert sent.status_code == 302
    assert sent.headers["Location"].startswith("/login/")
    return client.post(sent.headers["Location"], {"username": name, "password": password}, headers=headers)


def by_rest(name: str, password: str, address: str = HERE, **headers: str) -> Any:
    body = {"username": name, "password": password}
    client = Client(REMOTE_ADDR=address)
    return client.post("/api/v1/token", body, content_type="application/json", headers=headers)


WAYS = {by_page: (200, 302), by_admin: (200, 302), by_rest: (400, 200)}
"""What answers a wrong and a right password."""


def guess(way: Guess, name: str, count: int, address: str = HERE) -> list[int]:
    return [way(name, f"guess {i}", address).status_code for i in range(count)]


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
def test_guesses_at_one_account_are_stopped_and_the_right_password_then_brings_nothing(way: Guess) -> None:
    wrong, right = WAYS[way]
    assert guess(way, "alice", 25) == [wrong] * (OF_BOTH - 1) + [429] * (25 - OF_BOTH + 1)
    assert way("alice", PASSWORD).status_code == 429
    assert way("bob", PASSWORD).status_code == right
    assert way("alice", PASSWORD, THERE).status_code == right


def test_a_lock_holds_for_pages_and_rest_together() -> None:
    for way in [by_page, by_rest, by_admin, by_page, by_rest]:
        way("alice", "a guess")
    assert [way("alice", PASSWORD).status_code for way in WAYS] == [429, 429, 429]


def test_one_address_that_tries_many_accounts_is_stopped() -> None:
    """Also accounts that do not exist: an answer does not say which do."""
    answers = [by_rest(f"user-{i}", "password1").status_code for i in range(OF_ADDRESS)]
    assert answers == [400] * (OF_ADDRESS - 1) + [429]
    assert by_rest("alice", PASSWORD).status_code == 429
    assert by_rest("alice", PASSWORD, THERE).status_code == 200


@pytest.mark.thorough
def test_many_addresses_that_try_one_account_are_stopped() -> None:
    each = OF_BOTH - 1
    addresses = [f"203.0.113.{i}" for i in range(-(-OF_NAME // each))]
    answers = [code for address in addresses for code in guess(by_rest, "alice", each, address)]
    assert answers[: OF_NAME - 1] == [400] * (OF_NAME - 1)
    assert set(answers[OF_NAME - 1 :]) == {429}
    assert by_rest("alice", PASSWORD, THERE).status_code == 429
    assert by_rest("bob", PASSWORD, THERE).status_code == 200


@pytest.mark.thorough
def test_one_address_cannot_lock_an_account_out_elsewhere() -> None:
    guess(by_rest, "alice", 200)
    assert by_rest("alice", PASSWORD, THERE).status_code == 200


def test_a_network_of_ipv6_is_one_address() -> None:
    for i in range(OF_BOTH):
        by_rest("alice", "a guess", f"2001:db8:0:1::{i}")
    assert by_rest("alice", PASSWORD, "2001:db8:0:1:ffff::1").status_code == 429
    assert by_rest("alice", PASSWORD, "2001:db8:0:2::1").status_code == 200


@pytest.mark.parametrize(
    ("connection", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("fe80::1%eth0", "fe80::"),
        ("", None),
        ("no address", None),
    ],
)
def test_an_address_is_that_of_the_connection(connection: str, address: str | None) -> None:
    request = Client(REMOTE_ADDR=connection).get("/login/", headers={"X-Forwarded-For": THERE}).wsgi_request
    assert address_of(request) == address


def test_no_header_makes_another_address() -> None:
    for i in range(OF_BOTH):
        by_rest("alice", "a guess", **{"X-Forwarded-For": f"203.0.113.{i}", "X-Real-IP": f"203.0.113.{i}"})
    assert by_rest("alice", PASSWORD, **{"X-Forwarded-For": THERE, "Forwarded": f"for={THERE}"}).status_code == 429


def test_a_lock_ends_by_itself_and_guesses_meanwhile_do_not_extend_it(time: StandingTime) -> None:
    guess(by_rest, "alice", OF_BOTH)
    rows = AccessAttempt.objects.get()
    time.now += settings.AXES_COOLOFF_TIME - timedelta(seconds=90)
    answer = by_rest("alice", PASSWORD)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "90")
    assert AccessAttempt.objects.get().failures_since_start == rows.failures_since_start == OF_BOTH
    time.now += timedelta(seconds=91)
    assert by_rest("alice", PASSWORD).status_code == 200


@pytest.mark.parametrize("way", WAYS)
def test_a_lock_from_before_the_clock_was_set_back_ends_in_time(way: Guess, time: StandingTime) -> None:
    time.now += timedelta(days=2)
    guess(by_rest, "alice", OF_BOTH)
    time.now -= timedelta(days=2)
    answer = way("alice", PASSWORD)
    whole = settings.AXES_COOLOFF_TIME.total_seconds()
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, f"{whole:.0f}")
    time.now += settings.AXES_COOLOFF_TIME + timedelta(seconds=1)
    assert way("alice", PASSWORD).status_code == WAYS[way][1]


def test_the_end_of_a_lock_is_that_of_the_last_limit_that_is_reached(time: StandingTime) -> None:
    begun = time.now
    for i in range(OF_ADDRESS):
        by_rest(f"user-{i}", "a guess")
        time.now += timedelta(seconds=10)
    answer = by_rest("alice", PASSWORD)
    first_is_forgotten = begun + settings.AXES_COOLOFF_TIME
    assert int(answer.headers["Retry-After"]) == (first_is_forgotten - time.now).total_seconds()
    time.now = first_is_forgotten + timedelta(seconds=1)
    assert by_rest("alice", PASSWORD).status_code == 200


def test_failures_that_count_no_more_are_deleted(time: StandingTime) -> None:
    guess(by_rest, "alice", 3)
    time.now += settings.AXES_COOLOFF_TIME + timedelta(seconds=1)
    assert by_page("bob", PASSWORD).status_code == 302
    assert not AccessAttempt.objects.exists()
    assert not AccessLog.objects.exists()


def test_a_login_that_succeeds_forgets_no_failures() -> None:
    guess(by_rest, "alice", OF_BOTH - 1)
    assert by_rest("alice", PASSWORD).status_code == 200
    assert by_rest("alice", "a guess").status_code == 429


def test_neither_passwords_nor_user_names_are_kept_where_they_are_not_needed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for way in WAYS:
            way("typed-here-by-mistake", "a secret guess")
    row = AccessAttempt.objects.get()
    assert "a secret guess" not in f"{vars(row)}{caplog.text}"
    assert "typed-here-by-mistake" not in f"{row.post_data}{row.get_data}{caplog.text}"
    assert HERE in caplog.text


def test_no_token_of_a_form_is_stored() -> None:
    client = Client()
    client.post("/login/", {"username": "alice", "password": "a guess", "csrfmiddlewaretoken": "of this form"})
    assert "of this form" not in AccessAttempt.objects.get().post_data


def test_a_page_says_in_words_when_to_come_again() -> None:
    guess(by_page, "alice", OF_BOTH)
    page = by_page("alice", PASSWORD)
    assert page.status_code == 429
    assert page.headers["Content-Type"].startswith("text/html")
    assert 1790 <= int(page.headers["Retry-After"]) <= 1800
    assert "Try again in 30 minutes" in page.content.decode()
    assert "default-src" in page.headers["Content-Security-Policy"]


def test_rest_answers_with_a_problem_document() -> None:
    guess(by_rest, "alice", OF_BOTH)
    answer = by_rest("alice", PASSWORD)
    assert (answer.status_code, answer.headers["Content-Type"]) == (429, PROBLEM)
    assert answer.json()["status"] == 429
    assert "Try again in 30 minutes" in answer.json()["detail"]
    assert 1790 <= int(answer.headers["Retry-After"]) <= 1800


def test_sessions_and_tokens_that_exist_work_while_logins_are_locked() -> None:
    token = by_rest("alice", PASSWORD).json()["token"]
    guess(by_rest, "alice", OF_BOTH)
    answer = Client(REMOTE_ADDR=HERE).get("/api/v1/clusters", headers={"Authorization": f"Token {token}"})
    assert answer.status_code == 200


def test_an_operator_sees_locks_in_the_admin_and_clears_them() -> None:
    guess(by_rest, "alice", OF_BOTH)
    client = Client()
    client.force_login(make_operator())
    page = client.get("/admin/axes/accessattempt/")
    assert page.status_code == 200
    assert all(text in page.content.decode() for text in ("alice", HERE, "Failed logins"))
    assert client.get("/admin/axes/accessattempt/add/").status_code == 403
    rows = list(AccessAttempt.objects.values_list("pk", flat=True))
    form = {"action": "delete_selected", "_selected_action": rows, "post": "yes"}
    assert client.post("/admin/axes/accessattempt/", form).status_code == 302
    assert by_rest("alice", PASSWORD).status_code == 200


def test_bidders_do_not_see_failed_logins() -> None:
    client = Client()
    client.force_login(User.objects.get(username="bob"))
    assert client.get("/admin/axes/accessattempt/", follow=True).status_code == 403


@pytest.mark.parametrize("way", [by_page, by_rest])
def test_a_guess_that_cannot_be_counted_is_503_and_its_password_is_not_judged(
    way: Guess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OperationalError("database is locked") from OSError

    monkeypatch.setattr("axes.handlers.database.AccessAttempt.objects.select_for_update", fail)
    client = Client(raise_request_exception=False)
    monkeypatch.setattr(f"{__name__}.Client", lambda **_: client)
    answer = way("alice", "a guess")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "3")


@pytest.mark.parametrize("way", [by_page, by_rest])
def test_passwords_of_one_address_are_checked_so_often_a_minute_right_ones_too(
    way: Guess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.throttles.PasswordThrottle.THROTTLE_RATES", {"password": "3/minute"})
    answers = [way("alice", PASSWORD) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [WAYS[way][1]] * 3 + [429]
    assert 1 <= int(answers[-1].headers["Retry-After"]) <= 60
    assert way("alice", PASSWORD, THERE).status_code == WAYS[way][1]


class Counted:
    """The number of simultaneous checks."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.now = self.most = 0

    def run(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        sleep(0.02)
        with self._lock:
            self.now -= 1


def test_computations_of_one_caller_run_one_after_the_other_and_of_all_a_few_at_once() -> None:
    turns = computation_limits.Turns(2, of_one=1, waiting=20)
    of_one, of_all = Counted(), Counted()

    def compute(caller: int) -> None:
        with turns.turn(caller):
            (of_one if caller == 1 else of_all).run()

    with ThreadPoolExecutor(12) as pool:
        list(pool.map(compute, [1] * 6))
        list(pool.map(compute, [2, 3, 4, 5] * 3))
    assert (of_one.most, of_all.most) == (1, 2)


def test_a_caller_whose_requests_wait_already_is_refused_at_once_and_others_are_not() -> None:
    turns = computation_limits.Turns(2, of_one=1, waiting=0)
    with turns.turn("alice"):
        with pytest.raises(computation_limits.Busy, match="wait already"), turns.turn("alice"):
            pass
        with turns.turn("bob"):
            pass
    with turns.turn("alice"):
        pass


def test_who_is_logged_in_and_changes_a_password_too_often_is_not_asked_to_log_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("web.throttles.PasswordThrottle.THROTTLE_RATES", {"password": "1/minute"})
    client = Client()
    client.force_login(User.objects.get(username="bob"))
    assert [client.post("/account/password/", {}).status_code for _ in range(2)] == [200, 429]
    refused = client.post("/account/password/", {}).text
    assert "Log in" not in refused
    assert '<a href="/">All markets</a>' in refused, "which sends everybody else to the login page"
