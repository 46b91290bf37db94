"""Posted prices and best responses: the mechanism of every pricing policy.

The ledger contains the reservations, and a price function computes prices from it. A kernel finds the bid's schedule
of greatest payoff. The bid is admitted iff that payoff is above 0 (DPS, Algorithm 1; OASiS, Algorithm 1). Each policy
chooses its kernel; admission, receipts and counter-offers are the same for all policies.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from scheduling.best_response.base import Kernel, LastStarts, NoPrice, PriceOf, slots_ahead
from scheduling.best_response.price_floor import ROUNDING, PriceFloor
from scheduling.book.ledger import Ledger, empty_like
from scheduling.book.state import Book, Job
from scheduling.model.bid import Bid
from scheduling.model.decision import CounterOffer, Decision, Reason
from scheduling.model.ending import Ending
from scheduling.model.inventory import Inventory
from scheduling.model.progress import rest_of
from scheduling.model.schedule import Schedule
from scheduling.model.types import Floats, Ints
from scheduling.model.utility import Constant
from scheduling.model.validation import LARGEST_MONEY
from scheduling.policies.base import Grant, Objective, PolicyBase
from scheduling.pricing.price_function import PriceFunction
from scheduling.pricing.rule import PriceRule

CENT = 0.01
SMALLEST_MONEY = 1e-6
"""An amplitude below this cannot be scaled up to a counter-offer without leaving the range of doubles."""
ROUNDS = 20
"""Largest number of cents to try: if more than one or two are needed, rounding decides and not the price."""


@dataclass(frozen=True)
class PricedLedger:
    """A ledger at its posted prices, with the kernels that compute best responses to them."""

    ledger: Ledger
    prices: PriceFunction
    kernel: Kernel
    empty: Kernel
    """Kernel for the empty cluster at price 0."""

    def cost(self, schedule: Schedule) -> float:
        """Compute the sum of posted price x allocation over all placements, money.

        The cost is computed from the placements, never from a kernel's bounds or running sums. So the same schedule on
        the same ledger has the same cost to the last bit.
        """
        return math.fsum(self._cells(schedule)[1])

    def bill(self, schedule: Schedule) -> tuple[float, tuple[float, ...]]:
        """Compute the cost of a schedule as `cost` does, and that of each slot from its start, money."""
        slots, costs = self._cells(schedule)
        by_slot = np.bincount(slots + self.ledger.start - schedule.start, weights=costs)
        return math.fsum(costs), tuple(by_slot.tolist())

    def _cells(self, schedule: Schedule) -> tuple[Ints, Floats]:
        """Return the slot (counted from the ledger's start) and the cost of each placement in each of its slots."""
        inventory, rows = self.ledger.inventory, schedule.placements
        if not rows:
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        lengths = np.array([p.end - p.start for p in rows])
        first = np.array([p.start for p in rows]) - self.ledger.start
        units = np.array([p.count for p in rows])[:, np.newaxis] * np.array([p.machine(inventory).demand for p in rows])
        slot = np.arange(lengths.sum()) + np.repeat(first - (lengths.cumsum() - lengths), lengths)
        server = np.repeat(np.array([p.server for p in rows]), lengths)
        prices = self.prices.of(self.ledger.used[slot, server], inventory.capacity[server], slot)
        return slot, (prices * np.repeat(units, lengths, axis=0)).sum(axis=1)


def value_of(bid: Bid, schedule: Schedule) -> float:
    """Return the bid's value at the completion of the schedule, money."""
    return bid.utility.at(schedule.completion - bid.arrival)


def with_value(bid: Bid, value: float) -> Bid:
    """Return the same bid with amplitude `value`."""
    return replace(bid, utility=bid.utility.scaled(value / bid.utility.value))


def profitable(bid: Bid, posted: PricedLedger, *, first_start: int | None = None) -> Schedule | None:
    """Return the bid's best schedule if its payoff is above 0, else None."""
    answer = posted.kernel.best(bid, first_start=first_start)
    return None if answer is None or not _pays(bid, posted, answer.schedule) else answer.schedule


def _pays(bid: Bid, posted: PricedLedger, schedule: Schedule) -> bool:
    return value_of(bid, schedule) > posted.cost(schedule)


def decide(bid: Bid, posted: PricedLedger, *, density: tuple[float, ...]) -> Decision:
    """Admit the bid with its best schedule, or reject it with the least value that would be admitted.

    Parameters
    ----------
    bid
        The bid, with delays as the policy counts them.
    posted
        The ledger at its prices.
    density
        Value per unit-slot of each resource that the bid offers, R numbers; stored in the receipt.

    Returns
    -------
    Decision
        An admission if the greatest payoff over all schedules is above 0, otherwise a rejection with its reason.

    Notes
    -----
    An admission needs two best responses; a rejection needs up to four more for the counter-offer.

    References
    ----------
    .. [1] R. Zhou et al., "DPS", Algorithm 1; Y. Bao et al., "Online Job Scheduling in Distributed Machine Learning
       Clusters", Algorithm 1.

    Examples
    --------
    >>> from scheduling.book.ledger import Ledger
    >>> from scheduling.book.state import Book
    >>> from scheduling.model.example import INVENTORY, job
    >>> from scheduling.policies.dps import Dps
    >>> import numpy as np
    >>> book = Book(0, Ledger(INVENTORY, start=0, slots=8), history=np.zeros((0, 2)), decided=0)
    >>> priced = Dps(initial_low=1.0, initial_high=1.0, near_share=0.0).priced_ledger(book)
    >>> admitted = decide(job(), priced, density=(4.5, 9.0))
    >>> admitted.value, round(admitted.payment, 6), round(admitted.payoff, 6)
    (8.0, 6.0, 2.0)
    >>> rejected = decide(job(7.0), priced, density=(2.5, 5.0))
    >>> str(rejected.reason), rejected.counter.latest_start
    ('price', 0)
    """
    on_empty = posted.empty.best(bid)
    standalone_value = 0.0 if on_empty is None else on_empty.value
    schedule = profitable(bid, posted) if on_empty is not None else None
    if schedule is None:
        return _reject(bid, posted, standalone_value=standalone_value, density=density)
    return _admit(bid, posted, schedule, standalone_value=standalone_value, density=density)


def _admit(
    bid: Bid, posted: PricedLedger, schedule: Schedule, *, standalone_value: float, density: tuple[float, ...]
) -> Decision:
    value, (payment, costs) = value_of(bid, schedule), posted.bill(schedule)
    wait = schedule.completion - bid.arrival
    explanation = (
        f"Admitted: it starts in slot {schedule.start} and is complete at slot {schedule.completion}, "
        f"{_slots(wait)} after arrival. That is worth {value:.2f} and costs {payment:.2f} at the posted prices."
    )
    return Decision.admit(
        bid.id,
        schedule,
        explanation,
        slot=posted.ledger.start,
        value=value,
        payment=payment,
        standalone_value=standalone_value,
        density=density,
        prices=posted.prices.to_json(),
        costs=costs,
    )


def grant(bid: Bid, posted: PricedLedger) -> Grant | None:
    """Return the schedule and the payment of `decide`, without the rest of the receipt; None if the bid is rejected."""
    schedule = profitable(bid, posted)
    if schedule is None or posted.empty.best(bid) is None:
        return None
    return Grant(schedule, posted.cost(schedule))


class PostedPricePolicy(PolicyBase):
    """An auction at posted prices: each bid gets its best response and is admitted iff its payoff is above 0.

    A subclass chooses the price rule, the kernel of best responses, and how to compute a bid's value per unit-slot.
    """

    objective = Objective.WELFARE
    binding = True

    @property
    def exact(self) -> bool:
        """Whether the granted schedule is optimal for the bid at the posted prices."""
        return True

    def kernel(self, ledger: Ledger, prices: PriceOf) -> Kernel:
        """Return the kernel of best responses on a ledger at these prices."""
        raise NotImplementedError

    @property
    def price_rule(self) -> PriceRule:
        """The rule that turns the book into posted prices."""
        raise NotImplementedError

    def density(self, bid: Bid, inventory: Inventory, *, horizon: int) -> tuple[float, ...]:
        """Return the value per unit-slot of each resource that the bid offers, R numbers; `horizon` slots can be
        used."""
        raise NotImplementedError

    def adjusted(self, bid: Bid) -> Bid:
        """Return the bid with delays adjusted to the policy's convention."""
        return bid

    def price_function(self, book: Book) -> PriceFunction:
        """Return the price function for the next bid, as the price rule gives it."""
        return self.price_rule.price_function(book)

    def decide(self, bid: Bid, book: Book) -> Decision:
        """Admit the bid with its best schedule, or reject it (Algorithm 1 of DPS and of OASiS); the book is not
        changed."""
        offered = self.density(bid, book.inventory, horizon=book.ledger.end - bid.arrival)
        return decide(self.adjusted(bid), self.priced_ledger(book), density=offered)

    def admissions(self, book: Book) -> Callable[[Bid], Decision | None]:
        """Return a function from a bid to its admission on this book, as `decide` gives it; None if it is rejected."""
        posted = self.priced_ledger(book)
        floor = PriceFloor(posted.ledger, posted.prices)

        def admitted(bid: Bid) -> Decision | None:
            asked = self.adjusted(bid)
            schedule = profitable(asked, posted) if floor.may_pay(bid) else None
            on_empty = None if schedule is None else posted.empty.best(asked)
            if schedule is None or on_empty is None:
                return None
            offered = self.density(bid, book.inventory, horizon=book.ledger.end - bid.arrival)
            return _admit(asked, posted, schedule, standalone_value=on_empty.value, density=offered)

        return admitted

    def grants(self, book: Book) -> Callable[[Bid], Grant | None]:
        """Return a function from a bid to its grant on this book, as `decide` finds it; None if the bid is rejected."""
        posted = self.priced_ledger(book)
        floor = PriceFloor(posted.ledger, posted.prices)
        return lambda bid: grant(self.adjusted(bid), posted) if floor.may_pay(bid) else None

    def priced_ledger(self, book: Book) -> PricedLedger:
        """Return what a bid is decided against: the ledger at current prices, and the empty cluster at price 0."""
        prices = self.price_function(book)
        return PricedLedger(
            ledger=book.ledger,
            prices=prices,
            kernel=self.kernel(book.ledger, prices),
            empty=self.kernel(empty_like(book.ledger), NoPrice()),
        )

    def prices(self, book: Book) -> Floats:
        """Return the posted price of one unit of each resource for one slot, T x S x R, money."""
        used = book.ledger.used
        return self.price_function(book).of(used, book.inventory.capacity, slots_ahead(len(used)))

    def keep_promise(self, job: Job, book: Book) -> Schedule | None:
        """Schedule the rest of the job on free capacity at price 0."""
        rest = self.adjusted(rest_of(job.bid, job.held, now=book.now))
        return kept_promise(job, rest, self.kernel(book.ledger, NoPrice()))


def kept_promise(job: Job, rest: Bid, kernel: Kernel) -> Schedule | None:
    """Return a schedule that completes a job without machines by its promised slot; None if there is none.

    Parameters
    ----------
    rest
        The job with the remaining work (`progress.rest_of`).
    kernel
        Best responses at price 0, on the ledger without what the job held: its owner pays nothing more. Among the
        schedules that keep the promise, it finds the one with the earliest completion.
    """
    if job.completion is None:
        return None
    by_then = replace(rest, utility=Ending(Constant(1.0), job.completion - rest.arrival))
    answer = kernel.best(by_then)
    return None if answer is None else answer.schedule


def _reject(bid: Bid, posted: PricedLedger, *, standalone_value: float, density: tuple[float, ...]) -> Decision:
    cheapest = posted.kernel.min_cost_per_value(bid) if standalone_value > 0 else None
    counter = None if cheapest is None else counter_offer(bid, posted, cheapest.schedule)
    if standalone_value > 0:
        reason = Reason.NO_ROOM if cheapest is None else Reason.PRICE
    else:
        reason = Reason.IMPOSSIBLE if posted.empty.best(bid, above=-math.inf) is None else Reason.WORTHLESS
    return Decision.reject(
        bid.id,
        reason,
        _explain(bid, reason, end=posted.ledger.end, counter=counter),
        slot=posted.ledger.start,
        density=density,
        standalone_value=standalone_value,
        counter=counter,
        prices=posted.prices.to_json(),
    )


def _explain(bid: Bid, reason: Reason, *, end: int, counter: CounterOffer | None) -> str:
    if reason is Reason.NO_ROOM:
        return (
            f"The empty cluster could run it, but what is still free before slot {end} cannot, at any price, while "
            "finishing is worth anything."
        )
    if reason is Reason.IMPOSSIBLE:
        return (
            f"Even the empty cluster could not complete it before slot {end}: its machines, its work and its upload "
            "delays do not fit."
        )
    if reason is Reason.WORTHLESS:
        return "It could run, but even at its earliest possible completion it is worth nothing."
    if counter is None:
        return (
            "Every schedule that fits costs more than finishing then is worth, whatever value is stated: it would be "
            "complete so late that hardly any of the value is left."
        )
    return (
        "Every schedule that fits costs at least what finishing then is worth. "
        f"It offered {bid.utility.value:.2f}; anything above {counter.least_value:.2f} would have been admitted, "
        f"starting in slot {counter.latest_start} at the latest."
    )


def counter_offer(bid: Bid, posted: PricedLedger, cheapest: Schedule) -> CounterOffer | None:
    """Compute the least amplitude that is admitted, and the last start at it; None if no amplitude is admitted.

    Notes
    -----
    A schedule l pays for itself at amplitude v iff v x shape(l) > cost(l), so the least amplitude is the minimum of
    cost / shape: that of `cheapest`. It is rounded up to whole cents and then *tried*: with one cent more the bid is
    admitted, with one cent less it is not. At that amplitude only a later start can lose admission, so there is a last
    one.
    """
    if bid.utility.value < SMALLEST_MONEY:
        return None
    value = bid.utility.value * (posted.cost(cheapest) / value_of(bid, cheapest))
    # A value within rounding of a whole cent is that cent, else one cent less could be admitted too.
    slack = max(1e-6, value * 1e-12)
    least = max(0.0, round(math.ceil(value / CENT - slack) * CENT, 2)) if value <= LARGEST_MONEY else value
    for _ in range(ROUNDS):
        if least + CENT > LARGEST_MONEY:
            return None
        offer = with_value(bid, least + CENT)
        last = _last(offer, posted, cheapest)
        if last is not None:
            return CounterOffer(least_value=least, latest_start=last.start, completion=last.completion)
        # Rounding, or a value so near 0 that one more cent has no effect.
        least = round(least + CENT, 2)
    return None


def _last(offer: Bid, posted: PricedLedger, cheapest: Schedule) -> Schedule | None:
    """Return the schedule of positive payoff that starts last; None if no schedule has one."""
    schedule = _last_after(offer, posted, cheapest)
    if schedule is None:
        schedule = profitable(offer, posted)
        answer = None if schedule is None else posted.kernel.latest(offer)
        if schedule is not None and answer is not None and answer.schedule.start > schedule.start:
            schedule = answer.schedule if _pays(offer, posted, answer.schedule) else schedule
    while schedule is not None:
        later = profitable(offer, posted, first_start=schedule.start + 1)
        if later is None:
            break
        schedule = later
    return schedule


def _last_after(offer: Bid, posted: PricedLedger, cheapest: Schedule) -> Schedule | None:
    """Return the schedule of positive payoff that starts last, without a search for one that starts earlier.

    None if the kernel has no such search, or if rounding may decide whether the cheapest schedule has a positive
    payoff. Where it has one, no schedule needs to be found first, and the last start is not before its own.
    """
    kernel = posted.kernel
    if not isinstance(kernel, LastStarts) or value_of(offer, cheapest) <= posted.cost(cheapest) * (1.0 + ROUNDING):
        return None
    answer = kernel.best_of_last_start(offer, first_start=cheapest.start)
    return answer.schedule if answer is not None and _pays(offer, posted, answer.schedule) else None


def _slots(count: int) -> str:
    return "1 slot" if count == 1 else f"{count} slots"
