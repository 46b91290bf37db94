"""Common data of demo clusters: their time line, machines and servers by resource, and models of GPU servers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from scheduling.model.types import Json

SLOT_SECONDS: Final = 3600
HORIZON_SLOTS: Final = 100


@dataclass(frozen=True)
class Model:
    """A network and its data set as jobs name it, unless they say otherwise."""

    gradient_mb: float
    """32-bit parameters."""
    chunks: int
    minibatches: int
    step_s: float
    """Seconds of a mini-batch on a worker with one GPU."""


MODELS: Final[Mapping[str, Model]] = {
    "AlexNet": Model(gradient_mb=233.0, chunks=12, minibatches=50, step_s=1.2),
    "GoogLeNet": Model(gradient_mb=30.0, chunks=10, minibatches=60, step_s=2.2),
    "ResNet-101": Model(gradient_mb=170.0, chunks=6, minibatches=40, step_s=5.0),
    "ResNet-50": Model(gradient_mb=98.0, chunks=8, minibatches=50, step_s=3.0),
}

SPEED: Final[Mapping[int, float]] = {1: 1.0, 2: 1.8, 4: 3.2}
"""Speed of a worker by its number of GPUs, relative to one GPU; less than proportional."""
UPDATE_S: Final = 0.02
"""Seconds of an update on a parameter server; the paper of weighted completion has 10 to 100 ms."""


def cluster_document(*, horizon_slots: int = HORIZON_SLOTS, **facts: Any) -> Json:
    """Return the document of a cluster under a virtual clock."""
    time_line = {"epoch": "2026-01-05T00:00:00+00:00", "slot_seconds": SLOT_SECONDS, "horizon_slots": horizon_slots}
    return {**time_line, "clock": {"kind": "virtual", "speed": 1.0}, **facts}


def machine_type(name: str, resources: Iterable[str], amounts: tuple[int, ...]) -> Json:
    """Return a machine type by what it takes of these resources, the last of which is bandwidth."""
    taken = {key: amount for key, amount in zip(resources, amounts, strict=True) if amount}
    return {"name": name, "bandwidth_mbps": amounts[-1], "demand": taken}


def gpu_server(name: str, resources: Iterable[str], amounts: tuple[int, ...]) -> Json:
    """Return a server by what it has of these resources; data are there at once."""
    capacity = dict(zip(resources, amounts, strict=True))
    return {"name": name, "kind": "edge", "upload_delay_s": 0.0, "capacity": capacity}


def model_rows(gpus: Mapping[str, int], pss: Iterable[str]) -> list[Json]:
    """Return the models of a document, for worker types with these numbers of GPUs and for these PS types."""
    names = list(pss)
    return [
        {
            "name": name,
            "gradient_mb": model.gradient_mb,
            "chunks": model.chunks,
            "minibatches": model.minibatches,
            "worker_step_s": {worker: round(model.step_s / SPEED[count], 3) for worker, count in gpus.items()},
            "ps_step_s": dict.fromkeys(names, UPDATE_S),
        }
        for name, model in MODELS.items()
    ]
