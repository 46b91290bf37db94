"""The files of processes, which all engines share: one directory for each process, below the engine's directory.

`live/KEY` holds a process until it is retired, and `ended/KEY` after that. `shim.py` describes the files in it. Where
processes run on other servers, both see the engine's directory under the same path.
"""

import fcntl
import json
import math
import os
import re
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from execution.engines import shim
from execution.engines.base import EngineError, Phase, Seen, Start

KEY: Final = re.compile(r"[A-Za-z0-9-]+")


@dataclass(frozen=True)
class Found:
    """The content of a process's files."""

    key: str
    directory: str
    exit: Mapping[str, Any] | None = None
    started: Mapping[str, Any] | None = None
    locked: bool = False
    """Whether its shim lives; False if it was not looked for, since the process has not started or has ended."""

    @cached_property
    def seen(self) -> Seen:
        """The process, as an engine sees it that has no other source."""
        if self.exit is not None:
            phase = Phase.LOST if self.exit["code"] is None else Phase.EXITED
            return Seen(self.key, phase, **self.exit)
        if self.started is None:
            return Seen(self.key, Phase.STARTING)
        phase = Phase.RUNNING if self.locked else Phase.LOST
        return Seen(self.key, phase, started_s=self.started["started_s"], reason="" if self.locked else GONE)


GONE: Final = "its shim was killed, or could not write how it ended"


class Logs:
    """The output of the processes of an engine, for readers: nothing is written."""

    def __init__(self, root: Path) -> None:
        self.live, self.ended = root / "live", root / "ended"

    def log_size(self, key: str) -> tuple[int, int]:
        """Return where the kept output begins, and where it ends."""
        path = self._path(key)
        for _ in range(TRIES):
            segments = _segments(path) if path is not None else []
            if not segments:
                return 0, 0
            with suppress(FileNotFoundError):
                return segments[0], segments[-1] + os.stat(_segment(path, segments[-1])).st_size
        raise EngineError(f"{key}: its output is replaced faster than it can be read")

    def log(self, key: str, offset: int, size: int) -> bytes:
        """Return at most `size` bytes of its output from `offset` on; what was dropped is skipped."""
        path = self._path(key)
        for _ in range(TRIES):
            with suppress(FileNotFoundError):
                return b"" if path is None else _read_log(path, offset, size)
        raise EngineError(f"{key}: its output is replaced faster than it can be read")

    def is_over(self, key: str) -> bool:
        """Return whether a process has written how it ended, or is retired: then no more output follows."""
        return (self.live / key / shim.EXIT).exists() or (self.ended / key).exists()

    def _path(self, key: str) -> Path | None:
        return next((folder / key for folder in (self.live, self.ended) if (folder / key).exists()), None)


class Files(Logs):
    """The directories of all processes of an engine."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.shim = root / "shim.py"
        for folder in (root, self.live, self.ended):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Servers need nothing of this project but this file, and a change of the project does not touch what runs.
        file, aside = tempfile.mkstemp(dir=root)
        os.close(file)
        try:
            shutil.copyfile(shim.__file__, aside)
            os.replace(aside, self.shim)
        except OSError:  # as of a full disk: the executor tries again each second, and nothing else removes the file
            os.unlink(aside)
            raise
        self._known: dict[str, Found] = {}

    def create(self, start: Start) -> bool:
        """Make the directory of a process; False if there ever was one."""
        if not KEY.fullmatch(start.key):
            raise EngineError(f"key: expected letters, digits and dashes, got {start.key!r}")
        if self._path(start.key) is not None:
            return False
        aside = tempfile.mkdtemp(prefix=".", dir=self.live)
        try:
            shim.write_aside(os.path.join(aside, shim.START), _written(start))
        except OSError:  # as of a full disk: the launch is tried again, and nothing else removes the directory
            shutil.rmtree(aside)
            raise
        try:
            os.rename(aside, self.live / start.key)
        except OSError:  # another executor made it meanwhile
            shutil.rmtree(aside)
            return False
        if os.path.exists(self.ended / start.key):  # forbidden meanwhile
            self.remove(start.key)
            return False
        return True

    def forbid(self, key: str) -> None:
        """Let a process that was never launched never be."""
        if self._path(key) is None:
            os.makedirs(self.ended / key, exist_ok=True)

    def remove(self, key: str) -> None:
        """Forget a process that an engine refused to start; nothing if it has started after all."""
        self.void(key, "refused", code=None)
        found = self._look(key, None)
        if found is not None and found.started is None and found.exit is not None:
            # First what a late shim reads last: until it is gone, the shim sees that it must not start.
            os.unlink(f"{found.directory}/{shim.START}")
            shutil.rmtree(found.directory)
        self._known.pop(key, None)

    def find(self, key: str) -> Found | None:
        """Return what the files say of a process that is not retired."""
        found = self._known.get(key)
        if found is None or found.exit is None:
            found = self._look(key, found)
            if found is None:
                self._known.pop(key, None)
            else:
                self._known[key] = found
        return found

    def find_all(self) -> list[Found]:
        """Return what the files say of all processes that are not retired."""
        keys = [key for key in os.listdir(self.live) if not key.startswith(".")]
        found = [one for key in keys if (one := self.find(key)) is not None]
        self._known = {one.key: one for one in found}
        return found

    def _look(self, key: str, known: Found | None) -> Found | None:
        directory = f"{self.live}/{key}"
        if known is not None and known.started is not None and _is_locked(directory):
            return known if known.locked else Found(key, directory, None, known.started, locked=True)
        # The order matters: what is started holds its lock until it has written its exit.
        started = known.started if known is not None and known.started is not None else _read(directory, shim.STARTED)
        locked = started is not None and _is_locked(directory)
        exit = None if locked else _read(directory, shim.EXIT)
        if exit is None and not os.path.exists(directory):
            return None
        return Found(key, directory, exit, started, locked)

    def asked_s(self, key: str) -> float:
        """Return when a process was launched, in seconds since 1970."""
        return os.stat(f"{self.live}/{key}/{shim.START}").st_mtime

    def shim_of(self, key: str) -> Mapping[str, Any] | None:
        """Return the name of the process that is its shim, if it has begun."""
        return _read(f"{self.live}/{key}", shim.LOCK)

    def void(self, key: str, reason: str, *, code: int | None) -> None:
        """Let a process that has not started never start; nothing if it has, or is about to."""
        directory = f"{self.live}/{key}"
        with suppress(FileNotFoundError, BlockingIOError):
            lock = os.open(f"{directory}/{shim.LOCK}", os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not any(os.path.exists(f"{directory}/{name}") for name in (shim.STARTED, shim.EXIT)):
                    shim.write_exit(code=code, reason=reason, directory=directory)
            finally:
                os.close(lock)

    def want(self, key: str, name: str, content: str = "") -> None:
        """Write what is wanted of a process; nothing if it is not there."""
        with suppress(FileNotFoundError):
            path = f"{self.live}/{key}/{name}"
            with open(f"{path}.new", "w") as file:
                file.write(content)
            os.replace(f"{path}.new", path)

    def retire(self, key: str) -> None:
        """List a process that ended no longer."""
        found = self.find(key)
        if found is not None:
            os.rename(self.live / key, self.ended / key)
            self._known.pop(key, None)


class FilesEngine(ABC):
    """The part that all engines with such files share."""

    def __init__(self, root: Path) -> None:
        self.files = Files(root)

    @abstractmethod
    def see(self, found: Found) -> Seen:
        """Return what is known of a process: the files, and what only the engine can know."""

    def stop(self, key: str) -> None:
        """Send SIGTERM to all of a process; see `Engine`."""
        self.files.want(key, shim.STOP)

    def hold(self, key: str, until: float) -> None:
        """Change the time at which the shim kills a process; see `Engine`."""
        self.files.want(key, shim.UNTIL, repr(until))

    def log(self, key: str, offset: int, size: int) -> bytes:
        """Return a part of its output; see `Engine`."""
        return self.files.log(key, offset, size)

    def log_size(self, key: str) -> tuple[int, int]:
        """Return where its kept output begins and ends; see `Engine`."""
        return self.files.log_size(key)

    def retire(self, key: str) -> None:
        """List a process that ended no longer; see `Engine`."""
        if not self.lives(key):
            self.files.retire(key)

    def lives(self, key: str) -> bool:
        """Whether a process starts or runs."""
        found = self.files.find(key)
        return found is not None and self.see(found).phase in (Phase.STARTING, Phase.RUNNING)

    def ends_within(self, key: str, seconds: float) -> bool:
        """Wait for the end of a process."""
        deadline = time.monotonic() + seconds
        while self.lives(key):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True


EXPECTED: Final = {shim.STARTED: {"inner", "started_s"}, shim.EXIT: {"code", "started_s", "ended_s", "reason"}}
"""Keys of the objects in these files."""
TRIES: Final = 10
"""Times that the output is read again, if its oldest segment was dropped meanwhile."""


def _read_log(path: Path, offset: int, size: int) -> bytes:
    parts: list[bytes] = []
    segments = _segments(path)
    for begin, end in zip(segments, [*segments[1:], math.inf], strict=False):
        if size > 0 and offset < end:
            with open(_segment(path, begin), "rb") as file:
                file.seek(max(0, offset - begin))
                parts.append(file.read(size))
            size -= len(parts[-1])
    return b"".join(parts)


def _segments(path: Path) -> list[int]:
    return sorted(int(name.removeprefix(shim.LOG)) for name in os.listdir(path) if name.startswith(shim.LOG))


def _segment(path: Path | None, begin: int) -> str:
    return f"{path}/{shim.LOG}{begin:020}"


def _read(directory: str, name: str) -> dict[str, Any] | None:
    try:
        with open(f"{directory}/{name}") as file:
            content: dict[str, Any] = json.load(file)
    except (FileNotFoundError, ValueError):  # half a file is what a server leaves that lost its power
        return None
    # Where programs run as the engine's own user, one could write anything there.
    return content if isinstance(content, dict) and content.keys() >= EXPECTED.get(name, set()) else None


def _is_locked(directory: str) -> bool:
    try:
        lock = os.open(f"{directory}/{shim.LOCK}", os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _written(start: Start) -> dict[str, Any]:
    return {
        "arguments": start.arguments,
        "environment": dict(start.environment),
        "working_directory": str(start.working_directory),
        "until": start.until,
        "grace_s": start.grace_s,
        "user": start.user,
        "memory_mb": start.limits.memory_mb,
        "open_files": start.limits.open_files,
        "file_mb": start.limits.file_mb,
        "processes": start.limits.processes,
        "log_bytes": start.limits.log_bytes,
        "niceness": start.limits.niceness,
        "network": None if start.confinement.network is None else str(start.confinement.network),
        "groups": [str(group) for group in start.confinement.groups],
    }
