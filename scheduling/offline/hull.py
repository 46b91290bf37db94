"""The convex hull of whole numbers of workers with the parameter servers (PSs) that they need."""

from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple


class HullVertex(NamedTuple):
    """A number of workers, and the fewest parameter servers for them."""

    workers: int
    pss: int


def hull_vertices(ratio: Fraction, most: int) -> list[HullVertex]:
    """Return the vertices of the hull of 0 to `most` workers with their fewest PSs, from none to all.

    Parameters
    ----------
    ratio
        PSs for the bandwidth of one worker, b / B, exact and above 0.
    most
        Largest number of workers.

    Returns
    -------
    list of HullVertex
        In order of workers; the first is (0, 0).

    Notes
    -----
    n workers have at least n b / B PSs (OASiS, constraint 6), so z of them serve floor(z B / b). Where five workers
    need 1.14 PSs they hold two, and the second serves one worker only. So a relaxation is bounded by the lines between
    the vertices of the hull, which is tighter than the one line n b / B.

    References
    ----------
    OASiS, constraint (6).

    Examples
    --------
    Each PS has the bandwidth of three workers, so seven workers need three PSs:

    >>> from fractions import Fraction
    >>> [tuple(vertex) for vertex in hull_vertices(Fraction(1, 3), 7)]
    [(0, 0), (6, 2), (7, 3)]
    """
    hull = [HullVertex(0, 0)]
    for pss in range(1, ceil(most * ratio) + 1):
        workers = min(most, floor(pss / ratio))
        while len(hull) > 1 and _bends_up(hull[-2], hull[-1], workers, pss):
            hull.pop()
        hull.append(HullVertex(workers, pss))
    return hull


def _bends_up(first: HullVertex, middle: HullVertex, workers: int, pss: int) -> bool:
    """Return whether the middle vertex lies on or below the line from the first vertex to this one."""
    return (middle.workers - first.workers) * (pss - first.pss) <= (workers - first.workers) * (middle.pss - first.pss)
