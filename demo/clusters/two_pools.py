"""Servers for workers and servers for parameter servers, drawn by the settings of the OASiS paper (Section V-A).

Workers need GPUs, so they live on EC2's P2 and G3 instances and parameter servers on C4 (the paper swaps the two).
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from demo.clusters.catalogue import cluster_document, gpu_server, machine_type, model_rows
from scheduling.model.types import Json

WORKER_RESOURCES: Final = {"gpu": "GPU", "vcpu": "vCPU", "memory": "GB", "storage": "GB", "bandwidth": "Mbit/s"}
PS_RESOURCES: Final = {"ps-vcpu": "vCPU", "ps-memory": "GB", "ps-storage": "GB", "ps-bandwidth": "Mbit/s"}
"""The two pools are apart because their resources are; these servers have no GPUs."""

GPU_SERVERS: Final[Mapping[str, tuple[int, int, int]]] = {
    "p2-16xlarge": (16, 64, 732),
    "p2-8xlarge-a": (8, 32, 488),
    "p2-8xlarge-b": (8, 32, 488),
    "g3-16xlarge-a": (4, 64, 488),
    "g3-16xlarge-b": (4, 64, 488),
    "g3-8xlarge": (2, 32, 244),
    "p2-xlarge": (1, 4, 61),
}
"""GPUs, vCPUs and GB of memory."""
CPU_SERVERS: Final[Mapping[str, tuple[int, int]]] = {
    "c4-8xlarge-a": (36, 60),
    "c4-8xlarge-b": (36, 60),
    "c4-4xlarge": (16, 30),
}
"""vCPUs and GB of memory."""
GPU_STORAGE_GB: Final = 1000
CPU_STORAGE_GB: Final = 500
"""The paper gives neither."""
BANDWIDTH_MBPS: Final = (20_000, 50_000)

WORKERS: Final[Mapping[str, tuple[int, ...]]] = {
    "one-gpu": (1, 4, 16, 10, 1000),
    "two-gpus": (2, 8, 32, 10, 2500),
    "four-gpus": (4, 10, 32, 10, 5000),
}
"""Resources that one worker takes, within the paper's ranges."""
PSS: Final[Mapping[str, tuple[int, ...]]] = {
    "ps-5g": (4, 8, 5, 5000),
    "ps-10g": (8, 16, 10, 10_000),
}


def two_pools_document(rng: np.random.Generator, *, name: str = "demo-oasis") -> Json:
    """A cluster with separate pools under a virtual clock; the same generator gives the same document."""
    resources = WORKER_RESOURCES | PS_RESOURCES
    return cluster_document(
        name=name,
        title=f"Elastic jobs: {len(GPU_SERVERS)} GPU servers and {len(CPU_SERVERS)} for parameter servers",
        note="Synthetic: servers as on EC2, their bandwidths drawn from a seed by the settings of the OASiS paper.",
        resources=[{"name": key, "unit": unit} for key, unit in resources.items()],
        worker_types=[machine_type(key, WORKER_RESOURCES, amounts) for key, amounts in WORKERS.items()],
        ps_types=[machine_type(key, PS_RESOURCES, amounts) for key, amounts in PSS.items()],
        servers=[
            *(_server(rng, key, WORKER_RESOURCES, (*has, GPU_STORAGE_GB)) for key, has in GPU_SERVERS.items()),
            *(_server(rng, key, PS_RESOURCES, (*has, CPU_STORAGE_GB)) for key, has in CPU_SERVERS.items()),
        ],
        models=model_rows({key: amounts[0] for key, amounts in WORKERS.items()}, PSS),
    )


def _server(rng: np.random.Generator, name: str, resources: Mapping[str, str], has: tuple[int, ...]) -> Json:
    low, high = BANDWIDTH_MBPS
    return gpu_server(name, resources, (*has, 1000 * int(rng.integers(low // 1000, high // 1000 + 1))))
