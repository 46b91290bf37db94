"""Clients that send slowly, send nothing, read nothing or open many connections, beside one that is answered."""

import json
import re
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Final

import pytest
import requests

from tests.conftest import Tables
from tests.faults import crowd
from tests.faults.installation import shell, start_web
from tests.faults.streams import session_of, streams
from tests.faults.test_serving import NO_WORKER, PASSWORD, SET_PASSWORD
from tests.processes import DATABASE, free_port, python_env, wait_until
from web.connections import QUEUE_LIMIT

pytestmark = [pytest.mark.slow, pytest.mark.clocked]

HEAD: Final = "POST /api/v1/clusters/crowd/bids HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
LIMITS: Final = {
    "SHADOWPRICE_HEAD_S": "1",
    "SHADOWPRICE_BODY_S": "2",
    "SHADOWPRICE_IDLE_S": "1",
    "SHADOWPRICE_CONNECTIONS": "12",
    "SHADOWPRICE_CONNECTIONS_OF_ONE_ADDRESS": "5",
    "SHADOWPRICE_METRICS_ADDRESSES": "127.0.0.0/8",
}
OF_PROXY: Final = {
    "SHADOWPRICE_PROXIES": "127.0.0.1",
    "SHADOWPRICE_CONNECTIONS": "4",
    "SHADOWPRICE_CONNECTIONS_OF_ONE_ADDRESS": "1",
    **NO_WORKER,
}
SOON_S: Final = 30.0
"""For a limit of a second or two, on a busy machine."""
OTHER: Final = "127.0.0.2"
"""Another client's address on this machine."""


@contextmanager
def served(env: dict[str, str]) -> Iterator[int]:
    """The port of a server with short limits."""
    port = free_port()
    process = start_web(port, env, Path(env["SHADOWPRICE_VAR"]) / "web.log")
    try:
        yield port
    finally:
        process.end()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory, make_tables: Tables) -> Iterator[int]:
    """The port of a server without a proxy."""
    env = python_env(tmp_path_factory.mktemp("slow-clients"), **LIMITS)
    make_tables(env)
    with served(env) as found:
        yield found


def connect(port: int, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=SOON_S, source_address=(address, 0))


def rest(connection: socket.socket) -> bytes:
    """All that the server still sends until it closes the connection."""
    found = b""
    try:
        while some := connection.recv(65536):
            found += some
    except ConnectionResetError:  # closed with bytes that it has not read
        pass
    return found


def is_answered(port: int, address: str = OTHER) -> bool:
    with connect(port, address) as connection:
        connection.sendall(b"GET /login/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        return rest(connection).startswith(b"HTTP/1.1 200 ")


def causes(port: int) -> set[str]:
    """The limits because of which connections have ended."""
    metrics = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=SOON_S).text
    return set(re.findall(r'^shadowprice_connections_ended_total\{cause="([a-z ]+)"\} [1-9]', metrics, re.M))


def trickle(connection: socket.socket, port: int) -> bytes:
    """Send a letter every tenth of a second; the answer, during which another client is answered."""
    connection.settimeout(0.1)
    deadline = time.monotonic() + SOON_S
    while time.monotonic() < deadline:
        try:
            connection.sendall(b"a")
            found = connection.recv(65536)
        except TimeoutError:
            assert is_answered(port)
        except ConnectionError:
            return b""
        else:
            return found
    raise AssertionError("the connection is still open")


def test_a_head_that_is_sent_slowly_is_answered_408_and_others_are_answered_meanwhile(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(f"{HEAD}X-Slow: ".encode())
        answer = trickle(connection, port)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"application/problem+json" in answer
    assert b"The head of the request did not arrive within 1 s." in answer
    assert "head" in causes(port)


def test_a_body_that_is_sent_slowly_is_answered_408(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(f"{HEAD}\r\n{{".encode())
        answer = trickle(connection, port)
    assert answer.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"The body of the request did not arrive within 2 s." in answer
    assert "body" in causes(port)


def test_a_body_that_is_sent_on_after_its_refusal_ends_with_the_connection(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(f"{HEAD.replace('1000', '90000000')}\r\n".encode() + b" " * 1_100_000)
        answer = connection.recv(65536)
        assert answer.startswith(b"HTTP/1.1 401 ")
        trickle(connection, port)


def test_a_connection_whose_body_ends_after_its_refusal_is_closed_once_it_is_idle(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(f"{HEAD.replace('1000', '2000000')}\r\n".encode() + b" " * 1_999_999)
        assert connection.recv(65536).startswith(b"HTTP/1.1 401 ")
        time.sleep(0.2)  # shorter than the limit of an idle connection
        connection.sendall(b" ")
        rest(connection)


def test_a_connection_on_which_nothing_is_sent_is_closed_without_an_answer(port: int) -> None:
    with connect(port) as connection:
        assert rest(connection) == b""


def test_a_connection_is_used_again_and_closed_once_it_is_idle(port: int) -> None:
    with closing(HTTPConnection("127.0.0.1", port, timeout=SOON_S)) as client:
        client.connect()
        used = client.sock
        for _ in range(3):
            client.request("GET", "/livez")
            assert client.getresponse().read() == b'{"status": "ok"}'
        assert client.sock is used
        assert rest(used) == b""


def test_a_head_that_grows_without_end_is_answered_431(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(f"{HEAD}X-Large: ".encode() + b"a" * 100_000)
        assert rest(connection).startswith(b"HTTP/1.1 431 ")
    assert "large head" in causes(port)


def test_requests_that_are_sent_at_once_are_all_answered(port: int) -> None:
    with connect(port) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 3 + b"GET /lo")
        time.sleep(0.2)  # shorter than the limit of a head
        connection.sendall(b"gin/ HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        found = rest(connection)
    assert (found.count(b"HTTP/1.1 200 "), found.count(b"HTTP/1.1 ")) == (4, 4)
    assert b"</html>" in found


def test_a_client_that_sends_requests_without_end_before_it_is_answered_is_disconnected(port: int) -> None:
    request = b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    last = request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    with connect(port) as connection:
        connection.sendall(request * QUEUE_LIMIT + last)
        assert rest(connection).count(b"HTTP/1.1 200 ") == QUEUE_LIMIT + 1
    assert "queue" not in causes(port)
    with connect(port) as connection:
        connection.sendall(request * 40 * QUEUE_LIMIT)  # shorter than the largest head
        found = rest(connection)
    assert QUEUE_LIMIT < found.count(b"HTTP/1.1 200 ") == found.count(b"HTTP/1.1 ") < 40 * QUEUE_LIMIT
    assert found.count(b"\r\nconnection: close\r\n") == 1
    assert "queue" in causes(port)
    assert is_answered(port)


def test_further_connections_of_one_address_are_answered_429_and_those_of_another_as_ever(port: int) -> None:
    with ExitStack() as held:
        for _ in range(5):
            held.enter_context(connect(port)).sendall(HEAD.encode())
        with connect(port) as sixth:
            answer = rest(sixth)
        assert answer.startswith(b"HTTP/1.1 429 ")
        assert b"This address has 5 connections" in answer
        assert b"\r\nretry-after: 3\r\n" in answer
        assert is_answered(port)
    wait_until(lambda: is_answered(port, "127.0.0.1"), what="an answer once the others have left", seconds=SOON_S)
    assert "address" in causes(port)


def test_the_connection_that_has_sent_nothing_for_longest_makes_room_for_another_client(port: int) -> None:
    with ExitStack() as held:
        slow = [held.enter_context(connect(port, f"127.0.1.{n // 4 + 1}")) for n in range(12)]
        for connection in slow:
            connection.sendall(HEAD.encode())
        assert is_answered(port)
        assert [rest(one) for one in slow].count(b"") == 1  # the others are answered 408 once their time is over
    assert "room" in causes(port)


def takes(connection: socket.socket) -> bool:
    """Whether the server's side of a connection still exists."""
    try:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    except ConnectionError:
        return False
    return True


def test_a_client_that_reads_nothing_is_disconnected(port: int) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(SOON_S)
        connection.connect(("127.0.0.1", port))
        connection.sendall(b"GET /static/plotly/plotly.min.js HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")  # 4 MB
        wait_until(lambda: not takes(connection), what="the end of the connection", seconds=SOON_S, every=0.5)


def test_answers_may_take_longer_and_connections_of_a_named_proxy_are_limited_together_alone(
    tmp_path: Path, make_tables: Tables
) -> None:
    env = python_env(tmp_path, **LIMITS | OF_PROXY)
    make_tables(env)
    tokens = crowd.call("prepare", "dps", env=env)
    shell(SET_PASSWORD, env)
    with served(env) as port, ExitStack() as held:
        address = f"http://127.0.0.1:{port}"
        with session_of(address, "client-0", PASSWORD) as session:
            [stream] = held.enter_context(streams(address, f"/markets/{crowd.CLUSTER}/events", [session], count=1))
        assert stream.status() == 200
        waiting = [held.enter_context(connect(port)) for _ in range(3)]
        for number, connection in enumerate(waiting):
            connection.sendall(waiting_bid(tokens[number], number))
        with closing(sqlite3.connect(tmp_path / DATABASE)) as database:
            stored = "SELECT count(*) FROM auctions_bid"
            wait_until(lambda: database.execute(stored).fetchone() == (3,), what="the bids", seconds=SOON_S)
        with connect(port) as fifth:
            assert rest(fifth).startswith(b"HTTP/1.1 503 ")
        for connection in waiting:
            assert connection.recv(65536).startswith(b"HTTP/1.1 202 ")
        assert is_open(stream.line)  # for longer than a request may take to arrive


def is_open(connection: socket.socket) -> bool:
    """Whether a connection has not ended, whatever was sent on it."""
    connection.settimeout(0.1)
    try:
        while connection.recv(4096):
            pass
    except TimeoutError:
        return True
    return False


def waiting_bid(token: str, number: int) -> bytes:
    """A submission that waits for its decision for longer than the limits of a request."""
    body = json.dumps(crowd.body_of(number, 1))
    fields = {"Host": "127.0.0.1", "Authorization": f"Token {token}", "Content-Type": "application/json"}
    fields |= {"Prefer": "wait=5", "Content-Length": str(len(body))}
    lines = [f"POST /api/v1/clusters/{crowd.CLUSTER}/bids HTTP/1.1", *(f"{name}: {fields[name]}" for name in fields)]
    return "\r\n".join([*lines, "", body]).encode()
