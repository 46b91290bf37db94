"""Example requests. Each one is valid without changes."""

from typing import Final

from scheduling.model.types import Json

TRACE_TEXT: Final = """timestamp,duration,num_gpus,gpu_time,cluster
2017-10-12 00:00:00,3600.0,1,3600.0,red
2017-10-12 00:01:00,7200.0,4,28800.0,blue
2017-10-12 00:05:00,1800.0,2,3600.0,red
2017-10-12 00:15:00,5400.0,8,43200.0,blue
"""
"""Four made-up jobs in the format of Philly's slices."""

TRACES: Final[dict[str, Json]] = {
    "Four jobs by hand": {"label": "four jobs", "source": "four.csv", "text": TRACE_TEXT},
}

EXPERIMENTS: Final[dict[str, Json]] = {
    "Two policies on jobs drawn by a paper's settings": {
        "label": "quantile or paper prices",
        "workloads": [{"generator": "dps", "setting": {"jobs": 20, "servers": 5, "slots": 60}}],
        "policies": [
            {"name": "dps", "parameters": {"price": "paper"}},
            {"name": "dps"},
            {"name": "fifo", "parameters": {"blocking": False}},
        ],
        "seeds": [1, 2, 3],
    },
    "A single replay": {
        "workloads": [{"generator": "oasis", "setting": {"jobs": 10, "servers": 3, "slots": 40}}],
        "policies": [{"name": "oasis"}],
        "seeds": [1],
        "bound": False,
    },
}
"""Request bodies by their titles."""
