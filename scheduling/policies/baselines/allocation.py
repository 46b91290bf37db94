"""Machines that a job holds, and the units that they take on every server."""

from collections.abc import Iterable

import numpy as np

from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Placement, Role
from scheduling.model.types import Ints

FOREVER = 2**62
"""No slot is later."""


class Allocation:
    """The placements of a job, with the units that its machines take on every server.

    The last result is cached in one attribute that is read only once per call, because quotes are answered in several
    threads.
    """

    def __init__(self, placements: tuple[Placement, ...]) -> None:
        self.placements = placements
        self.last_end = max((p.end for p in placements), default=0)
        self._since: tuple[int, tuple[Placement, ...]] | None = None
        self._workers: tuple[range, int] | None = None
        self._units: tuple[Inventory, range, Ints, list[int]] | None = None

    def lasts(self, now: int) -> bool:
        """Whether anything is held in slot `now` or later."""
        return self.last_end > now

    def since(self, now: int) -> tuple[Placement, ...]:
        """Return the part from slot `now` on, sorted."""
        kept = self._since
        if kept is None or kept[0] != now:
            kept = self._since = now, tuple(sorted(p.since(now) for p in self.placements if p.end > now))
        return kept[1]

    def workers(self, now: int) -> int:
        """Return the number of workers held in slot `now` or later."""
        kept = self._workers
        if kept is None or now not in kept[0]:
            left = [p for p in self.placements if p.end > now]
            until = min((p.end for p in left), default=FOREVER)
            kept = self._workers = range(now, until), sum(p.count for p in left if p.role is Role.WORKER)
        return kept[1]

    def units(self, inventory: Inventory, now: int) -> Ints:
        """Return the units of each resource held on each server in slot `now`, S x R."""
        return self._at(inventory, now)[0]

    def total(self, inventory: Inventory, now: int) -> list[int]:
        """Return the units of each resource held on all servers together in slot `now`, R numbers."""
        return self._at(inventory, now)[1]

    def _at(self, inventory: Inventory, now: int) -> tuple[Ints, list[int]]:
        kept = self._units
        if kept is None or kept[0] is not inventory or now not in kept[1]:
            units = units_of((p for p in self.placements if p.start <= now < p.end), inventory)
            cuts = [slot for p in self.placements for slot in (p.start, p.end)]
            until = min((slot for slot in cuts if slot > now), default=FOREVER)
            kept = self._units = (inventory, range(now, until), units, units.sum(axis=0).tolist())
        return kept[2], kept[3]


NOTHING = Allocation(())


def units_of(placements: Iterable[Placement], inventory: Inventory) -> Ints:
    """Return the units of each resource that machines take on each server, S x R."""
    units: Ints = np.zeros(inventory.capacity.shape, dtype=np.int64)
    for p in placements:
        units[p.server] += p.units(inventory)
    return units
