"""Example requests. Each one is valid without changes."""

from typing import Final

from scheduling.model.types import Json

EXAMPLES: Final[dict[str, Json]] = {
    "First come, first served": {"policy": "fifo"},
    "The same auction with the prices of the paper": {"policy": "dps", "parameters": {"price": "paper"}},
    "Prices renewed after every 4 bids, from bid 3 on": {
        "policy": "dps",
        "parameters": {"refit_every": 4},
        "since": 3,
    },
}
"""Request bodies by their titles."""
