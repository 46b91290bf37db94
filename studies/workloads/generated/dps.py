"""Servers, a cloud and jobs by the simulation settings of the DPS paper (Section 6.1), from a seed.

Where the paper leaves a choice: a server has 1 to 5 workers and 1 to 3 parameter servers *of each type* and the cloud
100 and 50; jobs arrive evenly over a share of the slots. Update times are milliseconds, computing times slots of an
hour, 1 MB is 8 Mbit. Every job can run on the cloud, though not each is complete by the end.
"""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.utility import Inverse, Linear, Sigmoid, Utility
from studies.workloads.generated.system import Workload, between

SLOT_SECONDS = 3600
MILLION = 10**6


class UtilityForm(StrEnum):
    """The utilities of Section 6.2.2."""

    SIGMOID = "sigmoid"
    LINEAR = "linear"
    INVERSE = "inverse"


@dataclass(frozen=True)
class Setting:
    """Size of a market; all other ranges are the paper's."""

    servers: int = 300
    """Number of edge servers, not counting the cloud."""
    slots: int = 150
    jobs: int = 100
    arrivals: float = 0.5
    """Jobs arrive evenly over this share of the slots."""
    utility: UtilityForm = UtilityForm.SIGMOID
    types: int = 5
    """Number of worker types, and of PS types."""
    chunks: tuple[int, int] = (27, 115)
    epochs: tuple[int, int] = (20, 60)
    minibatches: tuple[int, int] = (10, 58)


PAPER = Setting()
SMALL = Setting(servers=6, slots=30, types=2, chunks=(2, 6), epochs=(2, 6), minibatches=(5, 20))
"""Small enough for the literal twin of the paper's Algorithms 2 to 4."""


def draw(setting: Setting, rng: np.random.Generator) -> Workload:
    """Draw servers and jobs; slots are numbered from 0."""
    inventory = draw_inventory(setting, rng)
    arrivals = np.sort(rng.integers(0, max(1, int(setting.slots * setting.arrivals)), setting.jobs)).tolist()
    bids = (draw_bid(setting, inventory, rng, name=str(i), arrival=slot) for i, slot in enumerate(arrivals))
    return Workload(inventory, tuple(bids))


def draw_inventory(setting: Setting, rng: np.random.Generator) -> Inventory:
    """Draw edge servers of 1 to 5 workers and 1 to 3 PSs per type, and a cloud of 100 and 50."""
    kinds, servers = setting.types, setting.servers
    edge = np.concatenate([rng.integers(1, 6, (servers, kinds)), rng.integers(1, 4, (servers, kinds))], axis=1)
    cloud = [[100] * kinds + [50] * kinds]
    machines = [
        MachineType(
            name=f"{role}-{i}",
            demand=tuple(int(r == i + offset) for r in range(2 * kinds)),
            bandwidth_mbps=Fraction(int(rng.integers(low, high + 1))),
        )
        for role, offset, low, high in (("worker", 0, 100, 5120), ("ps", kinds, 5120, 20480))
        for i in range(kinds)
    ]
    return Inventory(
        resources=tuple(machine.name for machine in machines),
        servers=(*(f"edge-{s}" for s in range(servers)), "cloud"),
        cloud=(*[False] * servers, True),
        capacity=np.concatenate([edge, cloud]).astype(np.int64),
        workers=tuple(machines[:kinds]),
        parameter_servers=tuple(machines[kinds:]),
    )


def draw_bid(setting: Setting, inventory: Inventory, rng: np.random.Generator, *, name: str, arrival: int) -> Bid:
    """Draw one job; delays are 1 to 4 slots at the edge and 10 to 15 to the cloud.

    Value: 100 k / (1 + e^(0.02 t)), k of 1 to 5; or a T - b t, a of 10 to 20, b of 1 to 5; or a E D M (T - t) / t,
    a of 1 to 5 (Section 6.2.2).
    """
    gradient_mb = int(rng.integers(30, 576))
    update_ms = [int(x) for x in rng.integers(10, 101, len(inventory.parameter_servers))]
    epochs, chunks, minibatches = (
        between(rng, *limits) for limits in (setting.epochs, setting.chunks, setting.minibatches)
    )
    return Bid(
        id=name,
        arrival=arrival,
        epochs=epochs,
        chunks=chunks,
        minibatches=minibatches,
        worker_time=tuple(Fraction(int(x), MILLION) for x in rng.integers(1_000, 50_001, len(inventory.workers))),
        ps_time=tuple(Fraction(x, 1000 * SLOT_SECONDS) for x in update_ms),
        transfer_time=tuple(16 * gradient_mb / m.bandwidth_mbps / SLOT_SECONDS for m in inventory.workers),
        delay=tuple(int(rng.integers(10, 16) if cloud else rng.integers(1, 5)) for cloud in inventory.cloud),
        utility=_draw_utility(setting, rng, work=epochs * chunks * minibatches),
    )


def _draw_utility(setting: Setting, rng: np.random.Generator, *, work: int) -> Utility:
    if setting.utility == UtilityForm.SIGMOID:
        return Sigmoid(100.0 * int(rng.integers(1, 6)), 0.02, 0.0)
    if setting.utility == UtilityForm.LINEAR:
        return Linear(c=float(rng.uniform(10, 20)) * setting.slots, b=float(rng.uniform(1, 5)))
    return Inverse(a=float(rng.uniform(1, 5)), work=float(work), T=float(setting.slots))
