"""What the bids decided last offered, as arrays that grow by a row at a time."""

from collections.abc import Iterable

import numpy as np

from scheduling.arrays import Floats, Ints
from scheduling.policy import HISTORY


class Past:
    """Densities, slots and ceilings of the last `HISTORY` bids.

    The arrays are twice as long and written from front to back, so a bid that is added copies nothing but its own row;
    what was shown before is never written again.
    """

    def __init__(
        self, densities: Iterable[tuple[float, ...]], offers: Iterable[tuple[int, float]], *, resources: int
    ) -> None:
        rows = list(densities)[-HISTORY:]
        told = list(offers)[-HISTORY:]
        self._write(
            np.array(rows, dtype=np.float64).reshape(-1, resources),
            np.array([slot for slot, _ in told], dtype=np.int64),
            np.array([worth for _, worth in told], dtype=np.float64),
        )

    def add(self, density: tuple[float, ...], slot: int, ceiling: float) -> None:
        """A bid was decided: the one `HISTORY` bids before it is forgotten."""
        if self._end == len(self._slots):
            self._write(*self.arrays())
        self._densities[self._end] = density
        self._slots[self._end] = slot
        self._ceilings[self._end] = ceiling
        self._end += 1

    def arrays(self) -> tuple[Floats, Ints, Floats]:
        """Densities N x R, slots and ceilings N, in the order of decisions, read-only."""
        first = max(0, self._end - HISTORY)
        densities, slots, ceilings = self._shown
        return densities[first : self._end], slots[first : self._end], ceilings[first : self._end]

    def _write(self, densities: Floats, slots: Ints, ceilings: Floats) -> None:
        """Begin anew with these: older arrays stay with those who look at them."""
        self._end = len(densities)
        self._densities: Floats = np.zeros((2 * HISTORY, densities.shape[1]))
        self._slots: Ints = np.zeros(2 * HISTORY, dtype=np.int64)
        self._ceilings: Floats = np.zeros(2 * HISTORY)
        for array, rows in ((self._densities, densities), (self._slots, slots), (self._ceilings, ceilings)):
            array[: self._end] = rows
        self._shown = self._densities.view(), self._slots.view(), self._ceilings.view()
        for view in self._shown:
            view.flags.writeable = False
