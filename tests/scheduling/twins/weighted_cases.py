"""Small random instances of weighted completion, of the size whose optimum can be proven."""

import numpy as np

from scheduling.instances.weighted_completion import WeightedInstance, read_weighted
from scheduling.model.bid import Architecture
from scheduling.model.types import Json


def random_instance(
    rng: np.random.Generator, architecture: Architecture, *, jobs: int = 4, servers: int = 2
) -> WeightedInstance:
    """A few contended jobs, two types of each machine, on a few small servers; every job fits the empty cluster."""
    while True:
        instance = read_weighted(_document(rng, architecture, jobs, servers))
        if _all_fit(instance):
            return instance


def _document(rng: np.random.Generator, architecture: Architecture, jobs: int, servers: int) -> Json:
    ring = architecture is Architecture.RING

    def times(parts: int, top: int, low: int = 0) -> list[str]:
        return [f"{int(n)}/{parts}" for n in rng.integers(low, top, 2)]

    return {
        "arch": str(architecture),
        "T": 40,
        "bw": 1,
        "servers": rng.integers(3, 7, (servers, 2)).tolist(),
        "workers": rng.integers(1, 3, (2, 2)).tolist(),
        "pss": [] if ring else [[int(rng.integers(0, 2)), int(rng.integers(1, 4))] for _ in range(2)],
        "jobs": [
            {
                "id": i,
                "a": int(rng.integers(1, 5)),
                "w": int(rng.integers(1, 60)),
                "E": 1,
                "D": int(rng.integers(1, 4)),
                "K": int(rng.integers(1, 4)),
                "v": times(4, 5, low=1),
                "U": times(8, 4)[0] if ring else times(8, 4),
                "comm": times(8, 5),
            }
            for i in range(jobs)
        ],
    }


def _all_fit(instance: WeightedInstance) -> bool:
    """Whether some server holds a worker and, where it is needed, a parameter server beside it."""
    inventory = instance.inventory
    least = inventory.worker_demand.min(axis=0)
    if instance.architecture is Architecture.PS:
        least = least + inventory.ps_demand.min(axis=0)
    return bool((inventory.capacity >= least).all(axis=1).any())
