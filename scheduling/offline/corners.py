"""How many workers so many parameter servers can serve, where both are whole numbers."""

from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple


class Corner(NamedTuple):
    """A number of workers, and the fewest parameter servers for them."""

    workers: int
    pss: int


def corners(ratio: Fraction, most: int) -> list[Corner]:
    """Corners of the hull of all whole numbers of workers up to `most` with their PSs, from none to all.

    Parameters
    ----------
    ratio
        PSs for the bandwidth of one worker, b / B, exact.

    Notes
    -----
    n workers have at least n b / B PSs (OASiS, constraint 6), so z of them serve floor(z B / b). Where five workers
    need 1.14 PSs they hold two, and the second serves one worker only: what a relaxation may divide is bounded by the
    lines between corners, not by the one line n b / B.
    """
    hull = [Corner(0, 0)]
    for pss in range(1, ceil(most * ratio) + 1):
        workers = min(most, floor(pss / ratio))
        while len(hull) > 1 and _bends_up(hull[-2], hull[-1], workers, pss):
            hull.pop()
        hull.append(Corner(workers, pss))
    return hull


def _bends_up(first: Corner, middle: Corner, workers: int, pss: int) -> bool:
    """Whether the middle lies on or below the line from the first to this corner."""
    return (middle.workers - first.workers) * (pss - first.pss) <= (workers - first.workers) * (middle.pss - first.pss)
