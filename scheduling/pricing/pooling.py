"""Pool the densities of past bids, so that no price reveals the offer of a single owner.

Without pools, an owner who sends all bids but one could read the offer of that bid from a quantile. So prices learn
from pools: consecutive bids of `LEAST_OWNERS` owners, replaced by one geometric mean in which each owner has the same
weight. A bid's pool depends on its owner and on the resources it can use, never on how much it offers.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from scheduling.book.state import HISTORY, NOBODY, Book
from scheduling.model.types import Floats, Ints
from scheduling.model.validation import LARGEST_MONEY

LEAST_OWNERS = 4
"""Number of owners in a pool: each of them can learn at most the mean of the three others."""
LEAST_BLOCK = 32
"""Least number of bids in a block of pools: in shorter blocks many bids would belong to no pool."""
SMALLEST_OFFER = 1e-9
"""Money per unit-slot below which a past bid is ignored: its logarithm would leave the range of doubles."""
STEP = 2.0**-30
"""Logarithms of means, to base two, are rounded to multiples of this, which keeps nine digits.

The digits after these depend on the order and size of every term of a floating-point sum. Scaling all money by a power
of two does not change the rounding.
"""


Pool = list[list[int]]
"""Rows of each owner, all in ascending order."""


def pools_of(supports: NDArray[np.bool_], owners: Ints, *, block: int) -> list[Pool]:
    """Assign bids to pools and return the full pools in the order in which they fill up; other bids are ignored.

    Parameters
    ----------
    supports
        Whether each bid can use each resource, N x R. Only bids with the same row share a pool.
    owners
        A number for each bid's owner, N; `NOBODY`: the bid counts as the only one of its owner.
    block
        Number of bids in a block; the first row begins a block. No pool spans two blocks, so a pool does not change
        when earlier blocks are forgotten.

    Notes
    -----
    A pool is full once it has a bid of each of `LEAST_OWNERS` owners. Bids whose pool is not full at the end of its
    block belong to no pool. O(N).
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


def pooled(densities: Floats, standalone_values: Floats, owners: Ints, *, block: int) -> tuple[Floats, Floats]:
    """Return one row for each pool, as if the pool were a single bid.

    Parameters
    ----------
    densities
        Density of each bid for each resource, N x R, money per unit-slot; 0 where the bid cannot use the resource.
    standalone_values
        Standalone values, N numbers, money; empty if not known.
    owners, block
        As for `pools_of`.

    Returns
    -------
    densities
        P x R. The logarithm of a mean of n values varies less than the values, by a factor of the square root of n. So
        each row is moved away from the overall mean by that factor; then quantiles of rows are close to those of bids.
    standalone_values
        Mean standalone value of each pool, P numbers, money; 0 where no values are known.
    """
    return _pooled(densities.tobytes(), standalone_values.tobytes(), owners.tobytes(), densities.shape[1], block)


@lru_cache(maxsize=64)
def _pooled(
    densities: bytes, standalone_values: bytes, owners: bytes, resources: int, block: int
) -> tuple[Floats, Floats]:
    """Pool and cache the result: decisions between two refits ask for the same pools."""
    rows, values = np.frombuffer(densities).reshape(-1, resources), np.frombuffer(standalone_values)
    usable = rows >= SMALLEST_OFFER
    pools = pools_of(usable, np.frombuffer(owners, dtype=np.int64), block=block)
    logs = np.log2(rows, out=np.zeros(rows.shape), where=usable)
    offered = np.array([usable[pool[0][0]] for pool in pools], dtype=np.bool_).reshape(-1, resources)
    means = _rounded(_means(logs, pools))
    middle = means.sum(axis=0) / np.maximum(1, offered.sum(axis=0))
    spread = np.exp2(middle + math.sqrt(LEAST_OWNERS) * (means - middle))
    average = _means(values[:, np.newaxis], pools)[:, 0] if len(values) else np.zeros(len(pools))
    found = (
        np.where(offered, np.clip(spread, SMALLEST_OFFER, LARGEST_MONEY), 0.0),
        np.exp2(_rounded(np.log2(average, out=np.zeros(len(pools)), where=average > 0))) * (average > 0),
    )
    for array in found:
        array.flags.writeable = False
    return found


def _rounded(logs: Floats) -> Floats:
    return np.asarray(np.round(logs / STEP) * STEP)


def _means(rows: Floats, pools: list[Pool]) -> Floats:
    """Return the mean of each pool over its owners of the mean over each owner's rows, P x C of N x C."""
    if not pools:
        return np.zeros((0, rows.shape[1]))
    owners = [mine for pool in pools for mine in pool]
    sizes = np.array([len(mine) for mine in owners])
    shares = np.repeat(1.0 / sizes, sizes)[:, np.newaxis] * rows[np.concatenate(owners)]
    of_owners = np.add.reduceat(shares, np.cumsum(sizes) - sizes)
    numbers = np.array([len(pool) for pool in pools])
    sums: Floats = np.add.reduceat(of_owners, np.cumsum(numbers) - numbers)
    means: Floats = sums / numbers[:, np.newaxis]
    return means


def pooled_history(book: Book, *, refit_every: int, most: int | None = None) -> tuple[Floats, Floats]:
    """Return pooled densities (P x R) and standalone values (P) of the bids decided before the last refit.

    The result stays the same until the next refit, `refit_every` bids after the last one. At most the last `most` bids
    are used, starting at the beginning of a block; None: as many as the history holds at every refit.
    """
    most = HISTORY - refit_every if most is None else most
    forgotten = book.decided - len(book.history)
    known = book.decided - book.decided % refit_every
    block = refit_every * math.ceil(LEAST_BLOCK / refit_every)
    first = max(forgotten, known - most)
    if first > 0:
        first = math.ceil(first / block) * block
    rows = slice(max(0, first - forgotten), max(0, known - forgotten))
    owners = book.owners if len(book.owners) else np.full(len(book.history), NOBODY)
    return pooled(book.history[rows], book.standalone_values[rows], owners[rows], block=block)
