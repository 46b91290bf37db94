"""The results that a decided bid would have had with another value or time, at the same decision."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from typing import Final
from uuid import UUID

from auctions.counterfactual.record import Record
from auctions.domain.bid_conversion import core_bid
from auctions.domain.credits import millionths
from auctions.domain.errors import AuctionError, WrongState
from auctions.kernels import warming
from auctions.models import Bid, DecisionRecord, Event, FirstDecision, Market
from auctions.readings.computation_limits import COMPUTATIONS
from auctions.state.recent import Recent
from scheduling.analysis.truthfulness import VALUE_FACTORS, Misreport, stated_times, stated_values, time_of
from scheduling.model.bid import Bid as CoreBid
from scheduling.policies.base import Objective, Policy
from scheduling.policies.posted_price import PostedPricePolicy
from scheduling.registry import POLICIES

LONGEST_S: Final = 8.0
"""Time limit, seconds, for the replay up to the decision, if rows alone do not give the market's state then."""


SEALED: Final = "Under competition it would show what other bids that stand state."
"""The reason for which a bid that competed is not decided again with other statements."""


class TooLong(AuctionError):
    """Replaying the record up to the decision takes too long."""


@dataclass(frozen=True)
class Alternatives:
    """The results of one bid with other values, or other times, on the book it was decided against."""

    policy: Policy
    """The policy that decided it."""
    slot: int
    """The slot of the decision."""
    amplitude: float
    """The true value, which is that of the bid, money; or its weight."""
    time: float | None
    """The true time, slots after arrival (`scheduling.analysis.truthfulness.time_of`); None if the utility has none."""
    by_value: tuple[Misreport, ...]
    by_time: tuple[Misreport, ...]
    over_budget: bool = False
    """Whether some of the results would have been admitted if the team had had more credits left."""

    @property
    def truthful(self) -> bool:
        """Whether the policy guarantees that no other statement gives more than the true one.

        With a limit this is not so: a smaller value may be granted a schedule that the team can pay.
        """
        return isinstance(self.policy, PostedPricePolicy) and self.policy.exact and not self.over_budget


def deadline(seconds: float) -> Callable[[], None]:
    """Return a function to be called repeatedly; it raises TooLong once this many seconds have passed."""
    end = monotonic() + seconds

    def checkpoint() -> None:
        if monotonic() > end:
            raise TooLong(f"Replaying the record up to the decision takes more than {seconds:g} s.")

    return checkpoint


def alternatives_of(bid: Bid, *, caller: int, checkpoint: Callable[[], None] | None = None) -> Alternatives:
    """Ask the policy of that time again, on the book as it was before the decision.

    `caller` is the key of the requesting user, who has at most one such computation at a time. The result never
    changes, so recent results are kept and not computed again.

    Raises
    ------
    WrongState
        If the bid was not decided, or if it competed: the other bids that stood are sealed.
    TooLong
        If the replay up to the decision takes too long.
    NotReady
        While the server still compiles the algorithms, or is busy with other long computations.
    """
    decision = _decision(bid)
    if decision is None:
        raise WrongState(f"Bid {bid.sequence} is {bid.get_state_display().lower()}; only a decided bid has a moment.")
    version, policy = decision
    if POLICIES[policy].competes:
        raise WrongState(SEALED)
    decided = Market.objects.values_list("token", flat=True).get(pk=bid.market_id), version
    known = _results.get(decided)
    if known is not None:
        return known
    warming.check_market(bid.market_id)
    with COMPUTATIONS.turn(caller):
        found = _results.get(decided) or _computed(
            bid, version, checkpoint=deadline(LONGEST_S) if checkpoint is None else checkpoint
        )
    _results.store(decided, found)
    return found


def decided_at(bid: Bid) -> int | None:
    """Return the version of the event of a bid's decision; None if it is not decided.

    For a bid that stood and was not admitted this is its first decision: at its end no policy was asked.
    """
    row = _decision(bid)
    return None if row is None else row[0]


def competed(bid: Bid) -> bool:
    """Return whether the decision of `decided_at` was made in view of other bids that stood."""
    row = _decision(bid)
    return row is not None and POLICIES[row[1]].competes


def _decision(bid: Bid) -> tuple[int, str] | None:
    """Return the version of the decision's event and the name of its policy; None if the bid is not decided."""
    rows = DecisionRecord.objects.filter(bid=bid)
    row = rows.values_list("version", "policy__name", "stood_from", "bid__payment").first()
    if row is not None and (row[2] is None or row[3] is not None):
        return row[0], row[1]
    return FirstDecision.objects.filter(bid=bid).values_list("version", "policy__name").first()


_results: Recent[tuple[UUID, int], Alternatives] = Recent(64)
"""Results by the market's token and the version of the decision, of 40 kB each.

The charts of a page and its table request the same one.
"""


def _computed(bid: Bid, version: int, *, checkpoint: Callable[[], None]) -> Alternatives:
    market = Market.objects.get(pk=bid.market_id)
    replayed = Record.of(market).book_before(version, checkpoint=checkpoint)
    slot, payload = Event.objects.values_list("slot", "payload").get(market=market, version=version)
    book, left = replayed.at(slot), payload.get("credits")
    warming.check(book.policy)
    policy, view, core = book.policy, book.view(), CoreBid.from_json(bid.core_bid)
    if bid.stands_until is not None:  # the row has the positions of the inventory at its last try
        core = core_bid(bid.resolved_request, book.snapshot, bid_id=core.id, arrival=core.arrival)
    # Each weight plans the whole line again.
    factors = VALUE_FACTORS if policy.objective is Objective.WELFARE else VALUE_FACTORS[::2]
    by_value, by_time = stated_values(policy, core, view, factors), stated_times(policy, core, view)
    return Alternatives(
        policy=policy,
        slot=slot,
        amplitude=core.utility.value,
        time=time_of(core.utility),
        by_value=tuple(_limited(one, left) for one in by_value),
        by_time=tuple(_limited(one, left) for one in by_time),
        over_budget=any(_limited(one, left) is not one for one in (*by_value, *by_time)),
    )


def _limited(result: Misreport, left: int | None) -> Misreport:
    """Return a result, or the rejection if it costs more than the bid's team had left."""
    if left is None or millionths(result.payment) <= left:
        return result
    return replace(result, admitted=False, start=None, completion=None, payment=0.0, value=0.0, payoff=0.0)
