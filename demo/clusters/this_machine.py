"""A small cluster whose servers are this machine: its jobs really train, in slots of some seconds."""

from collections.abc import Mapping
from typing import Final

import numpy as np

from demo.clusters.catalogue import cluster_document
from scheduling.model.types import Json

SLOT_SECONDS: Final = 10
WORKER_STEP_S: Final = 0.5
"""Seconds of a step on one worker; the demo's program waits as long for its share of the samples."""
UPDATE_S: Final = 0.005
POOLS: Final = {"left": {"core": 3}, "right": {"core": 3}, "store": {"memory": 4}}
"""Two servers for workers and one for parameter servers, as OASiS has them."""
MIXED: Final = {name: {"core": 3, "memory": 2} for name in ("left", "middle", "right")}
"""Three servers that host both."""


def two_pools_here(_rng: np.random.Generator) -> Json:
    """Return a cluster with servers for workers, and one for parameter servers; nothing is drawn."""
    return _document(POOLS)


def mixed_servers_here(_rng: np.random.Generator) -> Json:
    """Return a cluster whose servers host workers and parameter servers; nothing is drawn."""
    return _document(MIXED)


def _document(servers: Mapping[str, Mapping[str, int]]) -> Json:
    """Return a cluster with these servers: workers take a core each, parameter servers a unit of memory."""
    return {
        **cluster_document(
            horizon_slots=30,
            name="demo-training",
            title="Jobs that really train",
            note="Synthetic: three servers that are all this machine, and a network that learns synthetic data.",
            resources=[{"name": "core", "unit": "core"}, {"name": "memory", "unit": "GB"}],
            worker_types=[{"name": "worker", "bandwidth_mbps": 1000, "demand": {"core": 1}}],
            ps_types=[{"name": "ps", "bandwidth_mbps": 4000, "demand": {"memory": 1}}],
            servers=[
                {"name": server, "kind": "edge", "upload_delay_s": 0.0, "capacity": dict(capacity)}
                for server, capacity in servers.items()
            ],
            models=[
                {
                    "name": "two-layers",
                    "gradient_mb": 0.1,
                    "chunks": 3,
                    "minibatches": 2,
                    "worker_step_s": {"worker": WORKER_STEP_S},
                    "ps_step_s": {"ps": UPDATE_S},
                }
            ],
        ),
        "slot_seconds": SLOT_SECONDS,
    }
