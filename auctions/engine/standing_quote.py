"""The tries of a bid that stands: the past ones, the next one, and the least value that would be admitted now."""

import logging
from dataclasses import dataclass

from auctions.domain.credits import limited
from auctions.domain.errors import NotReady
from auctions.domain.policy_errors import PolicyFailed, policy_errors
from auctions.engine import team_credits
from auctions.engine.decide import answer
from auctions.engine.standing import posts_prices
from auctions.kernels import warming
from auctions.models import Bid, BidState, FirstDecision
from auctions.state.book import core_in_force
from auctions.state.market_snapshot import market_snapshot, one_version
from scheduling.policies.posted_price import CENT
from scheduling.policies.standing import StandingRule, rule_for
from web.numbers import money

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StandingReading:
    """The tries of a bid that stands or stood. Slots by number, money."""

    since: int
    """Slot of the rejection after which it stood."""
    last_try: int | None
    """Slot in which it was last tried again; None if it was not."""
    next_try: int | None
    """Slot of its next regular turn; None if there is none before it ends."""
    least_value: float | None
    """Least value with which it would be admitted at the prices of now; None if it stands no longer, or if unknown."""
    explanation: str
    """All of this in words."""
    at_prices: str = ""
    """The sentence about the prices of now; empty if it stands no longer."""


def standing_of(bid: Bid) -> StandingReading | None:
    """Return how a bid stands or stood; None if it never did.

    The decision at the prices of now is one that a quote would give to the bid's owner. It binds nobody.
    """
    return None if bid.stands_until is None else _reading(bid)


@one_version()
def _reading(bid: Bid) -> StandingReading | None:
    first = FirstDecision.objects.filter(bid=bid).values_list("slot", flat=True).first()
    if first is None:
        return None
    last = bid.tried_slot if bid.tries else None
    times = f"{bid.tries} time{'' if bid.tries == 1 else 's'}" + ("" if last is None else f", last in slot {last}")
    if bid.state != BidState.STANDING or bid.stands_until is None or bid.tried_slot is None:
        words = f"It stood from slot {first} on and was tried again {times}."
        return StandingReading(first, last, None, None, words)
    seen = market_snapshot(bid.market)
    rule = rule_for(seen.book.policy)
    able = rule.next_try(arrival=bid.arrival_slot, tried=bid.tried_slot)
    upcoming = max(able, rule.next_turn(seen.moment.now - 1))
    following = upcoming if upcoming <= bid.stands_until else None
    next_words = _next_words(rule, following, until=bid.stands_until)
    least, at_prices = _at_prices(bid)
    words = f"It stands since slot {first} and was tried again {times}. {next_words} {at_prices}"
    return StandingReading(first, last, following, least, words, at_prices)


def _next_words(rule: StandingRule, following: int | None, *, until: int) -> str:
    if following is None:
        ends = f"It is tried again only if a job ends before, in slot {until} at the latest."
        return ends if rule.at_ends else "It will not be tried again."
    sooner = ", or earlier, in a slot in which a job has ended" if rule.at_ends else ""
    return f"It is tried next at the beginning of slot {following}{sooner}, and in slot {until} at the latest."


def _at_prices(bid: Bid) -> tuple[float | None, str]:
    """Return the least value that would be admitted now, None if there is none, and a sentence about it."""
    seen = market_snapshot(bid.market)
    try:
        warming.check_market(bid.market_id)
        if not posts_prices(seen.book.policy):
            return None, f"{seen.book.policy.title} posts no prices, so it ends when the next slot begins."
        if seen.book.policy.competes:
            return None, "It competes with the other bids that stand, and those are sealed."
        with policy_errors(), seen.book.trial() as book:
            found = answer(core_in_force(bid, seen.market, book.snapshot), book)
    except NotReady as error:
        return None, f"What would be admitted now is not known yet: {error}"
    except PolicyFailed as failed:
        log.error("the policy of market %s fails on bid %s, which stands", bid.market_id, bid.pk, exc_info=failed.error)
        return None, "What would be admitted now is not known: the policy of this market fails on this bid."
    decision = limited(found, team_credits.left_at(bid.team_id, seen.moment.wall))
    if decision.admitted:
        return None, f"At the prices of now it would be admitted and pay {money(decision.payment)}."
    if decision.counter is None:
        return None, f"At the prices of now no other value would be admitted. {decision.explanation}"
    least = round(decision.counter.least_value + CENT, 2)
    return least, f"At the prices of now a value of {money(least)} would be admitted."
