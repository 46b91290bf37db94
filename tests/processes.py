"""Real processes for tests: started on free loopback ports in directories of their own, and always ended."""

import contextlib
import fcntl
import os
import pwd
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from glob import glob
from pathlib import Path
from typing import IO, Any, Final
from unittest.mock import patch
from uuid import uuid4

import psycopg2

from tests import forks
from tests.forks import Child, Parent

ROOT = forks.ROOT
DATABASE = "shadowprice.sqlite3"
"""Its file in a data directory."""
TABLES: Final = "tables"
"""The database of a PostgreSQL server that has tables and no row."""
START_S = 180.0
"""Longest start of a process on a busy machine."""


def binary(name: str) -> str | None:
    """Return the path of a program: beside this Python, on PATH, or in Debian's folder of PostgreSQL."""
    places = [
        str(Path(sys.executable).parent),
        os.environ.get("PATH", ""),
        *sorted(glob("/usr/lib/postgresql/*/bin"), reverse=True),
    ]
    return shutil.which(name, path=os.pathsep.join(places))


def free_port() -> int:
    """A loopback port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def end_on_sigterm() -> None:
    """Let SIGTERM end this program as Ctrl-C does, with the processes that it started; by default they would go on."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


def wait_until(done: Callable[[], bool], *, what: str, seconds: float = START_S, every: float = 0.1) -> None:
    """Wait for something to become true, or fail saying what."""
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:.0f} s")
        time.sleep(every)


def children(process: int) -> list[int]:
    """Return the processes that the main thread of a process has started, in this order."""
    return [int(pid) for pid in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def answers(port: int) -> bool:
    """Whether something listens on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Process:
    """A child in a process group of its own, its output in a file: a new one, or forked from a parent."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        cwd: Path = ROOT,
        parent: Parent | None = None,
    ) -> None:
        self.command = list(command)
        self.log = log
        self.popen: Child | subprocess.Popen[bytes]
        self._out: IO[bytes] = log.open("ab")
        if parent is not None:
            assert env is not None
            assert (user, cwd) == (None, ROOT)
            self.popen = parent.start(command, env=env, out=self._out.fileno(), err=self._out.fileno())
            return
        try:
            self.popen = subprocess.Popen(
                self.command,
                stdout=self._out,
                stderr=subprocess.STDOUT,
                env=env,
                user=user,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError:  # there is no such program
            self._out.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the child and of its group."""
        return self.popen.pid

    @property
    def alive(self) -> bool:
        """Whether the child still runs."""
        return self.popen.poll() is None

    def text(self) -> str:
        """What it printed so far."""
        return self.log.read_text(errors="replace")

    def signal_group(self, number: signal.Signals) -> None:
        """Send a signal to the child and its own children."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def end(self, seconds: float = 15.0) -> None:
        """Ask it to end, then make it."""
        if self.alive:
            self.popen.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(seconds)
        self.signal_group(signal.SIGKILL)
        self.popen.wait()
        self._out.close()


def python_env(var: Path, **extra: str) -> dict[str, str]:
    """The environment of this project's processes, with a data directory of their own."""
    kept = {key: value for key, value in os.environ.items() if key not in ("DATABASE_URL", "REDIS_URL")}
    path = str(Path(sys.executable).parent) + os.pathsep + kept.get("PATH", "")
    return {**kept, "PATH": path, "SHADOWPRICE_VAR": str(var), "PYTHONUNBUFFERED": "1", **extra}


def manage(*arguments: str, env: Mapping[str, str], seconds: float = 120.0) -> str:
    """Run a management command, which begins with everything imported; its output, or an error that shows it."""
    return forks.project(env).run(["python", "manage.py", *arguments], env=env, seconds=seconds)


def run_python(*arguments: str, env: Mapping[str, str], seconds: float = 120.0) -> str:
    """Run Python in the project's directory; its output, or an error that shows it."""
    done = subprocess.run(
        [sys.executable, *arguments], env=env, cwd=ROOT, capture_output=True, text=True, timeout=seconds
    )
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def make_tables(env: Mapping[str, str], *, shared: Path) -> None:
    """A migrated database without a row for a data directory: migrated once, then copied, in whatever test runs.

    `shared` is the directory of all processes of one test run.
    """
    kept = _migrated(shared, migrate=lambda made: manage("migrate", "-v0", env=python_env(made.parent)))
    with contextlib.closing(sqlite3.connect(kept)) as database:
        database.execute("VACUUM INTO ?", (str(Path(env["SHADOWPRICE_VAR"]) / DATABASE),))


@contextlib.contextmanager
def migrating_once(*, shared: Path) -> Iterator[None]:
    """In the block, `migrate` fills the database of tests in this process with a copy of the one of the whole run.

    The first process of the run migrates. `shared` is the directory of all processes of the run.
    """
    from django.core.management.commands.migrate import Command
    from django.db import connection

    migrate = Command.handle

    def fill(command: Command, *args: Any, **options: Any) -> str | None:
        def keep(made: Path) -> None:
            migrate(command, *args, **options)
            connection.cursor().execute("VACUUM INTO %s", [str(made)])

        with contextlib.closing(sqlite3.connect(_migrated(shared, migrate=keep))) as database:
            connection.ensure_connection()
            database.backup(connection.connection)
        return None

    with patch.object(Command, "handle", fill) if connection.vendor == "sqlite" else contextlib.nullcontext():
        yield


def _migrated(shared: Path, *, migrate: Callable[[Path], object]) -> Path:
    """The migrated database of this run, without a row; `migrate` makes its file if it does not exist yet."""
    kept = shared / "migrated"
    with (shared / "migrated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (kept / DATABASE).exists():
            made = Path(tempfile.mkdtemp(dir=shared))
            migrate(made / DATABASE)
            made.rename(kept)
    return kept / DATABASE


class Server:
    """A service that may be brought down and up again at the same address."""

    def __init__(self, url: str, *, start: Callable[[], Process]) -> None:
        self.url = url
        self._start = start
        self._process = start()

    @property
    def pid(self) -> int:
        """Process id of the service."""
        return self._process.pid

    def restart(self, *, by: signal.Signals) -> None:
        """End it with this signal, and start it again with the data it had on disk."""
        self.end(by)
        self._process = self._start()

    @contextlib.contextmanager
    def hung(self) -> Iterator[None]:
        """While the block runs it answers nothing, yet connections to it are accepted."""
        self._process.popen.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.popen.send_signal(signal.SIGCONT)

    def end(self, by: signal.Signals) -> None:
        """End it with this signal."""
        self._process.popen.send_signal(by)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.popen.wait(10)
        self._process.end()


@contextlib.contextmanager
def postgres(*, shared: Path, options: Sequence[str] = ("-F",)) -> Iterator[Server]:
    """A PostgreSQL server of its own, with an empty database and one of TABLES, which `fresh_database` copies.

    `shared` is the directory of all processes of one test run: its first server is migrated, others are copies of it.
    By default the server does not wait for the disk.
    """
    # initdb refuses to run as root, and that other user must reach the directory: not below pytest's private one.
    user = "postgres" if os.geteuid() == 0 and _is_user("postgres") else "nobody" if os.geteuid() == 0 else None
    base = Path(tempfile.mkdtemp(prefix="shadowprice-pg-"))
    try:
        base.chmod(0o755)
        data, kept = base / "data", shared / "postgres"
        with (shared / "postgres.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                _make_tables_on_postgres(base, user)
                copied = Path(tempfile.mkdtemp(dir=shared))
                _copy(data, copied / "data")
                (copied / "data").rename(kept)
        if not data.exists():
            _copy(kept, data)
        server = _postgres_on(base, user, options)
        try:
            yield server
        finally:
            server.end(signal.SIGINT)  # its fast shutdown; SIGTERM would wait for clients
    finally:
        shutil.rmtree(base, ignore_errors=True)


def fresh_database(server: Server) -> str:
    """The address of a new database of a PostgreSQL server, with tables and without a row."""
    name = f"fresh_{uuid4().hex}"
    _create_database(server, f"{name} TEMPLATE {TABLES}")
    return f"{server.url.rpartition('/')[0]}/{name}"


def _make_tables_on_postgres(base: Path, user: str | None) -> None:
    data = base / "data"
    data.mkdir(mode=0o700)
    if user:
        shutil.chown(data, user)
    made = subprocess.run(
        [str(binary("initdb")), "-D", str(data), "-A", "trust", "-U", "shadowprice", "-E", "UTF8", "--no-sync"],
        user=user,
        cwd=base,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    server = _postgres_on(base, user)
    try:
        _create_database(server, TABLES)
        with tempfile.TemporaryDirectory() as var:
            address = f"{server.url.rpartition('/')[0]}/{TABLES}"
            manage("migrate", "-v0", env=python_env(Path(var), DATABASE_URL=address))
    finally:
        server.end(signal.SIGINT)


def _postgres_on(base: Path, user: str | None, options: Sequence[str] = ("-F",)) -> Server:
    """Started with the data there, at a free port."""
    port = free_port()
    common = ["-h", "127.0.0.1", "-p", str(port), "-k", "", "-c", "max_connections=100"]

    def start() -> Process:
        command = [str(binary("postgres")), "-D", str(base / "data"), *common, *options]
        process = Process(command, log=base / "log", user=user, cwd=base)
        ready = [str(binary("pg_isready")), "-h", "127.0.0.1", "-p", str(port), "-q"]
        wait_until(lambda: subprocess.run(ready).returncode == 0, what="PostgreSQL")
        return process

    return Server(f"postgres://shadowprice@127.0.0.1:{port}/postgres", start=start)


def _create_database(server: Server, name: str) -> None:
    with contextlib.closing(psycopg2.connect(server.url)) as connection:
        connection.autocommit = True
        connection.cursor().execute(f"CREATE DATABASE {name}")


def _copy(data: Path, to: Path) -> None:
    """Copy with owners and rights, which PostgreSQL requires."""
    subprocess.run(["cp", "-a", str(data), str(to)], check=True)


@contextlib.contextmanager
def redis() -> Iterator[Server]:
    """A Redis server of its own, which forgets everything when it ends."""
    base = Path(tempfile.mkdtemp(prefix="shadowprice-redis-"))
    port = free_port()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", str(base)]

    def start() -> Process:
        process = Process([str(binary("redis-server")), *options], log=base / "log", cwd=base)
        wait_until(lambda: answers(port), what="Redis")
        return process

    server = Server(f"redis://127.0.0.1:{port}/0", start=start)
    try:
        yield server
    finally:
        server.end(signal.SIGTERM)
        shutil.rmtree(base, ignore_errors=True)


def _is_user(name: str) -> bool:
    with contextlib.suppress(KeyError):
        return bool(pwd.getpwnam(name))
    return False
