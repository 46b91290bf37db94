"""The parameters of price rules that learn from past bids, shared by every auction that has them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

from scheduling.book.state import HISTORY, Book
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision
from scheduling.model.errors import InvalidField
from scheduling.model.parameters import parameter
from scheduling.model.types import Floats
from scheduling.policies.posted_price import PostedPricePolicy
from scheduling.pricing.fluid import FluidRule
from scheduling.pricing.pooling import NO_LIMIT, Learning
from scheduling.pricing.quantile import QuantileRule


@dataclass(frozen=True)
class LearnedPricePolicy(PostedPricePolicy):
    """Parameters of an auction whose prices may learn; docs/algorithms/prices.md explains their defaults.

    A subclass gives its own defaults with `with_default` and chooses among the rules in `price_rule`.
    """

    price: str = parameter(
        "quantile",
        "quantile: a reserve price from quantiles of past bids; fluid: the value of the last unit-slot if recent bids "
        "could be admitted in part; paper: the formula of the policy's paper.",
        choices=("quantile", "fluid", "paper"),
    )
    reserve_quantile: float = parameter(
        0.5,
        "Quantile prices: quantile of past values per unit-slot from which the reserve price is taken.",
        low=0.0,
        high=1.0,
    )
    worker_reserve_factor: float = parameter(
        1.0,
        "Quantile prices: factor on that quantile for what workers take, once the near horizon is sold out.",
        low=1e-6,
        high=100.0,
    )
    ps_reserve_factor: float = parameter(
        1.0, "Quantile prices: the same factor for what parameter servers take.", low=1e-6, high=100.0
    )
    full_quantile: float = parameter(
        0.95,
        "Quantile prices: quantile of past values per unit-slot that is the price of a full server.",
        low=0.0,
        high=1.0,
    )
    target_utilisation: float = parameter(
        0.7,
        "Fluid prices: share of all capacity that jobs will use, as no job can be admitted in part.",
        low=0.01,
        high=1.0,
    )
    refit_every: int = parameter(
        8,
        "Prices from past bids: number of bids after which their parameters are computed again.",
        low=1,
        high=HISTORY // 2,
    )
    initial_low: float = parameter(
        1e-6,
        "Price of an idle resource until bids of four owners were decided, money per slot (DPS with quantile prices: "
        "of one unit; else of all units together).",
        low=1e-9,
        high=1e9,
    )
    initial_high: float = parameter(1e-3, "The same for a resource in full use, money per slot.", low=1e-9, high=1e9)

    offer_limit: float = parameter(
        4.0,
        "Prices from past bids: what a bid offers counts for at most this many times what recent bids offered, and for "
        "at least what they offered divided by it, in the mean over resources; so do differences between resources. "
        "So extreme values of one bidder move prices little. 1e30: no limit.",
        low=2.0,
        high=NO_LIMIT,
        absent=NO_LIMIT,
    )
    near_share: float = parameter(
        0.25,
        "Prices from past bids: share of the horizon in which an idle slot is cheaper, the nearer the cheaper, since "
        "what is not sold by then is lost.",
        low=0.0,
        high=1.0,
        absent=0.0,
    )
    sooner: float = parameter(
        3e-5,
        "Prices from past bids: what each slot ahead adds to the price of a unit-slot, as a share of the reserve "
        "quantile (quantile) or the median (fluid) of past values per unit-slot, so that of equal slots the sooner one "
        "is bought.",
        low=0.0,
        high=1.0,
        absent=0.0,
    )

    def misfits(self) -> Iterator[InvalidField]:
        """Yield an error for each upper end of a range that is below the lower end."""
        if self.initial_high < self.initial_low:
            yield InvalidField(
                "initial_high", f"expected at least initial_low = {self.initial_low:g}, got {self.initial_high:g}"
            )
        if self.full_quantile < self.reserve_quantile:
            yield InvalidField(
                "full_quantile",
                f"expected at least reserve_quantile = {self.reserve_quantile:g}, got {self.full_quantile:g}",
            )

    def decide(self, bid: Bid, book: Book) -> Decision:
        """Decide as `PostedPricePolicy` does, and limit what prices learn from the bid."""
        return self.limited(super().decide(bid, book), book)

    def admissions(self, book: Book) -> Callable[[Bid], Decision | None]:
        """Return a function from a bid to its admission on this book, as `decide` gives it; None if it is rejected."""
        admitted = super().admissions(book)

        def limited(bid: Bid) -> Decision | None:
            decision = admitted(bid)
            return None if decision is None else self.limited(decision, book)

        return limited

    def limited(self, decision: Decision, book: Book) -> Decision:
        """Return the decision on a bid with the factors by which prices count its offer; `book` is that before it."""
        return replace(decision, offer_factors=self.learning.factors(decision.density, book))

    @property
    def rise_ahead(self) -> float:
        """Share of a usual offer that each slot ahead adds to a price: `sooner`, but for the formula of a paper."""
        return 0.0 if self.price == "paper" else self.sooner

    @property
    def learning(self) -> Learning:
        """The pools of past bids, and their limit."""
        return Learning(self.refit_every, self.offer_limit)

    def quantile_rule(self, scarcity: Callable[[Book], Floats], *, initial_for_all: bool) -> QuantileRule:
        """Return the rule of quantile prices with these parameters; the arguments are fields of `QuantileRule`."""
        return QuantileRule(
            reserve_quantile=self.reserve_quantile,
            full_quantile=self.full_quantile,
            worker_reserve_factor=self.worker_reserve_factor,
            ps_reserve_factor=self.ps_reserve_factor,
            learning=self.learning,
            initial_low=self.initial_low,
            initial_high=self.initial_high,
            scarcity=scarcity,
            initial_for_all=initial_for_all,
            near_share=self.near_share,
            sooner=self.sooner,
        )

    def fluid_rule(self, further_share: Callable[[Book], float] | None = None) -> FluidRule:
        """Return the rule of fluid prices with these parameters; the argument is a field of `FluidRule`."""
        return FluidRule(
            target_utilisation=self.target_utilisation,
            learning=self.learning,
            initial_low=self.initial_low,
            initial_high=self.initial_high,
            near_share=self.near_share,
            sooner=self.sooner,
            further_share=further_share,
        )


def with_default(name: str, default: Any) -> Any:
    """Declare a parameter of `LearnedPricePolicy` again with another default, the same text and the same limits."""
    (known,) = (one for one in fields(LearnedPricePolicy) if one.name == name)
    return field(default=default, metadata=known.metadata)
