"""Servers and jobs as every generator draws them."""

from dataclasses import dataclass, replace

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory


@dataclass(frozen=True)
class Workload:
    """A system and its jobs in order of arrival; where there is a cloud, it is the last server."""

    inventory: Inventory
    bids: tuple[Bid, ...]

    def at_edge(self) -> "Workload":
        """Return the same system without the cloud."""
        here = len(self.inventory.servers) - 1
        inventory = replace(
            self.inventory,
            servers=self.inventory.servers[:here],
            cloud=self.inventory.cloud[:here],
            capacity=self.inventory.capacity[:here],
        )
        return Workload(inventory, tuple(replace(bid, delay=bid.delay[:here]) for bid in self.bids))


def between(rng: np.random.Generator, low: int, high: int) -> int:
    """Draw a whole number from `low` to `high`, both included."""
    return int(rng.integers(low, high + 1))
