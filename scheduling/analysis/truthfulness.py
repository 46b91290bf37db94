"""Results of one bid if it had stated another value, or another time, on the same book."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Protocol, runtime_checkable

from scheduling.book.state import Book
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.model.utility import Inverse, Linear, PiecewiseLinear, Sigmoid, Step, Utility
from scheduling.policies.base import Grant, Granting, Objective, Policy
from scheduling.policies.posted_price import PostedPricePolicy

VALUE_FACTORS: Final = tuple(tenth / 10 for tenth in range(31))
"""0 to 3 times the truth, which is among them."""
TIME_FACTORS: Final = tuple(tenth / 10 for tenth in range(1, 31))


@runtime_checkable
class Ranking(Protocol):
    """A policy that knows which amplitudes give a job the same rank, and so the same plan."""

    def ranks(self, bid: Bid, factors: Sequence[float], book: Book) -> Sequence[Hashable] | None:
        """The rank of the bid with its amplitude times each factor; None if more than the rank decides."""


@dataclass(frozen=True)
class Misreport:
    """One statement and what it would have brought. Slots by number, money in the bid's own unit."""

    factor: float
    """The stated amplitude or time divided by the true one."""
    stated: float
    """The amplitude, money or weight; or the time of `time_of`, slots after arrival."""
    admitted: bool
    start: int | None
    completion: int | None
    """None when rejected, or admitted without a start yet."""
    payment: float
    value: float | None
    """True value of that completion; 0 if rejected, None if admitted without a completion yet."""
    payoff: float | None
    """value - payment: the true payoff of the statement."""


def stated_values(policy: Policy, bid: Bid, book: Book, factors: Sequence[float] = VALUE_FACTORS) -> list[Misreport]:
    """Decide a bid on one book with its amplitude times each factor, and judge each answer by the true utility.

    Parameters
    ----------
    policy
        Decides the bid with each factor, or with fewer factors if the other results follow from exactness.
    bid
        The true bid.
    book
        The book before the bid was decided; it does not change.
    factors
        Factors of the amplitude, 0 or more.

    Returns
    -------
    list of Misreport
        In the order of the factors.

    Notes
    -----
    Under a posted-price auction whose best response is exact, factor 1 has the largest payoff: a statement chooses
    among schedules whose prices it does not move, and the truth chooses the best of them (DPS, Theorem 4).
    """
    truth, granted = bid.utility, _grants(policy, book)

    def ask(factor: float) -> Grant | None:
        return granted(replace(bid, utility=truth.scaled(factor)))

    ranks = _ranks(policy, bid, factors, book)
    if ranks is not None:
        by_rank = {rank: ask(factor) for rank, factor in dict(zip(ranks, factors, strict=True)).items()}
        found = {factor: by_rank[rank] for factor, rank in zip(factors, ranks, strict=True)}
    elif isinstance(policy, PostedPricePolicy) and policy.exact:
        # What a schedule pays off is linear in the amplitude: one that is best at two amplitudes is best between them.
        found = _between(ask, sorted({*factors}))
    else:
        found = {factor: ask(factor) for factor in factors}
    return [_judged(found[factor], bid, factor=factor, stated=truth.value * factor) for factor in factors]


def stated_times(policy: Policy, bid: Bid, book: Book, factors: Sequence[float] = TIME_FACTORS) -> list[Misreport]:
    """Decide a bid on one book with its time (`time_of`) times each factor, above 0.

    The result is empty if the bid's value does not depend on time.

    A factor whose time would be too large for a bid is left out.
    """
    granted, utilities = _grants(policy, book), dict(_stretches(bid.utility, factors))

    def ask(factor: float) -> Grant | None:
        return granted(replace(bid, utility=utilities[factor]))

    # A schedule that is best by a late deadline, and keeps an early one, is best by all between.
    exact = isinstance(bid.utility, Step) and isinstance(policy, PostedPricePolicy) and policy.exact
    found = _between(ask, sorted(utilities)) if exact else {factor: ask(factor) for factor in utilities}
    return [
        _judged(found[factor], bid, factor=factor, stated=time_of(stated) or 0.0)
        for factor, stated in utilities.items()
    ]


def time_of(utility: Utility) -> float | None:
    """The time a utility states, slots after arrival: its deadline, when it has no value any more, its midpoint,
    or its last point. None if it states none."""
    match utility:
        case Step():
            return utility.deadline
        case Linear():
            return utility.c / utility.b if utility.b > 0 else None
        case Inverse():
            return utility.T
        case Sigmoid():
            return utility.g3 if utility.g3 > 0 else None
        case PiecewiseLinear():
            last = utility.points[-1][0]
            return last if last > 0 else None
    return None


def stretched(utility: Utility, factor: float) -> Utility:
    """The same amplitude with the time of `time_of` times `factor`, above 0; raises InvalidField if that is too late.

    A sigmoid's midpoint moves, it does not become flatter; the shape between other points is stretched.
    """
    match utility:
        case Step():
            return replace(utility, deadline=utility.deadline * factor)
        case Linear():
            return replace(utility, b=utility.b / factor)
        case Inverse():
            return replace(utility, T=utility.T * factor)
        case Sigmoid():
            return replace(utility, g3=utility.g3 * factor)
        case PiecewiseLinear():
            return replace(utility, points=tuple((elapsed * factor, share) for elapsed, share in utility.points))
    return utility


def _stretches(utility: Utility, factors: Sequence[float]) -> Iterator[tuple[float, Utility]]:
    if time_of(utility) is None:
        return
    for factor in factors:
        try:
            yield factor, stretched(utility, factor)
        except InvalidField:
            continue


def _grants(policy: Policy, book: Book) -> Callable[[Bid], Grant | None]:
    """Return a function from a bid to its grant on this book; None if the policy rejects the bid."""
    if isinstance(policy, Granting):
        return policy.grants(book)

    def granted(bid: Bid) -> Grant | None:
        decision = policy.decide(bid, book)
        return Grant(decision.schedule, decision.payment, decision.due) if decision.admitted else None

    return granted


def _ranks(policy: Policy, bid: Bid, factors: Sequence[float], book: Book) -> Sequence[Hashable] | None:
    if policy.objective is Objective.COMPLETION:  # weights are not used
        return [0] * len(factors)
    return policy.ranks(bid, factors, book) if isinstance(policy, Ranking) else None


def _between(ask: Callable[[float], Grant | None], factors: Sequence[float]) -> dict[float, Grant | None]:
    """Evaluate the first factor, the last one and the truth, and factors between two only if their results differ."""
    found = {factor: ask(factor) for factor in {*factors[:1], *factors[-1:], 1.0} & {*factors}}

    def fill(low: int, high: int) -> None:
        if found[factors[low]] == found[factors[high]]:
            found.update((factor, found[factors[low]]) for factor in factors[low + 1 : high])
        elif high - low > 1:
            middle = (low + high) // 2
            found[factors[middle]] = ask(factors[middle])
            fill(low, middle)
            fill(middle, high)

    known = [i for i, factor in enumerate(factors) if factor in found]
    for low, high in pairwise(known):
        fill(low, high)
    return found


def _judged(found: Grant | None, bid: Bid, *, factor: float, stated: float) -> Misreport:
    """Return the result of a grant by the bid's true utility; a promised slot counts, not the present plan."""
    schedule, payment = (None, 0.0) if found is None else (found.schedule, found.payment)
    value: float | None = 0.0
    completion = None if schedule is None else schedule.completion
    if found is not None and found.due is not None:
        completion = found.due
    if found is not None:
        value = None if completion is None else bid.utility.at(completion - bid.arrival)
    return Misreport(
        factor=factor,
        stated=stated,
        admitted=found is not None,
        start=None if schedule is None else schedule.start,
        completion=completion,
        payment=payment,
        value=value,
        payoff=None if value is None else value - payment,
    )
