"""Clusters whose one resource is GPUs, and jobs of one machine, for answers that fit in the head."""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.utility import Constant
from scheduling.policies.base import Policy
from scheduling.policies.simulation import Simulation, simulate

NEVER = Fraction(10**6)
LARGEST = 4
"""GPUs of the largest worker type: type i has i + 1."""


def gpu_cluster(*gpus: int) -> Inventory:
    return Inventory(
        resources=("gpu",),
        servers=tuple(f"s{s}" for s in range(len(gpus))),
        cloud=(False,) * len(gpus),
        capacity=np.array(gpus, dtype=np.int64).reshape(-1, 1),
        workers=tuple(MachineType(f"w{i}", (i + 1,), Fraction(100)) for i in range(LARGEST)),
        parameter_servers=(),
    )


def job(
    name: str, gpus: int, slots: int, *, at: int = 0, workers: int = 1, servers: int = 1, weight: float = 1.0
) -> Bid:
    """Return a ring job that one worker with `gpus` GPUs completes in `slots` slots, and `workers` workers sooner."""
    return Bid(
        id=name,
        arrival=at,
        epochs=1,
        chunks=workers,
        minibatches=slots,
        worker_time=tuple(Fraction(1, workers) if i + 1 == gpus else NEVER for i in range(LARGEST)),
        ps_time=(),
        transfer_time=(Fraction(0),) * LARGEST,
        delay=(0,) * servers,
        utility=Constant(weight),
        architecture=Architecture.RING,
    )


def run(policy: Policy, bids: Sequence[Bid], *gpus: int, slots: int = 50) -> Simulation:
    return simulate(policy, bids, Ledger(gpu_cluster(*gpus), start=0, slots=slots), until=500)


def completions(going: Simulation) -> dict[str, int]:
    assert not going.book.jobs
    return {name: done.completion for name, done in going.done.items() if done.completion is not None}


def slots_of(going: Simulation, name: str) -> list[int]:
    """The slots in which a job held anything."""
    return sorted({slot for p in going.done[name].held for slot in range(p.start, p.end)})
