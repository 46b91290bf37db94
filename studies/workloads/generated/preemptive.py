"""Servers, a cloud and jobs by the simulation settings of the preemptive edge-cloud paper (Section V), from a seed.

Where the paper leaves a choice: a server has 8 GPUs, each a worker, with 59 % and 2 otherwise, which gives 554 workers
on 100 servers in the mean as the trace's machines do, and 96 parameter servers; jobs arrive evenly over a span that
sets the load; a job's chunks and mini-batches are those of a model of Table II; the model, the parameters in MB and
the worker's bandwidth set the transfer. A slot is an hour, 1 MB is 8 Mbit. All values are synthetic.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.utility import Constant
from studies.workloads.generated.system import Workload

SLOT_SECONDS = 3600
CHUNKS = (27, 27, 115, 115, 60, 60)
"""Data chunks of the six models of Table II; each has 58 mini-batches."""
MINIBATCHES = 58
PSS = 96
PLENTY = 10**6


@dataclass(frozen=True)
class Setting:
    """Size of a system; all other ranges are the paper's."""

    jobs: int = 300
    servers: int = 100
    span: int = 300
    """Jobs arrive evenly over this many slots."""
    types: tuple[int, int] = (8, 10)
    """Numbers of worker types and of PS types; types are drawn evenly."""


def draw(setting: Setting, rng: np.random.Generator) -> Workload:
    """Draw servers and jobs; slots are numbered from 0."""
    workers, pss = (int(n) for n in rng.integers(setting.types[0], setting.types[1] + 1, 2))
    capacity = np.zeros((setting.servers + 1, workers + pss), dtype=np.int64)
    for s, gpus in enumerate(np.where(rng.random(setting.servers) < 0.59, 8, 2)):
        np.add.at(capacity[s], rng.integers(0, workers, gpus), 1)
        np.add.at(capacity[s], workers + rng.integers(0, pss, PSS), 1)
    capacity[-1] = PLENTY
    units = np.eye(workers + pss, dtype=np.int64).tolist()
    rates = rng.integers(100, 5 * 1024 + 1, workers).tolist()
    names = tuple(f"server-{s}" for s in range(setting.servers))
    inventory = Inventory(
        resources=(*(f"worker-{m}" for m in range(workers)), *(f"ps-{p}" for p in range(pss))),
        servers=(*names, "cloud"),
        cloud=(*(False,) * setting.servers, True),
        capacity=capacity,
        workers=tuple(MachineType(f"worker-{m}", tuple(units[m]), Fraction(rates[m])) for m in range(workers)),
        # A job has one parameter server, which is never the bottleneck.
        parameter_servers=tuple(MachineType(f"ps-{p}", tuple(units[workers + p]), Fraction(10**9)) for p in range(pss)),
    )
    arrivals = np.sort(rng.integers(0, setting.span, setting.jobs)).tolist()
    return Workload(inventory, tuple(_draw_bid(rng, inventory, i, arrival) for i, arrival in enumerate(arrivals)))


def _draw_bid(rng: np.random.Generator, inventory: Inventory, i: int, arrival: int) -> Bid:
    kind = int(rng.integers(len(inventory.workers)))
    step, model_mb = Fraction(int(rng.integers(1000, 50_001)), 10**6), int(rng.integers(30, 576))
    # Types that the job does not use are far too slow to be chosen.
    steps = [Fraction(1000)] * len(inventory.workers)
    steps[kind] = step
    update = Fraction(int(rng.integers(10, 101)), 1000 * SLOT_SECONDS)
    return Bid(
        id=str(i),
        arrival=arrival,
        epochs=int(rng.integers(20, 61)),
        chunks=CHUNKS[int(rng.integers(len(CHUNKS)))],
        minibatches=MINIBATCHES,
        worker_time=tuple(steps),
        ps_time=(update,) * len(inventory.parameter_servers),
        transfer_time=tuple(2 * 8 * model_mb / machine.bandwidth_mbps / SLOT_SECONDS for machine in inventory.workers),
        delay=(*rng.integers(1, 5, len(inventory.servers) - 1).tolist(), int(rng.integers(10, 16))),
        utility=Constant(1.0),
    )
