"""The elastic best response: the number of workers and of parameter servers may change every slot."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.best_response.base import LATEST, PAYOFF, ExactKernel, NoPrice, PriceOf, Response, index_of
from scheduling.best_response.elastic.index import ElasticIndex
from scheduling.best_response.elastic.query import Query
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Floats, Ints
from scheduling.model.utility import Constant

__all__ = ["ElasticIndex", "ElasticKernel", "Response", "best_response", "warm_up"]


@dataclass(frozen=True)
class ElasticKernel(ExactKernel):
    """Best responses of jobs whose machines may change every slot, on one ledger at its posted prices.

    The tables of the search stay with the ledger, so later bids need only what has changed.

    Examples
    --------
    >>> from scheduling.best_response.elastic.kernel import ElasticKernel
    >>> from scheduling.book.ledger import Ledger
    >>> from scheduling.model.example import INVENTORY, job
    >>> from scheduling.pricing.price_function import reserve_prices
    >>> kernel = ElasticKernel(Ledger(INVENTORY, start=0, slots=8), reserve_prices([1.0, 1.0], [4.0, 4.0]))
    >>> response = kernel.best(job())
    >>> response.schedule.completion, response.value, response.cost
    (2, 8.0, 6.0)
    """

    ledger: Ledger
    prices: PriceOf | Floats
    """A function of use; or the price of each unit and slot, T x S x R, money, while the ledger does not move."""

    def best_of_last_start(self, bid: Bid, *, first_start: int) -> Response | None:
        """Return the schedule of greatest payoff among those of positive payoff that start last, in this slot or
        later."""
        response = self._respond(bid, mode=LATEST, above=0.0, first_start=first_start)
        return response if response is not None and response.payoff > 0 else None

    def _respond(self, bid: Bid, *, mode: int, above: float, first_start: int | None) -> Response | None:
        ledger, index = self.ledger, index_of(self.ledger, ElasticIndex)
        query = Query(bid, ledger.start, first_start, mode, above)
        with index.lock:
            index.refresh(ledger.used, self.prices, version=ledger.version)
            return query.answer(index)


def best_response(
    bid: Bid,
    inventory: Inventory,
    *,
    start: int,
    used: Ints,
    prices: Floats | PriceOf,
    above: float = 0.0,
    first_start: int | None = None,
    index: ElasticIndex | None = None,
    version: object = None,
) -> Response | None:
    """Find the number and place of workers and PSs in every slot that give one job the greatest payoff.

    Maximise value of completion minus cost over worker type w, PS type p, completion, and numbers n_t of workers in
    each slot t. They add up to the required worker-slots, ceil(E D M k) with k the slots of one mini-batch (constraint
    (2) of [1]_) and at least 1; no slot has more than D of them (3), and each ceil(n_t b_w / b_p) PSs (7), which may
    not be more than n_t (6). Workers and PSs are on the cheapest servers with room for them.

    Parameters
    ----------
    bid, inventory
        The job, in slots, and the servers and machine types. No resource may be demanded by a worker type and a PS
        type that the job can both use.
    start
        First slot of the ledger.
    used
        Units in use, T x S x R.
    prices
        Money for one unit and slot, non-negative, T x S x R; or a function of (used, capacity), both (..., R).
    above
        Only a schedule of greater payoff is returned; -inf: any schedule that fits.
    first_start
        First slot that may have workers; None: the first slot of the ledger.
    index
        Tables of an earlier call for the same inventory and number of slots; the call refreshes what changed.
    version
        A name for the contents of `used` and `prices`: if the last call with this index had the same name (not None),
        nothing is compared.

    Returns
    -------
    Response or None
        None if no schedule has a payoff above `above`. Ties go to the earliest completion, then the first
        worker type and PS type; among equally cheap servers, to the first.

    Notes
    -----
    The search is exact. Machine prices are rounded to whole multiples of a power of two, which is at most 2^-45 of what
    the bid can spend if it has at most 10,000 chunks and slots (`BITS` and `DIGITS` of `query.py`). The returned
    schedule is optimal at the rounded prices; its cost is then computed from the posted prices.

    The problem is a multiple-choice knapsack over slots. Convex hulls of the slots' cost curves bound the cost of every
    completion, and the few completions that can be optimal are solved exactly (`close.py`). The hulls take O(T N), all
    bounds together O(T N log(T N)) at worst, and the exact solution of one completion O(T N^2) at worst.

    References
    ----------
    .. [1] Y. Bao et al., "Online Job Scheduling in Distributed Machine Learning Clusters", problem (27); the paper's
       Algorithm 2 solves it in whole chunks only.

    Examples
    --------
    The second slot is dear, so the job runs in the first slot and in the third.

    >>> import numpy as np
    >>> from scheduling.best_response.elastic.kernel import best_response
    >>> from scheduling.model.example import INVENTORY, job
    >>> used, prices = np.zeros((8, 2, 2), np.int64), np.ones((8, 2, 2))
    >>> prices[1] = 9.0
    >>> response = best_response(job(), INVENTORY, start=0, used=used, prices=prices)
    >>> [(str(p.role), p.start, p.end, p.count) for p in response.schedule.placements]
    [('ps', 0, 1, 1), ('worker', 0, 1, 2), ('ps', 2, 3, 1), ('worker', 2, 3, 2)]
    >>> response.payoff
    1.0
    """
    index = ElasticIndex(inventory, len(used)) if index is None else index
    with index.lock:
        index.refresh(used, prices, version=version)
        response = Query(bid, start, first_start, PAYOFF, above).answer(index)
    return response if response is not None and response.payoff > above else None


def warm_up() -> None:
    """Compile every kernel, or load it from disk, so that no request has to wait for it."""
    one = Fraction(1)
    inventory = Inventory(
        resources=("worker", "ps"),
        servers=("worker", "ps"),
        cloud=(False, False),
        capacity=np.array([[2, 0], [0, 2]], np.int64),
        workers=(MachineType("worker", (1, 0), one),),
        parameter_servers=(MachineType("ps", (0, 1), one),),
    )
    bid = Bid("", 0, 1, 2, 1, (one,), (Fraction(0),), (one,), (0, 0), Constant(1.0))
    ledger = Ledger(inventory, start=0, slots=8)
    kernel = ElasticKernel(ledger, NoPrice())
    response = kernel.best(bid)
    if response is not None:
        # A few cells changed, so the kernels that refresh tables are called, not those that build them.
        ledger.commit(response.schedule)
    kernel.min_cost_per_value(bid)
