"""A web process on PostgreSQL: streams, clients that leave while they wait, a locked market, and no server at all."""

import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg2
import pytest
import requests
from django.conf import settings

from tests.faults import crowd
from tests.faults.installation import shell, start_web
from tests.faults.streams import session_of, streams
from tests.processes import Server, free_port, fresh_database, python_env, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.services]

PASSWORD: Final = "only-for-tests"
SET_PASSWORDS: Final = f"""
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
User.objects.update(password=make_password("{PASSWORD}"))
"""
MOST_CONNECTIONS: Final = 8
"""Largest number of connections of pages, requests and the watcher of markets at any time of these tests."""
EVENTS: Final = f"/markets/{crowd.CLUSTER}/events"
PAGES: Final = ("/healthz", "/", f"/markets/{crowd.CLUSTER}/", f"/markets/{crowd.CLUSTER}/tiles.json")
SUMMARY: Final = f"/api/v1/clusters/{crowd.CLUSTER}/summary"
LOCK_S: Final = 2.0
STREAMS_OF_ONE: Final = 15


@dataclass
class Web:
    """A web process without workers, and a market of eight bidders who have passwords."""

    address: str
    tokens: list[str]
    postgres: Server
    database: str


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory, postgres_server: Server, redis_url: str) -> Iterator[Web]:
    """One for all tests of this module."""
    directory, port, database = tmp_path_factory.mktemp("web"), free_port(), fresh_database(postgres_server)
    env = python_env(
        directory,
        DATABASE_URL=database,
        REDIS_URL=redis_url,
        SHADOWPRICE_SECRET_KEY="only for this test",
        SHADOWPRICE_LOCK_TIMEOUT_S=str(LOCK_S),
        SHADOWPRICE_STREAMS_OF_ONE_USER=str(STREAMS_OF_ONE),
        DJANGO_SETTINGS_MODULE="config.settings",  # guesses take as long as in every installation
    )
    tokens = crowd.call("prepare", "dps", env=env)
    shell(SET_PASSWORDS, env)
    process = start_web(port, env, directory / "web.log")
    try:
        yield Web(f"http://127.0.0.1:{port}", tokens, postgres_server, database)
    finally:
        process.end()


def ask(web: Web, query: str) -> int:
    """A number that the database knows."""
    with closing(psycopg2.connect(web.database)) as database, database.cursor() as cursor:
        cursor.execute(query)
        return int(cursor.fetchone()[0])


def connections(web: Web) -> int:
    """That others than the one who asks have open."""
    return ask(web, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'") - 1


def bids(web: Web) -> int:
    """That are stored."""
    return ask(web, "SELECT count(*) FROM auctions_bid")


def statuses(web: Web, session: requests.Session, *paths: str) -> list[int]:
    return [session.get(f"{web.address}{path}", timeout=60).status_code for path in paths]


def submit(web: Web, i: int, **options: Any) -> requests.Response:
    """A bid of one of them."""
    with requests.Session() as session:
        session.trust_env = False
        return session.post(
            f"{web.address}/api/v1/clusters/{crowd.CLUSTER}/bids",
            json=crowd.body_of(0, i),
            headers={"Authorization": f"Token {web.tokens[i % len(web.tokens)]}"},
            **{"timeout": 60, **options},
        )


@contextmanager
def locked_market(web: Web) -> Iterator[None]:
    """Hold the market's row while the block runs."""
    with closing(psycopg2.connect(web.database)) as database, database.cursor() as cursor:
        cursor.execute("SELECT id FROM auctions_market FOR UPDATE")
        yield


def test_streams_hold_no_connection_and_everything_else_is_answered(web: Web) -> None:
    sessions = [session_of(web.address, f"client-{c}", PASSWORD) for c in range(crowd.CLIENTS)]
    count, before = STREAMS_OF_ONE * len(sessions), bids(web)
    with streams(web.address, EVENTS, sessions, count=count) as opened:
        assert Counter(stream.status() for stream in opened) == {200: count}
        assert statuses(web, sessions[0], *PAGES, SUMMARY) == [200] * (len(PAGES) + 1)
        assert submit(web, 0).status_code == 202
        assert bids(web) == before + 1
        assert connections(web) <= MOST_CONNECTIONS
    wait_until(lambda: connections(web) == 0, what="the end of the last connection", seconds=20)


def test_one_user_has_so_many_streams_and_then_polls(web: Web) -> None:
    one, other = (session_of(web.address, f"client-{c}", PASSWORD) for c in range(2))
    with streams(web.address, EVENTS, [one], count=STREAMS_OF_ONE) as opened:
        assert {stream.status() for stream in opened} == {200}
        refused = one.get(f"{web.address}{EVENTS}", timeout=60)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "60")
        with streams(web.address, EVENTS, [other], count=1) as another:
            assert another[0].status() == 200

    def is_free() -> bool:
        with one.get(f"{web.address}{EVENTS}", timeout=60, stream=True) as answer:
            return answer.status_code == 200

    wait_until(is_free, what="a free place", seconds=20)


def test_clients_that_left_while_they_waited_for_a_lock_hold_nothing(web: Web) -> None:
    before = bids(web)

    def leave_soon(i: int) -> None:
        with pytest.raises(requests.exceptions.ReadTimeout):
            submit(web, i, timeout=1)

    with locked_market(web), ThreadPoolExecutor(30) as pool:
        list(pool.map(leave_soon, range(30)))
        wait_until(lambda: connections(web) == 1, what="the end of the waiting", seconds=LOCK_S + 8)  # who holds it
        with requests.Session() as session:
            assert statuses(web, session, "/healthz") == [200]
    assert bids(web) == before


def test_a_locked_market_is_answered_with_503_and_nothing_is_stored(web: Web) -> None:
    before = bids(web)
    with locked_market(web):
        began = time.monotonic()
        answer = submit(web, 0)
        assert time.monotonic() - began < LOCK_S + 5
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "3")
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert answer.json()["detail"].startswith("The database is away or busy; nothing was stored.")
    assert bids(web) == before


def test_guesses_of_many_at_once_are_counted_and_stopped(web: Web) -> None:
    def guess(i: int) -> int:
        with requests.Session() as session:
            session.trust_env = False
            body = {"username": "stranger", "password": str(i)}
            while (answer := session.post(f"{web.address}/api/v1/token", json=body, timeout=60)).status_code == 503:
                time.sleep(float(answer.headers["Retry-After"]))  # it was not looked at, and is not counted
            return answer.status_code

    of_both = settings.LOGIN_LIMITS[0][1]
    with ThreadPoolExecutor(4) as pool:
        found = Counter(pool.map(guess, range(2 * of_both)))
    assert found == {400: of_both - 1, 429: of_both + 1}
    assert ask(web, "SELECT sum(failures_since_start) FROM axes_accessattempt") == of_both


def test_a_database_that_is_gone_is_503_everywhere_and_its_return_is_seen(web: Web) -> None:
    session = session_of(web.address, "client-0", PASSWORD)
    assert statuses(web, session, *PAGES, SUMMARY) == [200] * (len(PAGES) + 1)
    web.postgres.end(signal.SIGQUIT)
    try:
        assert statuses(web, session, *PAGES, SUMMARY) == [503] * (len(PAGES) + 1)
        page = session.get(f"{web.address}/markets/{crowd.CLUSTER}/", timeout=60)
        assert "The server cannot answer now" in page.text
        assert page.headers["Retry-After"] == "3"
    finally:
        web.postgres.restart(by=signal.SIGQUIT)
    assert statuses(web, session, *PAGES, SUMMARY) == [200] * (len(PAGES) + 1)
