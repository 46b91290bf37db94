"""Completions: a bid buys a slot by which its job is complete; until then its machines may change.

A promise of machines keeps them for a long job while short ones wait. A promise of a completion lets the market stop
and move the job as long as the promised slot is kept. docs/algorithms/completions.md explains prices and promises.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scheduling.batch.planner import plan_alone
from scheduling.book.state import Book
from scheduling.model.bid import Bid
from scheduling.model.decision import CounterOffer, Decision, Reason
from scheduling.model.parameters import parameter
from scheduling.model.schedule import Schedule
from scheduling.model.types import Floats
from scheduling.model.validation import LARGEST_MONEY
from scheduling.policies.base import Grant
from scheduling.policies.learned_prices import LearnedPricePolicy, with_default
from scheduling.policies.posted_price import CENT, SMALLEST_MONEY, with_value
from scheduling.policies.promised_slots import PromisedSlots, restart_slots, still_held_parameter
from scheduling.policies.promises import Kept, Offer, Promises
from scheduling.pricing.quantile import scarcity_of_roles
from scheduling.pricing.rule import PriceRule


@dataclass(frozen=True)
class Completions(PromisedSlots, LearnedPricePolicy):
    """Posted prices of completions; jobs run in order of their promised slots, and later ones are stopped for them."""

    price: str = parameter("quantile", "quantile: a reserve price from quantiles of past bids.", choices=("quantile",))
    worker_reserve_factor: float = with_default("worker_reserve_factor", 1.0)
    ps_reserve_factor: float = with_default("ps_reserve_factor", 0.2)
    sooner: float = with_default("sooner", 0.0)
    later: float = parameter(
        0.05,
        "Share of its greatest payoff that a bid may lose at most by a later promise, which leaves the market more "
        "freedom. Its job is complete as soon as there is room all the same.",
        low=0.0,
        high=1.0,
    )
    restart: int = restart_slots()
    beside: bool = parameter(
        True,
        "If jobs cannot be placed again in order of their promises, place a new job beside all others as they are "
        "planned. Without this, such an order has bids rejected until the jobs in it are complete.",
        absent=False,
    )
    each_kind: bool = parameter(
        True,
        "Prices from past bids: a bid counts as an offer for each kind of machine that it could use. Without this it "
        "counts for the kind of its least consumption alone, and a kind that is nobody's least costs next to nothing.",
        absent=False,
    )
    still_held: bool = still_held_parameter()

    name = "completions"
    title = "Completions: posted prices, a promised slot of completion, machines that may change until then"

    @property
    def price_rule(self) -> PriceRule:
        """The rule of quantile prices."""
        return self.quantile_rule(scarcity_of_roles, initial_for_all=False)

    def decide(self, bid: Bid, book: Book) -> Decision:
        """Promise the bid a slot of nearly its greatest payoff, or reject it if no payoff above 0 can be promised."""
        return self.limited(self._decision(bid, book), book)

    def _decision(self, bid: Bid, book: Book) -> Decision:
        promises = self.promises(book)
        alone, prices = plan_alone(bid, book.ledger), promises.prices.to_json()
        if alone is None:
            return self.impossible(bid, book, prices)
        worth = bid.utility.at(alone.completion - bid.arrival)
        offer = promises.offer(bid, alone.completion)
        first = promises.soonest(bid, offer, last=len(offer.costs))
        found = None if first is None else self._promised(bid, offer, first, promises)
        if found is None:
            reason, text, counter = self._refusal(bid, offer, first, promises)
            return Decision.reject(
                bid.id,
                reason,
                text,
                slot=book.now,
                density=self.offers(bid, book, worth),
                standalone_value=worth,
                counter=counter,
                prices=prices,
            )
        return self._admit(bid, offer, found, promises, worth)

    def _admit(self, bid: Bid, offer: Offer, found: Kept, promises: Promises, worth: float) -> Decision:
        """Return the admission of a bid with a promise; `worth` is its value on the empty cluster."""
        new, promised = found.plan.schedule(bid.id), offer.first + found.number
        value, payment = bid.utility.at(promised - bid.arrival), float(offer.costs[found.number])
        text = (
            f"Admitted: it is complete by slot {promised}, which is worth {value:.2f} and costs {payment:.2f} at the "
            f"posted prices. It is planned to start in slot {new.start} and to be complete at slot {new.completion}; "
            "its machines may change as long as the promised slot is kept."
        )
        return Decision.admit(
            bid.id,
            new,
            text,
            slot=promises.book.now,
            value=value,
            payment=payment,
            standalone_value=worth,
            density=self.offers(bid, promises.book, worth),
            prices=promises.prices.to_json(),
            moves=promises.moves(found.plan),
            due=promised,
        )

    def admissions(self, book: Book) -> Callable[[Bid], Decision | None]:
        """Return a function from a bid to its admission on this book, as `decide` gives it; None if it is rejected."""
        promises = self.promises(book)

        def admitted(bid: Bid) -> Decision | None:
            bought = self._bought(bid, promises)
            if bought is None:
                return None
            alone, offer, found = bought
            worth = bid.utility.at(alone.completion - bid.arrival)
            return self.limited(self._admit(bid, offer, found, promises, worth), book)

        return admitted

    def grants(self, book: Book) -> Callable[[Bid], Grant | None]:
        """Return a function from a bid to its grant on this book, as `decide` finds it; None if the bid is rejected."""
        promises = self.promises(book)

        def granted(bid: Bid) -> Grant | None:
            bought = self._bought(bid, promises)
            if bought is None:
                return None
            _, offer, found = bought
            return Grant(found.plan.schedule(bid.id), float(offer.costs[found.number]), offer.first + found.number)

        return granted

    def _bought(self, bid: Bid, promises: Promises) -> tuple[Schedule, Offer, Kept] | None:
        """Return the bid's schedule on the empty cluster, what it is offered and what it buys; None if nothing."""
        alone = plan_alone(bid, promises.book.ledger) if promises.may_pay(bid) else None
        if alone is None:
            return None
        offer = promises.offer(bid, alone.completion)
        paying = np.flatnonzero(offer.payoffs > 0.0)
        first = promises.soonest(bid, offer, last=int(paying[-1])) if len(paying) else None
        found = None if first is None else self._promised(bid, offer, first, promises)
        return None if found is None else (alone, offer, found)

    def prices(self, book: Book) -> Floats:
        """Return the posted price of a unit-slot of work that is due after each slot, T x S x R, money."""
        units = self.promises(book).units[1:]
        return np.where(book.inventory.capacity > 0, units[:, np.newaxis, :], 0.0)

    def _promised(self, bid: Bid, offer: Offer, first: Kept, promises: Promises) -> Kept | None:
        """Return what the bid is promised; None if no payoff above 0 can be kept. `first` can be kept."""
        payoffs = offer.payoffs[first.number :]
        if payoffs.max() <= 0.0:
            return None
        enough = payoffs >= (1.0 - self.later) * payoffs.max()
        enough[: int(payoffs.argmax())] = False
        number = first.number + int(np.flatnonzero(enough)[-1])
        # An earlier promise leaves less freedom, but its plan keeps the later one, too.
        return Kept(number, promises.kept(bid, offer.first + number) or first.plan)

    def _refusal(
        self, bid: Bid, offer: Offer, first: Kept | None, promises: Promises
    ) -> tuple[Reason, str, CounterOffer | None]:
        """Return why a bid is rejected that the empty cluster could run, and the least value that is admitted."""
        worth = np.flatnonzero(offer.values > 0.0)
        if not len(worth):
            text = "It could run, but even at its earliest possible completion it is worth nothing."
            return Reason.WORTHLESS, text, None
        able = worth[:0] if first is None else worth[worth >= first.number]
        if first is None or not len(able):
            text = (
                "The empty cluster could run it, but not beside the jobs that were promised a completion, while "
                "finishing is worth anything."
            )
            return Reason.NO_ROOM, text, None
        with np.errstate(over="ignore"):  # next to nothing, late in a sigmoid: no value would be enough for that slot
            value = bid.utility.value * float((offer.costs[able] / offer.values[able]).min())
        text = "Every completion that can be promised costs at least what it is worth."
        if bid.utility.value < SMALLEST_MONEY or not value + 2 * CENT <= LARGEST_MONEY:
            return Reason.PRICE, text, None
        least = round(math.ceil(value / CENT) * CENT, 2)
        more = with_value(bid, least + CENT)
        then = self._promised(more, promises.offer(more, offer.first), first, promises)
        if then is None:
            return Reason.PRICE, text, None
        slot = offer.first + then.number
        offered, enough = f"{bid.utility.value:.2f}", f"{least + CENT:.2f}"
        text += f" It offered {offered}; {enough} would have been admitted, complete by slot {slot}."
        return Reason.PRICE, text, CounterOffer(least, then.plan.schedule(bid.id).start, slot)
