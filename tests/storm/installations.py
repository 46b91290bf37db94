"""The two installations over which a storm goes: that of `make up`, and a smaller one of forked processes for tests."""

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from tests.forks import project
from tests.processes import ROOT, Process, Server, children, free_port

NATIVE: Final = ROOT / "deploy/native.py"
DISK: Final = "1g"
"""Size of the disk of PostgreSQL's data, if root may make one."""


class Installation(Protocol):
    """Processes that are killed and come back."""

    env: dict[str, str]
    port: int
    disk: Path | None
    """Folder of PostgreSQL's data, if it has a small disk of its own."""

    def pid(self, name: str) -> int:
        """Return the main process of this name; 0 if it does not run now."""

    def revive(self) -> None:
        """Start again what has ended, if nothing else does."""


@dataclass
class Native:
    """The installation of `make up`, which starts again what ends."""

    env: dict[str, str]
    port: int
    supervisor: int
    disk: Path | None

    def pid(self, name: str) -> int:
        """Return the main process of this name; 0 if it does not run now."""
        words = {"web": "manage.py\0serve", "execution": "manage.py\0execute", "beat": "config\0beat"}
        wanted = words.get(name, name if name in ("postgres", "redis-server") else f"{name}@")
        for process in children(self.supervisor):
            with suppress(OSError):
                command = Path(f"/proc/{process}/cmdline").read_text().rstrip("\0")
                if wanted in command:
                    return process
        return 0

    def revive(self) -> None:
        """Leave that to the supervisor."""


@contextmanager
def native(*, small_disk: bool = True) -> Iterator[Native]:
    """Bring up a fresh installation as `make up` does, in a folder of its own.

    PostgreSQL's data gets a small disk of its own if root may make one, and `small_disk` is set.
    """
    var = Path(tempfile.mkdtemp(prefix="shadowprice-up-"))
    var.chmod(0o755)
    port, env = free_port(), {**os.environ, "SHADOWPRICE_VAR": str(var)}
    data = var / "up/postgres"
    data.mkdir(parents=True)
    is_small = (
        small_disk
        and os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0700", "storm", str(data)], capture_output=True
        ).returncode
    )
    if is_small:
        shutil.chown(data, _module(var).server_user())
    try:
        subprocess.run([sys.executable, str(NATIVE), "up", "--port", str(port)], env=env, cwd=ROOT, check=True)
        state = json.loads((var / "up/state.json").read_text())
        yield Native(state["environment"], port, state["process"], data if is_small else None)
    finally:
        subprocess.run([sys.executable, str(NATIVE), "down"], env=env, cwd=ROOT)
        if is_small:
            subprocess.run(["umount", str(data)])
        shutil.rmtree(var, ignore_errors=True)


def _module(var: Path) -> Any:
    """Return `deploy/native.py` as a module."""
    spec = importlib.util.spec_from_file_location("native", NATIVE)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules["native"] = found
    spec.loader.exec_module(found)
    return found


@dataclass
class Forked:
    """Web, a worker and beat, forked from a process that has imported everything."""

    env: dict[str, str]
    directory: Path
    postgres: Server
    redis: Server
    started: ExitStack
    port: int = field(default_factory=free_port)
    disk: Path | None = None
    _processes: dict[str, Process] = field(default_factory=dict)

    def pid(self, name: str) -> int:
        """Return the main process of this name."""
        servers = {"postgres": self.postgres, "redis-server": self.redis}
        return servers[name].pid if name in servers else self._processes[name].pid

    def revive(self) -> None:
        """Start what has ended."""
        from tests.faults.installation import start_beat, start_web, start_worker  # it needs settings

        starts: dict[str, Callable[[], Process]] = {
            "web": lambda: start_web(self.port, self.env, self.directory / "web.log"),
            "worker-1": lambda: start_worker("worker-1", self.env, self.directory),
            "beat": lambda: start_beat(self.env, self.directory),
        }
        for name, start in starts.items():
            before = self._processes.get(name)
            if before is not None and before.alive:
                continue
            if before is not None:
                before.end()
            self._processes[name] = start()
            self.started.callback(self._processes[name].end)


def family(process: int) -> list[int]:
    """Return a process and all below it; empty if it has ended."""
    with suppress(OSError):
        return [process, *(one for child in children(process) for one in family(child))]
    return []


def send(processes: list[int], number: signal.Signals) -> None:
    """Send a signal to processes, as far as they are there."""
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def ask(*arguments: str, env: dict[str, str], seconds: float = 2000.0) -> Any:
    """Run a command of `tests.storm.world` in an environment; return its answer."""
    command = ["python", "-m", "tests.storm.world", *arguments]
    return json.loads(project(env).run(command, env=env, seconds=seconds).splitlines()[-1])
