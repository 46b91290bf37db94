"""The contract between Shadowprice and a training program: environment, checkpoints, progress, SIGTERM. Yours to copy.

It needs only Python. Import it before anything that takes long to import: SIGTERM is noted from then on.
"""

import json
import os
import re
import shutil
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn, Self

DONE: Final = 0
FAILED: Final = 1
STOPPED: Final = 143
"""Exit codes: the job is done; it failed; it was stopped, and its newest checkpoint has all its steps."""

KEPT: Final = 3
"""Number of checkpoints that are kept; older ones are deleted."""
CHECKPOINT: Final = re.compile(r"step-(\d+)")

Address = tuple[str, int]
"""Host and port."""


class ContractError(Exception):
    """The environment or a checkpoint is not what the program expects."""


class Signals:
    """Remembers whether SIGTERM came. The program goes on until it has a state that it can save."""

    def __init__(self) -> None:
        self.terminated = False
        signal.signal(signal.SIGTERM, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.terminated = True


SIGNALS: Final = Signals()


def leave(code: int) -> NoReturn:
    """End the program; SIGTERM changes nothing from now on.

    While Python closes down its handlers are gone, so that SIGTERM would end a program that is done with 143.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(code)


@dataclass(frozen=True)
class Job:
    """This process's place in its job. Everything has a default, so that a program also runs alone."""

    rank: int = 0
    """Number of this process among the processes of its role."""
    role: str = "worker"
    """`worker` or `ps`."""
    workers: tuple[Address, ...] = ()
    parameter_servers: tuple[Address, ...] = ()
    architecture: str = "ring"
    """`ring` or `ps`."""
    generation: int = 0
    """Number of times that the job was started before."""
    steps: int | None = None
    """Number of steps in all; None if the bid states none."""
    resume: Path | None = None
    """The checkpoint to resume from; None at the first start."""
    checkpoints: Path | None = None
    """The directory for checkpoints."""
    until: float | None = None
    """Time at which the machines are no longer held, in seconds since 1970, as it was known at the start. SIGTERM comes
    before it, and it may have moved by then: a program may plan by it and need not watch it."""
    progress: Path | None = None

    @classmethod
    def from_environment(cls, env: Mapping[str, str] = os.environ) -> Self:
        """Read the environment; a variable that is empty or missing has its default.

        Raises
        ------
        ContractError
            If a variable has a value that is not expected.
        """
        role = env.get("SHADOWPRICE_ROLE") or "worker"
        architecture = env.get("SHADOWPRICE_ARCHITECTURE") or "ring"
        if role not in ("worker", "ps"):
            raise ContractError(f"SHADOWPRICE_ROLE: expected worker or ps, got {role!r}")
        if architecture not in ("ring", "ps"):
            raise ContractError(f"SHADOWPRICE_ARCHITECTURE: expected ring or ps, got {architecture!r}")
        job = cls(
            rank=_integer(env, "RANK") or 0,
            role=role,
            workers=_addresses(env, "SHADOWPRICE_WORKERS"),
            parameter_servers=_addresses(env, "SHADOWPRICE_PS"),
            architecture=architecture,
            generation=_integer(env, "SHADOWPRICE_GENERATION") or 0,
            steps=_integer(env, "SHADOWPRICE_STEPS"),
            resume=_path(env, "SHADOWPRICE_RESUME"),
            checkpoints=_path(env, "SHADOWPRICE_CHECKPOINTS"),
            until=_number(env, "SHADOWPRICE_UNTIL"),
            progress=_path(env, "SHADOWPRICE_PROGRESS"),
        )
        world = _integer(env, "WORLD_SIZE") or 1
        if job.world != world:
            raise ContractError(f"WORLD_SIZE: expected {job.world}, as many as addresses of role {role}, got {world}")
        if not 0 <= job.rank < world:
            raise ContractError(f"RANK: expected a number from 0 to {world - 1}, got {job.rank}")
        return job

    @property
    def world(self) -> int:
        """Number of processes of this role."""
        return len(self.workers) or 1 if self.role == "worker" else len(self.parameter_servers)


class Progress:
    """The progress file: one JSON line for each step, written by the first worker alone."""

    def __init__(self, job: Job) -> None:
        writes = job.progress is not None and job.role == "worker" and job.rank == 0
        self._file = job.progress.open("a", buffering=1, encoding="utf-8") if job.progress and writes else None

    def add(self, *, step: int, loss: float, seconds: float) -> None:
        """Append a line: number of steps done, loss of this step, seconds that it took."""
        if self._file is not None:
            self._file.write(json.dumps({"step": step, "loss": loss, "seconds": round(seconds, 6)}) + "\n")


def write_checkpoint(folder: Path, step: int, write: Callable[[Path], object]) -> Path:
    """Write a checkpoint as `step-N`, which has that name only when it is whole, and delete old ones.

    Parameters
    ----------
    folder
        The directory of all checkpoints, `Job.checkpoints`.
    step
        Number of steps done.
    write
        Writes the files into the directory that it is given.
    """
    made, aside = folder / f"step-{step}", folder / f"writing-{step}"
    shutil.rmtree(aside, ignore_errors=True)  # a process that was killed had begun it
    aside.mkdir(parents=True)
    write(aside)
    for path in (*aside.rglob("*"), aside):
        _to_disk(path)
    if made.exists():  # a generation that ended with an error had come as far
        shutil.rmtree(aside)
    else:
        aside.rename(made)
        _to_disk(folder)
    whole = [path for path in folder.iterdir() if CHECKPOINT.fullmatch(path.name)]
    for old in sorted(whole, key=step_of)[:-KEPT]:
        gone = old.rename(folder / f"deleting-{old.name}")
        shutil.rmtree(gone, ignore_errors=True)
    return made


def step_of(checkpoint: Path) -> int:
    """Return the number of steps done in a checkpoint, by its name.

    Raises
    ------
    ContractError
        If the name is not `step-N`.
    """
    found = CHECKPOINT.fullmatch(checkpoint.name)
    if found is None:
        raise ContractError(f"checkpoint: expected a directory with the name step-N, got {str(checkpoint)!r}")
    return int(found.group(1))


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _number(env: Mapping[str, str], name: str) -> float | None:
    try:
        return float(env[name]) if env.get(name) else None
    except ValueError:
        raise ContractError(f"{name}: expected a number, got {env[name]!r}") from None


def _integer(env: Mapping[str, str], name: str) -> int | None:
    try:
        return int(env[name]) if env.get(name) else None
    except ValueError:
        raise ContractError(f"{name}: expected an integer, got {env[name]!r}") from None


def _path(env: Mapping[str, str], name: str) -> Path | None:
    return Path(env[name]) if env.get(name) else None


def _addresses(env: Mapping[str, str], name: str) -> tuple[Address, ...]:
    return tuple(_address(name, text) for text in env.get(name, "").split(",") if text)


def _address(name: str, text: str) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise ContractError(f"{name}: expected host:port, got {text!r}")
    return host.strip("[]"), int(port)
