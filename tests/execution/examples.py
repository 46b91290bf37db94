"""Jobs of the shipped trainer as real processes: the contract's environment on free ports, and what came of them."""

import json
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tests.processes import ROOT, Process, wait_until

TRAIN: Final = ROOT / "examples/train.py"
LONGEST_S: Final = 60.0
"""For what takes a second, on a busy machine."""


def free_addresses(count: int) -> list[str]:
    """Different loopback addresses that nothing listens on."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]


@dataclass
class Generation:
    """The processes of one start of a job: its workers, then its parameter servers."""

    folder: Path
    workers: list[Process] = field(default_factory=list)
    servers: list[Process] = field(default_factory=list)

    @property
    def all(self) -> list[Process]:
        return self.workers + self.servers

    def codes(self) -> list[int]:
        """Exit codes, when all have ended."""
        wait_until(lambda: not any(process.alive for process in self.all), what=self.said(), seconds=LONGEST_S)
        return [process.popen.wait() for process in self.all]

    def said(self) -> str:
        return "".join(process.text() for process in self.all)

    def wait_for_step(self, number: int) -> None:
        """Wait until the first worker has reported this step, or fail if it ended before."""

        def reached() -> bool:
            assert all(process.alive for process in self.all), self.said()
            return any(line["step"] >= number for line in progress(self.folder))

        wait_until(reached, what=f"step {number}", seconds=LONGEST_S, every=0.02)

    def terminate(self, *, processes: Sequence[Process] | None = None) -> None:
        """Send SIGTERM to these, or to all."""
        for process in self.all if processes is None else processes:
            process.popen.send_signal(signal.SIGTERM)


def environment(
    folder: Path,
    *,
    role: str,
    rank: int,
    workers: Sequence[str],
    servers: Sequence[str] = (),
    generation: int = 0,
    steps: int | None = None,
) -> dict[str, str]:
    """The environment that the contract gives to a process, which resumes from the newest checkpoint in the folder."""
    world = workers if role == "worker" else servers
    host, _, port = workers[0].rpartition(":")
    newest = checkpoints(folder)
    return {
        "PATH": os.environ["PATH"],
        "RANK": str(rank),
        "WORLD_SIZE": str(len(world)),
        "LOCAL_RANK": str(rank if role == "worker" else len(workers) + rank),
        "MASTER_ADDR": host,
        "MASTER_PORT": port,
        "SHADOWPRICE_ROLE": role,
        "SHADOWPRICE_ROLE_RANK": str(rank),
        "SHADOWPRICE_WORKERS": ",".join(workers),
        "SHADOWPRICE_PS": ",".join(servers),
        "SHADOWPRICE_ARCHITECTURE": "ps" if servers else "ring",
        "SHADOWPRICE_GENERATION": str(generation),
        "SHADOWPRICE_STEPS": "" if steps is None else str(steps),
        "SHADOWPRICE_RESUME": str(newest[-1]) if newest else "",
        "SHADOWPRICE_CHECKPOINTS": str(folder / "checkpoints"),
        "SHADOWPRICE_UNTIL": "",
        "SHADOWPRICE_PROGRESS": str(folder / "progress"),
    }


@contextmanager
def started(
    folder: Path, *arguments: str, workers: int, servers: int = 0, generation: int = 0, steps: int | None = None
) -> Iterator[Generation]:
    """Start all processes of a job; whatever still runs afterwards is ended."""
    folder.mkdir(exist_ok=True)
    addresses = free_addresses(workers + servers)
    said = {"workers": addresses[:workers], "servers": addresses[workers:]}
    made = Generation(folder)
    try:
        for number in range(workers + servers):
            role, rank = ("worker", number) if number < workers else ("ps", number - workers)
            env = environment(folder, role=role, rank=rank, generation=generation, steps=steps, **said)
            log = folder / f"log-{generation}-{role}-{rank}"
            process = Process([sys.executable, str(TRAIN), *arguments], log=log, env=env, cwd=folder)
            (made.workers if role == "worker" else made.servers).append(process)
        yield made
    finally:
        for process in made.all:
            process.end(seconds=0)


def progress(folder: Path) -> list[dict[str, Any]]:
    """The lines of the progress file that are whole."""
    path = folder / "progress"
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def checkpoints(folder: Path) -> list[Path]:
    """Whole checkpoints, oldest first."""
    found = [path for path in (folder / "checkpoints").glob("*") if re.fullmatch(r"step-\d+", path.name)]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def weights(folder: Path) -> NDArray[np.float64]:
    """The weights of the newest checkpoint."""
    found: NDArray[np.float64] = np.load(checkpoints(folder)[-1] / "weights.npy")
    return found


def samples(folder: Path) -> int:
    """Number of samples seen until the newest checkpoint."""
    return int(json.loads((checkpoints(folder)[-1] / "state.json").read_text())["samples"])
