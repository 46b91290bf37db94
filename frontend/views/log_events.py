"""The event stream of a log: it sends whole lines as they are written, each part with the offset behind it as its id.

A part also has the unfinished last line as it stands. It is sent again when that line changes, as a progress bar does.

A stream reads files only. Who may read them is checked once, when it is opened. It ends after a minute, and its reader
opens it again from the offset that it saw last.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase

from execution.engines.base import EngineError
from execution.engines.files import Logs
from execution.logs import BLOCK, Part, part_from
from execution.models import ProcessState
from frontend.views.events import BEAT_S, response_of
from frontend.views.trainings import logs_of, offset_of, process_of
from web import shutdown

EVERY_S: Final = 1.0
"""Seconds between two looks at a log of which all was sent."""
LIFE_S: Final = 60.0
"""A stream ends after this time and is opened again: for so long a reader follows who has logged out, left the team or
lost the account. The stream of a market lives longer, as it says only when something happened."""
LARGEST_ID: Final = 18
"""Digits of an offset at most."""

_reader = ThreadPoolExecutor(max_workers=2, thread_name_prefix="logs")


async def events(request: HttpRequest, name: str, number: int, key: str) -> HttpResponseBase:
    """Return the event stream of a log under ASGI, or 204 otherwise: the page then asks again and again."""
    user = await request.auser()
    if not isinstance(request, ASGIRequest) or user.pk is None:
        return HttpResponse(status=204)
    market, _, process = await sync_to_async(process_of)(request, name, number, key)
    over = process.state in (ProcessState.EXITED, ProcessState.LOST)
    last = request.headers.get("Last-Event-ID", "")
    if last.isascii() and last.isdecimal() and len(last) < LARGEST_ID:
        offset = int(last)
    else:
        offset = offset_of(request, "offset") or 0
    return response_of(user.pk, stream(logs_of(market), key, offset, over=over))


async def stream(logs: Logs, key: str, offset: int, *, over: bool) -> AsyncGenerator[str]:
    """Yield server-sent events: lines from byte `offset` on, the unfinished one, and `over` when no more follow.

    Parameters
    ----------
    logs
        The output of the processes of the cluster.
    key
        Name of the process.
    offset
        Bytes of its output that the reader has.
    over
        Whether the process is known to have ended.
    """
    loop = asyncio.get_running_loop()
    ends, beat, unfinished = loop.time() + LIFE_S, loop.time() + BEAT_S, ""
    yield "retry: 2000\n\n"
    while loop.time() < ends and not shutdown.begun.is_set():
        part, over = await loop.run_in_executor(_reader, _read, logs, key, offset, over)
        if part is not None and (part.end, part.unfinished) != (offset, unfinished):
            offset, unfinished, beat = part.end, part.unfinished, loop.time() + BEAT_S
            yield f"id: {part.end}\ndata: {json.dumps(vars(part))}\n\n"
            if over or part.size - part.end >= BLOCK:  # more is there by now
                continue
        elif over:
            yield "event: over\ndata: {}\n\n"
            return
        if loop.time() >= beat:
            beat = loop.time() + BEAT_S
            yield ": still here\n\n"
        await asyncio.sleep(EVERY_S)


def _read(logs: Logs, key: str, offset: int, over: bool) -> tuple[Part | None, bool]:
    """Return lines, and whether the process had ended before they were read; no lines if they are replaced too fast."""
    over = over or logs.is_over(key)
    try:
        return part_from(logs, key, offset, is_over=over), over
    except EngineError:
        return None, False
