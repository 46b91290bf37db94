"""Free capacity from now on, while a plan is made."""

from collections.abc import Mapping

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.model.inventory import Inventory
from scheduling.model.types import Ints
from scheduling.policies.baselines.allocation import Allocation


class FreeCapacity:
    """A scratch copy of the future of a ledger, up to the last slot in use."""

    def __init__(
        self,
        inventory: Inventory,
        *,
        now: int,
        slots: int,
        used: Ints | None = None,
        falling: bool = False,
        closed: Mapping[int, int] | None = None,
    ) -> None:
        self.inventory = inventory
        self.now = now
        self.closed = closed or {}
        """Servers all of which is in use from a slot on, whatever is given back there (`Ledger.closed`)."""
        self.slots = slots
        """Number of slots of the horizon from now on."""
        self.falling = falling
        """Whether nothing in use begins later: the most is in use now, and only the first slot is kept."""
        self._used: Ints = np.zeros((0, *inventory.capacity.shape), dtype=np.int64) if used is None else used.copy()
        self._peak: Ints = self._used if falling or used is None else np.maximum.accumulate(self._used)
        """The most in use from now up to and including each slot."""
        self._idle: list[int] | None = None

    @classmethod
    def of(cls, ledger: Ledger) -> "FreeCapacity":
        """Return the free capacity of a ledger."""
        falling = ledger.last_start <= ledger.start < ledger.end
        last = 1 if falling else max(0, ledger.last_end - ledger.start)
        slots = ledger.end - ledger.start
        used, closed = ledger.used[:last], ledger.closed
        return cls(ledger.inventory, now=ledger.start, slots=slots, used=used, falling=falling, closed=closed)

    @property
    def idle(self) -> list[int]:
        """Return the units that are free now on all servers together, R numbers."""
        if self._idle is None:
            self._idle = self.free(1).sum(axis=0).tolist()
        return self._idle

    def free(self, slots: int) -> Ints:
        """Return the units that are free in each of the next `slots` slots (1 or more), S x R; a copy."""
        if not len(self._peak):
            return self.inventory.capacity.copy()
        least: Ints = self.inventory.capacity - self._peak[min(slots, len(self._peak)) - 1]
        return least

    def take(self, hold: Allocation) -> None:
        """Take machines from now on."""
        self._add(hold, 1)

    def give(self, hold: Allocation) -> None:
        """Release machines from now on."""
        self._add(hold, -1)

    def _add(self, hold: Allocation, sign: int) -> None:
        self._idle = None
        if self.falling:
            units = hold.units(self.inventory, self.now)
            if self.closed:
                units = units.copy()
                units[[s for s, slot in self.closed.items() if slot <= self.now]] = 0
            self._used[0] += sign * units
            return
        placements = hold.since(self.now)
        longest = max((p.end - self.now for p in placements), default=0)
        if longest > len(self._used):
            more = ((0, longest - len(self._used)), (0, 0), (0, 0))
            self._used = np.pad(self._used, more)
            self._peak = np.pad(self._peak, more, mode="edge") if len(self._peak) else np.zeros_like(self._used)
        for p in placements:
            last = min(p.end, max(self.closed.get(p.server, p.end), p.start))
            self._used[p.start - self.now : last - self.now, p.server] += sign * p.units(self.inventory)
        for server in {p.server for p in placements}:
            self._peak[:, server] = np.maximum.accumulate(self._used[:, server])
