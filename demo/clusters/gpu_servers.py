"""GPU servers that host workers and parameter servers, drawn by the settings of weighted completion (Section 7)."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from demo.clusters.catalogue import cluster_document, gpu_server, machine_type, model_rows
from scheduling.model.types import Json

RESOURCES: Final = {"gpu": "GPU", "vcpu": "vCPU", "bandwidth": "Mbit/s"}
KINDS: Final[Mapping[str, tuple[int, int, int]]] = {
    "p3-2xlarge": (1, 8, 10_000),
    "p3-8xlarge": (4, 32, 10_000),
    "p3-16xlarge": (8, 64, 25_000),
    "p2-xlarge": (1, 4, 10_000),
    "p2-8xlarge": (8, 32, 10_000),
    "p2-16xlarge": (16, 64, 25_000),
    "g3-4xlarge": (1, 16, 10_000),
    "g3-8xlarge": (2, 32, 10_000),
    "g3-16xlarge": (4, 64, 25_000),
}
"""Resources of EC2's P3, P2 and G3 instances."""
LARGEST: Final = "p2-16xlarge"
"""Always there, so that every job has room."""

WORKERS: Final[Mapping[str, tuple[int, int, int]]] = {
    "one-gpu": (1, 3, 600),
    "two-gpus": (2, 6, 1500),
    "four-gpus": (4, 12, 4000),
}
PSS: Final[Mapping[str, tuple[int, int, int]]] = {
    "ps-5g": (0, 2, 5000),
    "ps-10g": (0, 4, 10_000),
}
"""Resources that one machine takes, within the paper's ranges."""


def gpu_servers_document(rng: np.random.Generator, *, name: str = "demo-weighted", servers: int = 8) -> Json:
    """A cluster of GPU servers under a virtual clock; the same generator gives the same document."""
    kinds = [LARGEST, *(str(kind) for kind in rng.choice(list(KINDS), servers - 1))]
    return cluster_document(
        name=name,
        title=f"Weighted jobs: {servers} GPU servers",
        note="Synthetic: EC2's GPU servers, drawn from a seed by the settings of the weighted-completion paper.",
        resources=[{"name": key, "unit": unit} for key, unit in RESOURCES.items()],
        worker_types=[machine_type(key, RESOURCES, amounts) for key, amounts in WORKERS.items()],
        ps_types=[machine_type(key, RESOURCES, amounts) for key, amounts in PSS.items()],
        servers=[gpu_server(f"{kind}-{i + 1}", RESOURCES, KINDS[kind]) for i, kind in enumerate(kinds)],
        models=model_rows({key: amounts[0] for key, amounts in WORKERS.items()}, PSS),
    )
