"""The event stream of a market: it sends the version whenever the market changes, and nothing else.

A stream has no database connection of its own: its request's is closed before it begins, and one thread looks at
markets for all of them.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import DatabaseError, InterfaceError, connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from auctions.models import Market
from cluster.database import limits
from cluster.database.busy import is_busy
from frontend.access import market_named
from web import shutdown

EVERY_S: Final = 1.0
"""Seconds between two queries of a market's version, for any number of open pages."""
BEAT_S: Final = 15.0
"""Seconds between two comments, which keep proxies from closing a quiet stream and detect closed pages."""
LIFE_S: Final = 600.0
"""A stream ends after this time and is opened again, so that a user who signed out receives nothing more."""

LATER_MS: Final = 60_000
"""Seconds after which a browser may retry if there were too many streams."""

# One thread, hence one database connection at most for all streams of a process.
_reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="versions")
_open: Counter[int] = Counter()
"""Number of open streams of each user."""


@dataclass
class _Watch:
    """The last version read of a market; all streams of an event loop share it."""

    mark: str = ""
    read_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


_watches: dict[tuple[int, int], _Watch] = {}


def read_mark(market_id: int) -> str:
    """Version of the market and of its certificate: one query by primary key, and no connection is kept."""
    limits.use("request")
    try:
        row = Market.objects.filter(pk=market_id).values_list("version", "certificate__version").first()
    finally:
        connections.close_all()
    return "" if row is None else f"{row[0]} {row[1]}"


async def mark_of(market_id: int) -> str:
    """Return the market's version mark, at most `EVERY_S` old."""
    loop = asyncio.get_running_loop()
    watch = _watches.setdefault((id(loop), market_id), _Watch())
    async with watch.lock:
        if loop.time() - watch.read_at >= EVERY_S:
            watch.read_at = loop.time()
            try:
                watch.mark = await loop.run_in_executor(_reader, read_mark, market_id)
            except (DatabaseError, InterfaceError) as error:
                if not is_busy(error):
                    raise  # while the database is busy, the known version stays valid until the next query
        return watch.mark


def too_many(user_id: int) -> str:
    """Return why this user may not open another stream; empty if it is allowed."""
    if _open[user_id] >= settings.STREAMS_OF_ONE_USER:
        return f"You have {_open[user_id]} pages open that are kept up to date; this one asks every 2 seconds instead."
    if _open.total() >= settings.STREAMS:
        return "Too many pages are open that are kept up to date; this one asks every 2 seconds instead."
    return ""


async def stream_for(user_id: int, stream: AsyncIterator[str]) -> AsyncIterator[str]:
    """Count a user's stream while it is open."""
    await sync_to_async(connections.close_all)()  # in the request's thread, which reads nothing more
    if too_many(user_id):  # others were opened since the request was checked
        yield f"retry: {LATER_MS}\n\n"
        return
    _open[user_id] += 1
    try:
        async for said in stream:
            yield said
    finally:
        _open[user_id] -= 1
        if not _open[user_id]:
            del _open[user_id]


async def stream(market_id: int) -> AsyncIterator[str]:
    """Yield server-sent events: one at once, then one whenever the market changes."""
    loop = asyncio.get_running_loop()
    ends, beat, last = loop.time() + LIFE_S, loop.time() + BEAT_S, ""
    yield "retry: 2000\n\n"
    while loop.time() < ends and not shutdown.begun.is_set():
        mark = await mark_of(market_id)
        if mark != last:
            last, beat = mark, loop.time() + BEAT_S
            yield f"data: version {mark.split()[0] if mark else 0}\n\n"
        elif loop.time() >= beat:
            beat = loop.time() + BEAT_S
            yield ": still here\n\n"
        await asyncio.sleep(EVERY_S)


async def events(request: HttpRequest, name: str) -> HttpResponseBase:
    """Return the event stream under ASGI, or 204 otherwise: a browser then stops asking, and the page polls.

    The page polls, too, if the user, or all users together, have too many open streams.
    """
    user = await request.auser()
    if not isinstance(request, ASGIRequest) or user.pk is None:
        return HttpResponse(status=204)
    market = await sync_to_async(market_named)(request, name)
    return response_of(user.pk, stream(market.pk))


def response_of(user_id: int, stream: AsyncIterator[str]) -> HttpResponseBase:
    """Return a stream as a response; 429 if the user, or all users together, have too many."""
    refusal = too_many(user_id)
    if refusal:
        return HttpResponse(refusal, status=429, content_type="text/plain", headers={"Retry-After": "60"})
    response = StreamingHttpResponse(stream_for(user_id, stream), content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    return response
