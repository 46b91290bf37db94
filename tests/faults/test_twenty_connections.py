"""100 open pages and 100 event streams are served on a PostgreSQL server that accepts 20 connections."""

import re
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import psycopg2
import pytest
import requests

from tests.faults import crowd
from tests.faults.installation import shell, start_web, start_worker
from tests.faults.streams import Stream, session_of, streams
from tests.faults.test_busy_postgres import EVENTS, PASSWORD, SET_PASSWORDS
from tests.processes import Server, free_port, fresh_database, postgres, python_env

pytestmark = [pytest.mark.slow, pytest.mark.services]

MANY: Final = 100
CONNECTIONS: Final = 20
TOKEN: Final = "only-for-tests-of-metrics"
PAGES: Final = (f"/markets/{crowd.CLUSTER}/", f"/markets/{crowd.CLUSTER}/tiles.json")


@pytest.fixture
def database(shared: Path) -> Iterator[str]:
    """A database of a server that accepts no connection beyond the limit."""
    limit = ("-c", f"max_connections={CONNECTIONS}", "-c", "superuser_reserved_connections=0")
    with postgres(shared=shared, options=("-F", *limit)) as server:
        yield fresh_database(server)


def read_until(stream: Stream, version: int) -> list[int]:
    """The versions that a stream sends, up to this one or a later one."""
    stream.line.settimeout(60)
    text, found = "", list[int]()
    while not found or found[-1] < version:
        part = stream.line.recv(4096).decode()
        assert part, f"the stream has ended: {text}"
        text += part.replace("\r", "")
        found = [int(number) for number in re.findall(r"^data: version (\d+)\n", text, re.MULTILINE)]
    return found


def ask(database: str, query: str) -> int:
    """A number that the database knows."""
    with closing(psycopg2.connect(database)) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        return int(cursor.fetchone()[0])


def test_pages_and_streams_are_served_and_streams_hear_of_decisions(
    tmp_path: Path, database: str, redis_server: Server
) -> None:
    env = python_env(
        tmp_path,
        DATABASE_URL=database,
        REDIS_URL=redis_server.url,
        SHADOWPRICE_SECRET_KEY="only for this test",
        SHADOWPRICE_METRICS_TOKEN=TOKEN,
    )
    tokens = crowd.call("prepare", "dps", env=env)
    shell(SET_PASSWORDS, env)
    port = free_port()
    address = f"http://127.0.0.1:{port}"

    def bid(i: int, **headers: str) -> int:
        """Submit a bid; the version that the market has then."""
        headers |= {"Authorization": f"Token {tokens[0]}"}
        url = f"{address}/api/v1/clusters/{crowd.CLUSTER}/bids"
        answer = requests.post(url, json=crowd.body_of(0, i), headers=headers, timeout=60)
        assert answer.status_code in (201, 200, 202), answer.text
        return ask(database, "SELECT version FROM auctions_market")

    def look(i: int) -> list[int]:
        cookies = sessions[i % len(sessions)].cookies.get_dict()
        return [requests.get(f"{address}{path}", cookies=cookies, timeout=120).status_code for path in PAGES]

    with ExitStack() as started:
        for process in (start_web(port, env, tmp_path / "web.log"), start_worker("worker", env, tmp_path)):
            started.callback(process.end)
        sessions = [session_of(address, f"client-{c}", PASSWORD) for c in range(crowd.CLIENTS)]
        with streams(address, EVENTS, sessions, count=MANY) as opened, ThreadPoolExecutor(MANY) as pool:
            assert Counter(stream.status() for stream in opened) == {200: MANY}
            pages = pool.map(look, range(MANY))
            decided = bid(1, Prefer="wait=30")
            assert Counter(status for found in pages for status in found) == {200: MANY * len(PAGES)}
            heard = [read_until(stream, decided) for stream in opened]
            with redis_server.hung():
                stored = bid(2)
                heard = [before + read_until(stream, stored) for before, stream in zip(heard, opened, strict=True)]
            assert all(found == sorted(set(found)) for found in heard)
        scrape = requests.get(f"{address}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60).text
    for cause in ("announcement", "poll"):
        assert f'shadowprice_stream_reads_total{{cause="{cause}"}}' in scrape
    for outcome in ("begun", "lost"):
        assert f'shadowprice_stream_subscriptions_total{{outcome="{outcome}"}}' in scrape
