"""The stream of training jobs: drawn from a seed, the same for every policy, with what each paper's bids state."""

from dataclasses import dataclass
from math import exp
from typing import Final

import numpy as np

from scheduling.model.types import Json

OWNERS: Final = ("ada", "ben", "cleo", "dan")
"""Prices learn from bids of at least four owners."""
MODEL: Final = "two-layers"
PROGRAM: Final = "train"
MINIBATCHES: Final = 3
"""Mini-batches of a data chunk."""
CHUNKS: Final = (2, 4)
WORK: Final = (40, 160)
"""Mini-batches of a whole job, about."""
PRIORITY: Final = (1, 100)
KAPPA: Final = (1, 5)
LARGEST_SLACK: Final = 4
"""Slots between the earliest completion of a job and its target, at most."""
SENSITIVITY: Final = (0.1, 0.55, 0.35)
"""Shares of time-insensitive, time-sensitive and time-critical jobs, those of the OASiS paper."""


@dataclass(frozen=True)
class Job:
    """One job of the stream; times in slots."""

    name: str
    owner: str
    arrival: float
    epochs: int
    chunks: int
    seed: int
    """Seed of its data and its first weights."""
    weight: int
    """Its priority: what weighted completion minimises by, and the greatest utility of OASiS."""
    decay: float
    """Steepness with which its utility falls around the target, per slot (OASiS)."""
    target: int
    """Slots from arrival to its target completion (OASiS)."""
    kappa: int
    """Factor of its utility (DPS)."""

    @property
    def steps(self) -> int:
        """Number of mini-batches."""
        return self.epochs * self.chunks * MINIBATCHES

    def dps_utility(self, completion: float) -> float:
        """Return the utility of the DPS paper for a completion: 100 kappa / (1 + exp(0.02 t))."""
        return 100 * self.kappa / (1 + exp(0.02 * max(0.0, completion - self.arrival)))

    def oasis_utility(self, completion: float) -> float:
        """Return the utility of the OASiS paper for a completion: a sigmoid around the target."""
        return self.weight / (1 + exp(min(500.0, self.decay * (completion - self.arrival - self.target))))

    def body(self, value: Json, *, ring_step_s: float | None) -> Json:
        """Return the body of its bid, with what it states of its value; a ring if its reduction takes a time."""
        ring: Json = {} if ring_step_s is None else {"architecture": "ring", "reduce_step_s": ring_step_s}
        program = {"name": PROGRAM, "arguments": ["--seed", str(self.seed)], "steps": self.steps}
        work = {"model": MODEL, "epochs": self.epochs, "chunks": self.chunks, "minibatches": MINIBATCHES}
        return {"label": self.name, **work, "program": program, **ring, **value}


def draw(seed: int, *, number: int, over: float, rate: float) -> tuple[Job, ...]:
    """Draw the jobs of a stream.

    Parameters
    ----------
    seed
        The same seed gives the same jobs.
    number
        Number of jobs.
    over
        Slots over which they arrive, uniformly.
    rate
        Mini-batches that one worker does in a slot, from which targets follow.
    """
    rng = np.random.default_rng(seed)
    arrivals = np.sort(rng.uniform(0, over, number))
    return tuple(_job(rng, i, float(arrival), rate) for i, arrival in enumerate(arrivals))


def _job(rng: np.random.Generator, number: int, arrival: float, rate: float) -> Job:
    chunks = int(rng.integers(CHUNKS[0], CHUNKS[1] + 1))
    epochs = max(1, round(float(rng.uniform(*WORK)) / (chunks * MINIBATCHES)))
    # One slot more: a job that arrives within a slot starts in the next one.
    least = 1 + int(np.ceil(epochs * MINIBATCHES / rate))
    decays = (0.0, float(rng.uniform(0.01, 1.0)), float(rng.uniform(4.0, 6.0)))
    return Job(
        name=f"job {number}",
        owner=OWNERS[number % len(OWNERS)],
        arrival=arrival,
        epochs=epochs,
        chunks=chunks,
        seed=int(rng.integers(1000)),
        weight=int(rng.integers(PRIORITY[0], PRIORITY[1] + 1)),
        decay=decays[int(rng.choice(3, p=SENSITIVITY))],
        target=least + int(rng.integers(0, LARGEST_SLACK + 1)),
        kappa=int(rng.integers(KAPPA[0], KAPPA[1] + 1)),
    )
