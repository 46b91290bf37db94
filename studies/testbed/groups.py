"""Control groups of version 1 or 2, whichever the machine has: limits of processor time, cores, memory and processes.

With version 1 groups are made below that of this process in each hierarchy, so limits above it still hold. With version
2 they are made below the root of the mount, since a group that has processes cannot divide its resources.
"""

import os
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CONTROLLERS: Final = ("cpu", "cpuset", "memory", "pids")
PERIOD_US: Final = 50_000
"""Period of limits of processor time: shorter ones make a slow processor smoother."""
SHARE: Final = 100
"""Weight of these groups against other load of the machine, in multiples of the usual one."""
REMOVE_S: Final = 5.0


class NoGroups(Exception):
    """Control groups cannot be made here; the message says why."""


@dataclass(frozen=True)
class Limits:
    """Limits of a group; None leaves those above it."""

    processors: float | None = None
    """Seconds of processor time in a second."""
    memory_mb: int | None = None
    processes: int | None = None
    """Largest number of processes and threads."""


@dataclass(frozen=True)
class Groups:
    """The place of control groups on this machine."""

    version: int
    bases: Mapping[str, Path]
    """Directory below which groups are made, by controller; with version 2 it is the same one for all."""
    roots: tuple[Path, ...]
    """Directories of the whole hierarchies, where groups of an earlier process may be."""
    home: Path
    """Directory of the group in which this process was, by its processor time."""

    @classmethod
    def here(cls, *, mounts: Path = Path("/proc/self/mounts"), own: Path = Path("/proc/self/cgroup")) -> "Groups":
        """Find the hierarchies of this machine.

        Raises
        ------
        NoGroups
            If a controller is missing.
        """
        rows = [line.split() for line in mounts.read_text().splitlines()]
        ours = {name: path for _, names, path in _own(own) for name in names.split(",")}
        roots: dict[str, Path] = {
            name: Path(where)
            for _, where, kind, options, *_ in rows
            for name in CONTROLLERS
            if kind == "cgroup" and name in options.split(",")
        }
        if set(roots) == set(CONTROLLERS):
            first = {name: root / ours.get(name, "/").lstrip("/") for name, root in roots.items()}
            return cls(1, first, tuple(dict.fromkeys(roots.values())), first["cpu"])
        for _, where, kind, *_ in rows:
            control = Path(where) / "cgroup.controllers"
            if kind == "cgroup2" and control.exists() and set(CONTROLLERS) <= set(control.read_text().split()):
                home = Path(where) / ours.get("", "/").lstrip("/")
                return cls(2, dict.fromkeys(CONTROLLERS, Path(where)), (Path(where),), home)
        missing = ", ".join(name for name in CONTROLLERS if name not in roots)
        raise NoGroups(f"expected control groups for {', '.join(CONTROLLERS)}, got none for {missing}")

    def make(self, name: str, limits: Limits, *, divided: bool = False) -> tuple[Path, ...]:
        """Make a group, or set the limits of one that exists, and return its directories.

        Parameters
        ----------
        name
            Path of the group below the bases.
        limits
            Its limits.
        divided
            Whether it has groups in it instead of processes.

        Raises
        ------
        NoGroups
            If this process may not.
        """
        try:
            for path in self.paths(name):
                path.mkdir(exist_ok=True)
            for path, value in (self._first if self.version == 1 else self._second)(name, limits, divided):
                path.write_text(value)
        except OSError as error:
            raise NoGroups(f"expected to make the control group {name}, got: {error}") from None
        return self.paths(name)

    def paths(self, name: str) -> tuple[Path, ...]:
        """Return the directories of a group."""
        return tuple(dict.fromkeys(base / name for base in self.bases.values()))

    def _first(self, name: str, limits: Limits, divided: bool) -> Iterable[tuple[Path, str]]:
        of = {controller: base / name for controller, base in self.bases.items()}
        for file in ("cpuset.cpus", "cpuset.mems"):
            yield of["cpuset"] / file, (of["cpuset"].parent / file).read_text()
        if divided:
            yield of["cpu"] / "cpu.shares", str(1024 * SHARE)
        if limits.processors is not None:
            yield of["cpu"] / "cpu.cfs_period_us", str(PERIOD_US)
            yield of["cpu"] / "cpu.cfs_quota_us", str(round(PERIOD_US * limits.processors))
        if limits.memory_mb is not None:
            yield of["memory"] / "memory.limit_in_bytes", str(limits.memory_mb * 10**6)
        if limits.processes is not None:
            yield of["pids"] / "pids.max", str(limits.processes)

    def _second(self, name: str, limits: Limits, divided: bool) -> Iterable[tuple[Path, str]]:
        group = self.paths(name)[0]
        if "/" not in name:
            yield group.parent / "cgroup.subtree_control", " ".join(f"+{one}" for one in CONTROLLERS)
        if divided:
            yield group / "cgroup.subtree_control", " ".join(f"+{one}" for one in CONTROLLERS)
            yield group / "cpu.weight", str(100 * SHARE)
        if limits.processors is not None:
            yield group / "cpu.max", f"{round(PERIOD_US * limits.processors)} {PERIOD_US}"
        if limits.memory_mb is not None:
            yield group / "memory.max", str(limits.memory_mb * 10**6)
        if limits.processes is not None:
            yield group / "pids.max", str(limits.processes)

    def enter(self, name: str) -> None:
        """Move this process into a group, by its processor time; processes that it starts are in it, too."""
        self._move(self.bases["cpu"] / name)

    def leave(self) -> None:
        """Move this process back."""
        self._move(self.home)

    def _move(self, group: Path) -> None:
        try:
            (group / "cgroup.procs").write_text(str(os.getpid()))
        except OSError as error:
            raise NoGroups(f"expected to move this process into {group}, got: {error}") from None

    def processes(self, name: str) -> set[int]:
        """Return the processes in a group and in all groups in it."""
        found: set[int] = set()
        for path in self._trees(name):
            with suppress(OSError):
                found.update(map(int, (path / "cgroup.procs").read_text().split()))
        return found

    def remove(self, name: str) -> None:
        """Kill all processes in a group and in those in it, and remove them, wherever a group of this name is.

        Nothing happens if there is none.
        """
        deadline = time.monotonic() + REMOVE_S
        while self._trees(name):
            for pid in self.processes(name) - {os.getpid()}:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for path in self._trees(name):
                with suppress(OSError):
                    path.rmdir()
            if time.monotonic() > deadline:
                raise NoGroups(f"expected the control group {name} to be empty, got {sorted(self.processes(name))}")
            time.sleep(0.01)

    def discard(self, name: str) -> None:
        """Remove a group that nothing is in; one that still has processes stays."""
        for path in self.paths(name):
            with suppress(OSError):
                path.rmdir()

    def _trees(self, name: str) -> Sequence[Path]:
        """Return all directories of groups of this name, the innermost first."""
        tops = [path for root in self.roots for path in root.rglob(name)]
        return [Path(directory) for top in tops for directory, _, _ in os.walk(top, topdown=False)]


def _own(path: Path) -> Iterable[tuple[str, str, str]]:
    for line in path.read_text().splitlines():
        number, names, own = line.split(":", 2)
        yield number, names, own
