"""The program of the testbed's jobs, and what the market has to know of it."""

import sys
from pathlib import Path
from typing import Final

from studies.testbed.servers import PROCESSORS, TYPES, WORKER_SERVERS, Servers

SAMPLES: Final = 1400
"""Samples of a mini-batch."""
HIDDEN: Final = 1024
GRADIENT_MB: Final = (43 * HIDDEN + 10) * 8 / 1e6
"""The trainer's network has 32 inputs and 10 classes, and sends numbers of 8 bytes."""
PACE_S: Final = 0.16
"""Seconds of a mini-batch of a worker that cannot be limited by control groups."""
CHECKPOINT_EVERY: Final = 20
LONGEST_WAIT_S: Final = 10.0
ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
WORKER_MBPS: Final = 100.0
"""Bandwidth of a worker: its server's link. What workers of a server take from one another is in measured times."""
PS_MBPS: Final = 200.0
PLACES: Final = 5
"""Parameter servers for which their server has room."""


def full_server(kind: str) -> int:
    """Return how many workers of a type a server has room for."""
    return round(PROCESSORS[WORKER_SERVERS[0]] / TYPES[kind])


def transfer_s() -> float:
    """Return the seconds in which a worker sends a gradient and receives as much."""
    return 2 * 8 * GRADIENT_MB / WORKER_MBPS


def command(root: Path, servers: Servers) -> list[str]:
    """Return the program and its first arguments."""
    given = {
        "minibatch": SAMPLES,
        "hidden": HIDDEN,
        "rate": 0.05,
        "checkpoint-every": CHECKPOINT_EVERY,
        "start-s": LONGEST_WAIT_S,
        "peer-s": LONGEST_WAIT_S,
    }
    if servers.groups is None:
        given["sample-s"] = PACE_S / SAMPLES
    arguments = [f"--{name}={value:g}" for name, value in given.items()]
    return [sys.executable, str(root / "examples" / "train.py"), *arguments]
