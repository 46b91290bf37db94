"""Each process of the larger installation is killed in turn while bids are sent: none is lost or decided twice."""

import signal
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg2
import pytest

from auctions.models import DecisionRecord
from tests.faults import crowd
from tests.faults.installation import start_beat, start_web, start_worker
from tests.processes import Process, Server, free_port, python_env, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.services]

BIDS = 400


@dataclass
class Installation:
    """The processes of docker-compose.yml, on this machine."""

    env: dict[str, str]
    directory: Path
    postgres: Server
    redis: Server
    port: int
    started: ExitStack
    web: Process
    worker: Process
    beat: Process

    def restart_web(self) -> None:
        """Kill the web process and start another."""
        self.web.signal_group(signal.SIGKILL)
        self.web.end()
        self.web = start_web(self.port, self.env, self.directory / "web.log")
        self.started.callback(self.web.end)

    def restart_worker(self) -> None:
        """Kill the worker and start another."""
        self.worker.signal_group(signal.SIGKILL)
        self.worker.end()
        self.worker = start_worker("worker", self.env, self.directory)
        self.started.callback(self.worker.end)

    def restart_beat(self) -> None:
        """Kill beat and start another."""
        self.beat.signal_group(signal.SIGKILL)
        self.beat.end()
        self.beat = start_beat(self.env, self.directory)
        self.started.callback(self.beat.end)

    def restart_redis(self) -> None:
        """Redis is killed and comes back empty."""
        self.redis.restart(by=signal.SIGKILL)

    def restart_postgres(self) -> None:
        """PostgreSQL drops every connection at once and recovers from its log."""
        self.postgres.restart(by=signal.SIGQUIT)


@pytest.fixture
def installation(
    tmp_path: Path, postgres_server: Server, postgres_tables: str, redis_server: Server
) -> Iterator[Installation]:
    """Web, a worker, beat, PostgreSQL and Redis."""
    env = python_env(
        tmp_path,
        DATABASE_URL=postgres_tables,
        REDIS_URL=redis_server.url,
        SHADOWPRICE_SECRET_KEY="only for this test",
        SHADOWPRICE_SWEEP_S="1",
    )
    port = free_port()
    with ExitStack() as started:
        web = start_web(port, env, tmp_path / "web.log")
        started.callback(web.end)
        worker, beat = start_worker("worker", env, tmp_path), start_beat(env, tmp_path)
        for process in (worker, beat):
            started.callback(process.end)
        yield Installation(
            env=env,
            directory=tmp_path,
            postgres=postgres_server,
            redis=redis_server,
            port=port,
            started=started,
            web=web,
            worker=worker,
            beat=beat,
        )


def decided(installation: Installation) -> int:
    """Read from the database itself: a process for each look would take a core from those that decide."""
    count = f"SELECT count(*) FROM {DecisionRecord._meta.db_table}"
    with closing(psycopg2.connect(installation.env["DATABASE_URL"])) as connection, connection.cursor() as cursor:
        cursor.execute(count)
        return int(cursor.fetchone()[0])


def goes_on(installation: Installation, before: int, posting: "Future[list[int]]") -> bool:
    return decided(installation) > before or posting.done()


def test_no_bid_is_lost_or_decided_twice_whichever_process_is_killed(installation: Installation) -> None:
    tokens = crowd.call("prepare", "dps", env=installation.env)
    outages = [
        installation.restart_redis,
        installation.restart_postgres,
        installation.restart_beat,
        installation.restart_web,
        installation.restart_worker,
    ]
    address = f"http://127.0.0.1:{installation.port}"
    with ThreadPoolExecutor(1) as pool:
        posting = pool.submit(crowd.post_all, address, tokens, count=BIDS, patient=True)
        for outage in outages:
            outage()
            # A worker decides again before the next outage.
            before = decided(installation)
            wait_until(partial(goes_on, installation, before, posting), what=f"decisions after {outage.__name__}")
        sequences = posting.result()
    crowd.wait_for_decisions(installation.env)
    for process in (installation.web, installation.worker, installation.beat):
        assert process.alive, process.text()
    crowd.assert_each_bid_decided_once(installation.env, sequences)
