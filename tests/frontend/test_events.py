"""The stream says that a market has moved, and costs one query a second however many listen."""

import asyncio

import pytest
from django.test import Client

from auctions.models import Market
from frontend.views import events


@pytest.fixture
def marks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts reads; the version grows with each."""
    read: list[int] = []

    def read_mark(market_id: int) -> str:
        read.append(market_id)
        return f"{len(read)} None"

    monkeypatch.setattr(events, "read_mark", read_mark)
    monkeypatch.setattr(events, "EVERY_S", 0.05)
    events._watches.clear()
    return read


def test_a_stream_says_every_new_version(marks: list[int]) -> None:
    async def listen() -> list[str]:
        stream = events.stream(1)
        heard = [await anext(stream) for _ in range(3)]
        await stream.aclose()  # type: ignore[attr-defined]  # what a visitor's leaving does
        return heard

    heard = asyncio.run(listen())
    assert heard[0].startswith("retry")
    assert heard[1:] == ["data: version 1\n\n", "data: version 2\n\n"]


def test_many_streams_share_one_look_at_the_market(marks: list[int]) -> None:
    async def look() -> None:
        await asyncio.gather(*(events.mark_of(1) for _ in range(50)))

    asyncio.run(look())
    assert marks == [1]


def test_the_mark_is_the_markets_version(market: Market) -> None:
    assert events.read_mark(market.pk) == f"{market.version} None"


@pytest.mark.thorough
def test_a_quiet_stream_sends_signs_of_life_and_ends_in_time(marks: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "read_mark", lambda _: "7 7")
    monkeypatch.setattr(events, "BEAT_S", 0.1)
    monkeypatch.setattr(events, "LIFE_S", 0.4)

    async def listen() -> list[str]:
        return [said async for said in events.stream(1)]

    heard = asyncio.run(listen())
    assert heard.count("data: version 7\n\n") == 1
    assert ": still here\n\n" in heard


def test_without_asgi_or_a_login_the_browser_stops_polling(market: Market, as_alice: Client) -> None:
    assert as_alice.get("/markets/lab/events").status_code == 204
    assert Client().get("/markets/lab/events").status_code == 204
