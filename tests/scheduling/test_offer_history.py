"""What past bids offered, as arrays that grow."""

import numpy as np
import pytest

from scheduling.book.offer_history import OfferHistory
from scheduling.book.state import HISTORY


@pytest.mark.parametrize("known", [0, 3, HISTORY, HISTORY + 5])
def test_it_shows_the_last_bids_and_never_changes_what_it_showed(known: int) -> None:
    offered = [((float(n), 0.5 * n), (n // 3, 7.0 * n, n % 5)) for n in range(3 * HISTORY + 10)]
    past = OfferHistory((row for row, _ in offered[:known]), (offer for _, offer in offered[:known]), resources=2)
    shown = []
    for number in range(known, len(offered)):
        shown.append((number, past.arrays()))
        row, (slot, standalone_value, owner) = offered[number]
        past.add(row, slot, standalone_value, owner)
    shown.append((len(offered), past.arrays()))
    for number, (densities, slots, standalone_values, owners) in shown[:: HISTORY // 4] + shown[-1:]:
        last = offered[max(0, number - HISTORY) : number]
        assert densities.tolist() == [[*row] for row, _ in last]
        assert slots.tolist() == [slot for _, (slot, _, _) in last]
        assert standalone_values.tolist() == [standalone_value for _, (_, standalone_value, _) in last]
        assert owners.tolist() == [owner for _, (_, _, owner) in last]
        assert densities.shape == (len(last), 2)
    for array in past.arrays():
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0


def test_without_bids_there_are_no_rows() -> None:
    densities, slots, standalone_values, owners = OfferHistory((), (), resources=3).arrays()
    assert densities.shape == (0, 3)
    assert slots.dtype == owners.dtype == np.int64
    assert len(slots) == len(standalone_values) == len(owners) == 0
