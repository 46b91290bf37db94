"""Bounds that cost next to nothing: no plan ends earlier, whatever else is known."""

import numpy as np

from scheduling.split_learning.helper import FAR
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.one_helper import soonest


def longest_path(instance: Instance) -> int:
    """A bound: the slots of the client whose best helper alone is the slowest."""
    return int(np.where(instance.fits, instance.path, FAR).min(axis=0).max())


def unavoidable(instance: Instance) -> int:
    """Slots of any plan: the longest path, the work of clients who fit one helper only, and all work shared evenly.

    O(I J log J). With one helper it is what that takes if backward passes may run as if forward ones had been at once.
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
    # Of so many helpers, those that may begin soonest: the others add nothing before this many slots.
    soon = np.sort(around[fits.any(axis=1)])
    spans = -(-(work + np.cumsum(soon)) // np.arange(1, len(soon) + 1))
    return int(spans.min())
