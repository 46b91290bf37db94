"""The DPS paper's simulation settings (Section 6), drawn from a seed."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.bid import Bid
from scheduling.inventory import Inventory, MachineType
from scheduling.utility import Sigmoid

SLOT_SECONDS = 3600
MILLION = 10**6


@dataclass(frozen=True)
class Setting:
    """How large a market is; the rest are the paper's ranges."""

    servers: int
    """Edge servers; one cloud comes on top."""
    slots: int
    types: int = 5
    """Worker types, and as many PS types."""
    chunks: tuple[int, int] = (27, 115)
    epochs: tuple[int, int] = (20, 60)
    minibatches: tuple[int, int] = (10, 58)


PAPER = Setting(servers=300, slots=150)
SMALL = Setting(servers=6, slots=30, types=2, chunks=(2, 6), epochs=(2, 6), minibatches=(5, 20))
"""Small enough for the literal twin of the paper's Algorithms 2 to 4."""


def draw_inventory(setting: Setting, rng: np.random.Generator) -> Inventory:
    """Edge servers of 1 to 5 workers and 1 to 3 PSs per type, and a cloud of 100 and 50."""
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
        pss=tuple(machines[kinds:]),
    )


def draw_bid(setting: Setting, inventory: Inventory, rng: np.random.Generator, *, name: str, arrival: int) -> Bid:
    """One job worth 100 k / (1 + e^(0.02 t)), k in 1..5; delays are 1..4 slots at the edge and 10..15 to the cloud."""
    gradient_mb = int(rng.integers(30, 576))
    update_ms = [int(x) for x in rng.integers(10, 101, len(inventory.pss))]
    return Bid(
        id=name,
        arrival=arrival,
        epochs=_between(rng, setting.epochs),
        chunks=_between(rng, setting.chunks),
        minibatches=_between(rng, setting.minibatches),
        worker_time=tuple(Fraction(int(x), MILLION) for x in rng.integers(1_000, 50_001, len(inventory.workers))),
        ps_time=tuple(Fraction(x, 1000 * SLOT_SECONDS) for x in update_ms),
        transfer_time=tuple(16 * gradient_mb / m.bandwidth_mbps / SLOT_SECONDS for m in inventory.workers),
        delay=tuple(int(rng.integers(10, 16) if cloud else rng.integers(1, 5)) for cloud in inventory.cloud),
        utility=Sigmoid(100.0 * int(rng.integers(1, 6)), 0.02, 0.0),
    )


def _between(rng: np.random.Generator, limits: tuple[int, int]) -> int:
    return int(rng.integers(limits[0], limits[1] + 1))
