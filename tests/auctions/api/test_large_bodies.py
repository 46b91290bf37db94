"""Bodies that are larger than they may be, as the real server meets them."""

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Thread
from typing import Any

import pytest
import uvicorn
from django.conf import settings

from config.asgi import application
from tests.processes import free_port, wait_until

HEAD = b"POST /api/v1/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
START = b'{"username": "'
LARGE = START + b"x" * (3 * settings.BODY_LIMIT_BYTES)
LONGEST_S = 20.0


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a real server."""
    chosen = free_port()
    server = uvicorn.Server(uvicorn.Config(application, port=chosen, log_level="error", lifespan="off"))
    thread = Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, what="the server")
    yield chosen
    server.should_exit = True
    thread.join(LONGEST_S)


def answered(port: int, head: bytes, parts: Iterator[bytes]) -> tuple[int, Any]:
    """Send what can be sent and read the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=LONGEST_S) as line:
        line.sendall(HEAD + head + b"\r\n")
        with suppress(ConnectionError):
            for part in parts:
                line.sendall(part)
        answer = b""
        with suppress(ConnectionError):
            while part := line.recv(65536):
                answer += part
    start, _, document = answer.partition(b"\r\n\r\n")
    return int(start.split()[1]), json.loads(document)


def chunks(body: bytes) -> Iterator[bytes]:
    """A body in chunks, as HTTP sends it."""
    for start in range(0, len(body), 50_000):
        part = body[start : start + 50_000]
        yield f"{len(part):x}\r\n".encode() + part + b"\r\n"
    yield b"0\r\n\r\n"


def test_a_body_that_says_its_length_is_refused(port: int) -> None:
    status, problem = answered(port, f"Content-Length: {len(LARGE)}\r\n".encode(), iter([LARGE]))
    assert (status, problem["status"]) == (413, 413)


def test_a_chunked_body_is_refused_when_it_has_grown_too_large(port: int) -> None:
    status, problem = answered(port, b"Transfer-Encoding: chunked\r\n", chunks(LARGE))
    assert (status, problem["status"]) == (413, 413)


def test_a_chunked_body_of_ordinary_size_is_read(port: int) -> None:
    status, problem = answered(port, b"Transfer-Encoding: chunked\r\n", chunks(b'{"username": "a", "password": 3}'))
    assert (status, problem["errors"][0]["field"]) == (400, "password")


def test_a_body_without_end_is_not_read_to_the_end() -> None:
    sent: list[Any] = []
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/api/v1/token",
        "query_string": b"",
        "headers": [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"transfer-encoding", b"chunked"),
        ],
    }
    asked = 0

    async def receive() -> Any:
        nonlocal asked
        asked += 1
        await asyncio.sleep(0.001)
        return {"type": "http.request", "body": b"x" * 10_000, "more_body": True}

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(asyncio.wait_for(application(scope, receive, send), LONGEST_S))
    assert sent[0]["status"] == 413
    assert asked < 2_000
