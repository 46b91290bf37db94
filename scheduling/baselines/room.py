"""What is free from now on, while a plan is made."""

from collections.abc import Iterable

import numpy as np

from scheduling.arrays import Ints
from scheduling.inventory import Inventory
from scheduling.ledger import Ledger
from scheduling.schedule import Placement


class Room:
    """A scratch copy of a ledger's future, only as long as something is in use there."""

    def __init__(self, inventory: Inventory, *, now: int, slots: int, used: Ints | None = None) -> None:
        self.inventory = inventory
        self.now = now
        self.slots = slots
        """Of the horizon, from now on."""
        self._used: Ints = np.zeros((0, *inventory.capacity.shape), dtype=np.int64) if used is None else used.copy()
        self._peak: Ints = np.maximum.accumulate(self._used)
        """The most in use from now up to and including each slot."""

    @classmethod
    def of(cls, ledger: Ledger) -> "Room":
        """What a ledger has free."""
        busy = np.flatnonzero(ledger.used.any(axis=(1, 2)))
        last = int(busy[-1]) + 1 if len(busy) else 0
        return cls(ledger.inventory, now=ledger.start, slots=ledger.end - ledger.start, used=ledger.used[:last])

    def free(self, slots: int) -> Ints:
        """Units that are free in each of the next `slots` slots (1 or more), S x R; a copy."""
        if not len(self._peak):
            return self.inventory.capacity.copy()
        least: Ints = self.inventory.capacity - self._peak[min(slots, len(self._peak)) - 1]
        return least

    def take(self, placements: Iterable[Placement]) -> None:
        """Use machines, from now on."""
        self._add(placements, 1)

    def give(self, placements: Iterable[Placement]) -> None:
        """Give machines back, from now on."""
        self._add(placements, -1)

    def _add(self, placements: Iterable[Placement], sign: int) -> None:
        placements = tuple(placements)
        longest = max((p.end - self.now for p in placements), default=0)
        if longest > len(self._used):
            more = ((0, longest - len(self._used)), (0, 0), (0, 0))
            self._used = np.pad(self._used, more)
            self._peak = np.pad(self._peak, more, mode="edge") if len(self._peak) else np.zeros_like(self._used)
        for p in placements:
            demand = np.array(p.machine(self.inventory).demand, dtype=np.int64)
            self._used[max(p.start - self.now, 0) : p.end - self.now, p.server] += sign * p.count * demand
        for server in {p.server for p in placements}:
            self._peak[:, server] = np.maximum.accumulate(self._used[:, server])
