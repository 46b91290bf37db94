"""How far ahead of time room may be sold: what the jobs in the book say about waiting.

Jobs that lose little by waiting can be put off: then room far ahead is as good as room now, and leaving it unsold until
it is near only lets machines stand idle. Jobs that are worth little later want the near room, and a full one hurts
whoever comes next.
"""

import numpy as np

from scheduling.book.state import Book, Job
from scheduling.model.utility import Utility

BORNE = 1.5
"""Times the worth that is left after a horizon: the share of a horizon's room that may be sold ahead.

Chosen with `Dps.fluid_fill` on four seeds that nothing is judged by (docs/learned-prices.md)."""
LATEST = 64
"""Admitted jobs that are asked, the last ones: those of the moment, in bounded time."""
SOON = 8
"""A completion is soon after this part of a horizon."""
LEVELS = 8
"""Steps in which backlogs are seen: between them prices, and what a kernel keeps warm, stand still."""


def room_to_put_off(book: Book) -> float:
    """How much more of the horizon's room may be sold than is, as a share of it, in whole eighths.

    The share that may be sold is `BORNE` times what is left of the median job's worth a horizon after its arrival, as
    a share of its worth an eighth of a horizon after it. What is sold is the larger share of the two roles. 0 while no
    job is in the book: nothing is known, and nothing sold.

    Notes
    -----
    Only jobs that were admitted earlier are looked at, so what a bid states moves no price that it pays itself.
    """
    if not book.jobs:
        return 0.0
    patience = _patience(book.jobs[-LATEST:], book.ledger.end - book.ledger.start)
    return _in_steps(BORNE * patience) - _in_steps(_sold(book))


def _patience(jobs: tuple[Job, ...], horizon: int) -> float:
    return float(np.median([_kept_worth(job.bid.utility, horizon) for job in jobs]))


def _kept_worth(utility: Utility, horizon: int) -> float:
    """Share of the worth of an early completion that is left a horizon after arrival."""
    soon = utility.at(max(1, horizon // SOON))
    return utility.at(horizon) / soon if soon > 0 else 0.0


def _sold(book: Book) -> float:
    """Share of the machines of a role that is sold over the whole horizon, of the role that has the larger."""
    sold, capacity = book.ledger.sold(len(book.ledger.used))
    shares = [0.0]
    for demand in (book.inventory.worker_demand, book.inventory.ps_demand):
        mine = demand.max(axis=0, initial=0) > 0
        shares.append(float(sold[mine].sum()) / max(1, int(capacity[mine].sum())))
    return max(shares)


def _in_steps(share: float) -> float:
    return int(LEVELS * share) / LEVELS
