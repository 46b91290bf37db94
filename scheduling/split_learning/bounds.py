"""Lower bounds on the makespan that take almost no time."""

import numpy as np

from scheduling.split_learning.helper import FAR
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.one_helper import soonest


def longest_path(instance: Instance) -> int:
    """Return the longest of the clients' shortest paths, slots: a lower bound on the makespan."""
    return int(np.where(instance.fits, instance.path, FAR).min(axis=0).max())


def unavoidable(instance: Instance) -> int:
    """Return a lower bound: the longest path, the work of clients that fit one helper only, or all work shared evenly.

    O(I J log J).
    """
    flat = instance.uninterrupted()
    only = flat.fits.sum(axis=0) == 1
    alone = [soonest(flat, i, np.flatnonzero(only & fits)) for i, fits in enumerate(flat.fits)]
    return max(longest_path(flat), _shared(flat), *alone)


def _shared(instance: Instance) -> int:
    """All helpers at work from their clients' first release to the least tail, each client where it takes least."""
    fits = instance.fits
    work = int(np.where(fits, instance.forward + instance.backward, FAR).min(axis=0).sum())
    around = np.where(fits, instance.release, FAR).min(axis=1) + np.where(fits, instance.tail, FAR).min(axis=1)
    # With n helpers at work, the n that can begin soonest give the least bound.
    soon = np.sort(around[fits.any(axis=1)])
    spans = -(-(work + np.cumsum(soon)) // np.arange(1, len(soon) + 1))
    return int(spans.min())
