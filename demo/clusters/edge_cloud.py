"""Edge servers and a cloud, drawn by the settings of the DPS paper (Section 6.1 and Table 2)."""

from typing import Final

import numpy as np

from demo.clusters.catalogue import SLOT_SECONDS, cluster_document
from scheduling.model.types import Json

HORIZON_SLOTS: Final = 150
TYPES: Final = 5
CLOUD_WORKERS: Final = 100
"""Number of workers of each type; the paper gives no size of the cloud."""
CLOUD_PSS: Final = 50

TABLE_2: Final = {
    "ResNet-50": (27, 58, 98.0),
    "ResNet-101": (27, 58, 170.0),
    "GoogLeNet": (115, 58, 30.0),
    "LeNet": (115, 58, 30.0),
    "AlexNet": (60, 58, 233.0),
    "Inception-BN": (60, 58, 45.0),
}
"""Chunks, mini-batches, and gradients in MB: 32-bit parameters, rounded, at least the paper's least of 30."""


def edge_cloud_document(
    rng: np.random.Generator, *, name: str = "demo", edge_servers: int = 12, types: int = TYPES
) -> Json:
    """A cluster of edge servers and one cloud under a virtual clock; the same generator gives the same document."""
    workers = [f"worker-{i + 1}" for i in range(types)]
    pss = [f"ps-{i + 1}" for i in range(types)]
    return cluster_document(
        name=name,
        title=f"Edge and cloud: {edge_servers} servers",
        note="Synthetic: drawn from a seed by the settings of the DPS paper.",
        horizon_slots=HORIZON_SLOTS,
        resources=[{"name": machine, "unit": "place"} for machine in (*workers, *pss)],
        worker_types=[_machine_type(rng, machine, low=100, high=5 * 1024) for machine in workers],
        ps_types=[_machine_type(rng, machine, low=5 * 1024, high=20 * 1024) for machine in pss],
        servers=[
            *(_edge_server(rng, f"edge-{i + 1:03}", workers, pss) for i in range(edge_servers)),
            {
                "name": "cloud",
                "kind": "cloud",
                "upload_delay_s": float(rng.integers(10, 16) * SLOT_SECONDS),
                "capacity": dict.fromkeys(workers, CLOUD_WORKERS) | dict.fromkeys(pss, CLOUD_PSS),
            },
        ],
        models=[_model(rng, model, workers, pss) for model in sorted(TABLE_2)],
    )


def queues_document(rng: np.random.Generator) -> Json:
    """Edge servers and a cloud of three worker types, for jobs that share workers in queues."""
    return edge_cloud_document(rng, name="demo-preemptive", types=3) | {
        "title": "Queues at the edge, and a cloud: 12 servers",
        "note": "Synthetic: drawn from a seed; upload delays are those of the preemptive edge-cloud paper.",
    }


def _machine_type(rng: np.random.Generator, name: str, *, low: int, high: int) -> Json:
    # One-hot: each type has places of its own (DPS, Section 3.1).
    return {"name": name, "bandwidth_mbps": int(rng.integers(low, high + 1)), "demand": {name: 1}}


def _edge_server(rng: np.random.Generator, name: str, workers: list[str], pss: list[str]) -> Json:
    capacity = {worker: int(rng.integers(1, 6)) for worker in workers}
    capacity |= {ps: int(rng.integers(1, 4)) for ps in pss}
    return {
        "name": name,
        "kind": "edge",
        "upload_delay_s": float(rng.integers(1, 5) * SLOT_SECONDS),
        "capacity": capacity,
    }


def _model(rng: np.random.Generator, name: str, workers: list[str], pss: list[str]) -> Json:
    chunks, minibatches, gradient_mb = TABLE_2[name]
    # The paper gives worker times in slots (0.001 to 0.05) and PS times in milliseconds (10 to 100).
    return {
        "name": name,
        "gradient_mb": gradient_mb,
        "chunks": chunks,
        "minibatches": minibatches,
        "worker_step_s": {worker: round(float(rng.uniform(0.001, 0.05)) * SLOT_SECONDS, 3) for worker in workers},
        "ps_step_s": {ps: round(float(rng.uniform(0.010, 0.100)), 4) for ps in pss},
    }
