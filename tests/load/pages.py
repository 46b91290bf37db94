"""`python -m tests.load.pages`: 100 visitors, each with an open page and its event stream, on 20 database connections.

All processes of `docker-compose.yml` run on a PostgreSQL server that accepts 20 connections. Each visitor opens the
overview of a market, and fetches its tiles and charts whenever the stream says that the market has changed, as the
page's script does. Meanwhile bids are sent. It prints the largest number of connections, the answers by status, what
caused the queries for streams, and the time from the commit of a version until the streams have it.
"""

import argparse
import asyncio
import json
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from threading import Event, Thread
from typing import Final

import numpy as np
import psycopg2
import requests

from tests.load import client, world
from tests.load.installation import Installation, larger
from tests.load.world import World
from tests.processes import end_on_sigterm

VISITORS: Final = 100
CONNECTIONS: Final = 20
RATE: Final = 2.0
"""Bids a second."""
LIMITED: Final = ("-c", f"max_connections={CONNECTIONS}", "-c", "superuser_reserved_connections=0")
SAMPLE_S: Final = 0.02
LAST_S: Final = 10.0
"""Time after the last bid in which visitors still fetch."""
COMMITS: Final = """
    SELECT version, extract(epoch FROM pg_xact_commit_timestamp(xmin)) FROM auctions_event
"""


@dataclass
class Seen:
    """What visitors and the database have seen."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    """Times of answers to pages, tiles and charts."""
    versions: list[tuple[int, float]] = field(default_factory=list)
    """Versions that streams have sent, and when, seconds of the wall clock."""
    most_connections: int = 0


class Visitor:
    """A signed-in browser with one page."""

    def __init__(self, address: str, market: str, cookie: str, seen: Seen) -> None:
        self._address, self._cookie, self._seen = address, cookie, seen
        self._page = f"/markets/{market}/"
        self._tags: dict[str, str] = {}
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.cookies["sessionid"] = cookie

    def open_page(self) -> None:
        """Fetch the page."""
        text = self._get(self._page).replace("&amp;", "&")
        self._tags = dict.fromkeys(re.findall(r'data-(?:tiles|figure)="([^"]+)"', text), "")
        assert self._tags, text

    def refresh(self) -> None:
        """Fetch tiles and charts, unless they are as before."""
        for path in self._tags:
            self._get(path)

    async def listen(self, pool: ThreadPoolExecutor) -> None:
        """Follow the stream, and fetch what has changed; one round at a time, as the page's script does."""
        loop, fetching = asyncio.get_running_loop(), None
        port = int(self._address.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"Host: 127.0.0.1:{port}\r\nCookie: sessionid={self._cookie}\r\n\r\n"
        writer.write(f"GET {self._page}events HTTP/1.1\r\n{head}".encode())
        try:
            self._seen.statuses[int((await reader.readline()).split()[1])] += 1
            while line := await reader.readline():
                if not line.startswith(b"data: version "):
                    continue
                self._seen.versions.append((int(line.split()[2]), time.time()))
                if fetching is None or fetching.done():
                    fetching = loop.run_in_executor(pool, self.refresh)
        finally:
            writer.close()

    def _get(self, path: str) -> str:
        began = time.monotonic()
        headers = {"If-None-Match": tag} if (tag := self._tags.get(path)) else {}
        answer = self._session.get(f"{self._address}{path}", headers=headers, timeout=60)
        self._seen.seconds.append(time.monotonic() - began)
        self._seen.statuses[answer.status_code] += 1
        if path in self._tags and "ETag" in answer.headers:
            self._tags[path] = answer.headers["ETag"]
        return answer.text


def measure(running: Installation, known: World, *, seconds: float) -> Seen:
    """Let all visitors look at the first market while bids are sent to it for these seconds."""
    seen, ended = Seen(), Event()
    cookies = world.sessions(running.env)
    address = f"http://127.0.0.1:{running.port}"
    visitors = [Visitor(address, known.markets[0], cookies[i % len(cookies)], seen) for i in range(VISITORS)]
    sampler = Thread(target=_sample, args=(running.env["DATABASE_URL"], seen, ended))
    sampler.start()
    try:
        asyncio.run(_visit(visitors, running.port, known, seconds))
    finally:
        ended.set()
        sampler.join()
    return seen


async def _visit(visitors: list[Visitor], port: int, known: World, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(VISITORS) as pool, ThreadPoolExecutor(1) as bidder:
        await asyncio.gather(*(loop.run_in_executor(pool, one.open_page) for one in visitors))
        tasks = [asyncio.create_task(one.listen(pool)) for one in visitors]
        send = partial(client.open_loop, port, known.first(1), label="pages", rate=RATE, seconds=seconds)
        sent = await loop.run_in_executor(bidder, send)
        assert not sent.refused, sent.refused[0]
        await asyncio.sleep(LAST_S)
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


def _sample(database: str, seen: Seen, ended: Event) -> None:
    """Count connections, but for the one that counts."""
    with closing(psycopg2.connect(database)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        while not ended.wait(SAMPLE_S):
            cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
            seen.most_connections = max(seen.most_connections, int(cursor.fetchone()[0]) - 1)


def lags(database: str, seen: Seen) -> list[float]:
    """Return the time from the commit of each version that a stream has sent until it was received, seconds."""
    with closing(psycopg2.connect(database)) as connection, connection.cursor() as cursor:
        cursor.execute(COMMITS)
        committed = {int(version): float(at) for version, at in cursor.fetchall()}
    first = min(at for _, at in seen.versions) + 2.0  # what a stream sends when it opens is no news
    return [at - committed[version] for version, at in seen.versions if at > first]


def _reads(running: Installation) -> dict[str, int]:
    """Return the number of queries for streams by their causes."""
    headers = {"Authorization": f"Bearer {running.env['SHADOWPRICE_METRICS_TOKEN']}"}
    text = requests.get(f"http://127.0.0.1:{running.port}/metrics", headers=headers, timeout=60).text
    found = re.findall(r'shadowprice_stream_reads_total\{cause="(\w+)"\} ([\d.]+)', text)
    return {cause: int(float(number)) for cause, number in found}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.load.pages", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="time for which bids are sent")
    seconds = parser.parse_args().seconds
    end_on_sigterm()
    with larger(options=LIMITED) as running:
        running.env["SHADOWPRICE_METRICS_TOKEN"] = "only-under-load"
        known = world.prepare(1, running.env)
        running.start()
        client.closed_loop(running.port, known, label="warm-up", clients=2, seconds=5.0)
        before = running.processor_s()
        seen = measure(running, known, seconds=seconds)
        used = {name: after - before[name] for name, after in running.processor_s().items()}
        late = lags(running.env["DATABASE_URL"], seen)
        print(
            json.dumps(
                {
                    "most connections of all processes": seen.most_connections,
                    "answers": dict(sorted(seen.statuses.items())),
                    "p50, p99 of an answer, ms": [round(1000 * np.quantile(seen.seconds, q)) for q in (0.5, 0.99)],
                    "events": len(seen.versions),
                    "p50, p99 from commit to stream, ms": [round(1000 * np.quantile(late, q)) for q in (0.5, 0.99)],
                    "queries for streams": _reads(running),
                    "processor, s": {name: round(s, 1) for name, s in used.items()},
                },
                indent=1,
            )
        )
        for name, lines in running.logged().items():
            print(*(f"{name}: {line}" for line in lines if " WARNING " in line or " ERROR " in line), sep="\n")


if __name__ == "__main__":
    main()
