"""Servers and jobs by the settings of the weighted-completion paper (Section 7), from a seed.

Where the paper leaves a choice: every range is drawn evenly, also v; the *ideal* demand of a job is D workers of its
fastest type with the fastest PSs that serve them, and capacity is a share of the sum of these, drawn for each resource.
Servers are EC2's P3, P2 and G3 sizes, stretched by one factor for each resource; the first of the largest is made to
hold a worker and a PS of any type, so that no job is impossible. 1 MB is 8 Mbit, a slot one hour.
"""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Ints
from scheduling.model.utility import Constant
from studies.workloads.generated.system import Workload, between

SLOT_SECONDS = 3600
RESOURCES = ("gpu", "vcpu", "bandwidth_mbps")
SERVERS = (
    *((1, 8, 10_000), (4, 32, 10_000), (8, 64, 25_000)),
    *((1, 4, 10_000), (8, 32, 10_000), (16, 64, 25_000)),
    *((1, 16, 10_000), (2, 32, 10_000), (4, 64, 25_000)),
)
"""GPUs, vCPUs and Mbit/s of EC2's P3, P2 and G3 instances."""


@dataclass(frozen=True)
class Setting:
    """Size of a system; all other ranges are the paper's."""

    jobs: int = 100
    servers: int = 150
    slots: int = 150
    """Jobs arrive evenly over this many slots."""
    architecture: Architecture = Architecture.PS
    share: tuple[float, float] = (0.2, 0.5)
    """Capacity as a share of the jobs' ideal demand."""
    workers: int = 8
    """Number of worker types."""
    parameter_servers: int = 10
    """Number of PS types."""
    epochs: tuple[int, int] = (50, 100)
    chunks: tuple[int, int] = (5, 50)


def draw(setting: Setting, rng: np.random.Generator) -> Workload:
    """Draw servers and jobs; slots are numbered from 0."""
    workers = tuple(_draw_worker(rng, i) for i in range(setting.workers))
    pss = tuple(_draw_ps(rng, i) for i in range(setting.parameter_servers))
    arrivals = np.sort(rng.integers(0, setting.slots, setting.jobs))
    bids = tuple(_draw_bid(rng, setting, workers, i, int(slot)) for i, slot in enumerate(arrivals))
    demand = sum((ideal_demand(bid, workers, pss) for bid in bids), np.zeros(len(RESOURCES), dtype=np.int64))
    capacity = _draw_capacity(rng, setting, demand)
    largest = int(capacity.sum(axis=1).argmax())
    least = np.array([machine.demand for machine in workers]).max(axis=0)
    least += np.array([machine.demand for machine in pss]).max(axis=0)
    capacity[largest] = np.maximum(capacity[largest], least)
    names = tuple(f"server-{s}" for s in range(setting.servers))
    return Workload(Inventory(RESOURCES, names, (False,) * setting.servers, capacity, workers, pss), bids)


def ideal_demand(bid: Bid, workers: tuple[MachineType, ...], pss: tuple[MachineType, ...]) -> Ints:
    """Return the units of each resource that a job takes with D workers of its fastest type, R numbers."""
    m = min(range(len(workers)), key=lambda m: bid.worker_time[m] + bid.transfer_time[m])
    demand = bid.chunks * np.array(workers[m].demand, dtype=np.int64)
    if bid.architecture is Architecture.RING:
        return demand
    p = min(range(len(pss)), key=lambda p: bid.ps_time[p])
    count = math.ceil(bid.chunks * workers[m].bandwidth_mbps / pss[p].bandwidth_mbps)
    return demand + count * np.array(pss[p].demand, dtype=np.int64)


def _draw_capacity(rng: np.random.Generator, setting: Setting, demand: Ints) -> Ints:
    sizes = np.array(SERVERS, dtype=np.int64)[rng.integers(len(SERVERS), size=setting.servers)]
    factor = rng.uniform(*setting.share, len(RESOURCES)) * demand / sizes.sum(axis=0)
    capacity: Ints = np.maximum(1, np.rint(sizes * factor)).astype(np.int64)
    return capacity


def _draw_worker(rng: np.random.Generator, i: int) -> MachineType:
    rate = 100 * between(rng, 1, 50)
    return MachineType(f"worker-{i}", (between(rng, 1, 4), between(rng, 1, 16), rate), Fraction(rate))


def _draw_ps(rng: np.random.Generator, i: int) -> MachineType:
    rate = 100 * between(rng, 50, 200)
    return MachineType(f"ps-{i}", (0, between(rng, 1, 16), rate), Fraction(rate))


def _draw_bid(
    rng: np.random.Generator, setting: Setting, workers: tuple[MachineType, ...], i: int, arrival: int
) -> Bid:
    model_mb = between(rng, 30, 575)
    updates = tuple(Fraction(between(rng, 10, 100), 1000 * SLOT_SECONDS) for _ in range(setting.parameter_servers))
    return Bid(
        id=str(i),
        arrival=arrival,
        epochs=between(rng, *setting.epochs),
        chunks=between(rng, *setting.chunks),
        minibatches=between(rng, 10, 50),
        worker_time=tuple(Fraction(between(rng, 1000, 50_000), 10**6) for _ in workers),
        ps_time=updates,
        transfer_time=tuple(2 * 8 * model_mb / machine.bandwidth_mbps / SLOT_SECONDS for machine in workers),
        delay=(0,) * setting.servers,
        utility=Constant(float(between(rng, 200, 5000))),
        architecture=setting.architecture,
        reduce_time=updates[0] if setting.architecture is Architecture.RING else Fraction(0),
    )
