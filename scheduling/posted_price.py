"""Posted prices x best response: the one mechanism behind every pricing policy.

A ledger holds what is promised, a price function turns it into prices, a kernel finds the bid's schedule of greatest
payoff, and the bid is admitted iff that payoff is above 0 (DPS, Algorithm 1; OASiS, Algorithm 1). Which kernel
answers is the policy's choice; admission, receipts and counter-offers are the same for all.
"""

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from scheduling.bid import Bid
from scheduling.decision import CounterOffer, Decision, Reason
from scheduling.fields import LARGEST_MONEY
from scheduling.ledger import Ledger
from scheduling.prices import PriceFunction
from scheduling.schedule import Schedule

CENT = 0.01
SMALLEST_MONEY = 1e-6
"""An amplitude below this cannot be scaled up to a counter-offer without leaving the range of doubles."""
ROUNDS = 60
"""Newton's method on the ratio of cost to shape needs about five; more means rounding, which the cents absorb."""


class Kernel(Protocol):
    """Best responses against one book at its posted prices."""

    def best(self, bid: Bid, *, above: float = 0.0, first_start: int | None = None) -> Schedule | None:
        """The schedule of greatest payoff, if that is more than `above`."""

    def best_on_empty(self, bid: Bid, *, above: float = 0.0) -> Schedule | None:
        """The same on the empty cluster at no price."""

    def best_for_free(self, bid: Bid) -> Schedule | None:
        """The schedule of greatest worth that fits what is free, if it is worth anything."""


@dataclass(frozen=True)
class Posted:
    """A ledger, its prices, and the kernel that answers against them."""

    ledger: Ledger
    prices: PriceFunction
    kernel: Kernel

    def cost(self, schedule: Schedule) -> float:
        """Posted price x allocation over all placements, money.

        Always computed from the placements themselves, never taken from a kernel's bounds or running sums: the
        same schedule against the same ledger costs the same to the last bit.
        """
        inventory, total = self.ledger.inventory, 0.0
        for p in schedule.placements:
            window = self.ledger.used[p.start - self.ledger.start : p.end - self.ledger.start, p.server]
            demand = np.array(p.machine(inventory).demand, dtype=np.float64)
            unit = self.prices.of(window, inventory.capacity[p.server]).sum(axis=0)
            total += p.count * math.fsum(unit * demand)
        return total


def worth(bid: Bid, schedule: Schedule) -> float:
    """What the bid's owner gets from completion as scheduled, money."""
    return bid.utility.at(schedule.completion - bid.arrival)


def with_value(bid: Bid, value: float) -> Bid:
    """The same bid with its amplitude at `value`."""
    return replace(bid, utility=bid.utility.scaled(value / bid.utility.value))


def profitable(bid: Bid, posted: Posted, *, first_start: int | None = None) -> Schedule | None:
    """The bid's best schedule, if its payoff is above 0."""
    schedule = posted.kernel.best(bid, first_start=first_start)
    if schedule is None or worth(bid, schedule) - posted.cost(schedule) <= 0:
        return None
    return schedule


def decide(bid: Bid, posted: Posted, *, density: tuple[float, ...]) -> Decision:
    """Admit the bid at its best schedule, or reject it with the least that would have been admitted."""
    on_empty = posted.kernel.best_on_empty(bid)
    ceiling = 0.0 if on_empty is None else worth(bid, on_empty)
    schedule = profitable(bid, posted) if on_empty is not None else None
    if schedule is None:
        return _reject(bid, posted, ceiling=ceiling, density=density)
    value, payment = worth(bid, schedule), posted.cost(schedule)
    wait = schedule.completion - bid.arrival
    return Decision(
        bid_id=bid.id,
        slot=posted.ledger.start,
        admitted=True,
        value=value,
        payment=payment,
        payoff=value - payment,
        schedule=schedule,
        reason=None,
        explanation=(
            f"Admitted: it starts in slot {schedule.start} and is complete at slot {schedule.completion}, "
            f"{_slots(wait)} after arrival. That is worth {value:.2f} and costs {payment:.2f} at the posted prices."
        ),
        counter=None,
        ceiling=ceiling,
        density=density,
        prices=posted.prices.to_json(),
    )


def _reject(bid: Bid, posted: Posted, *, ceiling: float, density: tuple[float, ...]) -> Decision:
    counter = counter_offer(bid, posted) if ceiling > 0 else None
    reason, explanation = _why(bid, posted, ceiling=ceiling, counter=counter)
    return Decision(
        bid_id=bid.id,
        slot=posted.ledger.start,
        admitted=False,
        value=0.0,
        payment=0.0,
        payoff=0.0,
        schedule=None,
        reason=reason,
        explanation=explanation,
        counter=counter,
        ceiling=ceiling,
        density=density,
        prices=posted.prices.to_json(),
    )


def _why(bid: Bid, posted: Posted, *, ceiling: float, counter: CounterOffer | None) -> tuple[Reason, str]:
    end = posted.ledger.end
    if counter is not None:
        return Reason.PRICE, (
            "Every schedule that fits costs at least what finishing then is worth. "
            f"It offered {bid.utility.value:.2f}; anything above {counter.least_value:.2f} would have been admitted, "
            f"starting in slot {counter.latest_start} at the latest."
        )
    if ceiling > 0:
        if posted.kernel.best_for_free(bid) is not None:
            return Reason.PRICE, (
                "Every schedule that fits costs more than finishing then is worth, whatever value is stated: it would "
                "complete so late that hardly any of the value is left."
            )
        return Reason.NO_ROOM, (
            f"The empty cluster could run it, but what is still free before slot {end} cannot, at any price, while "
            "finishing is worth anything."
        )
    if posted.kernel.best_on_empty(bid, above=-math.inf) is None:
        return Reason.IMPOSSIBLE, (
            f"Even the empty cluster could not complete it before slot {end}: its machines, its work and its upload "
            "delays do not fit."
        )
    return Reason.WORTHLESS, "It could run, but even at its earliest possible completion it is worth nothing."


def counter_offer(bid: Bid, posted: Posted) -> CounterOffer | None:
    """The least amplitude that would be admitted, and the last start still admitted at it; None if no amplitude would.

    Notes
    -----
    A schedule l pays for itself at amplitude v iff v x shape(l) > cost(l), so the least amplitude is the minimum of
    cost / shape. Dinkelbach's iteration finds it: answer at v, set v to the ratio of the answer, until nothing answers
    at v. The result is rounded up to whole cents and then *tried*: one cent more is admitted, one cent less is not.
    At that amplitude admission can only be lost by starting later, so the last start is found by bisection.
    """
    if bid.utility.value < SMALLEST_MONEY:
        return None
    value = LARGEST_MONEY
    for _ in range(ROUNDS):
        offer = with_value(bid, value)
        schedule = profitable(offer, posted)
        if schedule is None:
            break
        lower = value * (posted.cost(schedule) / worth(offer, schedule))
        if lower >= value * (1 - 1e-12):
            break
        value = lower
    # A value within rounding of a whole cent is that cent, else one cent less could be admitted too.
    slack = max(1e-6, value * 1e-11)
    least = round(math.ceil(value / CENT - slack) * CENT, 2)
    for _ in range(ROUNDS):
        if least + CENT > LARGEST_MONEY:
            return None
        offer = with_value(bid, least + CENT)
        schedule = profitable(offer, posted)
        if schedule is not None:
            return _latest(offer, posted, schedule, least=least)
        # Rounding, or a shape so near 0 that a cent of value is no gain.
        least = round(least + max(CENT, least * 1e-12), 2)
    return None


def _latest(offer: Bid, posted: Posted, schedule: Schedule, *, least: float) -> CounterOffer:
    low, high = schedule.start, posted.ledger.end
    while high - low > 1:
        middle = (low + high) // 2
        later = profitable(offer, posted, first_start=middle)
        if later is None:
            high = middle
        else:
            schedule, low = later, later.start
    return CounterOffer(least_value=least, latest_start=low, completion=schedule.completion)


def _slots(count: int) -> str:
    return "1 slot" if count == 1 else f"{count} slots"
