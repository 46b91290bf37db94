"""What all servers have together, and what whole machines take of it: resources, and units of whole machines."""

from collections.abc import Iterator

import numpy as np

from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats, Ints

MOST = 6
"""Roundings of one resource: those that lose most of it."""


class Goods:
    """G goods: the R resources, then roundings of them.

    Whole machines with demands d_m of a resource fit a server of capacity C only if, for every whole k,
    sum floor(d_m / k) n_m <= floor(C / k): divide sum d_m n_m <= C by k, round the left side down, then the right one
    (Chvatal and Gomory). Added over servers that says, for instance, that a worker of 4 GPUs finds nothing on any
    number of servers of 2.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._steps = [(r, k) for r in range(len(inventory.resources)) for k in _steps(inventory, r)]
        self.worker = self._of(inventory.worker_demand)
        """Of one worker of each type, W x G."""
        self.ps = self._of(inventory.ps_demand)
        """Of one parameter server of each type, P x G."""

    def supply(self, free: Ints) -> Floats:
        """Of all servers, T x G, for free units T x S x R."""
        total: Floats = self._of(free).sum(axis=1).astype(np.float64)
        return total

    def plain(self, prices: Floats) -> Floats:
        """Prices of resources, T x R, that come near those of goods, T x G: a rounding by k costs a k-th."""
        resources = len(self.inventory.resources)
        whole = prices[:, :resources].copy()
        for g, (r, k) in enumerate(self._steps):
            whole[:, r] += prices[:, resources + g] / k
        return whole

    def _of(self, units: Ints) -> Ints:
        rounded = [units[..., r] // k for r, k in self._steps]
        return np.concatenate([units, np.stack(rounded, axis=-1)], axis=-1) if rounded else units


def _steps(inventory: Inventory, r: int) -> Iterator[int]:
    """Demands by which rounding loses most of what servers have."""
    capacity = inventory.capacity[:, r]
    demands = np.concatenate([inventory.worker_demand[:, r], inventory.ps_demand[:, r]])
    lost = {int(k): int((capacity % k).sum()) for k in np.unique(demands) if k > 1}
    yield from sorted((k for k in lost if lost[k]), key=lambda k: (-lost[k], k))[:MOST]
