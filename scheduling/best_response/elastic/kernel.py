"""The elastic best response: the number of workers and of parameter servers may change every slot."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.best_response.base import NoPrice, PriceOf, Response
from scheduling.best_response.elastic.index import ElasticIndex
from scheduling.best_response.elastic.question import Question
from scheduling.best_response.elastic.search import LATEST, PAYOFF, RATIO
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Floats, Ints
from scheduling.model.utility import Constant

__all__ = ["ElasticIndex", "ElasticKernel", "Response", "best_response", "warm_up"]


@dataclass(frozen=True)
class ElasticKernel:
    """One ledger at its posted prices, asked again and again; what it learns stays with the ledger."""

    ledger: Ledger
    prices: PriceOf | Floats
    """Of use; or of each unit and slot, T x S x R, money, while the ledger does not move."""

    def best(self, bid: Bid, *, above: float = 0.0, first_start: int | None = None) -> Response | None:
        """The schedule of greatest payoff, if that is more than `above` (see `best_response`)."""
        response = self._ask(bid, mode=PAYOFF, above=above, first_start=first_start)
        return response if response is not None and response.payoff > above else None

    def min_cost_per_value(self, bid: Bid, *, first_start: int | None = None) -> Response | None:
        """The schedule of least cost per unit of value, among those worth anything.

        At `cost / value` times its amplitude the bid only just pays for this schedule, and at less for none.
        """
        response = self._ask(bid, mode=RATIO, above=0.0, first_start=first_start)
        return response if response is not None and response.value > 0 else None

    def latest(self, bid: Bid, *, above: float = 0.0) -> Response | None:
        """A schedule of payoff above `above` that starts as late as any such schedule."""
        response = self._ask(bid, mode=LATEST, above=above, first_start=None)
        return response if response is not None and response.payoff > above else None

    def _ask(self, bid: Bid, *, mode: int, above: float, first_start: int | None) -> Response | None:
        ledger, index = self.ledger, index_of(self.ledger)
        question = Question(bid, ledger.start, first_start, mode, above)
        with index.lock:
            index.refresh(ledger.used, self.prices, version=ledger.version)
            return question.answer(index)


def index_of(ledger: Ledger) -> ElasticIndex:
    """The index that a ledger carries along, made at first use."""
    index = ledger.derived.get("elastic")
    if not isinstance(index, ElasticIndex) or index.inventory is not ledger.inventory:
        index = ElasticIndex(ledger.inventory, ledger.end - ledger.start)
        ledger.derived["elastic"] = index
    return index


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
    """Decide how many workers and PSs one job would best run where in every slot at posted prices.

    Maximise value of completion minus cost over worker type w, PS type p, completion, and numbers n_t of workers in
    each slot t. They add up to the worker-slots wanted, ceil(E D M k) with k the slots of one mini-batch (constraint
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
        Only a payoff greater than this is answered; -inf forces an answer if any schedule fits.
    first_start
        No workers before this slot.
    index
        Tables kept from an earlier call for the same inventory and number of slots. It notices what changed.
    version
        Names what is in `used` and `prices`: where the last call with this index gave the same (not None), nothing
        is compared.

    Returns
    -------
    Response or None
        None if no schedule has a payoff above `above`. Equal payoffs fall to the earliest completion, then the first
        worker type and PS type; equally cheap servers to the first.

    Notes
    -----
    Exact: prices of machines are rounded to whole multiples of a power of two, so small that all of it together is at
    most a billionth of what the bid can spend; the schedule returned is optimal at those, and its cost is then
    computed from the prices themselves.
    A multiple-choice knapsack over slots: convex hulls of the slots' cost curves bound the cost of every completion,
    and what is left of the gap for the few completions that can win is closed exactly.

    References
    ----------
    .. [1] Y. Bao et al., "Online Job Scheduling in Distributed Machine Learning Clusters", problem (27); the paper's
       Algorithm 2 solves it in whole chunks only.
    """
    index = ElasticIndex(inventory, len(used)) if index is None else index
    with index.lock:
        index.refresh(used, prices, version=version)
        response = Question(bid, start, first_start, PAYOFF, above).answer(index)
    return response if response is not None and response.payoff > above else None


def warm_up() -> None:
    """Compile, or load from disk, every kernel, so that no request pays for it."""
    one = Fraction(1)
    inventory = Inventory(
        resources=("worker", "ps"),
        servers=("worker", "ps"),
        cloud=(False, False),
        capacity=np.array([[2, 0], [0, 2]], np.int64),
        workers=(MachineType("worker", (1, 0), one),),
        pss=(MachineType("ps", (0, 1), one),),
    )
    bid = Bid("", 0, 1, 2, 1, (one,), (Fraction(0),), (one,), (0, 0), Constant(1.0))
    ledger = Ledger(inventory, start=0, slots=8)
    market = ElasticKernel(ledger, NoPrice())
    response = market.best(bid)
    if response is not None:
        # A few cells that changed: what refreshes tables is not what builds them.
        ledger.commit(response.schedule)
    market.min_cost_per_value(bid)
