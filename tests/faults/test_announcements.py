"""Announcements of changed markets through Redis: streams need no query of their own, and go on while Redis hangs."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

import pytest
from django.conf import LazySettings
from redis import Redis

from auctions.domain import announcements
from frontend import versions
from frontend.views import events
from tests.processes import Server

pytestmark = [pytest.mark.slow, pytest.mark.services]

NEVER_S = 3600.0
MARKET = 1


class Rows:
    """The version of a market, instead of the database's, and the number of queries for it."""

    def __init__(self) -> None:
        self.version = 1
        self.queries = 0

    def read(self, market_ids: set[int]) -> dict[int, str]:
        self.queries += 1
        return dict.fromkeys(market_ids, f"{self.version} None")

    def move(self) -> None:
        """Write another version, and announce it as a commit does."""
        self.version += 1
        announcements._sender.add(MARKET, self.version)


@pytest.fixture
def rows(redis_server: Server, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Rows:
    """No query is due by itself while announcements are received."""
    settings.REDIS_URL = redis_server.url
    found = Rows()
    monkeypatch.setattr(versions, "read_marks", found.read)
    for module, name, value in (
        (versions, "EVERY_S", 0.1),
        (versions, "CHECK_EVERY_S", NEVER_S),
        (versions, "APART_S", 0.0),
        (versions, "PING_EVERY_S", 0.2),
        (versions, "SILENT_S", 1.0),
        (announcements, "REST_S", 0.2),
        (announcements, "_sender", announcements.Sender()),
        (events, "APART_S", 0.0),
        (events, "LOOK_S", 0.2),
    ):
        monkeypatch.setattr(module, name, value)
    return found


async def until(done: Callable[[], bool], *, what: str) -> None:
    for _ in range(1200):
        if done():
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{what}: not within a minute")


async def version_of(stream: AsyncGenerator[str]) -> str:
    """The id of the next event."""
    async for said in stream:
        if said.startswith("id: "):
            return said.splitlines()[0].removeprefix("id: ")
    raise AssertionError("the stream has ended")


@asynccontextmanager
async def subscribed(count: int = 1) -> AsyncIterator[list[AsyncGenerator[str]]]:
    """Streams that were sent their first event, once announcements are received and no query is due."""
    opened = [events.stream(MARKET) for _ in range(count)]
    for stream in opened:
        assert await version_of(stream) == "1-None"
    await until(lambda: versions.versions().is_subscribed, what="the subscription")
    await asyncio.sleep(0.3)  # the query after the subscription
    try:
        yield opened
    finally:
        for stream in opened:
            await stream.aclose()


def test_an_announcement_reaches_all_streams_with_one_query_and_one_subscription(
    rows: Rows, redis_server: Server
) -> None:
    async def listen() -> None:
        async with subscribed(count=30) as opened:
            queries = rows.queries
            rows.move()
            assert {await version_of(stream) for stream in opened} == {"2-None"}
            assert rows.queries == queries + 1
            with Redis.from_url(redis_server.url) as client:
                ((_, count),) = client.pubsub_numsub(announcements.channel())
            assert count == 1

    asyncio.run(listen())


def test_streams_are_served_while_redis_hangs_and_announcements_return(
    rows: Rows, redis_server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async def listen() -> None:
        async with subscribed() as (stream,):
            with redis_server.hung():
                rows.move()
                assert await version_of(stream) == "2-None"
                assert not versions.versions().is_subscribed
                assert "the broker does not answer" in caplog.text
                rows.move()
                assert await version_of(stream) == "3-None"
            await until(lambda: versions.versions().is_subscribed, what="the next subscription")
            rows.move()
            assert await version_of(stream) == "4-None"

    asyncio.run(listen())


def test_streams_are_served_without_redis_and_say_so_once(
    rows: Rows, settings: LazySettings, caplog: pytest.LogCaptureFixture
) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"

    async def listen() -> None:
        async with aclosing(events.stream(MARKET)) as stream:
            for version in range(1, 9):
                assert await version_of(stream) == f"{version}-None"
                rows.version += 1

    asyncio.run(listen())
    assert caplog.text.count("no announcements of changed markets") == 1


def test_what_waits_is_announced_when_redis_answers_again(rows: Rows, redis_server: Server) -> None:
    async def listen() -> None:
        heard: list[str] = []

        def hear() -> bool:
            message = subscription.get_message()
            heard.extend([message["data"].decode()] if message and message["type"] == "message" else [])
            return '{"market": 1, "version": 4}' in heard

        with Redis.from_url(redis_server.url) as client, client.pubsub() as subscription:
            subscription.subscribe(announcements.channel())
            with redis_server.hung():
                for _ in range(3):
                    rows.move()  # returns at once
                await asyncio.sleep(1.5)
            await until(hear, what="the last announcement")

    asyncio.run(listen())


def test_a_foreign_message_is_ignored(rows: Rows, redis_server: Server) -> None:
    async def listen() -> None:
        async with subscribed() as (stream,):
            with Redis.from_url(redis_server.url) as client:
                for text in ("", "[]", "{}", '{"market": "x"}', '{"market": 77}'):
                    client.publish(announcements.channel(), text)
            rows.move()
            assert await version_of(stream) == "2-None"

    asyncio.run(listen())
