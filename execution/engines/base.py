"""The interface of engines: start a process on a named server, list processes, stop them, and read their logs.

The market places; an engine starts a process on the server that it is given. Every engine starts the same shim, a small
program, on the server, and the shim starts the job's program. The directory of a process is visible to the server and
to the executor, and holds the files of the process: the shim writes them, and the executor reads them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

LARGEST_LOG_BYTES: Final = 10_000_000
"""Number of bytes of a process's output that are kept: the newest ones."""


class EngineError(Exception):
    """An engine could not do what was asked of it; the executor tries again."""


@dataclass(frozen=True)
class Limits:
    """Limits of one process; None is no limit."""

    memory_mb: int | None = None
    """Largest address space, MB."""
    open_files: int | None = 1024
    file_mb: int | None = None
    """Largest file that it may write, MB."""
    processes: int | None = None
    """Most processes and threads of its user on the server; only for a user of its own."""
    log_bytes: int = LARGEST_LOG_BYTES
    niceness: int = 0
    """A number from 0 to 19: a process with a higher one gives way to others of its server."""


@dataclass(frozen=True)
class Confinement:
    """The place of a process on its server. What is named has to exist already, and the engine has to run as root."""

    network: Path | None = None
    """File of a network namespace, such as those in /run/netns; None for that of the engine."""
    groups: tuple[Path, ...] = ()
    """Directories of control groups that the program enters before it starts."""


@dataclass(frozen=True)
class Start:
    """A process to be started once."""

    key: str
    """Name of the process: letters, digits and dashes. It is never used for another process."""
    server: str
    """Name of the server on which it has to run."""
    arguments: tuple[str, ...]
    """The program and its arguments; no shell reads them."""
    environment: Mapping[str, str]
    """All of its environment: nothing is inherited from the engine."""
    working_directory: Path
    until: float
    """Time until which its machines are held, in seconds since 1970: its shim stops it `grace_s` before, and kills it
    then, so it ends in time if nobody else is there."""
    grace_s: float
    """Time between SIGTERM and SIGKILL when it is stopped, seconds."""
    user: int | None = None
    """Number (uid) of the user that it runs as; None for the user of the engine."""
    limits: Limits = Limits()
    machine_type: str = ""
    """Name of the type of its machine; engines may limit it by that."""
    confinement: Confinement = Confinement()


class Phase(StrEnum):
    """The phase of a process, as far as it is known."""

    STARTING = "starting"
    """The engine has accepted it, and its shim has not started it yet."""
    RUNNING = "running"
    EXITED = "exited"
    """It ended, and its shim wrote how; nothing of it is left."""
    LOST = "lost"
    """It is gone, and nobody wrote how it ended; nothing of it is left."""


@dataclass(frozen=True)
class Seen:
    """One process, as an engine sees it."""

    key: str
    phase: Phase
    code: int | None = None
    """Exit code if it exited; 128 + the number of the signal if a signal ended it, as shells say it."""
    started_s: float | None = None
    """Time at which the program started, in seconds since 1970."""
    ended_s: float | None = None
    reason: str = ""
    """The reason why it could not start, or who ended it; empty if it ended by itself."""


class Engine(Protocol):
    """Starts processes on servers. Each call may be repeated: with the same key it has no second effect.

    Each method may raise EngineError, if the engine cannot be reached or did not do what was asked of it.
    """

    def launch(self, start: Start) -> None:
        """Start a process, unless one with this key was ever started.

        Raises
        ------
        EngineError
            If the engine cannot be reached, or does not know the server. Nothing is started then, as far as it knows.
        """

    def list(self) -> Mapping[str, Seen]:
        """Return all processes that were launched and not retired, by key."""

    def stop(self, key: str) -> None:
        """Send SIGTERM to all of a process; after its grace it is killed."""

    def kill(self, key: str) -> None:
        """End all of a process at once, also if it is frozen. A key that was never launched cannot be launched then."""

    def hold(self, key: str, until: float) -> None:
        """Change the time until which a process may run, in seconds since 1970; nothing happens if it is unknown."""

    def log(self, key: str, offset: int, size: int) -> bytes:
        """Return at most `size` bytes of its output from byte `offset` on; what was dropped is skipped.

        `log_size` returns where the output ends, and where what is kept begins.
        """

    def log_size(self, key: str) -> tuple[int, int]:
        """Return the offsets of the first byte that is kept and of the end, in bytes of all output."""

    def retire(self, key: str) -> None:
        """List a process that ended no longer; its log stays readable."""
