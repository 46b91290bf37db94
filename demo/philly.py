"""Bids from a Philly trace (timestamp, duration, num_gpus, gpu_time, cluster): values are drawn, the rest is real.

A row becomes a data-parallel job of `num_gpus` chunks, which has at most `num_gpus` workers. With `num_gpus` workers of
the reference speed, its whole run takes `duration` seconds.
"""

import numpy as np

from cluster.models import LARGEST_MINIBATCHES
from cluster.traces.records import TraceJob
from demo.jobs import Machines, Offer, value_curve
from scheduling.model.types import Json

STEP_S = 0.5
"""One mini-batch on a worker of reference speed; no trace says, so it is declared here."""
UPDATE_S = 0.02
GRADIENT_MB = (30.0, 575.0)
EPOCHS = (50, 200)


def offer(row: TraceJob, machines: Machines, *, seed: int, name: str, from_s: float) -> Offer:
    """Return the bid of one row; values that the trace does not have are drawn from the seed and the row's line."""
    rng = np.random.default_rng([seed, row.line])
    low, high = EPOCHS
    if row.duration_s is None:
        raise ValueError(f"line {row.line}: expected a duration")
    # A short job cannot have many epochs: each has at least one mini-batch.
    most = max(1, int(row.duration_s / (STEP_S + UPDATE_S)))
    epochs = min(int(rng.integers(low, high + 1)), most)
    minibatches = max(1, round(row.duration_s / (epochs * (STEP_S + UPDATE_S))))
    body: Json = {
        "label": f"{name} line {row.line}",
        "epochs": epochs,
        "chunks": row.gpus,
        "minibatches": min(minibatches, LARGEST_MINIBATCHES),
        "gradient_mb": round(float(rng.uniform(*GRADIENT_MB)), 1),
        "worker_step_s": dict.fromkeys(machines.workers, STEP_S),
        "ps_step_s": dict.fromkeys(machines.parameter_servers, UPDATE_S),
        "utility": value_curve(rng, machines.slot_s),
    }
    return Offer(at_s=from_s + row.submitted_s, key=f"{name}-{seed}-{row.line}", body=body)
