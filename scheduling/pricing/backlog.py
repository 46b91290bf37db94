"""The amount of future capacity that may be sold now, estimated from the fall of admitted jobs' utilities.

If jobs lose little value by waiting, capacity late in the horizon is as useful as capacity now: keeping it unsold only
leaves machines idle. If jobs lose value quickly, they need capacity soon, and selling too much of it harms later bids.
"""

import numpy as np

from scheduling.book.state import Book, Job
from scheduling.model.utility import Utility

DEFERRAL_FACTOR = 1.5
"""Factor on the share of value left after one horizon; the product is the share of capacity that may be sold."""
LATEST = 64
"""Number of most recently admitted jobs that the estimate uses; it bounds the computing time."""
SOON = 8
"""An early completion comes 1 / SOON of a horizon after arrival."""
LEVELS = 8
"""Shares are rounded down to multiples of 1 / LEVELS, so that prices and kernel caches change less often."""


def sellable_share(book: Book) -> float:
    """Share of the horizon's capacity that may still be sold, in whole eighths; negative if too much is sold.

    The share that may be sold is `DEFERRAL_FACTOR` times the median, over recent jobs, of the value left one horizon
    after arrival divided by the value an eighth of a horizon after arrival. The share already sold is that of workers
    or of parameter servers, whichever is larger. The result is 0 while the book has no jobs.

    Notes
    -----
    Only jobs that were admitted earlier are used, so a bid cannot change the price that it pays itself.
    """
    if not book.jobs:
        return 0.0
    patience = _patience(book.jobs[-LATEST:], book.ledger.end - book.ledger.start)
    return _in_steps(DEFERRAL_FACTOR * patience) - _in_steps(_sold(book))


def _patience(jobs: tuple[Job, ...], horizon: int) -> float:
    return float(np.median([_value_kept(job.bid.utility, horizon) for job in jobs]))


def _value_kept(utility: Utility, horizon: int) -> float:
    """Value one horizon after arrival, as a share of the value of an early completion."""
    soon = utility.at(max(1, horizon // SOON))
    return utility.at(horizon) / soon if soon > 0 else 0.0


def _sold(book: Book) -> float:
    """Share of capacity that is sold over the whole horizon, for the role (worker or PS) where it is larger."""
    sold, capacity = book.ledger.sold(len(book.ledger.used))
    shares = [0.0]
    for demand in (book.inventory.worker_demand, book.inventory.ps_demand):
        mine = demand.max(axis=0, initial=0) > 0
        shares.append(float(sold[mine].sum()) / max(1, int(capacity[mine].sum())))
    return max(shares)


def _in_steps(share: float) -> float:
    return int(LEVELS * share) / LEVELS
