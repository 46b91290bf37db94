"""Bodies of demo bids, drawn by the settings of the DPS paper (Section 6.1)."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from cluster.models import Cluster, MachineRole, MachineType
from scheduling.arrays import Json

BIDS_PER_SLOT = 1.5
"""Poisson arrivals: enough that capacity is contended and some bids are rejected."""


@dataclass(frozen=True)
class Offer:
    """A bid to be sent when the cluster's clock reads `at_s` seconds after the epoch."""

    at_s: float
    key: str
    body: Json


@dataclass(frozen=True)
class Machines:
    """What a body must name: the cluster's machine types, and its slot length."""

    workers: tuple[str, ...]
    pss: tuple[str, ...]
    slot_s: int


def machines_of(cluster: Cluster) -> Machines:
    """The machine types a demo bid gives step times for."""
    names = list(MachineType.objects.filter(cluster=cluster).values_list("role", "name"))
    return Machines(
        workers=tuple(name for role, name in names if role == MachineRole.WORKER),
        pss=tuple(name for role, name in names if role == MachineRole.PS),
        slot_s=cluster.slot_seconds,
    )


def drawn(machines: Machines, *, seed: int, number: int, from_s: float) -> Iterator[Offer]:
    """Offers `number`, `number` + 1, ... of the stream, by Poisson arrivals after `from_s`; endless.

    Each offer has a generator of its own, so that a second run goes on where the first one stopped.
    """
    at_s = from_s
    while True:
        rng = np.random.default_rng([seed, number])
        at_s += rng.exponential(machines.slot_s / BIDS_PER_SLOT)
        yield Offer(at_s=at_s, key=f"demo-{seed}-{number}", body={"label": f"job {number}", **_body(rng, machines)})
        number += 1


def value_curve(rng: np.random.Generator, slot_s: int) -> Json:
    """100 k / (1 + exp(0.02 t)), t in slots, k of 1 to 5: the paper's sigmoid."""
    return {
        "form": "sigmoid",
        "value": 100.0 * int(rng.integers(1, 6)),
        "steepness_per_s": 0.02 / slot_s,
        "midpoint_s": 0,
    }


def _body(rng: np.random.Generator, machines: Machines) -> Json:
    slot_s = machines.slot_s
    return {
        "epochs": int(rng.integers(20, 61)),
        "chunks": int(rng.integers(27, 116)),
        "minibatches": int(rng.integers(10, 59)),
        "gradient_mb": round(float(rng.uniform(30, 575)), 1),
        # The paper gives worker times in slots and PS times in milliseconds.
        "worker_step_s": {name: round(float(rng.uniform(0.001, 0.05)) * slot_s, 3) for name in machines.workers},
        "ps_step_s": {name: round(float(rng.uniform(0.010, 0.100)), 4) for name in machines.pss},
        "utility": value_curve(rng, slot_s),
    }
