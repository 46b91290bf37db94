"""Announce through the broker that a market has changed, so that open pages need not wait for the next query.

An announcement has the market's key and its version, and nothing of its bids: pages read what their users may read. A
thread of its own sends them, so that nothing waits for a broker that hangs. Of several announcements of a
market that wait, only the last is sent. One may be lost; web processes query all markets from time to time as well.
"""

import json
import logging
import os
from threading import Condition, Thread
from time import sleep
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from redis import Redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.exceptions import RedisError
from redis.retry import Retry

BROKER_S: Final = 1.0
"""Longest wait for an answer of the broker."""
REST_S: Final = 5.0
"""Seconds without an attempt after a failed one."""

log = logging.getLogger(__name__)


def broker() -> Redis:
    """Return a client of the broker that asks once and waits no longer than `BROKER_S`; its user closes it."""
    return Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=BROKER_S,
        socket_connect_timeout=BROKER_S,
        retry=Retry(NoBackoff(), 0),
    )


def channel() -> str:
    """Return the name of the channel; installations may share a broker if the numbers of their databases differ."""
    parts: dict[str, Any] = parse_url(settings.REDIS_URL)  # type: ignore[no-untyped-call]
    return f"shadowprice:{parts.get('db', 0)}:versions"


def announce(market_id: int, version: int) -> None:
    """Announce that a market has changed, once the open transaction is committed; nothing without a broker.

    Parameters
    ----------
    market_id
        Key of the market.
    version
        The version that is announced: the market's, or the one for which its certificate was computed.
    """
    if settings.REDIS_URL:
        transaction.on_commit(lambda: _sender.add(market_id, version), robust=True)


class Sender:
    """Sends announcements from a thread, which begins with the first one."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._waiting: dict[int, int] = {}
        self._thread: Thread | None = None

    def add(self, market_id: int, version: int) -> None:
        """Let the thread send this; return at once."""
        with self._changed:
            self._waiting[market_id] = version
            if self._thread is None:
                self._thread = Thread(target=self._send_for_ever, name="announcements", daemon=True)
                self._thread.start()
            self._changed.notify()

    def _send_for_ever(self) -> None:
        client = broker()
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                sent, self._waiting = self._waiting, {}
            try:
                for market_id, version in sent.items():
                    client.publish(channel(), json.dumps({"market": market_id, "version": version}))
            except (RedisError, OSError) as error:
                log.warning("changes of markets are not announced (%s); pages find them by their queries", error)
                with self._changed:
                    self._waiting = sent | self._waiting
                sleep(REST_S)


_sender = Sender()


def _forget() -> None:
    """A process that was forked has no thread, and a lock that another thread held would be held for ever."""
    global _sender
    _sender = Sender()


os.register_at_fork(after_in_child=_forget)
