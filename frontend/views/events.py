"""The stream that says "version 18" when a market has moved; nothing else travels on it."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from auctions.models import Market
from frontend.access import market_named

EVERY_S: Final = 1.0
"""Seconds between two looks at a market, however many pages are open."""
BEAT_S: Final = 15.0
"""A comment this often keeps proxies from closing a quiet stream, and finds visitors that have gone."""
LIFE_S: Final = 600.0
"""Streams end and are opened again, so that a visitor who signed out does not listen for ever."""

# One thread, hence one database connection for all streams of a process: a stream of its own costs none.
_reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="versions")


@dataclass
class _Watch:
    """What was last read of a market; all streams of an event loop share it."""

    mark: str = ""
    read_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


_watches: dict[tuple[int, int], _Watch] = {}


def read_mark(market_id: int) -> str:
    """Version of the market and of its certificate: one query by primary key."""
    close_old_connections()
    row = Market.objects.filter(pk=market_id).values_list("version", "certificate__version").first()
    return "" if row is None else f"{row[0]} {row[1]}"


async def mark_of(market_id: int) -> str:
    """The market's mark, at most `EVERY_S` old."""
    loop = asyncio.get_running_loop()
    watch = _watches.setdefault((id(loop), market_id), _Watch())
    async with watch.lock:
        if loop.time() - watch.read_at >= EVERY_S:
            watch.mark = await loop.run_in_executor(_reader, read_mark, market_id)
            watch.read_at = loop.time()
        return watch.mark


async def stream(market_id: int) -> AsyncIterator[str]:
    """Server-sent events: one at once, then one whenever the market has moved."""
    loop = asyncio.get_running_loop()
    ends, beat, last = loop.time() + LIFE_S, loop.time() + BEAT_S, ""
    yield "retry: 2000\n\n"
    while loop.time() < ends:
        mark = await mark_of(market_id)
        if mark != last:
            last, beat = mark, loop.time() + BEAT_S
            yield f"data: version {mark.split()[0] if mark else 0}\n\n"
        elif loop.time() >= beat:
            beat = loop.time() + BEAT_S
            yield ": still here\n\n"
        await asyncio.sleep(EVERY_S)


async def events(request: HttpRequest, name: str) -> HttpResponseBase:
    """The stream under ASGI. 204 elsewhere and to strangers: a browser then stops asking and the page polls."""
    user = await request.auser()
    if not isinstance(request, ASGIRequest) or not user.is_authenticated:
        return HttpResponse(status=204)
    market = await sync_to_async(market_named)(name)
    response = StreamingHttpResponse(stream(market.pk), content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    return response
