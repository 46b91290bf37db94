"""Bodies of demo bids, drawn from a seed by the settings of each scenario's paper."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np

from cluster.models import Cluster, MachineRole, MachineType
from demo.clusters.catalogue import MODELS
from scheduling.model.types import Json


@dataclass(frozen=True)
class Offer:
    """A bid to be sent when the cluster's clock reads `at_s` seconds after the epoch."""

    at_s: float
    key: str
    body: Json


@dataclass(frozen=True)
class Machines:
    """The data that a body refers to: the cluster's machine types and its slot length."""

    workers: tuple[str, ...]
    parameter_servers: tuple[str, ...]
    slot_s: int


def machines_of(cluster: Cluster) -> Machines:
    """The machine types a demo bid gives step times for."""
    names = list(MachineType.objects.filter(cluster=cluster).values_list("role", "name"))
    return Machines(
        workers=tuple(name for role, name in names if role == MachineRole.WORKER),
        parameter_servers=tuple(name for role, name in names if role == MachineRole.PS),
        slot_s=cluster.slot_seconds,
    )


ONE_STANDS_OF = 3
"""Every third bid of a market with posted prices stands if it is rejected; for the others a rejection is final."""

Draw = Callable[[np.random.Generator, Machines], Json]
"""One body, without its label."""


def drawn(
    draw: Draw, machines: Machines, *, bids_per_slot: float, seed: int, number: int, from_s: float
) -> Iterator[Offer]:
    """Offers `number`, `number` + 1, ... of the stream, by Poisson arrivals after `from_s`; endless.

    Each offer has a generator of its own, so that a second run goes on where the first one stopped. Of bids that state
    a value one of three stands, unless the body says it.
    """
    at_s = from_s
    while True:
        rng = np.random.default_rng([seed, number])
        at_s += rng.exponential(machines.slot_s / bids_per_slot)
        body = {"label": f"job {number}", **draw(rng, machines)}
        if "utility" in body:
            body.setdefault("standing", number % ONE_STANDS_OF == 0)
        yield Offer(at_s=at_s, key=f"demo-{seed}-{number}", body=body)
        number += 1


def value_curve(rng: np.random.Generator, slot_s: int) -> Json:
    """100 k / (1 + exp(0.02 t)), t in slots, k of 1 to 5: the paper's sigmoid."""
    return {
        "form": "sigmoid",
        "value": 100.0 * int(rng.integers(1, 6)),
        "steepness_per_s": 0.02 / slot_s,
        "midpoint_s": 0,
    }


def edge_cloud_body(rng: np.random.Generator, machines: Machines) -> Json:
    """A job by the settings of the DPS paper (Section 6.1), all its numbers its own."""
    return {**_work(rng, machines, epochs=(20, 60), chunks=(27, 115)), "utility": value_curve(rng, machines.slot_s)}


def queued_body(rng: np.random.Generator, machines: Machines) -> Json:
    """A job of chunks of a few slots each, shorter than in the preemptive edge-cloud paper, which has days."""
    return _work(rng, machines, epochs=(2, 12), chunks=(5, 30))


def _work(rng: np.random.Generator, machines: Machines, *, epochs: tuple[int, int], chunks: tuple[int, int]) -> Json:
    """The work of a job, from these ranges."""
    return {
        "epochs": int(rng.integers(epochs[0], epochs[1] + 1)),
        "chunks": int(rng.integers(chunks[0], chunks[1] + 1)),
        "minibatches": int(rng.integers(10, 59)),
        "gradient_mb": round(float(rng.uniform(30, 575)), 1),
        # The paper gives worker times in slots and PS times in milliseconds.
        "worker_step_s": {
            name: round(float(rng.uniform(0.001, 0.05)) * machines.slot_s, 3) for name in machines.workers
        },
        "ps_step_s": {name: round(float(rng.uniform(0.010, 0.100)), 4) for name in machines.parameter_servers},
    }


LONGEST_TARGET = 15
"""Slots until an OASiS job's target: 1 to 15."""


def elastic_body(rng: np.random.Generator, machines: Machines) -> Json:
    """A job by the settings of the OASiS paper (Section V-A): a sigmoid around a target that workers can meet."""
    name, epochs = _model(rng), int(rng.integers(50, 201))
    model = MODELS[name]
    least = ceil(epochs * model.minibatches * model.step_s / machines.slot_s)
    target = int(rng.integers(min(least, LONGEST_TARGET), LONGEST_TARGET + 1))
    # Time-insensitive, time-sensitive and time-critical, in the paper's shares.
    decay = (0.0, float(rng.uniform(0.01, 1.0)), float(rng.uniform(4.0, 6.0)))[int(rng.choice(3, p=(0.1, 0.55, 0.35)))]
    return {
        "model": name,
        "epochs": epochs,
        "chunks": int(rng.integers(5, 21)),
        "utility": {
            "form": "sigmoid",
            "value": round(float(rng.uniform(1, 100)), 2),
            "steepness_per_s": decay / machines.slot_s,
            # The paper's utility is of the last active slot, which is over a slot later.
            "midpoint_s": (target + 1) * machines.slot_s,
        },
    }


SHORT_EPOCHS = (4, 12)
"""Least and most epochs of jobs that really train, a slot or two."""
LONG_EPOCHS = (12, 36)
"""The same of those that train for several slots."""


def training_body(rng: np.random.Generator, machines: Machines, *, epochs: tuple[int, int] = SHORT_EPOCHS) -> Json:
    """A job that really trains, worth less the later it is done."""
    return chunks_body(rng, machines, epochs=epochs) | {
        "utility": {
            "form": "sigmoid",
            "value": round(float(rng.uniform(20, 100)), 2),
            "steepness_per_s": float(rng.uniform(0.1, 1.0)) / machines.slot_s,
            "midpoint_s": int(rng.integers(3, 10)) * machines.slot_s,
        },
    }


def elastic_training_body(rng: np.random.Generator, machines: Machines) -> Json:
    """A job that really trains for several slots, so that the number of its workers changes meanwhile."""
    return training_body(rng, machines, epochs=LONG_EPOCHS)


def ring_body(rng: np.random.Generator, machines: Machines) -> Json:
    """A job that really trains, in a ring, with a weight."""
    ring = {"architecture": "ring", "reduce_step_s": 0.005}
    return chunks_body(rng, machines) | ring | {"weight": int(rng.integers(1, 11))}


def long_chunks_body(rng: np.random.Generator, machines: Machines) -> Json:
    """A job of chunks that takes long beside its start: in queues it holds machines for no longer than it needs."""
    return chunks_body(rng, machines, epochs=LONG_EPOCHS)


def chunks_body(rng: np.random.Generator, _machines: Machines, *, epochs: tuple[int, int] = SHORT_EPOCHS) -> Json:
    """A job that really trains: some ten steps of a small network, or up to a hundred."""
    number, chunks = int(rng.integers(epochs[0], epochs[1] + 1)), int(rng.integers(2, 4))
    return {
        "model": "two-layers",
        "epochs": number,
        "chunks": chunks,
        "program": {
            "name": "train",
            "arguments": ["--seed", str(rng.integers(1000))],
            "steps": number * chunks,
        },
    }


def weighted_body(rng: np.random.Generator, machines: Machines) -> Json:
    """A job by the settings of weighted completion (Section 7); it is a ring with probability one half."""
    job: Json = {
        "model": _model(rng),
        "epochs": int(rng.integers(50, 101)),
        "chunks": int(rng.integers(4, 13)),
        "weight": int(rng.integers(200, 5001)),
    }
    ring = {"architecture": "ring", "reduce_step_s": round(float(rng.uniform(0.010, 0.100)), 4)}
    return job | ring if rng.random() < 0.5 else job


def competing_body(rng: np.random.Generator, machines: Machines) -> Json:
    """A job of the size of weighted completion's (Section 7), worth the less the later it is done. Its bid stands."""
    return {
        "model": _model(rng),
        "epochs": int(rng.integers(50, 101)),
        "chunks": int(rng.integers(4, 13)),
        "utility": {
            "form": "sigmoid",
            "value": round(float(rng.uniform(1, 100)), 2),
            "steepness_per_s": float(rng.uniform(0.1, 1.0)) / machines.slot_s,
            "midpoint_s": int(rng.integers(10, 51)) * machines.slot_s,
        },
        "standing": True,
    }


def _model(rng: np.random.Generator) -> str:
    return str(rng.choice(sorted(MODELS)))
