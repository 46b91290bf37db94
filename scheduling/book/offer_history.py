"""Densities and other data of the last decided bids, in arrays that grow one row at a time."""

from collections.abc import Iterable

import numpy as np

from scheduling.book.state import HISTORY
from scheduling.model.types import Floats, Ints


class OfferHistory:
    """Densities, decision slots, standalone values and owners of the last `HISTORY` bids.

    The arrays are twice as long and filled from front to back, so adding a bid copies only its own row. Rows that were
    returned before are never overwritten.
    """

    def __init__(
        self, densities: Iterable[tuple[float, ...]], offers: Iterable[tuple[int, float, int]], *, resources: int
    ) -> None:
        rows = list(densities)[-HISTORY:]
        others = list(offers)[-HISTORY:]
        self._write(
            np.array(rows, dtype=np.float64).reshape(-1, resources),
            np.array([slot for slot, _, _ in others], dtype=np.int64),
            np.array([value for _, value, _ in others], dtype=np.float64),
            np.array([owner for _, _, owner in others], dtype=np.int64),
        )

    def add(self, density: tuple[float, ...], slot: int, standalone_value: float, owner: int) -> None:
        """Add a decided bid; the bid `HISTORY` places before it is forgotten."""
        if self._end == len(self._slots):
            self._write(*self.arrays())
        self._densities[self._end] = density
        self._slots[self._end] = slot
        self._ceilings[self._end] = standalone_value
        self._owners[self._end] = owner
        self._end += 1

    def arrays(self) -> tuple[Floats, Ints, Floats, Ints]:
        """Return densities (N x R), slots, standalone values and owners (N each), in the order of decisions,
        read-only."""
        first = max(0, self._end - HISTORY)
        densities, slots, standalone_values, owners = self._shown
        rows = slice(first, self._end)
        return densities[rows], slots[rows], standalone_values[rows], owners[rows]

    def _write(self, densities: Floats, slots: Ints, standalone_values: Floats, owners: Ints) -> None:
        """Allocate new arrays and fill in these rows; views of the older arrays stay valid."""
        self._end = len(densities)
        self._densities: Floats = np.zeros((2 * HISTORY, densities.shape[1]))
        self._slots: Ints = np.zeros(2 * HISTORY, dtype=np.int64)
        self._ceilings: Floats = np.zeros(2 * HISTORY)
        self._owners: Ints = np.zeros(2 * HISTORY, dtype=np.int64)
        arrays = self._densities, self._slots, self._ceilings, self._owners
        for array, rows in zip(arrays, (densities, slots, standalone_values, owners), strict=True):
            array[: self._end] = rows
        self._shown = self._densities.view(), self._slots.view(), self._ceilings.view(), self._owners.view()
        for view in self._shown:
            view.flags.writeable = False
