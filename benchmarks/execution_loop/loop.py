"""A market with many running jobs, and the time of the executor's loops.

Rows are those of this process's database. The engine is `local`, but a process is only its files: its lock, which the
shim would hold, is held by this process, so that a thousand programs do not compete with what is measured. All the rest
is what `manage.py execute` does.
"""

import fcntl
import os
import resource
import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from django.contrib.auth.models import User

from auctions.engine import decision_queue, markets, slots
from auctions.engine.submission import submit_bid
from auctions.models import Bid, BidState, Market
from cluster.clock import set_clock
from cluster.documents import import_cluster
from execution.engines import shim
from execution.engines.base import Start
from execution.engines.local import LocalEngine
from execution.executor import Executor
from execution.models import Execution, Generation, Program
from execution.places import engine_root
from execution.records import files_of
from scheduling.model.types import Floats

LOOP_MS: Final = 100.0
"""Largest mean time of a loop with a thousand running jobs."""
IDLE_SHARE: Final = 0.01
"""Largest share of a core of an executor without jobs."""
EVERY_S: Final = 1.0
"""Time between two loops of `manage.py execute`."""
SLOT_S: Final = 3_600
SERVERS: Final = 50


def show(*, jobs: int, loops: int) -> None:
    """Print the table."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    for line in table(jobs=jobs, loops=loops):
        print(line, flush=True)


def table(*, jobs: int, loops: int) -> Iterator[str]:
    """Yield a line for each state of the market: no job, jobs that run, and jobs that report steps."""
    market = open_market(jobs)
    executor = Executor("benchmark", HeldEngine)
    yield f"one loop of the executor, ms of processor time (wall: by the clock), {loops} loops"
    yield f"{'':32} {'mean':>8} {'max':>8} {'wall':>8}"
    idle = measured(executor, loops=loops)
    share = idle[:, 0].mean() / 1_000 / EVERY_S
    yield line_of("no job", idle) + f"  {share:.2%} of a core, wanted < {IDLE_SHARE:.0%}: {verdict(share < IDLE_SHARE)}"
    submit(market, jobs)
    began = time.perf_counter()
    executor.once()
    yield f"{jobs} jobs were started in {time.perf_counter() - began:.1f} s"
    executor.once()
    running = measured(executor, loops=loops)
    yield line_of(f"{jobs} jobs run", running) + f"  wanted < {LOOP_MS:g}: {verdict(running[:, 0].mean() < LOOP_MS)}"
    yield line_of("a tenth of them reports a step", measured(executor, loops=loops, between=report))


def verdict(kept: bool) -> str:
    """Return how a limit was met."""
    return "kept" if kept else "BROKEN"


def line_of(name: str, times: Floats) -> str:
    """Return one row of the table."""
    return f"{name:32} {times[:, 0].mean():8.1f} {times[:, 0].max():8.1f} {times[:, 1].mean():8.1f}"


def measured(executor: Executor, *, loops: int, between: Callable[[int], None] = lambda _: None) -> Floats:
    """Return the milliseconds of the processor and of the wall, a row for each loop.

    Parameters
    ----------
    between
        Called before each loop with its number; its time is not counted.
    """
    rows = []
    for number in range(loops):
        between(number)
        processor, wall = time.process_time(), time.perf_counter()
        if not executor.once():
            raise RuntimeError("expected the active executor, got another one")
        rows.append((time.process_time() - processor, time.perf_counter() - wall))
    return 1_000 * np.array(rows)


class HeldEngine(LocalEngine):
    """The engine `local` whose processes are only files, with a lock that this process holds."""

    def __init__(self, execution: Execution) -> None:
        names = execution.cluster.servers.values_list("name", flat=True)
        super().__init__(engine_root(execution.cluster.name), list(names))

    def launch(self, start: Start) -> None:
        """Write what a shim would write."""
        if self.files.create(start):
            folder = self.files.live / start.key
            fcntl.flock(os.open(folder / shim.LOCK, os.O_RDWR | os.O_CREAT), fcntl.LOCK_EX)
            shim.write_aside(str(folder / shim.STARTED), {"inner": None, "started_s": time.time()})


def report(number: int) -> None:
    """Let every tenth job append a line to its progress file."""
    rows = Generation.objects.select_related("training__bid__market__cluster").order_by("pk")
    for generation in list(rows)[number % 10 :: 10]:
        with files_of(generation.training).progress(generation.number).open("a") as file:
            file.write(f'{{"step": {number}, "loss": 1.0, "seconds": 0.1}}\n')


def open_market(jobs: int) -> Market:
    """Open a market with room for twice as many jobs of a worker and a parameter server each, in slots of an hour."""
    units = -(-2 * jobs // SERVERS)
    document = {
        "name": "busy",
        "title": "Many jobs",
        "note": "Synthetic.",
        "epoch": "2026-01-05T00:00:00+00:00",
        "slot_seconds": SLOT_S,
        "horizon_slots": 6,
        "clock": {"kind": "virtual", "speed": 1.0},
        "resources": [{"name": "core", "unit": "core"}, {"name": "memory", "unit": "GB"}],
        "worker_types": [{"name": "worker", "bandwidth_mbps": 1000, "demand": {"core": 1}}],
        "ps_types": [{"name": "ps", "bandwidth_mbps": 4000, "demand": {"memory": 1}}],
        "servers": [
            {
                "name": f"server-{number}",
                "kind": "edge",
                "upload_delay_s": 0.0,
                "capacity": {"core": units, "memory": units},
            }
            for number in range(SERVERS)
        ],
        "models": [
            {
                "name": "net",
                "gradient_mb": 1.0,
                "chunks": 1,
                "minibatches": SLOT_S,
                "worker_step_s": {"worker": 2.0},
                "ps_step_s": {"ps": 0.01},
            }
        ],
    }
    cluster = import_cluster(document)
    Execution.objects.create(cluster=cluster, allow_root=True)
    Program.objects.create(cluster=cluster, name="program", arguments=["true"], working_directory="/")
    return markets.open_market(cluster, policy="dps", parameters={"initial_low": 0.01, "initial_high": 1.0})


def submit(market: Market, jobs: int) -> None:
    """Submit bids until this number of jobs is admitted, and decide them."""
    owner = User.objects.create(username="owner")
    value = {"form": "constant", "value": 1e6}
    body = {"model": "net", "epochs": 2, "utility": value, "program": {"name": "program", "steps": 1_000_000}}
    for _ in range(jobs):
        submit_bid(cluster=market.cluster, owner=owner, body=body)
    decision_queue.process_pending(market.pk)
    set_clock(market.cluster, running=True, speed=1.0, at_s=1.5 * SLOT_S)
    slots.pass_slots(market.pk)
    running = Bid.objects.filter(state=BidState.RUNNING).count()
    if running != jobs:
        raise RuntimeError(f"expected {jobs} running jobs, got {running}")
