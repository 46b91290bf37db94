"""The engine `local`: processes on this machine. Servers are only names, so nothing has to be installed."""

import os
import signal
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from execution.engines import shim
from execution.engines.base import EngineError, Phase, Seen, Start
from execution.engines.files import FilesEngine, Found

START_S: Final = 30.0
"""A shim that did not start its process within this time died before: the process is never started then."""
KILL_S: Final = 1.0
"""Time that a shim has for killing its process, before the shim itself is killed, seconds."""
PYTHON: Final = (sys.executable, "-I", "-S")
"""The command that runs the shim: Python without its site packages."""


class LocalEngine(FilesEngine):
    """Starts processes on this machine.

    Parameters
    ----------
    root
        The engine's directory.
    servers
        Names of the servers that exist; None if every server that a start names does.
    python
        The command that runs the shim.
    """

    def __init__(self, root: Path, servers: Collection[str] | None, *, python: Sequence[str] = PYTHON) -> None:
        self.servers = None if servers is None else frozenset(servers)
        self.python = tuple(python)
        super().__init__(root)
        self._shims: list[int] = []

    def launch(self, start: Start) -> None:
        """Start a process, unless one with this key was ever started; see `Engine`."""
        if self.servers is not None and start.server not in self.servers:
            raise EngineError(f"server: expected one of {', '.join(sorted(self.servers))}, got {start.server!r}")
        self.files.create(start)
        found = self.files.find(start.key)
        if found is None or found.seen.phase != Phase.STARTING:
            return
        command = [*self.python, str(self.files.shim), found.directory]
        quiet = [(os.POSIX_SPAWN_OPEN, file, os.devnull, os.O_RDWR, 0) for file in (0, 1, 2)]
        try:
            # A session of its own and nothing inherited: it lives on when this process dies.
            pid = os.posix_spawnp(command[0], command, {}, file_actions=quiet, setsid=True)
        except OSError as error:
            raise EngineError(f"{start.key}: expected to start its shim, got: {error}") from None
        self._shims.append(pid)

    def list(self) -> Mapping[str, Seen]:
        """Return all processes that were launched and not retired; see `Engine`."""
        self._shims = [pid for pid in self._shims if not _has_ended(pid)]
        return {found.key: self.see(found) for found in self.files.find_all()}

    def see(self, found: Found) -> Seen:
        """Return what is known of a process."""
        seen = found.seen
        if seen.phase == Phase.STARTING and self.files.asked_s(found.key) + START_S < shim.now():
            self.files.void(found.key, f"its shim did not start within {START_S:.0f} s", code=None)
        if seen.phase == Phase.LOST and found.started is not None and shim.lives(found.started["inner"]):
            return Seen(found.key, Phase.RUNNING, started_s=seen.started_s)
        return seen

    def stop(self, key: str) -> None:
        """Send SIGTERM to all of a process; see `Engine`."""
        super().stop(key)
        self._signal(key, signal.SIGCONT)

    def kill(self, key: str) -> None:
        """End all of a process at once, also if it or its shim is frozen; see `Engine`."""
        self.files.forbid(key)
        self.files.want(key, shim.KILL)
        self.files.void(key, shim.KILLED_BY_ENGINE, code=shim.KILLED)
        self._signal(key, signal.SIGCONT)
        if not self.ends_within(key, KILL_S):
            self._signal(key, signal.SIGKILL)
            if not self.ends_within(key, KILL_S):
                raise EngineError(f"{key}: expected it to be gone after SIGKILL, got: it lives")

    def _signal(self, key: str, number: signal.Signals) -> None:
        """Send a signal to its shims; after SIGCONT they look at what is wanted at once, also if they were frozen."""
        found = self.files.find(key)
        inner = found.started["inner"] if found is not None and found.started is not None else None
        for name in (self.files.shim_of(key), inner if number == signal.SIGCONT else None):
            if name is not None:
                _signal_process(name, number)


def _signal_process(name: Mapping[str, Any], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        pid = os.pidfd_open(name["pid"])
        try:
            if shim.lives(name):
                signal.pidfd_send_signal(pid, number)
        finally:
            os.close(pid)


def _has_ended(child: int) -> bool:
    """Reap a child if it has ended."""
    try:
        return os.waitpid(child, os.WNOHANG)[0] == child
    except ChildProcessError:
        return True
