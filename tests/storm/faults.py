"""The faults of a storm: each is done to a whole installation, and over when its function returns."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import psycopg2
import redis
from celery import Celery

from tests.processes import ROOT, binary, children
from tests.storm.aimed import AT_COMMIT, TABLES, Aim
from tests.storm.clients import Clients, slow_requests
from tests.storm.installations import Installation, ask, family, send

AIM_S: Final = 6.0
"""Longest time to wait for the statement at which a fault is aimed."""
WORKERS: Final = ("worker-1", "worker-2")
MOST_CONNECTIONS: Final = 120
RESERVE: Final = 1 << 20


class NotPossible(Exception):
    """The fault could not be done now: it is not counted."""


@dataclass
class Faults:
    """What can be done to an installation."""

    installation: Installation
    clients: Clients
    markets: list[str]
    tokens: list[str]
    rng: np.random.Generator
    aim: Aim = field(init=False)
    copy: Path | None = None
    """A copy of the database that was made during the storm."""
    in_copy: tuple[dict[str, list[int]], list[tuple[str, int]]] = field(default=({}, []))
    """What clients had been answered before the copy was begun: numbers of bids, and withdrawals."""
    problems: list[str] = field(default_factory=list)
    """What went wrong that no fault explains."""
    _numbers: int = 0

    def __post_init__(self) -> None:
        self.aim = Aim(self._database)
        self._targets = [*TABLES, AT_COMMIT]

    @property
    def kinds(self) -> dict[str, tuple[int, Callable[[], None]]]:
        """Each kind of fault, how often it is done in a round, and what does it."""
        return {
            "connection ended at a statement": (12, self.end_at_statement),
            "process killed at a statement": (6, self.kill_at_statement),
            "connections ended at random": (5, self.end_at_random),
            "worker's child killed": (3, self.kill_child),
            "worker killed": (2, lambda: self.kill(self._worker())),
            "web killed": (1, lambda: self.kill("web")),
            "beat killed": (1, lambda: self.kill("beat")),
            "bounds, planner or execution killed": (1, self.kill_other),
            "worker stopped": (3, lambda: self.stop(self._worker(), 3.0)),
            "web stopped": (1, lambda: self.stop("web", 2.0)),
            "beat stopped": (1, lambda: self.stop("beat", 3.0)),
            "Redis killed": (1, lambda: self.kill("redis-server")),
            "Redis hangs": (1, lambda: self.stop("redis-server", 4.0)),
            "Redis emptied": (3, self.empty_redis),
            "tasks repeated": (4, self.repeat_tasks),
            "PostgreSQL hangs": (1, lambda: self.stop("postgres", 3.0)),
            "PostgreSQL stopped at once": (1, self.restart_postgres),
            "market's row locked": (2, self.lock_row),
            "connections used up": (1, self.use_up_connections),
            "slow clients": (1, self.slow_clients),
            "waits used up": (1, self.use_up_waits),
            "disk full": (1, self.fill_disk),
            "upgrade with queued work": (1, self.upgrade),
            "copy for a restore": (1, self.make_copy),
            "past archived": (2, self.archive),
            "archiving killed": (3, self.kill_archiving),
            "policy changed": (6, lambda: self.operate("policy")),
            "capacity changed": (3, lambda: self.operate("capacity")),
            "server out of service": (3, lambda: self.operate("server")),
            "market or clock paused": (2, lambda: self.operate("pause")),
            "credits granted or taken back": (3, lambda: self.operate("budget")),
        }

    def end_at_statement(self) -> None:
        """End a connection in the middle of a transaction, at each statement in turn."""
        if not self.aim.end_connection(self._target(), seconds=AIM_S):
            raise NotPossible

    def kill_at_statement(self) -> None:
        """Kill the process that runs a statement, web or worker, at each in turn."""
        if not self.aim.kill_process(self._target(), seconds=AIM_S):
            raise NotPossible

    def end_at_random(self) -> None:
        """End all connections that are in a transaction now."""
        with self._cursor() as cursor:
            for _ in range(20):
                cursor.execute(
                    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND xact_start IS NOT NULL"
                )
                if cursor.fetchone()[0]:
                    return
                time.sleep(0.01 * self.rng.random())
        raise NotPossible

    def kill(self, name: str) -> None:
        """Kill a process and all below it."""
        send(self._family(name), signal.SIGKILL)
        self.installation.revive()

    def kill_child(self) -> None:
        """Kill the process of a worker that runs tasks."""
        found = children(self._family(self._worker())[0])
        if not found:
            raise NotPossible
        send(found[:1], signal.SIGKILL)

    def kill_other(self) -> None:
        """Kill a process that decides nothing."""
        self.kill(("bounds", "planner", "execution")[int(self.rng.integers(3))])

    def stop(self, name: str, longest_s: float) -> None:
        """Stop a process and all below it for a while: it holds what it has, and answers nothing."""
        found = self._family(name)
        send(found, signal.SIGSTOP)
        try:
            time.sleep(longest_s * float(self.rng.uniform(0.3, 1.0)))
        finally:
            send(found, signal.SIGCONT)

    def empty_redis(self) -> None:
        """Lose all messages."""
        with closing(redis.Redis.from_url(self.installation.env["REDIS_URL"], socket_timeout=5)) as broker:
            broker.flushall()

    def repeat_tasks(self) -> None:
        """Send tasks that nobody needs, to decide and to sweep."""
        with Celery(broker=self.installation.env["REDIS_URL"]) as app:
            for number in range(25):
                app.send_task("auctions.tasks.decide_market", args=[1 + number % len(self.markets)])
            app.send_task("auctions.tasks.sweep")

    def restart_postgres(self) -> None:
        """End PostgreSQL at once; it recovers from its log."""
        restart = getattr(self.installation, "postgres", None)
        if restart is not None:
            restart.restart(by=signal.SIGQUIT)
        else:
            send([self._family("postgres")[0]], signal.SIGQUIT)

    def lock_row(self) -> None:
        """Hold the lock of a market for two seconds."""
        with self._cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT 1 FROM auctions_market ORDER BY random() LIMIT 1 FOR UPDATE")
            time.sleep(2.0)
            cursor.execute("ROLLBACK")

    def use_up_connections(self) -> None:
        """Open connections until the database gives no more, and keep them for two seconds."""
        with ExitStack() as opened, suppress(psycopg2.OperationalError):
            for _ in range(MOST_CONNECTIONS):
                opened.enter_context(closing(psycopg2.connect(self._database)))
            time.sleep(2.0)

    def slow_clients(self) -> None:
        """Let clients send requests byte by byte, and leave."""
        path = f"/api/v1/clusters/{self.markets[0]}/bids"
        slow_requests(self.installation.port, self.tokens[0], path, count=40, seconds=2.0)

    def use_up_waits(self) -> None:
        """Let more clients wait for a decision than may, while no worker decides."""
        self._numbers += 1
        found = [process for name in WORKERS for process in self._family(name, may_lack=True)]
        send(found, signal.SIGSTOP)
        stopped = time.monotonic()
        try:
            with _in_background(lambda: self.clients.wait_for_decisions(f"wait{self._numbers}", count=60)):
                time.sleep(max(0.0, 2.0 - (time.monotonic() - stopped)))
                send(found, signal.SIGCONT)
        finally:
            send(found, signal.SIGCONT)

    def fill_disk(self) -> None:
        """Fill the disk of PostgreSQL for three seconds."""
        disk = self.installation.disk
        if disk is None:
            raise NotPossible
        ballast = disk / "ballast"
        try:
            with ballast.open("wb") as file, suppress(OSError):
                while free := os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize:
                    os.posix_fallocate(file.fileno(), file.seek(0, os.SEEK_END), min(free, RESERVE))
            time.sleep(3.0)
        finally:
            ballast.unlink(missing_ok=True)

    def upgrade(self) -> None:
        """Undo the last migration of markets while bids come; then upgrade as an operator does.

        Web and workers are asked to end while bids wait, `migrate` applies what is missing, and new processes take
        over.
        """
        *_, before, _ = sorted(file.stem for file in (ROOT / "auctions/migrations").glob("[0-9]*.py"))
        self._migrate("auctions", before)
        send([self._family(name)[0] for name in WORKERS if self._family(name, may_lack=True)], signal.SIGTERM)
        time.sleep(0.5)  # bids wait now
        send([self._family("web")[0]], signal.SIGTERM)
        self._migrate()
        with self._cursor() as cursor:
            # For the migration everything before is of an older version. The processes before were of this one.
            cursor.execute("UPDATE auctions_market SET teams_pooled_from = 0")
        time.sleep(1.0)
        self.installation.revive()

    def _migrate(self, *to: str) -> None:
        command = ["python", "manage.py", "migrate", *to, "-v0"]
        done = subprocess.run(
            command, env=self.installation.env, timeout=120, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        if done.returncode:
            self.problems.append(f"{' '.join(command)} ended with {done.returncode}: {done.stdout[-300:]}")

    def make_copy(self) -> None:
        """Copy the database once, while bids come; the copy is checked after the storm."""
        dump = binary("pg_dump")
        if self.copy is not None or dump is None:
            raise NotPossible
        answered = dict(self.clients.answered.keys), list(self.clients.answered.withdrawn)
        file = Path(self.installation.env["SHADOWPRICE_VAR"]) / "storm.dump"
        subprocess.run([dump, "--format=custom", f"--file={file}", self._database], check=True, timeout=300)
        self.copy, self.in_copy = file, answered

    def archive(self) -> None:
        """Move what is old into an archive, while bids come."""
        process = self._archiving()
        said, _ = process.communicate(timeout=300)
        if process.returncode:
            self.problems.append(f"archiving ended with {process.returncode}: {said[-300:]}")

    def kill_archiving(self) -> None:
        """Kill the process that moves what is old into an archive; the next one goes on."""
        process = self._archiving()
        try:
            process.wait(timeout=float(self.rng.uniform(1.0, 5.0)))
        except subprocess.TimeoutExpired:
            process.kill()
        else:
            raise NotPossible  # it was done before
        finally:
            process.communicate()

    def operate(self, what: str) -> None:
        """Let an operator change something of a market whose bids state values, most often of the first one."""
        valued = [name for name, states_value in self.clients.markets if states_value]
        name = valued[0] if self.rng.random() < 0.6 else str(self.rng.choice(valued))
        seed = str(int(self.rng.integers(1 << 30)))
        try:
            is_done = ask("change", name, what, seed, env=self.installation.env, seconds=120.0)
        except AssertionError as error:
            self.problems.append(f"the change of {what} failed: {str(error)[-600:]}")
            return
        if not is_done:
            raise NotPossible

    def decided(self) -> int:
        """Return the number of decisions that are stored; -1 if the database does not answer."""
        with suppress(psycopg2.Error), self._cursor() as cursor:
            cursor.execute("SELECT count(*) FROM auctions_event WHERE kind IN ('admitted', 'rejected', 'standing')")
            return int(cursor.fetchone()[0])
        return -1

    def _archiving(self) -> "subprocess.Popen[str]":
        """Begin to archive what is before a slot of a market, which is drawn."""
        name = str(self.rng.choice(self.markets))
        with self._cursor() as cursor:
            cursor.execute(
                "SELECT market.slot FROM auctions_market market"
                " JOIN cluster_cluster cluster ON cluster.id = market.cluster_id WHERE cluster.name = %s",
                [name],
            )
            before = int(cursor.fetchone()[0]) - int(self.rng.integers(1, 8))
        command = [sys.executable, "manage.py", "archive", name, "--before", str(before)]
        return subprocess.Popen(
            command, env=self.installation.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @property
    def _database(self) -> str:
        return self.installation.env["DATABASE_URL"]

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        with closing(psycopg2.connect(self._database, connect_timeout=5)) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                yield cursor

    def _family(self, name: str, *, may_lack: bool = False) -> list[int]:
        found = family(self.installation.pid(name)) if self._has(name) and self.installation.pid(name) else []
        if not found and not may_lack:
            raise NotPossible
        return found

    def _has(self, name: str) -> bool:
        with suppress(KeyError):
            return self.installation.pid(name) > 0
        return False

    def _worker(self) -> str:
        known = [name for name in WORKERS if self._has(name)]
        if not known:
            raise NotPossible
        return known[int(self.rng.integers(len(known)))]

    def _target(self) -> str:
        self._targets = [*self._targets[1:], self._targets[0]]
        return self._targets[0]


@contextmanager
def _in_background(work: Callable[[], None]) -> Iterator[None]:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(work)
        yield
        done.result()


def port_of(address: str) -> int:
    """Return the port of an address."""
    return urlsplit(address).port or 0
