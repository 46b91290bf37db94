"""Example requests. Each one is valid without changes."""

from typing import Final

from scheduling.model.types import Json

TINY: Final[Json] = {
    "slot_ms": 100,
    "helpers": [{"name": "vm", "memory_gb": 8}, {"name": "laptop", "memory_gb": 4}],
    "clients": [
        {"name": "phone", "demand_gb": 2},
        {"name": "camera", "demand_gb": 2},
        {"name": "tablet", "demand_gb": 2.5},
    ],
    "release": [[4, 7, 3], [5, 6, 3]],
    "forward": [[3, 3, 4], [6, 6, 8]],
    "gap": [[2, 3, 2], [2, 2, 2]],
    "backward": [[5, 5, 6], [9, 9, 12]],
    "tail": [[4, 8, 3], [5, 6, 3]],
}
"""Two helpers, three clients; times in slots, helpers x clients."""

DESCRIBED: Final[Json] = {
    "model": "resnet101",
    "slot_ms": 200,
    "mbps": 10,
    "helpers": [
        {"name": "rack", "device": "vm", "memory_gb": 16},
        {"name": "laptop", "device": "m1", "memory_gb": 8},
    ],
    "clients": [
        {"name": "hall", "device": "rpi4"},
        {"name": "roof", "device": "rpi3", "up_mbps": 2, "down_mbps": 8},
        {"name": "gate", "device": "jetson-gpu", "cuts": [2, 33]},
        {"name": "yard", "device": "jetson-cpu", "other": "jetson-gpu", "share": 0.4},
    ],
    "links": [{"client": "hall", "helper": "rack", "mbps": 50}],
}
"""Devices, links and memory in measured units."""

PLANS: Final[dict[str, Json]] = {
    "An instance by hand": {"instance": TINY, "method": "exact", "seconds": 5},
    "Devices and links as they were measured": {"profile": DESCRIBED, "seconds": 5},
    "Measured devices, drawn from a seed": {
        "label": "ten clients",
        "scenario": {"number": 1, "model": "resnet101", "clients": 10, "helpers": 2, "seed": 1},
        "method": "exact",
        "seconds": 10,
    },
    "A rule of thumb to compare with": {"instance": TINY, "method": "balanced-greedy"},
}
"""Request bodies by their titles."""

AGAIN: Final[dict[str, Json]] = {
    "One client dropped out, one is slow": {"changes": {"drop": ["phone"], "slower": {"camera": 1.5}}},
    "Another like one that is there": {"changes": {"join": [{"name": "camera-2", "like": "camera"}]}, "seconds": 5},
    "Everything again": {"instance": TINY},
}
"""Request bodies for a new plan after changes of the `TINY` instance."""

CSV: Final = """helper,client,memory_gb,demand_gb,release,forward,gap,backward,tail
vm,phone,8,2,4,3,2,5,4
vm,camera,,2,7,3,3,5,8
laptop,phone,4,,5,6,2,9,5
laptop,camera,,,6,6,2,9,6
"""
"""Two helpers, two clients."""
