"""Requests to paste: each works as it stands on a cluster that `make demo` brings up (a test sends them)."""

from typing import Final

from scheduling.model.types import Json

HOUR_S: Final = 3600

BIDS: Final[dict[str, Json]] = {
    "A model this cluster knows": {
        "model": "ResNet-50",
        "epochs": 30,
        "utility": {"form": "constant", "value": 500},
    },
    "By a deadline": {
        "label": "for the report",
        "model": "LeNet",
        "epochs": 20,
        "utility": {"form": "step", "value": 300, "deadline_s": 48 * HOUR_S},
    },
    "Keep trying for two days": {
        "label": "any time will do",
        "model": "LeNet",
        "epochs": 20,
        "standing": True,
        "standing_until_s": 48 * HOUR_S,
        "utility": {"form": "linear", "value": 60, "zero_at_s": 96 * HOUR_S},
    },
    "Worth less the later, not before tomorrow": {
        "model": "AlexNet",
        "epochs": 30,
        "start_after_s": 24 * HOUR_S,
        "utility": {
            "form": "piecewise_linear",
            "value": 400,
            "points": [[0, 1], [36 * HOUR_S, 1], [72 * HOUR_S, 0.25]],
        },
    },
    "Critical for a while": {
        "model": "GoogLeNet",
        "epochs": 10,
        "utility": {"form": "sigmoid", "value": 250, "steepness_per_s": 0.0001, "midpoint_s": 36 * HOUR_S},
    },
    "Every number by hand": {
        "label": "my own network",
        "epochs": 50,
        "chunks": 40,
        "minibatches": 50,
        "gradient_mb": 98,
        "worker_step_s": {"worker-1": 20, "worker-4": 12.5},
        "ps_step_s": {"ps-1": 0.05},
        "upload_delay_s": {"cloud": 2 * HOUR_S},
        "utility": {"form": "linear", "value": 800, "zero_at_s": 120 * HOUR_S},
    },
    "A weight instead of a utility (cluster demo-weighted)": {
        "model": "ResNet-50",
        "epochs": 60,
        "weight": 900,
    },
    "Ring-AllReduce (cluster demo-weighted)": {
        "model": "GoogLeNet",
        "epochs": 80,
        "architecture": "ring",
        "reduce_step_s": 0.05,
        "weight": 2500,
    },
}
"""Bodies of bids, by what they show; on the cluster demo where they do not say."""

BULK: Final[Json] = {"bids": list(BIDS.values())[:2]}
REASON: Final[Json] = {"reason": "its power supply broke"}
DRAIN: Final[Json] = {"deadline_slot": 40, "reason": "it moves to another rack"}
FAIL: Final[Json] = {"reason": "its data set was damaged", "refund": "undelivered"}
TOKEN: Final[Json] = {"username": "bidder", "password": "as the demo printed it"}
