"""The versions of markets that event streams follow, read for all streams of a process together.

One query reads the versions of all markets that streams follow, in one thread, hence on one connection. Where there is
a broker, the process subscribes to announcements once, however many streams there are. An announcement causes a query
at once, and without any the query is made every `CHECK_EVERY_S`, since a broker may lose one. Without a broker, or
while it does not answer, the query is made every `EVERY_S`.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connections
from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from auctions.domain import announcements
from auctions.models import Market
from cluster.database import limits
from cluster.database.busy import is_busy
from web.metrics import STREAM_READS, STREAM_SUBSCRIPTIONS, add_one

EVERY_S: Final = 1.0
"""Seconds between two queries without announcements."""
CHECK_EVERY_S: Final = 5.0
"""Seconds between two queries that no announcement causes, while announcements are received."""
APART_S: Final = 0.2
"""Least time between two queries."""
PING_EVERY_S: Final = 1.0
"""Time without a message after which the broker is asked whether it is there."""
SILENT_S: Final = 2.5
"""Time without an answer after which the broker counts as lost."""

log = logging.getLogger(__name__)

# One thread, hence one database connection at most for all streams of a process.
_reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="versions")


def read_marks(market_ids: Iterable[int]) -> dict[int, str]:
    """Return the version of each market and of its certificate as text: one query, and no connection is kept.

    A market that does not exist is left out.
    """
    limits.use("request")
    rows = Market.objects.filter(pk__in=list(market_ids)).values_list("pk", "version", "certificate__version")
    try:
        return {market_id: f"{version} {certificate}" for market_id, version, certificate in rows}
    finally:
        connections.close_all()


@dataclass(eq=False)
class Follower:
    """One stream's view of the market that it follows."""

    market_id: int
    mark: str | None = None
    """The last version that was read; None before the first query since it began to follow."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    failure: Exception | None = None

    def current(self) -> str | None:
        """Return the mark; raises the error that ended the queries."""
        self.changed.clear()
        if self.failure is not None:
            raise self.failure
        return self.mark

    async def wait(self, at_most_s: float) -> None:
        """Return when the mark has changed since `current`, or when the time is up."""
        with suppress(TimeoutError):
            async with asyncio.timeout(at_most_s):
                await self.changed.wait()


class Versions:
    """Reads versions for the followers of one event loop, from the first one on until there is none."""

    def __init__(self) -> None:
        self.is_subscribed = False
        self._followers: set[Follower] = set()
        self._causes: set[str] = set()
        """The causes for which versions are to be read at once; empty without one."""
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def following(self, market_id: int) -> AsyncIterator[Follower]:
        """Follow a market while the block runs."""
        follower = Follower(market_id)
        self._followers.add(follower)
        self._ask("stream")
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            yield follower
        finally:
            self._followers.discard(follower)

    async def _run(self) -> None:
        subscription = asyncio.create_task(self._subscribe()) if settings.REDIS_URL else None
        try:
            while self._followers:
                await self._read()
                await asyncio.sleep(APART_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(CHECK_EVERY_S if self.is_subscribed else EVERY_S):
                        await self._wake.wait()
        except Exception as error:  # whatever it is, no stream must wait for a query that never comes
            for follower in self._followers:
                follower.failure = error
                follower.changed.set()
            raise
        finally:
            self.is_subscribed = False
            if subscription is not None:
                subscription.cancel()

    async def _read(self) -> None:
        """Read all markets that are followed; while the database is busy, the old marks stay."""
        self._wake.clear()
        causes, self._causes = self._causes, set()
        followers, loop = list(self._followers), asyncio.get_running_loop()
        try:
            marks = await loop.run_in_executor(_reader, read_marks, {one.market_id for one in followers})
        except (DatabaseError, InterfaceError) as error:
            if not is_busy(error):
                raise
            return
        fallback = "check" if self.is_subscribed else "poll"
        add_one(STREAM_READS, next((one for one in ("announcement", "stream") if one in causes), fallback))
        for one in followers:
            mark = marks.get(one.market_id, "")
            if mark != one.mark:
                one.mark = mark
                one.changed.set()

    def _ask(self, cause: str) -> None:
        self._causes.add(cause)
        self._wake.set()

    async def _subscribe(self) -> None:
        """Receive announcements for as long as this task runs, and try again after the broker was lost."""
        was_tried = False
        while True:
            try:
                await self._receive()
            except (RedisError, OSError) as error:  # a TimeoutError, too
                if self.is_subscribed or not was_tried:
                    log.warning("no announcements of changed markets (%s); streams query every %g s", error, EVERY_S)
                    add_one(STREAM_SUBSCRIPTIONS, "lost")
            finally:
                self.is_subscribed = False
            was_tried = True
            self._wake.set()
            await asyncio.sleep(announcements.REST_S)

    async def _receive(self) -> None:
        """Subscribe, and ask for the markets that are announced; raises an error when the broker is lost."""
        client = Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=SILENT_S,
            socket_connect_timeout=announcements.BROKER_S,
            retry=Retry(NoBackoff(), 0),
        )
        async with client, client.pubsub() as subscription:
            async with asyncio.timeout(SILENT_S):
                await subscription.subscribe(announcements.channel())
                while await subscription.get_message(timeout=PING_EVERY_S) is None:
                    pass
            self.is_subscribed = True
            self._wake.set()  # for what was announced before
            add_one(STREAM_SUBSCRIPTIONS, "begun")
            log.info("announcements of changed markets are received")
            while True:
                self._hear(await _next(subscription))

    def _hear(self, message: dict[str, Any]) -> None:
        """Ask for the market of an announcement; another program's message is ignored."""
        if message["type"] != "message":
            return
        try:
            market_id = int(json.loads(message["data"])["market"])
        except (ValueError, TypeError, KeyError):
            log.warning("an announcement is not one of a market: %.100r", message["data"])
            return
        if any(one.market_id == market_id for one in self._followers):
            self._ask("announcement")


async def _next(subscription: PubSub) -> dict[str, Any]:
    """Return the next message, or the answer to a question after some silence; raises TimeoutError without one."""
    try:
        async with asyncio.timeout(SILENT_S):
            while True:
                message: dict[str, Any] | None = await subscription.get_message(timeout=PING_EVERY_S)
                if message is not None:
                    return message
                await subscription.ping()
    except TimeoutError:
        raise TimeoutError("the broker does not answer") from None


_of_loop: "WeakKeyDictionary[asyncio.AbstractEventLoop, Versions]" = WeakKeyDictionary()


def versions() -> Versions:
    """Return what reads versions for the streams of the running event loop."""
    return _of_loop.setdefault(asyncio.get_running_loop(), Versions())
