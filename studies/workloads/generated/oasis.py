"""Servers and jobs by the settings of OASiS's simulations (Section V-A), from a seed.

Where the paper leaves a choice: workers need GPUs, so they live on P2 and G3 instances and PSs on C4 (the paper swaps
the two); storage per server is not given, 1,000 and 500 GB here; tau is drawn evenly in the logarithm, and a job is
drawn again until N workers can complete it by its own target, as most draws cannot. 1 MB is 8 Mbit, a slot one hour.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.utility import Sigmoid
from studies.workloads.generated.system import Workload, between

SLOT_SECONDS = 3600
POOL = ("gpu", "vcpu", "memory_gb", "storage_gb", "bandwidth_mbps")
GPU_SERVERS = ((1, 4, 61), (8, 32, 488), (16, 64, 732), (1, 16, 122), (2, 32, 244), (4, 64, 488))
"""GPUs, vCPUs and GB of EC2's P2 and G3 instances."""
CPU_SERVERS = ((0, 2, 4), (0, 4, 8), (0, 8, 15), (0, 16, 30), (0, 36, 60))
"""The same for EC2's C4 instances, whole GB."""


@dataclass(frozen=True)
class Setting:
    """Size of a system; all other ranges are the paper's."""

    servers: int = 50
    """Servers of each of the two pools, for workers and for PSs."""
    slots: int = 100
    jobs: int = 100
    """Number of jobs; they arrive evenly over the share `arrivals` of the slots, from the first slot on."""
    arrivals: float = 0.9
    kinds: tuple[float, float, float] = (0.10, 0.55, 0.35)
    """Shares of time-insensitive, time-sensitive and time-critical jobs."""


@dataclass(frozen=True)
class _Job:
    epochs: int
    chunks: int
    minibatches: int
    step: Fraction
    """tau + 2 e / b, slots."""
    utility: Sigmoid
    worker: MachineType
    ps: MachineType


def draw(setting: Setting, rng: np.random.Generator) -> Workload:
    """Draw servers and jobs; slots are numbered from 0."""
    capacity = np.zeros((2 * setting.servers, 2 * len(POOL)), dtype=np.int64)
    for first, kinds, storage in ((0, GPU_SERVERS, 1000), (1, CPU_SERVERS, 500)):
        for s in range(setting.servers):
            row = (*kinds[rng.integers(len(kinds))], storage, between(rng, 20_000, 50_000))
            capacity[first * setting.servers + s, first * len(POOL) : (first + 1) * len(POOL)] = row
    jobs = [_draw_job(setting, rng, i) for i in range(setting.jobs)]
    inventory = Inventory(
        resources=tuple(f"{role}-{name}" for role in ("worker", "ps") for name in POOL),
        servers=tuple(f"{role}-{s}" for role in ("worker", "ps") for s in range(setting.servers)),
        cloud=(False,) * len(capacity),
        capacity=capacity,
        workers=tuple(job.worker for job in jobs),
        parameter_servers=tuple(job.ps for job in jobs),
    )
    arrivals = np.sort(rng.integers(0, max(1, int(setting.slots * setting.arrivals)), setting.jobs))
    never = Fraction(setting.slots + 1)
    return Workload(
        inventory,
        tuple(
            Bid(
                id=str(i),
                arrival=int(arrivals[i]),
                epochs=job.epochs,
                chunks=job.chunks,
                minibatches=job.minibatches,
                worker_time=tuple(job.step if j == i else never for j in range(len(jobs))),
                ps_time=tuple(Fraction(0) if j == i else never for j in range(len(jobs))),
                transfer_time=(Fraction(0),) * len(jobs),
                delay=(0,) * len(capacity),
                utility=job.utility,
            )
            for i, job in enumerate(jobs)
        ),
    )


def _draw_job(setting: Setting, rng: np.random.Generator, i: int) -> _Job:
    target, bandwidth, epochs, minibatches, step = _draw_work(rng)
    while math.ceil(epochs * minibatches * step) > target:
        target, bandwidth, epochs, minibatches, step = _draw_work(rng)
    decay = (0.0, float(rng.uniform(0.01, 1.0)), float(rng.uniform(4.0, 6.0)))[int(rng.choice(3, p=setting.kinds))]
    fast = 100 * between(rng, 50, 200)
    rest = [(between(rng, 1, 10), between(rng, 2, 32), between(rng, 5, 10)) for _ in range(2)]
    nothing = (0,) * len(POOL)
    return _Job(
        epochs=epochs,
        chunks=between(rng, 5, 100),
        minibatches=minibatches,
        step=step,
        # The paper's utility depends on the last active slot; completion, as counted here, is a slot later.
        utility=Sigmoid(float(rng.uniform(1.0, 100.0)), decay, float(target + 1)),
        worker=MachineType(f"worker-{i}", (between(rng, 0, 4), *rest[0], bandwidth, *nothing), Fraction(bandwidth)),
        ps=MachineType(f"ps-{i}", (*nothing, 0, *rest[1], fast), Fraction(fast)),
    )


def _draw_work(rng: np.random.Generator) -> tuple[int, int, int, int, Fraction]:
    """Draw target gamma_3 in slots, worker bandwidth in Mbit/s, epochs, mini-batches, and slots of one mini-batch."""
    bandwidth = 100 * between(rng, 1, 50)
    tau = Fraction(round(1e6 * math.exp(rng.uniform(math.log(0.001), math.log(0.1)))), 10**6)
    step = tau + Fraction(16 * between(rng, 30, 575), bandwidth * SLOT_SECONDS)
    return between(rng, 1, 15), bandwidth, between(rng, 50, 200), between(rng, 10, 100), step
