"""The processes of `docker-compose.yml` without containers: `make up`, `make down` and `make smoke`.

PostgreSQL and Redis come from the packages of the system and listen on free loopback ports, each with a password. All
files are in `up` below the data directory. One process, in the background, starts the others in order, starts again
what ends, and ends all of them when it gets SIGTERM. If it dies, the kernel ends them.
"""

import argparse
import ctypes
import json
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg2
import yaml

ROOT: Final = Path(__file__).resolve().parent.parent
VAR: Final = Path(os.environ.get("SHADOWPRICE_VAR") or ROOT / "var").resolve()
UP: Final = VAR / "up"
SECRETS: Final = UP / "secrets.json"
STATE: Final = UP / "state.json"
"""The number of the process in the background, and the environment of all; only its owner may read it."""
LOG: Final = UP / "logs"
SERVERS: Final = ("postgres", "redis", "migrate")
"""Services of `docker-compose.yml` that are started here in another way."""
EXECUTION: Final = ["python", "manage.py", "execute"]
"""It runs the jobs of clusters that execute on this machine; in containers it would run them in a container."""
PACKAGES: Final = {
    "postgres": "postgresql",
    "initdb": "postgresql",
    "pg_isready": "postgresql",
    "redis-server": "redis-server",
}
"""The programs that are needed, and the packages of Debian that contain them."""
START_S: Final = 600.0
"""Longest time until the service is ready. The first start in a fresh clone on a busy machine takes minutes."""
IMPORTS: Final = (
    "import django; django.setup(); import config.asgi, config.urls, celery.apps.worker, celery.apps.beat;"
    "from config.celery import app; app.loader.import_default_modules()"
)
"""It makes the bytecode of all modules once; otherwise each of the processes would make it at the same time."""
STOP_S: Final = 40.0
PAUSE_S: Final = 1.0
"""Time between the end of a process and its next start."""
PR_SET_PDEATHSIG: Final = 1


class Failed(Exception):
    """The installation cannot be started; the message says why."""


@dataclass
class Service:
    """A process that is kept running."""

    name: str
    command: Sequence[str]
    stop: signal.Signals = signal.SIGTERM
    user: str | None = None
    cwd: Path = ROOT
    process: subprocess.Popen[bytes] | None = None
    ended_at: float = 0.0

    def start(self, environment: dict[str, str]) -> None:
        """Start the process; its output goes to a file of its name."""
        with (LOG / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=environment,
                cwd=self.cwd,
                user=self.user,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=self._end_with_parent,
            )

    def _end_with_parent(self) -> None:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, self.stop, 0, 0, 0)

    def ask_to_end(self) -> None:
        """Send the signal by which it ends."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(self.stop)

    def end(self, seconds: float) -> None:
        """Wait for the end, and kill the process and its children after this time."""
        if self.process is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(max(0.1, seconds))
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Installation:
    """All processes, in the order in which they start."""

    environment: dict[str, str]
    port: int
    services: list[Service] = field(default_factory=list)
    stopped: bool = False

    def run(self) -> None:
        """Start everything, and keep it running until SIGTERM."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        try:
            self._postgres()
            self._redis()
            self._once("The database cannot be migrated", ["manage.py", "migrate", "--noinput", "--verbosity", "0"])
            self._once("Modules cannot be imported", ["-c", IMPORTS])
            for metrics in (VAR / "metrics").glob("*.db"):
                metrics.unlink()  # no process of this installation runs
            for name, command in processes(self.port).items():
                self._begin(Service(name, command))
            self._keep_running()
        finally:
            self._end()

    def _stop(self, *_: object) -> None:
        self.stopped = True

    def _begin(self, service: Service) -> None:
        if not self.stopped:
            self.services.append(service)
            service.start(self.environment)

    def _keep_running(self) -> None:
        """Start again what ends, after a pause."""
        while not self.stopped:
            time.sleep(0.2)
            for service in self.services:
                if service.process is None or service.process.poll() is None:
                    continue
                if not service.ended_at:
                    say(f"{service.name} ended with status {service.process.returncode}; it is started again")
                    service.ended_at = time.monotonic()
                elif time.monotonic() > service.ended_at + PAUSE_S:
                    service.ended_at = 0.0
                    service.start(self.environment)

    def _end(self) -> None:
        """End the processes of the project, and then the servers."""
        deadline = time.monotonic() + STOP_S - 5.0
        servers = [service for service in self.services if service.name in SERVERS]
        for group in ([one for one in self.services if one not in servers], servers):
            for service in group:
                service.ask_to_end()
            for service in group:
                service.end(deadline - time.monotonic())

    def _postgres(self) -> None:
        user, data = server_user(), UP / "postgres"
        password = json.loads(SECRETS.read_text())["postgres"]
        if not (data / "PG_VERSION").exists():
            data.mkdir(mode=0o700, exist_ok=True)
            given = UP / "password"
            given.touch(mode=0o600)
            given.write_text(password)
            if user:
                shutil.chown(data, user)
                shutil.chown(given, user)
            options = ["-A", "scram-sha-256", "-U", "shadowprice", "-E", "UTF8", "--locale", "C.UTF-8"]
            command = [program("initdb"), "-D", str(data), f"--pwfile={given}", *options]
            made = subprocess.run(command, user=user, cwd=UP, capture_output=True, text=True)
            given.unlink()
            if made.returncode:
                shutil.rmtree(data)
                raise Failed(f"PostgreSQL's data cannot be made: {made.stdout}{made.stderr}")
        port = self.environment["PGPORT"]
        # No option weakens durability: an answered commit is on disk.
        options = ["-D", str(data), "-h", "127.0.0.1", "-p", port, "-k", ""]
        self._begin(Service("postgres", [program("postgres"), *options], signal.SIGINT, user, UP))
        ready = [program("pg_isready"), "-h", "127.0.0.1", "-p", port, "-q"]
        self._wait("PostgreSQL", lambda: subprocess.run(ready).returncode == 0)
        address = self.environment["DATABASE_URL"]
        connection = psycopg2.connect(address.rpartition("/")[0] + "/postgres")
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM pg_database WHERE datname = 'shadowprice'")
            if cursor.fetchone() is None:
                cursor.execute("CREATE DATABASE shadowprice")
        connection.close()

    def _redis(self) -> None:
        directory = UP / "redis"
        directory.mkdir(exist_ok=True)
        settings = directory / "redis.conf"
        settings.touch(mode=0o600)  # not in the command line, which everybody can read
        password, port = (
            json.loads(SECRETS.read_text())["redis"],
            self.environment["REDIS_URL"].split(":")[-1].split("/")[0],
        )
        settings.write_text(
            f'bind 127.0.0.1\nport {port}\ndir "{directory}"\nsave ""\nappendonly no\nrequirepass {password}\n'
        )
        self._begin(Service("redis", [program("redis-server"), str(settings)], cwd=directory))
        self._wait("Redis", lambda: answers(int(port or 0)))

    def _once(self, problem: str, arguments: Sequence[str]) -> None:
        """Run a command of Python to its end."""
        command = [sys.executable, *arguments]
        environment = self.environment | {"DJANGO_SETTINGS_MODULE": "config.settings"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode and not self.stopped:
            raise Failed(f"{problem}: {done.stdout}{done.stderr}")

    def _wait(self, name: str, is_up: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30.0
        while not is_up() and not self.stopped:
            process = self.services[-1].process
            if time.monotonic() > deadline or process is None or process.poll() is not None:
                raise Failed(f"{name} does not start; see {LOG / self.services[-1].name}.log")
            time.sleep(0.1)


def processes(port: int) -> dict[str, list[str]]:
    """Return the commands of `docker-compose.yml`, and of the execution, for this machine by name."""
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    commands = {name: one["command"] for name, one in services.items() if name not in SERVERS} | {
        "execution": EXECUTION
    }
    return {name: native(words, port) for name, words in commands.items()}


def native(words: Sequence[str], port: int) -> list[str]:
    """Return a command for this machine: its port, and the programs of the virtual environment."""
    swapped = [{"8000": str(port), "0.0.0.0": "127.0.0.1"}.get(word, word).replace("$$", "$") for word in words]  # noqa: S104
    if swapped[0] == "python":
        swapped[0] = sys.executable
    return swapped


def program(name: str) -> str:
    """Return the path of a server's program, also where Debian keeps it outside PATH."""
    folders = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    found = shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", os.defpath), "/usr/sbin"]))
    if found is None:
        raise Failed(f"{name} is missing: apt-get install {PACKAGES[name]}")
    return found


def server_user() -> str | None:
    """Return the user under which PostgreSQL runs if this is root, which it refuses; None for this user."""
    if os.geteuid() != 0:
        return None
    with suppress(KeyError):
        return pwd.getpwnam("postgres").pw_name
    return "nobody"


def check_machine(port: int) -> None:
    """Raise Failed, with everything that is missing, if the installation cannot run here."""
    problems = []
    for name in PACKAGES:
        try:
            program(name)
        except Failed as error:
            problems.append(str(error))
    user = server_user()
    if user is not None and not problems:
        reach = subprocess.run(["test", "-x", str(UP)], user=user, cwd="/")
        if reach.returncode:
            problems.append(
                f"PostgreSQL does not run as root but as the user {user}, who cannot enter {UP}:"
                " set SHADOWPRICE_VAR to a directory that it can enter, such as /srv/shadowprice"
            )
    if not 0 < port < 65536:
        problems.append(f"port: expected 1 to 65535, got {port}")
    elif answers(port):
        problems.append(f"port {port} is in use: choose another one with make up PORT=8001")
    if problems:
        raise Failed("This machine cannot run it:\n  " + "\n  ".join(problems))


def environment(port: int) -> dict[str, str]:
    """Return the environment of all processes; servers get free ports, secrets are made once."""
    if not SECRETS.exists():
        SECRETS.touch(mode=0o600)
        names = ("postgres", "redis", "key")
        SECRETS.write_text(json.dumps({name: secrets.token_hex(32) for name in names}))
    known = json.loads(SECRETS.read_text())
    database, broker = free_ports(2)
    given = {key: value for key, value in os.environ.items() if key.startswith("SHADOWPRICE_")}
    if given.get("SHADOWPRICE_HOSTS"):
        given["SHADOWPRICE_HOSTS"] += ",127.0.0.1"  # `up` and `smoke` ask by the address
    key = {} if given.get("SHADOWPRICE_SECRET_KEY_FILE") else {"SHADOWPRICE_SECRET_KEY": known["key"]}
    return of_caller() | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        "DATABASE_URL": f"postgres://shadowprice:{known['postgres']}@127.0.0.1:{database}/shadowprice",
        "REDIS_URL": f"redis://:{known['redis']}@127.0.0.1:{broker}/0",
        **key,
        "SHADOWPRICE_PRODUCTION": "1",
        "PGPORT": str(database),
        "PORT": str(port),
        **given,
        "SHADOWPRICE_VAR": str(VAR),
        "SHADOWPRICE_METRICS": str(VAR / "metrics"),
        "SHADOWPRICE_ARCHIVES": given.get("SHADOWPRICE_ARCHIVES", str(VAR / "archives")),
    }


def of_caller() -> dict[str, str]:
    """Return this process's environment without settings of the service, of PostgreSQL and of Redis."""
    others = ("PG", "SHADOWPRICE_", "DATABASE_URL", "REDIS_URL")
    return {key: value for key, value in os.environ.items() if not key.startswith(others)}


def up(port: int) -> None:
    """Start the installation in the background, and return once it is ready."""
    state = running()
    if state is not None:
        say(f"It runs already, at http://127.0.0.1:{state['environment']['PORT']}")
        return
    for directory in (UP.parent, UP, LOG):
        directory.mkdir(parents=True, exist_ok=True)
    if server_user():
        for directory in (UP.parent, UP):  # with a narrow umask that user could not enter them
            directory.chmod(directory.stat().st_mode | 0o011)
    check_machine(port)
    made = environment(port)
    with (LOG / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, "run", "--port", str(port)],
            env=made,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    STATE.touch(mode=0o600)
    STATE.write_text(json.dumps({"process": process.pid, "started": started(process.pid), "environment": made}))
    deadline = time.monotonic() + START_S
    missing, said = "it has not started yet", ""
    while missing:
        if missing != said:
            say(f"Not ready: {missing}")
            said = missing
        if process.poll() is not None:
            STATE.unlink(missing_ok=True)  # `down` has removed it if it ended the process
            raise Failed(f"It ended: {(LOG / 'up.log').read_text()[-2000:]}")
        if time.monotonic() > deadline:
            raise Failed(f"It is not ready after {START_S:.0f} s ({missing}); see {LOG}. make down ends it.")
        time.sleep(0.3)
        missing = not_ready(port)
    command = f"{Path(sys.executable).relative_to(ROOT) if ROOT in Path(sys.executable).parents else sys.executable}"
    say(f"Ready at http://127.0.0.1:{port}, logs in {LOG}")
    say(f"An administrator: {command} deploy/native.py manage createsuperuser")
    say("make smoke submits a bid and waits for its decision; make down ends it and keeps its data")


def down() -> None:
    """End the installation; its data stays."""
    state = running()
    if state is None:
        say("It does not run.")
        return
    os.kill(state["process"], signal.SIGTERM)
    deadline = time.monotonic() + STOP_S
    while started(state["process"]) == state["started"]:
        if time.monotonic() > deadline:
            os.kill(state["process"], signal.SIGKILL)  # and with it, by the kernel, all others are asked to end
            raise Failed(f"It did not end within {STOP_S:.0f} s and was killed.")
        time.sleep(0.1)
    STATE.unlink()
    say("It has ended; its data stays.")


def manage(arguments: Sequence[str]) -> int:
    """Run a management command in the environment of the installation; return its exit status.

    Other variables of the caller hold, too, such as DJANGO_SUPERUSER_PASSWORD for `createsuperuser --noinput`.
    """
    state = running()
    if state is None:
        raise Failed("It does not run: make up")
    env = of_caller() | state["environment"]
    return subprocess.run([sys.executable, "manage.py", *arguments], cwd=ROOT, env=env).returncode


def running() -> dict[str, Any] | None:
    """Return the state that `up` has stored, if its process still runs."""
    with suppress(FileNotFoundError):
        state: dict[str, Any] = json.loads(STATE.read_text())
        if started(state["process"]) == state["started"]:
            return state
    return None


def started(process: int) -> str | None:
    """Return when a process started, which with its number names it; None if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    return None


def not_ready(port: int) -> str:
    """Return the checks of `/readyz` that find a problem, as text; empty if it is ready."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # not by a proxy of the environment
    try:
        with direct.open(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            json.load(answer)
            return ""
    except urllib.error.HTTPError as error:
        with suppress(ValueError):
            return "; ".join(text for text in json.load(error)["checks"].values() if text != "ok")
        return str(error)
    except OSError:
        return "the web process does not answer yet"


def answers(port: int) -> bool:
    """Whether something listens on a port of this machine."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_ports(count: int) -> list[int]:
    """Return free ports of this machine."""
    with ExitStack() as sockets:
        probes = [sockets.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def say(text: str) -> None:
    """Print a line at once."""
    print(text, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run a command; return the exit status."""
    if arguments[:1] == ["manage"]:
        return manage(arguments[1:])
    parser = argparse.ArgumentParser(prog="native.py", description=__doc__)
    parser.add_argument("command", choices=("up", "down", "smoke", "run"))
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args(arguments)
    match options.command:
        case "up":
            up(options.port)
        case "down":
            down()
        case "smoke":
            state = running()
            port = state["environment"]["PORT"] if state else ""
            return manage(["smoke", "--url", f"http://127.0.0.1:{port}"])
        case "run":
            Installation(dict(os.environ), options.port).run()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Failed as error:
        sys.exit(str(error))
