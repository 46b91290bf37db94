"""Resources of all servers together, with rounding cuts for machines that cannot be divided between servers."""

from collections.abc import Iterator

import numpy as np

from scheduling.model.inventory import Inventory
from scheduling.model.types import Floats, Ints

MOST = 6
"""Largest number of rounding cuts of one resource; those that lose most of it are kept."""


class ResourcesAndCuts:
    """The G columns of a relaxation: the R resources, then their rounding cuts.

    Whole machines with demands d_m of a resource fit a server of capacity C only if, for every whole k,
    sum floor(d_m / k) n_m <= floor(C / k): divide sum d_m n_m <= C by k, round the left side down, then the right one
    (a Chvatal-Gomory cut). The sum over servers says, for instance, that no number of servers with 2 GPUs can host a
    worker with 4 GPUs.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self._steps = [(r, k) for r in range(len(inventory.resources)) for k in _steps(inventory, r)]
        self.worker = self._of(inventory.worker_demand)
        """Use of one worker of each type, W x G."""
        self.ps = self._of(inventory.ps_demand)
        """Use of one parameter server of each type, P x G."""

    def supply(self, free: Ints) -> Floats:
        """Return the supply of all servers, T x G, for free units T x S x R."""
        total: Floats = self._of(free).sum(axis=1).astype(np.float64)
        return total

    def plain(self, prices: Floats) -> Floats:
        """Return prices of resources, T x R, near those with cuts, T x G: a unit of a cut by k adds price / k."""
        resources = len(self.inventory.resources)
        whole = prices[:, :resources].copy()
        for g, (r, k) in enumerate(self._steps):
            whole[:, r] += prices[:, resources + g] / k
        return whole

    def _of(self, units: Ints) -> Ints:
        rounded = [units[..., r] // k for r, k in self._steps]
        return np.concatenate([units, np.stack(rounded, axis=-1)], axis=-1) if rounded else units


def _steps(inventory: Inventory, r: int) -> Iterator[int]:
    """Yield the demands k whose rounding cuts lose most of the servers' capacity."""
    capacity = inventory.capacity[:, r]
    demands = np.concatenate([inventory.worker_demand[:, r], inventory.ps_demand[:, r]])
    lost = {int(k): int((capacity % k).sum()) for k in np.unique(demands) if k > 1}
    yield from sorted((k for k in lost if lost[k]), key=lambda k: (-lost[k], k))[:MOST]
