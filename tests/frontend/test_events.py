"""The stream says that a market has moved, and costs one query a second however many listen."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

import psycopg2
import pytest
from django.db import DatabaseError, OperationalError
from django.test import Client

from auctions.models import Market
from frontend import versions
from frontend.views import events


class Rows:
    """The versions that are read, instead of those of the database, and the queries for them."""

    def __init__(self) -> None:
        self.marks = {1: "17 None"}
        self.queries: list[set[int]] = []
        self.next_error: Exception | None = None
        self.after: Callable[[], None] = lambda: None

    def read(self, market_ids: set[int]) -> dict[int, str]:
        self.queries.append(set(market_ids))
        error, self.next_error = self.next_error, None
        if error is not None:
            raise error
        found = {market_id: self.marks[market_id] for market_id in market_ids if market_id in self.marks}
        self.after()
        return found

    def move(self) -> None:
        """Another version of the market from the next query on."""
        self.marks[1] = f"{int(self.marks[1].split()[0]) + 1} None"


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> Rows:
    found = Rows()
    monkeypatch.setattr(versions, "read_marks", found.read)
    for module, name, value in (
        (versions, "EVERY_S", 0.05),
        (versions, "APART_S", 0.0),
        (events, "APART_S", 0.0),
        (events, "LOOK_S", 0.05),
    ):
        monkeypatch.setattr(module, name, value)
    return found


async def first(stream: AsyncGenerator[str], count: int) -> list[str]:
    """The first parts of a stream, which is then closed as by a visitor who leaves."""
    async with aclosing(stream):
        return [await anext(stream) for _ in range(count)]


async def news(stream: AsyncGenerator[str]) -> str:
    """The first event of a stream, which is then closed; a busy machine may send signs of life before it."""
    async with aclosing(stream):
        return await anext(said async for said in stream if said.startswith("id: "))


def test_a_stream_says_every_new_version(rows: Rows) -> None:
    rows.after = rows.move
    heard = asyncio.run(first(events.stream(1), 3))
    assert heard[0].startswith("retry")
    assert heard[1:] == ["id: 17-None\ndata: version 17\n\n", "id: 18-None\ndata: version 18\n\n"]


def test_a_stream_that_is_resumed_loses_nothing_and_repeats_nothing(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "BEAT_S", 0.02)
    assert asyncio.run(news(events.stream(1, "16-None"))) == "id: 17-None\ndata: version 17\n\n"
    assert asyncio.run(first(events.stream(1, "17-None"), 3))[1:] == [": still here\n\n"] * 2
    rows.move()
    assert asyncio.run(news(events.stream(1, "17-None"))) == "id: 18-None\ndata: version 18\n\n"
    rows.marks[1] = "18 18"  # the certificate is newer, which pages show
    assert asyncio.run(news(events.stream(1, "18-None"))) == "id: 18-18\ndata: version 18\n\n"


def test_a_stream_that_is_resumed_waits_for_a_query_of_its_own(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another stream has read may be older than what this one was sent by another process."""

    async def listen() -> list[str]:
        async with aclosing(events.stream(1)) as before:
            for _ in range(2):
                await anext(before)
            rows.move()
            return await first(events.stream(1, "18-None"), 2)

    monkeypatch.setattr(versions, "EVERY_S", 60.0)
    monkeypatch.setattr(events, "BEAT_S", 0.1)
    assert asyncio.run(listen())[1] == ": still here\n\n"


def test_streams_of_all_markets_share_one_query(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "EVERY_S", 60.0)
    rows.marks |= {2: "4 None", 3: "5 None"}

    async def listen() -> None:
        heard = await asyncio.gather(*(first(events.stream(1 + i % 3), 2) for i in range(60)))
        assert sorted({parts[1].splitlines()[1] for parts in heard}) == [
            "data: version 17",
            "data: version 4",
            "data: version 5",
        ]

    asyncio.run(listen())
    assert rows.queries == [{1, 2, 3}]


def test_nothing_is_queried_once_nobody_listens(rows: Rows) -> None:
    async def listen() -> None:
        await first(events.stream(1), 2)
        await asyncio.sleep(0.1)
        read = len(rows.queries)
        await asyncio.sleep(0.2)
        assert len(rows.queries) == read
        await first(events.stream(1), 2)  # and the next visitor is served
        assert len(rows.queries) > read

    asyncio.run(listen())


def test_a_busy_database_ends_no_stream_and_another_error_ends_all(rows: Rows) -> None:
    rows.next_error = OperationalError("the server closed the connection")
    rows.next_error.__cause__ = psycopg2.OperationalError()
    assert asyncio.run(first(events.stream(1), 2))[1] == "id: 17-None\ndata: version 17\n\n"
    rows.next_error = DatabaseError("no such column")

    async def listen() -> None:
        failed = await asyncio.gather(*(first(events.stream(1), 2) for _ in range(3)), return_exceptions=True)
        assert [str(error) for error in failed] == ["no such column"] * 3
        assert len(await first(events.stream(1), 2)) == 2  # the next query may succeed

    asyncio.run(listen())


def test_the_mark_is_the_markets_version(market: Market) -> None:
    assert versions.read_marks([market.pk, market.pk + 1]) == {market.pk: f"{market.version} None"}


def test_a_quiet_stream_sends_signs_of_life(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "BEAT_S", 0.1)

    async def listen() -> list[str]:
        async with aclosing(events.stream(1)) as stream:
            while not (await anext(stream)).startswith("id: "):  # a busy machine may send some before
                pass
            return [await anext(stream) for _ in range(2)]

    assert asyncio.run(listen()) == [": still here\n\n"] * 2


def test_a_quiet_stream_ends_in_time(rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "LIFE_S", 0.2)

    async def listen() -> list[str]:
        return [said async for said in events.stream(1)]

    heard = asyncio.run(listen())
    assert heard[0].startswith("retry")
    assert heard[1:] in ([], ["id: 17-None\ndata: version 17\n\n"])  # a busy machine may take as long to begin


def test_without_asgi_or_a_login_the_browser_stops_polling(market: Market, as_alice: Client) -> None:
    assert as_alice.get("/markets/lab/events").status_code == 204
    assert Client().get("/markets/lab/events").status_code == 204
