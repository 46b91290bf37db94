"""The rigid best response: the same machines over one window, on one server, around one PS host, or in a ring."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from scheduling.best_response.base import PAYOFF, RATIO, ExactKernel, NoPrice, PriceOf, Response, index_of
from scheduling.best_response.rigid.durations import durations
from scheduling.best_response.rigid.index import RigidIndex
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Floats, Ints
from scheduling.model.utility import Constant

__all__ = ["PriceOf", "Response", "RigidIndex", "RigidKernel", "best_response", "warm_up"]


@dataclass(frozen=True)
class RigidKernel(ExactKernel):
    """Best responses of jobs whose machines stay the same, on one ledger at its posted prices.

    The tables of the search stay with the ledger, so later bids need only what has changed. `tail` slots are held after
    completion (1 for the inclusive windows of DPS, Algorithms 3 and 4).

    Examples
    --------
    >>> from scheduling.best_response.rigid.kernel import RigidKernel
    >>> from scheduling.book.ledger import Ledger
    >>> from scheduling.model.example import INVENTORY, job
    >>> from scheduling.pricing.price_function import reserve_prices
    >>> kernel = RigidKernel(Ledger(INVENTORY, start=0, slots=8), reserve_prices([1.0, 1.0], [4.0, 4.0]))
    >>> response = kernel.best(job())
    >>> response.schedule.start, response.schedule.completion, response.value, response.cost
    (0, 2, 8.0, 6.0)
    >>> kernel.best(job(7.0)) is None
    True
    """

    ledger: Ledger
    prices: PriceOf
    tail: int = 0

    def _respond(self, bid: Bid, *, mode: int, above: float, first_start: int | None) -> Response | None:
        ledger = self.ledger
        query = _Query(bid, ledger.start, first_start, self.tail, mode, above)
        return _respond(query, index_of(ledger, RigidIndex), ledger.used, self.prices, version=ledger.version)


def best_response(
    bid: Bid,
    inventory: Inventory,
    *,
    start: int,
    used: Ints,
    prices: Floats | PriceOf,
    above: float = 0.0,
    first_start: int | None = None,
    tail: int = 0,
    index: RigidIndex | None = None,
    version: object = None,
) -> Response | None:
    """Decide where and when one job would best run at posted prices.

    Maximise value of completion minus cost over worker type, PS type, number of workers N, start a, and placement:
    all on one server with one PS, or spread: max(1, ceil((N - g) b_w / b_p)) PSs on one host beside g of the workers,
    the others anywhere. Duration is max(1, ceil(E D M k / N)) slots with k the time of one iteration. A ring has no PS:
    all its workers are on one server, or anywhere; its k depends on N.

    Parameters
    ----------
    bid, inventory
        The job, in slots, and the servers and machine types.
    start
        First slot of the ledger.
    used
        Units in use, T x S x R.
    prices
        Money for one unit and slot, non-negative, T x S x R; or a function of (used, capacity).
    above
        Only a schedule of greater payoff is returned; -inf: any schedule that fits.
    first_start
        First slot in which the job may start; None: the first slot of the ledger.
    tail
        Slots held after completion; they must lie within the horizon too.
    index
        Tables of an earlier call for the same inventory and number of slots; the call refreshes what changed.
    version
        A name for the contents of `used` and `prices`: if the last call with this index had the same name (not None),
        nothing is compared.

    Returns
    -------
    Response or None
        None if no schedule has a payoff above `above`. Ties go to the earliest completion, then start, then
        the fewest workers, then the first worker type, PS type and host; among equally cheap servers, to the first.

    Notes
    -----
    The search is exact. Machine prices are rounded to whole multiples of a power of two. All rounding together is at
    most 1e-9 of what the bid can spend, for the machine-slots that it can hold, or 1e-8 if it held all workers all the
    time (`SHARP` and `FINE` of `index.py`). The returned schedule is optimal at the rounded prices; its cost is then
    computed from the posted prices.

    A ring is the case of a PS that demands nothing. Fewer workers for the same duration never cost more, so only the
    fewest are tried; the rest are pruned by O(1) bounds, best first. One candidate is evaluated in O(S + N log S) time;
    there are at most 2 W P T min(N, T) of them.

    References
    ----------
    .. [1] R. Zhou et al., "DPS: Dynamic Pricing and Scheduling for Distributed Machine Learning Jobs in Edge-Cloud
       Networks", problem (21)-(22); the paper's Algorithms 2-4 are not exact.
    .. [2] The weighted-completion paper, problems (12) and (20), eq. 14; its Algorithms 4 to 7 are not exact.

    Examples
    --------
    Two workers on server a and one PS on server b are held for two slots, at price 1 for each unit-slot.

    >>> import numpy as np
    >>> from scheduling.best_response.rigid.kernel import best_response
    >>> from scheduling.model.example import INVENTORY, job
    >>> used, prices = np.zeros((8, 2, 2), np.int64), np.ones((8, 2, 2))
    >>> response = best_response(job(), INVENTORY, start=0, used=used, prices=prices)
    >>> [(str(p.role), p.server, p.count, p.start, p.end) for p in response.schedule.placements]
    [('ps', 1, 1, 0, 2), ('worker', 0, 2, 0, 2)]
    >>> response.payoff
    2.0
    """
    index = RigidIndex(inventory, len(used)) if index is None else index
    query = _Query(bid, start, first_start, tail, PAYOFF, above)
    response = _respond(query, index, used, prices, version=version)
    return response if response is not None and response.payoff > above else None


@dataclass(frozen=True)
class _Query:
    bid: Bid
    start: int
    first_start: int | None
    tail: int
    mode: int
    above: float

    def limit(self, found: Response | None) -> float:
        """Return an upper bound of the cost of any schedule better than the one found, money."""
        most = self.bid.utility.at(max(0, self.start - self.bid.arrival))
        if self.mode != RATIO:
            # If any schedule is allowed, a better one costs no more than this one plus the difference in value.
            return most - (found.payoff if self.above == -math.inf and found is not None else self.above)
        return 0.0 if found is None or found.value == 0 else most * (found.cost / found.value)


def _respond(
    query: _Query, index: RigidIndex, used: Ints, prices: Floats | PriceOf, *, version: object
) -> Response | None:
    with index.lock:
        index.widen_for(query.bid)
        index.refresh(used, prices, version=version)
        found = _answer(index, query)
        limit = query.limit(found)
        fine = limit <= 0 or index.resolves(query.bid, limit, tail=query.tail)
        # No finer tables are needed where the workers alone cost more than the limit, beyond the rounding of sums.
        fine = fine or index.least_cost(query.bid, tail=query.tail) > (1 + 1e-9) * limit
    # Prices far above what this bid can spend leave too few digits for affordable ones. This is rare, so finer tables
    # are built for this bid alone. A schedule found at finer prices may cost far less, and then the limit is lower.
    while not fine:
        finer = RigidIndex(index.inventory, index.slots, price_cap=2.0 * limit)
        finer.widen_for(query.bid)
        finer.refresh(used, prices)
        found, before = _answer(finer, query) or found, limit
        limit = query.limit(found)
        fine = limit <= 0 or 2.0 * limit > before or finer.resolves(query.bid, limit, tail=query.tail)
    return found


def _answer(index: RigidIndex, query: _Query) -> Response | None:
    bid, start = query.bid, query.start
    chosen, counts = index.search(
        bid,
        start=start,
        first_start=query.first_start,
        tail=query.tail,
        mode=query.mode,
        above=query.above,
    )
    if not len(chosen):
        return None
    spread, worker, ps, number, length, first, host, near = (int(x) for x in chosen)
    inventory = index.inventory
    at = (start + first, start + first + length + query.tail)
    pss = index.pss_for(worker, ps, number - near) if spread else 1
    placements = [
        Placement(start=at[0], end=at[1], role=Role.WORKER, server=int(s), type=worker, count=int(counts[s]))
        for s in np.flatnonzero(counts)
    ]
    if bid.architecture is Architecture.PS:
        placements.append(Placement(start=at[0], end=at[1], role=Role.PS, server=host, type=ps, count=pss))
    schedule = Schedule(start=at[0], completion=at[0] + length, placements=tuple(placements))
    value = bid.utility.at(schedule.completion - bid.arrival)
    return Response(schedule=schedule, value=value, cost=sum(_costs(index, schedule, inventory, start)))


def _costs(index: RigidIndex, schedule: Schedule, inventory: Inventory, start: int) -> Iterator[float]:
    for p in schedule.placements:
        demand = p.machine(inventory).demand
        yield p.count * index.cost(server=p.server, demand=demand, start=p.start - start, end=p.end - start)


def warm_up() -> None:
    """Compile every kernel, or load it from disk, so that no request has to wait for it."""
    compile_tables()
    compile_search()


def compile_tables() -> None:
    """Compile the kernels that build and refresh the tables of a search."""
    ledger, bid = smallest_problem()
    index = RigidIndex(ledger.inventory, ledger.end - ledger.start)
    index.refresh(ledger.used, NoPrice())
    # Few of the servers change, so the kernels that refresh tables are called, not those that build them.
    used = ledger.used.copy()
    used[0, 0] = 1
    index.refresh(used, NoPrice())
    durations(bid, most=1, slots=1)
    durations(replace(bid, architecture=Architecture.RING), most=1, slots=1)


def compile_search() -> None:
    """Compile the search over the tables."""
    ledger, bid = smallest_problem()
    RigidIndex(ledger.inventory, ledger.end - ledger.start).compile_search(bid, start=ledger.start)


def smallest_problem() -> tuple[Ledger, Bid]:
    """Return servers and a job that are large enough to compile with."""
    one, servers = Fraction(1), 8
    inventory = Inventory(
        resources=("worker", "ps"),
        servers=tuple(str(s) for s in range(servers)),
        cloud=(False,) * servers,
        capacity=np.ones((servers, 2), dtype=np.int64),
        workers=(MachineType("worker", (1, 0), one),),
        parameter_servers=(MachineType("ps", (0, 1), one),),
    )
    bid = Bid("", 0, 1, 2, 1, (one,), (one,), (one,), (0,) * servers, Constant(1.0))
    return Ledger(inventory, start=0, slots=8), bid
