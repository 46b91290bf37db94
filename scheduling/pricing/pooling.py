"""What past bids offered, pooled, so that no price follows from the offers of one owner alone.

Whoever sends all bids but one would otherwise read that one's offer from a quantile. So prices learn from pools: bids
of `LEAST_OWNERS` owners that came after each other, as one geometric mean in which each owner counts the same. Who is
in a pool depends on owners and on which resources bids can use, never on how much they offer.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduling.book.state import NOBODY
from scheduling.model.types import Floats, Ints
from scheduling.model.validation import LARGEST_MONEY

LEAST_OWNERS = 4
"""Owners of the bids of a pool: whoever is one of them knows a mean of three others at most."""
LEAST_BLOCK = 32
"""Bids in a block of pools, at least: in shorter ones many bids would be left over."""
SMALLEST_OFFER = 1e-9
"""Money per unit-slot below which a past bid teaches nothing: its logarithm would leave the doubles."""
STEP = 2.0**-30
"""Logarithms of means, to base two, are multiples of it, which leaves nine digits: those behind them in a sum of
floating-point numbers depend on every term. A power of two as factor of all money moves no rounding.
"""


Pool = list[list[int]]
"""Rows of each owner, all in ascending order."""


def pools_of(supports: NDArray[np.bool_], owners: Ints, *, block: int) -> list[Pool]:
    """Which bids are pooled, in the order in which pools are full; bids that are in none teach nothing.

    Parameters
    ----------
    supports
        Whether each bid can use each resource, N x R. Only bids with the same row share a pool.
    owners
        A number for each bid's owner, N; `NOBODY`: of an owner of its own.
    block
        Bids in a block, of which the first row begins one. No pool is in two blocks: so a pool stays as it is when
        earlier blocks are forgotten.

    Notes
    -----
    A pool is full once it has a bid of each of `LEAST_OWNERS` owners. Bids of pools that are not full at the end of
    their block stay in none. O(N).
    """
    full: list[Pool] = []
    filling: dict[tuple[int, bytes], dict[int, list[int]]] = {}
    for row, support in enumerate(supports):
        if not support.any():
            continue
        key = row // block, support.tobytes()
        owner = int(owners[row]) if owners[row] != NOBODY else NOBODY - 1 - row
        pool = filling.setdefault(key, {})
        pool.setdefault(owner, []).append(row)
        if len(pool) == LEAST_OWNERS:
            full.append(list(filling.pop(key).values()))
    return full


def pooled(densities: Floats, ceilings: Floats, owners: Ints, *, block: int) -> tuple[Floats, Floats]:
    """One row for each pool, as if it was a bid.

    Parameters
    ----------
    densities
        Of each bid for each resource, N x R, money per unit-slot; 0 where it cannot use it.
    ceilings
        N numbers, money; or none.
    owners, block
        As for `pools_of`.

    Returns
    -------
    densities
        P x R. Logarithms of means of n spread less than what they are means of, by the square root of n; so each row
        is moved away from the mean of all by that factor, and quantiles of rows are near those of bids.
    ceilings
        Mean of each pool's, P numbers, money; 0 where none are known.
    """
    return _pooled(densities.tobytes(), ceilings.tobytes(), owners.tobytes(), densities.shape[1], block)


@lru_cache(maxsize=64)
def _pooled(densities: bytes, ceilings: bytes, owners: bytes, resources: int, block: int) -> tuple[Floats, Floats]:
    """Remember what was pooled: decisions between two refits ask for the same."""
    rows, worth = np.frombuffer(densities).reshape(-1, resources), np.frombuffer(ceilings)
    usable = rows >= SMALLEST_OFFER
    pools = pools_of(usable, np.frombuffer(owners, dtype=np.int64), block=block)
    logs = np.log2(rows, out=np.zeros(rows.shape), where=usable)
    offered = np.array([usable[pool[0][0]] for pool in pools], dtype=np.bool_).reshape(-1, resources)
    means = _rounded(np.array([_mean(logs, pool) for pool in pools]).reshape(-1, resources))
    middle = means.sum(axis=0) / np.maximum(1, offered.sum(axis=0))
    spread = np.exp2(middle + math.sqrt(LEAST_OWNERS) * (means - middle))
    average = np.array([_mean(worth, pool) for pool in pools] if len(worth) else np.zeros(len(pools)))
    found = (
        np.where(offered, np.clip(spread, SMALLEST_OFFER, LARGEST_MONEY), 0.0),
        np.exp2(_rounded(np.log2(average, out=np.zeros(len(pools)), where=average > 0))) * (average > 0),
    )
    for array in found:
        array.flags.writeable = False
    return found


def _rounded(logs: Floats) -> Floats:
    return np.asarray(np.round(logs / STEP) * STEP)


def _mean(rows: Floats, pool: Pool) -> Floats:
    """Over owners, of the mean over each one's bids."""
    return np.asarray(np.mean([rows[mine].mean(axis=0) for mine in pool], axis=0))
