"""The elastic best response: the number of workers and of parameter servers may change every slot."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.arrays import Floats, Ints
from scheduling.bid import Bid
from scheduling.elastic_allocation import allocate
from scheduling.elastic_compiled import Counts
from scheduling.elastic_curves import Job, make_curves
from scheduling.elastic_index import ElasticIndex
from scheduling.elastic_search import LATEST, PAYOFF, RATIO, search
from scheduling.inventory import Inventory, MachineType
from scheduling.ledger import Ledger
from scheduling.response import Response
from scheduling.rigid_index import PriceOf, worth_by_slot
from scheduling.schedule import Placement, Role, Schedule
from scheduling.utility import Constant

__all__ = ["ElasticIndex", "ElasticMarket", "Response", "best_response", "warm_up"]

BITS = 46
"""Costs are whole multiples of a power of two between 2^-46 and 2^-45 of the most that an answer can cost."""
DIGITS = 61
"""Sums of costs over all slots, and costs times a number of workers, stay below 2^61 quanta."""
TINY = 1e-250
CEILING = 64.0
"""Where nothing else limits costs, those up to this many times the value are looked at first, then more."""
FINE = 256.0
"""If the limit was this many times too high, the answer is sought again with a lower one."""


@dataclass(frozen=True)
class ElasticMarket:
    """One ledger at its posted prices, asked again and again; what it learns stays with the ledger."""

    ledger: Ledger
    prices: PriceOf

    def best(self, bid: Bid, *, above: float = 0.0, first_start: int | None = None) -> Response | None:
        """The schedule of greatest payoff, if that is more than `above` (see `best_response`)."""
        response = self._ask(bid, mode=PAYOFF, above=above, first_start=first_start)
        return response if response is not None and response.payoff > above else None

    def least_ratio(self, bid: Bid, *, first_start: int | None = None) -> Response | None:
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
        question = _Question(bid, ledger.start, first_start, mode, above)
        with index.lock:
            index.refresh(ledger.used, self.prices, version=ledger.version)
            return _answer(question, index)


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
        response = _answer(_Question(bid, start, first_start, PAYOFF, above), index)
    return response if response is not None and response.payoff > above else None


@dataclass(frozen=True)
class _Question:
    bid: Bid
    start: int
    first_start: int | None
    mode: int
    above: float

    @property
    def first(self) -> int:
        """First slot in which a worker may run, from the ledger's start."""
        return max(0, self.bid.arrival - self.start, 0 if self.first_start is None else self.first_start - self.start)

    def order(self, response: Response) -> tuple[float, ...]:
        """The less, the better."""
        if self.mode == LATEST:
            return (-response.schedule.start, -response.payoff, response.schedule.completion)
        if self.mode == RATIO:
            return (response.cost / response.value, response.schedule.completion)
        return (-response.payoff, response.schedule.completion)


def _answer(question: _Question, index: ElasticIndex) -> Response | None:
    found = [r for pair in _pairs(question.bid, index) for r in _ask_pair(question, index, pair)]
    return min(found, key=question.order) if found else None


@dataclass(frozen=True)
class _Pair:
    w: int
    p: int
    worker: MachineType
    ps: MachineType
    wanted: int
    pss: Counts
    """PSs that n workers need, for every n that one slot may have."""


def _pairs(bid: Bid, index: ElasticIndex) -> Iterator[_Pair]:
    """The pairs of types with which the work fits the horizon."""
    inventory = index.inventory
    for w, worker in enumerate(inventory.workers):
        for p, ps in enumerate(inventory.pss):
            wanted = max(1, math.ceil(bid.work * (bid.worker_time[w] + bid.ps_time[p] + bid.transfer_time[w])))
            if worker.bandwidth_mbps <= ps.bandwidth_mbps and wanted <= bid.chunks * index.slots:
                most = min(bid.chunks, wanted, index.most(worker))
                yield _Pair(w, p, worker, ps, wanted, _ps_counts(worker, ps, most))


def _ps_counts(worker: MachineType, ps: MachineType, most: int) -> Counts:
    """ceil(n b_w / b_p) for n = 0..most, exact."""
    ratio = worker.bandwidth_mbps / ps.bandwidth_mbps
    exact = np.int64 if max(ratio.numerator, 1) * most < 1 << 62 and ratio.denominator < 1 << 62 else object
    return np.asarray(-(-np.arange(most + 1).astype(exact) * ratio.numerator // ratio.denominator)).astype(np.int32)


def _ask_pair(question: _Question, index: ElasticIndex, pair: _Pair) -> Iterator[Response]:
    """The answer with one pair of types, if there is one."""
    worth = worth_by_slot(question.bid, question.start, index.slots)
    most = float(worth.max(initial=0.0))
    if question.mode != RATIO and question.above > -math.inf:
        response = _search(question, index, pair, worth, most - question.above)
    elif most > 0.0 or question.mode != RATIO:
        response = _search_unlimited(question, index, pair, worth, most)
    else:
        response = None
    if response is not None:
        yield response


def _search_unlimited(
    question: _Question, index: ElasticIndex, pair: _Pair, worth: Floats, most: float
) -> Response | None:
    """The answer where value does not limit cost: at a higher limit until there is one, then as fine as it allows."""
    limit, found = CEILING * max(most, TINY), None
    while True:
        response = _search(question, index, pair, worth, limit)
        if response is None:
            dearest = pair.wanted * (index.dearest(pair.worker) + index.dearest(pair.ps))
            if found is not None or limit > dearest:
                return found
            limit = min(limit * 2.0**BITS, 2.0 * dearest)
            continue
        found = response
        ratio = question.mode == RATIO
        ceiling = most * (found.cost / found.value) if ratio else most - found.value + found.cost
        if ceiling == 0.0 or limit <= FINE * ceiling:
            return found
        limit = 2.0 * ceiling


def _search(question: _Question, index: ElasticIndex, pair: _Pair, worth: Floats, limit: float) -> Response | None:
    """The answer with one pair of types at a cost of at most `limit`."""
    if limit <= 0.0:
        return None
    bid, start = question.bid, question.start
    workers, pss = index.runs(pair.worker), index.runs(pair.ps)
    bits = min(BITS, DIGITS - max(2 * len(pair.pss), index.slots + 1).bit_length())
    scale = math.ldexp(1.0, bits - max(math.frexp(limit)[1], -900))
    job = Job(
        wanted=pair.wanted,
        pss=pair.pss,
        usable=np.array(bid.delay, np.int64) + (bid.arrival - start),
        worth=worth,
        scale=scale,
        limit=int(limit * scale) + 1,
    )
    curves = make_curves(workers, pss, job, min(question.first, index.slots))
    _, completion, counts = search(curves, job, min(question.first, index.slots), question.mode, question.above)
    if completion < 0:
        return None
    placements, cost = [], 0.0
    for role, kind, runs, needed in (
        (Role.WORKER, pair.w, workers, counts),
        (Role.PS, pair.p, pss, pair.pss[counts]),
    ):
        rows, price = allocate(runs, job.usable, needed)
        cost += price
        placements += [Placement(start + a, start + b, role, s, kind, n) for a, b, s, n in rows.tolist()]
    schedule = Schedule(
        start=start + int(np.flatnonzero(counts)[0]), completion=start + completion, placements=tuple(placements)
    )
    return Response(schedule=schedule, value=bid.utility.at(schedule.completion - bid.arrival), cost=cost)


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
    market = ElasticMarket(ledger, _NoPrice())
    response = market.best(bid)
    if response is not None:
        # A few cells that changed: what refreshes tables is not what builds them.
        ledger.commit(response.schedule)
    market.least_ratio(bid)
    market.latest(bid)


@dataclass(frozen=True)
class _NoPrice:
    def of(self, used: Ints, capacity: Ints) -> Floats:
        return np.zeros(used.shape)
