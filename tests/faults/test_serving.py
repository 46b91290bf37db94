"""A server on SQLite: the health check under load, a write lock of another process, and the ends of its processes."""

import fcntl
import os
import re
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import requests

from cluster.database.sqlite3 import line
from tests.conftest import Tables
from tests.faults import crowd
from tests.faults.installation import shell, start_web
from tests.faults.streams import session_of, streams
from tests.processes import DATABASE, Process, children, free_port, python_env, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.clocked]

PASSWORD: Final = "only-for-tests"
SET_PASSWORD: Final = f"""
from django.contrib.auth.models import User
user = User.objects.get(username="client-0")
user.set_password("{PASSWORD}")
user.save()
"""
CLUSTER: Final = f"/api/v1/clusters/{crowd.CLUSTER}"
LOCK_S: Final = 1.0
QUICK_S: Final = 2.0
"""A health check gives up after four."""
SOON_S: Final = 8.0
"""For a process to end, on a busy machine; it has three for its requests."""
SELDOM_SWEPT: Final = {"SHADOWPRICE_SWEEP_S": "3600"}
NO_WORKER: Final = {"REDIS_URL": "redis://127.0.0.1:1/0", "SHADOWPRICE_SECRET_KEY": "only for this test"}
"""A web process that decides nothing itself, and nobody else does."""


@dataclass
class Market:
    """Its data directory, and the tokens of its bidders."""

    directory: Path
    tokens: list[str]

    def ask(self, query: str) -> int:
        """A number that the database knows."""
        with closing(sqlite3.connect(self.directory / DATABASE)) as database:
            return int(database.execute(query).fetchone()[0])

    def bids(self) -> int:
        """That are stored."""
        return self.ask("SELECT count(*) FROM auctions_bid")

    def undecided(self) -> int:
        """Bids that wait for a decision."""
        return self.ask("SELECT count(*) FROM auctions_bid WHERE state = 'submitted'")

    def guesses(self) -> int:
        """That were counted."""
        return self.ask("SELECT count(*) FROM axes_accessattempt")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """This process, which is another one than the server, holds the write lock while the block runs."""
        with closing(sqlite3.connect(self.directory / DATABASE, isolation_level=None, timeout=20)) as database:
            database.execute("BEGIN IMMEDIATE")
            yield


@pytest.fixture
def market(tmp_path: Path, make_tables: Tables) -> Market:
    """A market with eight bidders; the first one has a password, too."""
    env = python_env(tmp_path)
    make_tables(env)
    tokens = crowd.call("prepare", "dps", env=env)
    shell(SET_PASSWORD, env)
    return Market(tmp_path, tokens)


@contextmanager
def served(market: Market, **extra: str) -> Iterator[tuple[Process, str]]:
    """The process and its address, once it listens."""
    env, port = python_env(market.directory, SHADOWPRICE_LOCK_TIMEOUT_S=str(LOCK_S), **extra), free_port()
    process = start_web(port, env, market.directory / f"{port}.log")
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        process.end()


def bidder(market: Market, number: int) -> requests.Session:
    """A bidder's session with a token."""
    session = requests.Session()
    session.trust_env = False
    session.headers["Authorization"] = f"Token {market.tokens[number]}"
    return session


def test_the_health_check_is_quick_while_twelve_summaries_of_one_user_run(market: Market) -> None:
    with served(market) as (_, address), bidder(market, 0) as one, bidder(market, 1) as other:
        crowd.submit_all(python_env(market.directory), count=80)

        def read(_: int) -> int:
            with bidder(market, 0) as session:
                return session.get(f"{address}{CLUSTER}/summary", timeout=60).status_code

        times: dict[str, list[float]] = {"/healthz": [], f"{CLUSTER}/summary": []}
        with ThreadPoolExecutor(12) as pool:
            found = pool.map(read, range(60))
            for _ in range(8):
                for path, session in (("/healthz", one), (f"{CLUSTER}/summary", other)):
                    began = time.monotonic()
                    assert session.get(f"{address}{path}", timeout=60).status_code == 200
                    times[path].append(time.monotonic() - began)
            assert Counter(found) == {200: 60}
        assert max(times["/healthz"]) < QUICK_S, times
        assert max(times[f"{CLUSTER}/summary"]) < 2 * QUICK_S, times


def test_a_write_lock_that_another_process_holds_is_503_and_nothing_is_stored(market: Market) -> None:
    with served(market) as (_, address), bidder(market, 0) as session:
        body, key = crowd.body_of(0, 1), {"Idempotency-Key": "one"}
        with market.locked():
            began = time.monotonic()
            refused = session.post(f"{address}{CLUSTER}/bids", json=body, headers=key, timeout=60)
            assert time.monotonic() - began < LOCK_S + 5
            assert (refused.status_code, refused.headers["Retry-After"]) == (503, "3")
            assert refused.headers["Content-Type"] == "application/problem+json"
            assert "nothing was stored" in refused.json()["detail"]
            for path in ("/healthz", f"{CLUSTER}/summary", f"{CLUSTER}/bids"):
                assert session.get(f"{address}{path}", timeout=60).status_code == 200, path
            assert market.bids() == 0
        accepted = session.post(f"{address}{CLUSTER}/bids", json=body, headers=key, timeout=60)
        assert (accepted.status_code, "Idempotency-Replayed" in accepted.headers) == (202, False)
        assert market.bids() == 1


def test_a_login_that_cannot_be_counted_is_503_whether_its_password_is_right_or_wrong(market: Market) -> None:
    with served(market) as (_, address), requests.Session() as session:
        session.trust_env = False
        page = session.get(f"{address}/login/", timeout=60)
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert found is not None
        with market.locked():
            for password in ("a guess", PASSWORD):
                login = {"username": "client-0", "password": password}
                form = {**login, "csrfmiddlewaretoken": found[1]}
                for refused in (
                    session.post(f"{address}/login/", data=form, timeout=60),
                    session.post(f"{address}/api/v1/token", json={**login, "password": "a guess"}, timeout=60),
                ):
                    assert (refused.status_code, refused.headers["Retry-After"]) == (503, "3"), refused.text
        assert market.guesses() == 0
        assert session.post(f"{address}/api/v1/token", json=login, timeout=60).status_code == 200


def test_a_server_that_is_asked_to_end_answers_who_waits_ends_streams_and_loses_nothing(market: Market) -> None:
    with served(market, **NO_WORKER) as (process, address), bidder(market, 0) as session:
        signed_in = session_of(address, "client-0", PASSWORD)
        events = f"/markets/{crowd.CLUSTER}/events"
        with streams(address, events, [signed_in], count=1) as opened, ThreadPoolExecutor(1) as pool:
            assert opened[0].status() == 200
            bid = f"{address}{CLUSTER}/bids"
            headers = {"Prefer": "wait=30"}
            waiting = pool.submit(session.post, bid, json=crowd.body_of(0, 1), headers=headers, timeout=60)
            wait_until(lambda: market.bids() == 1, what="the bid")
            time.sleep(1.0)  # its request has begun to wait
            assert not waiting.done()
            began = time.monotonic()
            process.popen.send_signal(signal.SIGTERM)
            answer = waiting.result()
            assert (answer.status_code, answer.json()["state"]) == (202, "submitted")
            assert opened[0].has_ended()
            assert process.popen.wait(SOON_S) == 0, process.text()
            assert time.monotonic() - began < SOON_S
    with served(market) as (heir, address):
        crowd.call("settle", env=python_env(market.directory))
        with bidder(market, 0) as session:
            after = session.get(f"{address}{answer.headers['Location']}", timeout=60).json()
        assert after["state"] != "submitted"
        heir.popen.send_signal(signal.SIGTERM)
        assert heir.popen.wait(SOON_S) == 0, heir.text()
    assert market.bids() == 1


def decide(session: requests.Session, address: str, label: int) -> None:
    """Submit a bid, and wait until it is decided."""
    answer = session.post(
        f"{address}{CLUSTER}/bids", json=crowd.body_of(0, label), headers={"Prefer": "wait=20"}, timeout=60
    )
    assert answer.status_code == 201, answer.text


def test_a_bid_is_decided_though_the_worker_was_killed_and_nothing_outlives_a_killed_server(market: Market) -> None:
    with served(market, **SELDOM_SWEPT) as (process, address), bidder(market, 0) as session:
        decide(session, address, 1)
        _, first = children(process.pid)
        os.kill(first, signal.SIGKILL)
        decide(session, address, 2)
        decide(session, address, 3)  # it was woken: the next sweep is in an hour
        web, second = children(process.pid)
        assert second != first
        assert session.get(f"{address}/healthz", timeout=60).status_code == 200
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: not any(map(lives, (web, second))), what="the end of both", seconds=SOON_S)


def writes(market: Market) -> bool:
    """Whether it is the turn of a process of the server to write."""
    with (market.directory / f"{DATABASE}{line.ENDS[0]}").open() as turn:
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def lives(process: int) -> bool:
    """Whether a process runs, and has not only left its number behind."""
    try:
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_a_server_that_is_asked_to_end_ends_after_the_decision_under_way(market: Market) -> None:
    with served(market, **SELDOM_SWEPT) as (process, address), bidder(market, 0) as session:
        decide(session, address, 1)
        _, worker = children(process.pid)
        os.kill(worker, signal.SIGSTOP)
        assert session.post(f"{address}{CLUSTER}/bids", json=crowd.body_of(0, 2), timeout=60).status_code == 202
        with market.locked():
            os.kill(worker, signal.SIGCONT)
            wait_until(lambda: writes(market), what="a decision that waits for the lock")
            process.popen.send_signal(signal.SIGTERM)
            time.sleep(1.0)
            assert process.alive
            assert market.undecided() == 1
        assert process.popen.wait(SOON_S) == 0, process.text()
        assert market.undecided() == 0
