"""The calibration: measured seconds of a step by worker type and number of workers become the market's profile."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path
from typing import Final

import numpy as np

from cluster import clock
from execution.engines.base import Phase, Start
from scheduling.model.types import Json
from studies.testbed import trainer
from studies.testbed.engine import ConfinedEngine
from studies.testbed.servers import PS_SERVER, TYPES, WORKER_SERVERS, Servers

STEPS: Final = 12
SKIPPED: Final = 2
"""First steps, which wait for peers that start later and are not counted."""
LONGEST_S: Final = 60.0
PORT: Final = 20_500
LEAST_S: Final = 0.001
"""Shortest time of an update or a reduction that a profile states, seconds."""


class NotMeasured(Exception):
    """A job of the calibration failed; the message has its output."""


@dataclass(frozen=True)
class Measured:
    """One job of the calibration."""

    kind: str
    """Worker type."""
    workers: int
    ring: bool
    step_s: float
    """Seconds of a step, median."""
    start_s: float
    """Seconds of its first worker's life that were no steps: the start, the checkpoint and the end."""

    @property
    def is_spread(self) -> bool:
        """Whether the gradients leave a server."""
        return not self.ring or self.workers > trainer.full_server(self.kind)


@dataclass(frozen=True)
class Profile:
    """The times of the trainer that bids state, seconds."""

    worker_step_s: Mapping[str, float]
    ps_step_s: float
    reduce_step_s: float

    def step_s(self, job: Measured) -> float:
        """Return the seconds of a step by the market's model."""
        transfer = trainer.transfer_s() if job.is_spread else 0.0
        if job.ring:
            share = (job.workers - 1) / job.workers
            return self.worker_step_s[job.kind] + share * (self.reduce_step_s + transfer)
        return self.worker_step_s[job.kind] + self.ps_step_s + transfer

    def with_allowance(self, factor: float) -> "Profile":
        """Return a profile whose worker's time leaves room for starts and checkpoints."""
        workers = {kind: seconds * factor for kind, seconds in self.worker_step_s.items()}
        return Profile(workers, self.ps_step_s, self.reduce_step_s)

    def to_json(self) -> Json:
        """Return a document."""
        return {
            "worker_step_s": {kind: round(seconds, 4) for kind, seconds in self.worker_step_s.items()},
            "ps_step_s": round(self.ps_step_s, 4),
            "reduce_step_s": round(self.reduce_step_s, 4),
        }


def fitted(measured: Sequence[Measured]) -> Profile:
    """Return the profile that fits: the worker's time from one worker alone, the rest from the mean of what is left."""
    alone = {one.kind: one.step_s for one in measured if one.ring and one.workers == 1}
    bare = Profile(alone, 0.0, 0.0)
    update = [one.step_s - bare.step_s(one) for one in measured if not one.ring]
    reduce = [
        (one.step_s - bare.step_s(one)) * one.workers / (one.workers - 1)
        for one in measured
        if one.ring and one.workers > 1
    ]
    return Profile(alone, max(LEAST_S, float(np.mean(update))), max(LEAST_S, float(np.mean(reduce))))


def calibrate(
    engine: ConfinedEngine, servers: Servers, root: Path, folder: Path, numbers: Sequence[int]
) -> Iterator[Measured]:
    """Run one job for each worker type, number of workers, and architecture, one after another.

    Parameters
    ----------
    root
        The project's directory, where the trainer is.
    folder
        Where these jobs write.
    numbers
        Numbers of workers.
    """
    command, addresses = trainer.command(root, servers), servers.addresses()
    for kind, workers, ring in product(TYPES, numbers, (True, False)):
        name = f"{kind}-{workers}-{'ring' if ring else 'ps'}"
        yield _Job(kind, workers, ring, command, folder / name, addresses).run(engine)


@dataclass(frozen=True)
class _Job:
    kind: str
    workers: int
    ring: bool
    command: Sequence[str]
    folder: Path
    addresses: Mapping[str, str]

    def run(self, engine: ConfinedEngine) -> Measured:
        (self.folder / "checkpoints").mkdir(parents=True)
        starts = list(self._starts())
        for start in starts:
            engine.launch(start)
        keys = {start.key for start in starts}
        deadline = time.monotonic() + LONGEST_S
        while any(engine.list()[key].phase in (Phase.STARTING, Phase.RUNNING) for key in keys):
            if time.monotonic() > deadline:
                raise NotMeasured(f"{self.folder.name}: expected an end within {LONGEST_S:g} s")
            time.sleep(0.05)
        seen = engine.list()
        for key in keys:
            if seen[key].code != 0:
                output = engine.log(key, 0, 4000).decode(errors="replace")
                raise NotMeasured(f"{key}: expected exit code 0, got {seen[key].code} {seen[key].reason}\n{output}")
            engine.retire(key)
        first = seen[starts[0].key]
        lines = (self.folder / "progress").read_text().splitlines()
        seconds = [float(json.loads(line)["seconds"]) for line in lines]
        life = (first.ended_s or 0.0) - (first.started_s or 0.0)
        counted = list(islice(seconds, SKIPPED, None))
        return Measured(self.kind, self.workers, self.ring, float(np.median(counted)), life - sum(seconds))

    def _starts(self) -> Iterable[Start]:
        per = trainer.full_server(self.kind)
        workers = [WORKER_SERVERS[rank // per] for rank in range(self.workers)]
        number = 0 if self.ring else int(np.ceil(self.workers * trainer.WORKER_MBPS / trainer.PS_MBPS))
        stores = [PS_SERVER] * number
        environment = {
            "PATH": "/usr/bin:/bin",
            "SHADOWPRICE_WORKERS": self._places(workers, PORT),
            "SHADOWPRICE_PS": self._places(stores, PORT + 100),
            "SHADOWPRICE_ARCHITECTURE": "ring" if self.ring else "ps",
            "SHADOWPRICE_STEPS": str(STEPS * self.workers),
            "SHADOWPRICE_CHECKPOINTS": str(self.folder / "checkpoints"),
            "SHADOWPRICE_PROGRESS": str(self.folder / "progress"),
            **trainer.ENVIRONMENT,
        }
        for role, servers in (("worker", workers), ("ps", stores)):
            for rank, server in enumerate(servers):
                own = {"RANK": str(rank), "WORLD_SIZE": str(len(servers)), "SHADOWPRICE_ROLE": role}
                yield Start(
                    key=f"{self.folder.name}-{role}{rank}",
                    server=server,
                    arguments=tuple(self.command),
                    environment=environment | own,
                    working_directory=self.folder,
                    until=clock.now().timestamp() + LONGEST_S,
                    grace_s=1.0,
                    machine_type=self.kind if role == "worker" else "ps",
                )

    def _places(self, servers: Sequence[str], port: int) -> str:
        places = (f"{self.addresses.get(server, '127.0.0.1')}:{port + i}" for i, server in enumerate(servers))
        return ",".join(places)
