"""The event stream of a market: it sends the version whenever the market changes, and nothing else.

A stream has no database connection of its own: its request's is closed before it begins, and `frontend/versions.py`
reads the versions for all of them. Each event has an id, the version of the market and of its certificate. A browser
that comes back states the id that it saw last, and is sent an event at once if and only if another version holds now.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Final

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.handlers.asgi import ASGIRequest
from django.db import connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse

from frontend.access import market_named
from frontend.versions import versions
from web import shutdown

APART_S: Final = 1.0
"""Least time between two versions of a stream: each of them makes a page fetch what has changed."""
LOOK_S: Final = 1.0
"""Time after which a stream without news looks whether the process has to stop."""
BEAT_S: Final = 15.0
"""Seconds between two comments, which keep proxies from closing a quiet stream and detect closed pages."""
LIFE_S: Final = 600.0
"""A stream ends after this time and is opened again, so that a user who signed out receives nothing more. It says only
when something happened; the output of a job is followed for less (`LIFE_S` in `log_events.py`)."""

LATER_MS: Final = 60_000
"""Milliseconds after which a browser may retry if there were too many streams."""

_open: Counter[int] = Counter()
"""Number of open streams of each user."""


def too_many(user_id: int) -> str:
    """Return why this user may not open another stream; empty if it is allowed."""
    if _open[user_id] >= settings.STREAMS_OF_ONE_USER:
        return f"You have {_open[user_id]} pages open that are kept up to date; this one asks every 2 seconds instead."
    if _open.total() >= settings.STREAMS:
        return "Too many pages are open that are kept up to date; this one asks every 2 seconds instead."
    return ""


async def stream_for(user_id: int, stream: AsyncGenerator[str]) -> AsyncIterator[str]:
    """Count a user's stream while it is open."""
    await sync_to_async(connections.close_all)()  # in the request's thread, which reads nothing more
    if too_many(user_id):  # others were opened since the request was checked
        yield f"retry: {LATER_MS}\n\n"
        return
    _open[user_id] += 1
    try:
        async with aclosing(stream):
            async for said in stream:
                yield said
    finally:
        _open[user_id] -= 1
        if not _open[user_id]:
            del _open[user_id]


async def stream(market_id: int, last: str = "") -> AsyncGenerator[str]:
    """Yield server-sent events: one at once unless `last` is the present id, then one whenever the market changes."""
    loop = asyncio.get_running_loop()
    ends, beat = loop.time() + LIFE_S, loop.time() + BEAT_S
    yield "retry: 2000\n\n"
    async with versions().following(market_id) as market:
        while loop.time() < ends and not shutdown.begun.is_set():
            mark = market.current()
            if mark is not None and id_of(mark) != last:
                last, beat = id_of(mark), loop.time() + BEAT_S
                yield f"id: {last}\ndata: version {mark.split()[0] if mark else 0}\n\n"
                await asyncio.sleep(APART_S)
                continue
            if loop.time() >= beat:
                beat = loop.time() + BEAT_S
                yield ": still here\n\n"
            await market.wait(LOOK_S)


def id_of(mark: str) -> str:
    """Return the id of the event that announces a mark; none is empty, which a browser would not send back."""
    return mark.replace(" ", "-") or "0"


async def events(request: HttpRequest, name: str) -> HttpResponseBase:
    """Return the event stream under ASGI, or 204 otherwise: a browser then stops asking, and the page polls.

    The page polls, too, if the user, or all users together, have too many open streams.
    """
    user = await request.auser()
    if not isinstance(request, ASGIRequest) or user.pk is None:
        return HttpResponse(status=204)
    market = await sync_to_async(market_named)(request, name)
    return response_of(user.pk, stream(market.pk, request.headers.get("Last-Event-ID", "")))


def response_of(user_id: int, stream: AsyncGenerator[str]) -> HttpResponseBase:
    """Return a stream as a response; 429 if the user, or all users together, have too many."""
    refusal = too_many(user_id)
    if refusal:
        return HttpResponse(refusal, status=429, content_type="text/plain", headers={"Retry-After": "60"})
    response = StreamingHttpResponse(stream_for(user_id, stream), content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    return response
