"""The processes of `docker-compose.yml`, or the embedded server, on this machine, and the processor time they take."""

import os
import signal
import subprocess
import tempfile
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import psycopg2
import yaml

from tests.processes import (
    ROOT,
    Process,
    binary,
    children,
    free_port,
    manage,
    postgres,
    python_env,
    redis,
    wait_until,
)
from tests.storm.installations import native

SERVICES: Final[dict[str, Any]] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
SERVERS: Final = ("migrate", "postgres", "redis")
"""Services of the compose file that are not processes of this project, or end at once."""
DURABLE: Final = ("-c", "track_commit_timestamp=on")
"""Options of PostgreSQL: without others, a commit is on disk before it is answered."""
TICKS: Final = os.sysconf("SC_CLK_TCK")
"""Units of processor time in a second."""


class Running(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int:
        """Its number."""


@dataclass(frozen=True)
class _Supervised:
    """A process that a supervisor has started."""

    pid: int


@dataclass
class Installation:
    """A database with tables, and what runs on it."""

    env: dict[str, str]
    services: tuple[str, ...]
    """Names of the compose file."""
    started: ExitStack
    """It ends all that runs."""
    running: dict[str, Running] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    logs: Path | None = None
    """Folder of the logs, if it is not the data directory."""
    skipped: dict[str, int] = field(default_factory=dict)
    """Numbers of lines of the logs that are from before."""

    def start(self) -> None:
        """Start the services, unless they run, and wait until the web process answers."""
        if self.running.keys() >= set(self.services):
            return
        folder = Path(self.env["SHADOWPRICE_VAR"])
        for name in self.services:
            words = SERVICES[name]["command"]
            swapped = [{"8000": str(self.port), "0.0.0.0": "127.0.0.1"}.get(word, word) for word in words]
            command = [word.replace("$$", "$") for word in swapped]
            process = Process(command, log=folder / f"{name}.log", env=self.env)
            self.started.callback(process.end)
            self.running[name] = process
        wait_until(lambda: _answers(self.port, "/healthz"), what="the web process", every=0.5)
        workers = [name for name in self.services if "worker" in SERVICES[name]["command"]]
        if workers:
            wait_until(lambda: self._workers() == len(workers), what="the workers", every=0.5)

    def processor_s(self) -> dict[str, float]:
        """Return the processor time that each part and its children have used, seconds."""
        return {name: _processor_s(process.pid) for name, process in self.running.items()}

    def logged(self) -> dict[str, list[str]]:
        """Return the lines that each process has logged since it was started here: warnings and errors."""
        folder = self.logs or Path(self.env["SHADOWPRICE_VAR"])
        logs = {name: folder / f"{name}.log" for name in self.services}
        lines = {name: log.read_text(errors="replace").splitlines() for name, log in logs.items()}
        return {name: new for name, all_ in lines.items() if (new := all_[self.skipped.get(name, 0) :])}

    def _workers(self) -> int:
        """Return how many workers answer."""
        command = [str(binary("celery")), "-A", "config", "inspect", "ping", "--timeout", "3"]
        done = subprocess.run(command, env=self.env, cwd=ROOT, capture_output=True, text=True)
        return done.stdout.count(": OK")


@contextmanager
def larger(*, options: Sequence[str] = (), without: Collection[str] = ()) -> Iterator[Installation]:
    """PostgreSQL with further options, Redis and, once started, the services of the compose file but for some."""
    with ExitStack() as started:
        folder, shared = (Path(started.enter_context(tempfile.TemporaryDirectory())) for _ in range(2))
        database = started.enter_context(postgres(shared=shared, options=(*DURABLE, *options)))
        broker = started.enter_context(redis())
        address = f"{database.url.rpartition('/')[0]}/tables"
        env = python_env(folder, DATABASE_URL=address, REDIS_URL=broker.url, SHADOWPRICE_SECRET_KEY="only under load")
        services = tuple(name for name in SERVICES if name not in (*SERVERS, *without))
        yield Installation(env, services, started, {"PostgreSQL": database, "Redis": broker})


@contextmanager
def brought_up() -> Iterator[Installation]:
    """The installation of a fresh `make up`; the times of its commits are kept, and nothing else is changed."""
    with native(small_disk=False) as up, ExitStack() as started:
        _keep_commit_times(up.env["DATABASE_URL"], up.pid("postgres"))
        wait_until(lambda: up.pid("postgres") != 0 and _answers(up.port, "/readyz"), what="/readyz", every=0.5)
        services = (*(name for name in SERVICES if name not in SERVERS), "execution")
        parts = {"PostgreSQL": "postgres", "Redis": "redis-server"} | {name: name for name in services}
        running: dict[str, Running] = {label: _Supervised(up.pid(name)) for label, name in parts.items()}
        logs = Path(up.env["SHADOWPRICE_VAR"], "up/logs")
        found = Installation(up.env, services, started, running, up.port, logs)
        found.skipped = {name: len(lines) for name, lines in found.logged().items()}
        yield found


def _keep_commit_times(database: str, server: int) -> None:
    """Let PostgreSQL keep the times of commits from its next start on, and end it; it is started again."""
    connection = psycopg2.connect(database)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("ALTER SYSTEM SET track_commit_timestamp = on")
    connection.close()
    os.kill(server, signal.SIGINT)
    wait_until(lambda: _keeps_commit_times(database), what="PostgreSQL with times of commits", every=0.5)


def _keeps_commit_times(database: str) -> bool:
    try:
        connection = psycopg2.connect(database)
    except psycopg2.OperationalError:  # it starts
        return False
    with connection.cursor() as cursor:
        cursor.execute("SHOW track_commit_timestamp")
        (answer,) = cursor.fetchone() or ("",)
    connection.close()
    return bool(answer == "on")


def _answers(port: int, path: str) -> bool:
    """Return whether a page answers with 200."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def embedded() -> Iterator[Installation]:
    """SQLite and, once started, the server of `make serve`."""
    with ExitStack() as started:
        env = python_env(Path(started.enter_context(tempfile.TemporaryDirectory())))
        manage("migrate", "-v0", env=env)
        yield Installation(env, ("web",), started)


def _processor_s(process: int) -> float:
    """Return the processor time of a process, of its children and of those of them that have ended, seconds."""
    with suppress(OSError):  # it has ended meanwhile, and its parent counts it
        stat = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
        own = sum(int(ticks) for ticks in stat[11:15]) / TICKS
        return own + sum(_processor_s(child) for child in children(process))
    return 0.0
