"""A process answers some requests at once, fewer of one user, and says at once whether it is well."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from threading import Event, get_ident
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import AsyncToSync, SyncToAsync
from django.http import HttpRequest, HttpResponse
from django.urls import path

from cluster.threads import SWITCH_S
from config.asgi import Handler
from web import seats
from web.seats import Callers, Seats

LONG_S = 20.0
BY_DEFAULT_S = 0.005
"""Seconds for which a thread keeps the interpreter by default."""


class Slow:
    """Requests that are under way, until they are let go."""

    def __init__(self) -> None:
        self.under_way: list[str] = []
        self.threads: list[int] = []
        self.go = Event()


slow = Slow()


def view(request: HttpRequest) -> HttpResponse:
    """Answer when the test lets it."""
    name = request.GET["user"]
    request.user = SimpleNamespace(pk=name)  # type: ignore[assignment]
    slow.under_way.append(name)
    slow.threads.append(get_ident())
    if "wait" in request.GET:
        slow.go.wait(LONG_S)
    return HttpResponse()


urlpatterns = [path("api/page", view), path("healthz", lambda _: HttpResponse())]


@pytest.fixture(autouse=True)
def _pages(settings: Any) -> Iterator[None]:
    global slow
    slow = Slow()
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = []
    settings.REQUESTS_AT_ONCE = {"read": 4, "write": 4}
    yield
    slow.go.set()


async def get(handler: Handler, address: str, *, token: str = "", cookie: str = "") -> int:
    """The status of an answer."""
    return int((await messages(handler, address, token=token, cookie=cookie))[0]["status"])


async def messages(handler: Handler, address: str, *, token: str = "", cookie: str = "") -> list[Any]:
    """What the server is given to send."""
    headers = [(b"host", b"localhost")]
    headers += [(b"authorization", token.encode())] if token else []
    headers += [(b"cookie", f"sessionid={cookie}".encode())] if cookie else []
    where, _, query = address.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": where,
        "query_string": query.encode(),
        "headers": headers,
        "client": ("192.0.2.1", 1234),
    }
    sent: list[Any] = []
    body = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Any:
        if body:
            return body.pop()
        await asyncio.sleep(LONG_S)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await handler(scope, receive, send)
    return sent


async def known(handler: Handler, *users: str) -> None:
    """Let each user ask once, with a token of the same name."""
    for user in users:
        assert await get(handler, f"/api/page?user={user}", token=user) == 200
    slow.under_way.clear()


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(LONG_S):
        while not done():
            await asyncio.sleep(0.01)


def test_threads_that_have_answered_requests_answer_the_next() -> None:
    async def run() -> None:
        handler = Handler()
        for _ in range(20):
            assert await get(handler, "/api/page?user=alice", token="a") == 200

    asyncio.run(run())
    assert len(slow.threads) == 20
    assert get_ident() not in slow.threads
    # A thread is free a moment after its answer is there, so that a second one may have been made.
    assert len(set(slow.threads)) <= 3


def test_requests_of_one_user_leave_seats_to_others_and_the_health_check_needs_none() -> None:
    async def run() -> list[int]:
        handler = Handler()
        await known(handler, "alice", "bob")
        many = [asyncio.create_task(get(handler, "/api/page?user=alice&wait", token="alice")) for _ in range(12)]
        await until(lambda: len(slow.under_way) == 2)
        assert await get(handler, "/healthz", token="alice") == 200
        assert await get(handler, "/api/page?user=bob", token="bob") == 200
        assert slow.under_way == ["alice", "alice", "bob"]
        slow.go.set()
        return list(await asyncio.gather(*many))

    assert asyncio.run(run()) == [200] * 12
    assert slow.under_way.count("alice") == 12


def test_a_user_with_several_sessions_and_a_token_has_one_share() -> None:
    async def run() -> None:
        handler = Handler()
        for proof in ({"token": "a"}, {"cookie": "one"}, {"cookie": "two"}):
            assert await get(handler, "/api/page?user=alice", **proof) == 200
        slow.under_way.clear()
        proofs = ({"token": "a"}, {"cookie": "one"}, {"cookie": "two"})
        many = [asyncio.create_task(get(handler, "/api/page?user=alice&wait", **proof)) for proof in proofs * 4]
        await until(lambda: len(slow.under_way) == 2)
        assert await get(handler, "/api/page?user=bob", token="b") == 200
        assert slow.under_way.count("alice") == 2
        slow.go.set()
        await asyncio.gather(*many)

    asyncio.run(run())


def test_made_up_credentials_share_the_seats_of_their_address() -> None:
    async def run() -> None:
        handler = Handler()
        await known(handler, "alice")
        many = [asyncio.create_task(get(handler, f"/api/page?user={i}&wait", token=str(i))) for i in range(4)]
        many += [asyncio.create_task(get(handler, f"/api/page?user={i}&wait", cookie=str(i))) for i in range(4)]
        await until(lambda: len(slow.under_way) == 2)
        assert await get(handler, "/api/page?user=alice", token="alice") == 200
        assert len(slow.under_way) == 3
        slow.go.set()
        assert await asyncio.gather(*many) == [200] * 8

    asyncio.run(run())


def test_who_logs_in_does_not_stand_for_everybody_at_that_address() -> None:
    async def run() -> None:
        handler = Handler()
        for cookie in ("", "one"):
            assert await get(handler, "/api/page?user=alice", cookie=cookie) == 200
        many = [asyncio.create_task(get(handler, "/api/page?user=alice&wait", cookie="one")) for _ in range(2)]
        await until(lambda: len(slow.under_way) == 4)
        assert await get(handler, "/api/page?user=alice", cookie="") == 200
        slow.go.set()
        await asyncio.gather(*many)

    asyncio.run(run())


def test_all_users_together_have_so_many_seats_and_the_next_one_is_asked_to_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seats, "LONGEST_WAIT_S", 0.05)

    async def run() -> None:
        handler = Handler()
        await known(handler, "1", "2", "3", "4", "5")
        many = [asyncio.create_task(get(handler, f"/api/page?user={i}&wait", token=str(i))) for i in range(1, 5)]
        await until(lambda: len(slow.under_way) == 4)
        assert await get(handler, "/api/page?user=5", token="5") == 503
        assert await get(handler, "/healthz") == 200
        slow.go.set()
        assert await asyncio.gather(*many) == [200] * 4
        assert await get(handler, "/api/page?user=5", token="5") == 200

    asyncio.run(run())


def test_the_answer_to_a_request_that_was_not_begun_states_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seats, "LONGEST_WAIT_S", 0.05)

    async def run() -> None:
        handler = Handler()
        many = [asyncio.create_task(get(handler, "/api/page?user=alice&wait")) for _ in range(2)]
        await until(lambda: len(slow.under_way) == 2)
        begin, body = await messages(handler, "/api/page")
        headers = {name.lower(): value for name, value in begin["headers"]}
        assert begin["status"] == 503
        assert int(headers[b"content-length"]) == len(body["body"]) > 0
        slow.go.set()
        await asyncio.gather(*many)

    asyncio.run(run())


def test_who_gave_up_waiting_took_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seats, "LONGEST_WAIT_S", 0.02)

    async def run() -> None:
        line = Seats(2)
        first, second = await line.take("alice"), await line.take("bob")
        assert first is not None
        assert second is not None
        assert [await line.take(who) for who in ("alice", "bob", "carol")] == [None, None, None]
        first()
        again = await line.take("alice")
        assert again is not None
        again()
        second()
        assert await line.take("carol") is not None
        assert await line.take("bob") is not None

    asyncio.run(run())


def test_cookies_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seats, "MOST_KNOWN", 2)
    callers = Callers()
    for user_id, cookie in enumerate("abc"):
        callers.learn(cookie, user_id)
    assert [callers.user_of(cookie) for cookie in "abc"] == [None, 1, 2]


def test_middleware_and_view_take_one_turn_of_the_requests_thread(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MIDDLEWARE = [
        "django.middleware.csrf.CsrfViewMiddleware",
        "frontend.middleware.security_headers",
        "axes.middleware.AxesMiddleware",
    ]
    entered: list[str] = []
    enter, leave = SyncToAsync.__call__, AsyncToSync.__call__

    async def entering(self: Any, *args: Any, **kwargs: Any) -> Any:
        entered.append(getattr(self.func, "__qualname__", "?"))
        return await enter(self, *args, **kwargs)

    def leaving(self: Any, *args: Any, **kwargs: Any) -> Any:
        entered.append("the event loop")
        return leave(self, *args, **kwargs)

    monkeypatch.setattr(SyncToAsync, "__call__", entering)
    monkeypatch.setattr(AsyncToSync, "__call__", leaving)
    assert asyncio.run(get(Handler(), "/api/page?user=alice")) == 200
    assert slow.under_way == ["alice"]
    assert entered == ["Handler._answer"], "with receivers of signals and the end of the response"


def test_requests_wait_for_the_interpreter_a_tenth_of_the_time_that_they_wait_by_default() -> None:
    assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
    assert SWITCH_S * 10 <= BY_DEFAULT_S
