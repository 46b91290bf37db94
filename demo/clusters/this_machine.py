"""A small cluster whose servers are this machine: its jobs really train, in slots of some seconds."""

from typing import Final

import numpy as np

from demo.clusters.catalogue import cluster_document
from scheduling.model.types import Json

SLOT_SECONDS: Final = 10
WORKER_STEP_S: Final = 0.5
"""Seconds of a step on one worker; the demo's program waits as long for its share of the samples."""
UPDATE_S: Final = 0.005
SERVERS: Final = {"left": {"core": 3}, "right": {"core": 3}, "store": {"memory": 4}}
"""Two servers for workers and one for parameter servers, as OASiS has them."""


def this_machine_document(_rng: np.random.Generator, *, name: str = "demo-training") -> Json:
    """Return the cluster, in which nothing is drawn: workers take a core each, parameter servers a unit of memory."""
    return {
        **cluster_document(
            horizon_slots=30,
            name=name,
            title="Jobs that really train",
            note="Synthetic: three servers that are all this machine, and a network that learns synthetic data.",
            resources=[{"name": "core", "unit": "core"}, {"name": "memory", "unit": "GB"}],
            worker_types=[{"name": "worker", "bandwidth_mbps": 1000, "demand": {"core": 1}}],
            ps_types=[{"name": "ps", "bandwidth_mbps": 4000, "demand": {"memory": 1}}],
            servers=[
                {"name": server, "kind": "edge", "upload_delay_s": 0.0, "capacity": capacity}
                for server, capacity in SERVERS.items()
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
