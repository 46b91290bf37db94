"""Pool the densities of past bids, so that no price reveals the offer of a single owner.

Without pools, an owner who sends all bids but one could read the offer of that bid from a quantile. So prices learn
from pools: consecutive bids of `LEAST_OWNERS` owners, replaced by one geometric mean in which each owner has the same
weight. A bid's pool depends on its owner and on the resources it can use, never on how much it offers.

An owner who bids often is in every pool. So that extreme offers of one owner do not set the prices of all, what a bid
offers is limited by a factor around recent pools before it is kept (`Learning.factors`), and so is the mean of a pool.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduling.book.state import HISTORY, NOBODY, Book
from scheduling.model.types import Floats, Ints
from scheduling.model.validation import LARGEST_MONEY

LEAST_OWNERS = 4
"""Number of owners in a pool: each of them can learn at most the mean of the three others."""
LEAST_BLOCK = 32
"""Least number of bids in a block of pools: in shorter blocks many bids would belong to no pool."""
RECENT_POOLS = 4
"""Number of pools whose median offers and means are compared with."""
NO_LIMIT = 1e30
"""More than the quotient of any two offers that prices learn from."""
SMALLEST_OFFER = 1e-9
"""Money per unit-slot below which a past bid is ignored: its logarithm would leave the range of doubles."""
STEP = 2.0**-30
"""Logarithms of means, to base two, are rounded to multiples of this, which keeps nine digits.

The digits after these depend on the order and size of every term of a floating-point sum. Scaling all money by a power
of two does not change the rounding.
"""
SMALLEST_LOG, LARGEST_LOG = math.log2(SMALLEST_OFFER) + STEP, math.log2(LARGEST_MONEY) - STEP
"""Logarithms to base two between which limited offers stay, so that a limit does not change what a bid is pooled by."""


Pool = list[list[int]]
"""Rows of each owner, all in ascending order."""


class Pooled(NamedTuple):
    """Past bids as prices see them. The arrays are read-only."""

    densities: Floats
    """P x R, money per unit-slot, as if each pool were a single bid. The logarithm of a mean of n values varies less
    than the values, by a factor of the square root of n. So each row is moved away from the overall mean by that
    factor; then quantiles of rows are close to those of bids."""
    standalone_values: Floats
    """Standalone value of each pool, P numbers, money; 0 where no values are known. It is the mean size of the owners'
    jobs, unit-slots, times the mean of what they offer for one; without a limit, the mean of their values."""
    recent: Floats
    """Median of the last `RECENT_POOLS` means for each resource, logarithms to base two; NaN if there is no pool."""


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


def pooled(
    densities: Floats, standalone_values: Floats, owners: Ints, *, block: int, limit: float = NO_LIMIT
) -> Pooled:
    """Return what prices see of these bids.

    Parameters
    ----------
    densities
        Density of each bid for each resource, N x R, money per unit-slot; 0 where the bid cannot use the resource.
    standalone_values
        Standalone values, N numbers, money; empty if not known.
    owners, block
        As for `pools_of`.
    limit
        Factor by which the mean of a pool may be above or below recent pools.
    """
    return _pooled(densities.tobytes(), standalone_values.tobytes(), owners.tobytes(), densities.shape[1], block, limit)


@lru_cache(maxsize=64)
def _pooled(
    densities: bytes, standalone_values: bytes, owners: bytes, resources: int, block: int, limit: float
) -> Pooled:
    """Pool and cache the result: decisions between two refits ask for the same pools."""
    rows = np.frombuffer(densities).reshape(-1, resources)
    values = np.frombuffer(standalone_values) if standalone_values else np.zeros(len(rows))
    usable = rows >= SMALLEST_OFFER
    pools = pools_of(usable, np.frombuffer(owners, dtype=np.int64), block=block)
    logs = np.log2(rows, out=np.zeros(rows.shape), where=usable)
    offered = np.array([usable[pool[0][0]] for pool in pools], dtype=np.bool_).reshape(-1, resources)
    means = _rounded(_means(logs, pools))
    last = [column[has][-RECENT_POOLS:] for column, has in zip(means.T, offered.T, strict=True)]
    recent = np.array([np.median(column) if len(column) else math.nan for column in last])
    most = math.log2(limit)
    limited = np.where(offered, np.clip(means, recent - most, recent + most), 0.0)
    middle = limited.sum(axis=0) / np.maximum(1, offered.sum(axis=0))
    spread = np.exp2(middle + math.sqrt(LEAST_OWNERS) * (limited - middle))
    if limit == NO_LIMIT:
        average = _means(values[:, np.newaxis], pools)[:, 0]
    else:
        # Beside a product, a sum of values would show the third of three offers if two are at the limit.
        sizes = values / np.exp2(_level(logs, usable))
        average = np.exp2(_level(limited, offered)) * _means(sizes[:, np.newaxis], pools)[:, 0]
    found = Pooled(
        np.where(offered, np.clip(spread, SMALLEST_OFFER, LARGEST_MONEY), 0.0),
        np.exp2(_rounded(np.log2(average, out=np.zeros(len(pools)), where=average > 0))) * (average > 0),
        recent,
    )
    for array in found:
        array.flags.writeable = False
    return found


def _level(logs: Floats, offered: NDArray[np.bool_]) -> Floats:
    """Return the mean of each row over the resources for which it offers something; 0 if there are none."""
    level: Floats = np.where(offered, logs, 0.0).sum(axis=1) / np.maximum(1, offered.sum(axis=1))
    return level


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


@dataclass(frozen=True)
class Learning:
    """Past bids, as prices see them: in pools, within a limit, and only up to the last refit."""

    refit_every: int
    """Number of bids between two refits."""
    offer_limit: float = NO_LIMIT
    """Factor, at least 1, by which an offer, and the mean of a pool, may be above or below recent pools; what is
    further away counts as if it were at the limit."""

    def pooled(self, book: Book, *, most: int | None = None) -> Pooled:
        """Return what prices see of the bids decided before the last refit.

        The result stays the same until the next refit, `refit_every` bids after the last one. At most the last `most`
        bids are used, starting at the beginning of a block; None: as many as the history holds at every refit.
        """
        most = HISTORY - self.refit_every if most is None else most
        forgotten = book.decided - len(book.history)
        known = book.decided - book.decided % self.refit_every
        block = self.refit_every * math.ceil(LEAST_BLOCK / self.refit_every)
        first = max(forgotten, known - most)
        if first > 0:
            first = math.ceil(first / block) * block
        rows = slice(max(0, first - forgotten), max(0, known - forgotten))
        owners = book.owners if len(book.owners) else np.full(len(book.history), NOBODY)
        offers = book.history[rows], book.standalone_values[rows], owners[rows]
        return pooled(*offers, block=block, limit=self.offer_limit)

    def factors(self, density: tuple[float, ...], book: Book) -> tuple[float, ...]:
        """Return the factors by which prices count what a bid offers, one for each resource; empty if all are 1.

        Parameters
        ----------
        density
            What the bid offers for a unit-slot of each resource, R numbers; 0 if not used.
        book
            The book before the bid.

        Notes
        -----
        Relative to recent pools an offer has a level, its geometric mean over the resources, and a shape, what is left
        for each resource. The level is brought within the limit; the whole shape is drawn together until each of its
        numbers is. A shape does not depend on how much the bid is worth, and both limits follow from pools that are
        full already. So what a pool shows of an owner's bid stays one number, and an owner's sums with others are as
        few as without a limit.
        """
        recent = self.pooled(book).recent
        offers = np.asarray(density)
        used = offers >= SMALLEST_OFFER
        known = used & ~np.isnan(recent)
        if not known.any():
            return ()
        logs = np.log2(offers, out=np.zeros(offers.shape), where=used)
        above = logs[known] - recent[known]
        level, most = float(above.mean()), math.log2(self.offer_limit)
        shape = above - level
        widest = float(np.abs(shape).max())
        if abs(level) <= most and widest <= most:
            return ()
        counted = logs + (min(max(level, -most), most) - level)
        counted[known] += (most / max(widest, most) - 1.0) * shape
        counted = np.clip(counted, SMALLEST_LOG, LARGEST_LOG)
        return tuple(np.where(used, np.exp2(counted - logs), 1.0).tolist())
