"""Documents of demo clusters, drawn by the DPS paper's settings (Section 6.1); the values are synthetic."""

from datetime import UTC, datetime
from typing import Final

import numpy as np

from scheduling.arrays import Json

EPOCH: Final = datetime(2026, 1, 1, tzinfo=UTC)
SLOT_SECONDS: Final = 3600
TYPES: Final = 5
WORKERS_ON_EDGE: Final = (1, 5)
PSS_ON_EDGE: Final = (1, 3)
WORKERS_IN_CLOUD: Final = 100
PSS_IN_CLOUD: Final = 50
"""The paper gives no size for the cloud; docs/clusters.md says which was chosen."""
WORKER_MBPS: Final = (100, 5 * 1024)
PS_MBPS: Final = (5 * 1024, 20 * 1024)
EDGE_DELAY_SLOTS: Final = (1, 4)
CLOUD_DELAY_SLOTS: Final = (10, 15)
WORKER_STEP_SLOTS: Final = (0.001, 0.05)
PS_STEP_MS: Final = (10, 100)
MODELS: Final = {
    # name: chunks, mini-batches (Table 2), parameters in MB at 4 bytes each
    "ResNet-50": (27, 58, 98),
    "ResNet-101": (27, 58, 170),
    "GoogLeNet": (115, 58, 30),
    "LeNet": (115, 58, 30),
    "AlexNet": (60, 58, 233),
    "Inception-BN": (60, 58, 45),
}


def edge_cloud_document(
    rng: np.random.Generator,
    *,
    name: str,
    title: str = "Edge-cloud demo",
    epoch: datetime = EPOCH,
    edge_servers: int = 12,
    horizon_slots: int = 150,
    clock_speed: float = 1800.0,
    types: int = TYPES,
) -> Json:
    """An edge-cloud network: edge servers with few machines close by, one cloud with many far away.

    Every worker type and every PS type is a resource of its own, as in the paper. `clock_speed` is in cluster
    seconds per second of a virtual clock.
    """
    workers = [f"worker-{i + 1}" for i in range(types)]
    pss = [f"ps-{i + 1}" for i in range(types)]
    cloud = {**dict.fromkeys(workers, WORKERS_IN_CLOUD), **dict.fromkeys(pss, PSS_IN_CLOUD)}
    return {
        "name": name,
        "title": title,
        "note": "Cluster and step times are drawn from the settings of the DPS paper. Values are synthetic.",
        "epoch": epoch.isoformat(),
        "slot_seconds": SLOT_SECONDS,
        "horizon_slots": horizon_slots,
        "clock": {"kind": "virtual", "speed": clock_speed},
        "resources": [{"name": machine, "unit": "machine"} for machine in workers + pss],
        "worker_types": [_machine(rng, machine, WORKER_MBPS) for machine in workers],
        "ps_types": [_machine(rng, machine, PS_MBPS) for machine in pss],
        "servers": [
            *(_edge(rng, f"edge-{i + 1:03}", workers, pss) for i in range(edge_servers)),
            _server("cloud", "cloud", _delay_s(rng, CLOUD_DELAY_SLOTS), cloud),
        ],
        "models": [_model(rng, model, workers, pss) for model in sorted(MODELS)],
    }


def _machine(rng: np.random.Generator, name: str, mbps: tuple[int, int]) -> Json:
    return {"name": name, "bandwidth_mbps": _whole(rng, mbps), "demand": {name: 1}}


def _edge(rng: np.random.Generator, name: str, workers: list[str], pss: list[str]) -> Json:
    capacity = {machine: _whole(rng, WORKERS_ON_EDGE) for machine in workers}
    capacity |= {machine: _whole(rng, PSS_ON_EDGE) for machine in pss}
    return _server(name, "edge", _delay_s(rng, EDGE_DELAY_SLOTS), capacity)


def _server(name: str, kind: str, delay_s: float, capacity: dict[str, int]) -> Json:
    return {"name": name, "kind": kind, "upload_delay_s": delay_s, "capacity": capacity}


def _delay_s(rng: np.random.Generator, slots: tuple[int, int]) -> float:
    return float(_whole(rng, slots) * SLOT_SECONDS)


def _model(rng: np.random.Generator, name: str, workers: list[str], pss: list[str]) -> Json:
    chunks, minibatches, megabytes = MODELS[name]
    low, high = WORKER_STEP_SLOTS
    return {
        "name": name,
        "gradient_mb": float(megabytes),
        "chunks": chunks,
        "minibatches": minibatches,
        "worker_step_s": {w: round(float(rng.uniform(low, high)) * SLOT_SECONDS, 3) for w in workers},
        "ps_step_s": {p: _whole(rng, PS_STEP_MS) / 1000 for p in pss},
    }


def _whole(rng: np.random.Generator, limits: tuple[int, int]) -> int:
    return int(rng.integers(limits[0], limits[1], endpoint=True))
