"""Standing bids: rejected bids that are tried again when slots begin, until they are admitted or end.

A bid stands if its owner chose so (`standing` in its body), a policy with posted prices rejected it for its price or
for lack of room, and it may still be tried. `auctions.engine.slots.caught_up` gives standing bids their turn in the
transaction in which slots pass: `rule_for` says how often, and how many of them. A failed try only writes the slot
of the try. An admission is an event with a receipt, like that of any bid. Bids that end are named in the event of
the slot and have no event of their own, so that the number of events does not show others when a bid becomes worthless.

The functions that decide take a book and no rows, so that replays and counterfactuals use the same ones.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

from django.db.models import F, QuerySet, Value, Window
from django.db.models.functions import RowNumber

from auctions.domain import transitions
from auctions.domain.inventory_snapshot import InventorySnapshot, snapshots_at
from auctions.domain.lock import MarketTime
from auctions.domain.policy_errors import PolicyFailed
from auctions.engine import competitors, outcomes, team_credits
from auctions.engine.decide import Made, TriedBook, decide_again, unpayable
from auctions.engine.team_credits import TeamCredits
from auctions.models import Bid, BidState, DecisionRecord, Event, Market
from auctions.state.book import LiveBook
from auctions.state.history import realigned
from cluster.database.prepared import Prepared
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, Reason, canonical, parse
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.policies.posted_price import PostedPricePolicy
from scheduling.policies.standing import StandingBid, StandingRule, rule_for, stands, turns

ENDED_AT_ONCE: Final = 200
"""Largest number of standing bids that end when a slot begins; others end when later slots begin."""


@dataclass(frozen=True)
class Candidate:
    """A bid that stands, in the positions of the inventory in force."""

    standing: StandingBid
    first: Decision
    """The rejection after which it stands."""
    owner: int
    """Key of its owner."""


@dataclass(frozen=True)
class Try:
    """One try of a standing bid. An admission is in the book already, but not yet in the rows."""

    candidate: Candidate
    made: Made | None
    """The admission; None if the bid was rejected again."""
    failed: PolicyFailed | None = None
    """Error of the policy, if it failed on this bid."""

    @property
    def sequence(self) -> int:
        """The bid's sequence number."""
        return self.candidate.standing.number


@dataclass(frozen=True)
class Turn:
    """The tries and ends of standing bids when slots begin."""

    rule: StandingRule
    tries: Sequence[Try] = ()
    """In order."""
    ended: Sequence[tuple[int, Decision]] = ()
    """Sequence numbers of the bids that stand no longer, with their final rejections."""
    credits: Mapping[int, int] = field(default_factory=dict)
    """Millionths of a credit that the teams of tried bids had left then, by sequence number; only of those limited."""

    def payload(self) -> Json:
        """Return what the event of the slot records of it; empty if nothing happened."""
        if not self.tries and not self.ended:
            return {}
        failed = [one.sequence for one in self.tries if one.failed]
        return {
            "standing": {
                "rule": self.rule.to_json(),
                "tried": [one.sequence for one in self.tries],
                "ended": [number for number, _ in self.ended],
                **({"failed": failed} if failed else {}),
                **({"credits": {str(number): left for number, left in self.credits.items()}} if self.credits else {}),
            }
        }


def posts_prices(policy: Policy) -> bool:
    """Return whether rejected bids may stand under a policy: it rejects them for posted prices, which may fall."""
    return isinstance(policy, PostedPricePolicy)


def last_slot(
    request: Json, core: CoreBid, book: LiveBook, decision: Decision, rule: StandingRule, left: int | None
) -> int | None:
    """Return the last slot in which a bid is tried again after this decision; None if the decision is final.

    `request` is the bid's resolved request, and `left` is what its team may spend, millionths of a credit; None without
    a limit. A bid does not stand if it would have no turn before it ends, or if it would compete for what its team
    could not pay.
    """
    if not request.get("standing") or not posts_prices(book.policy) or not stands(decision):
        return None
    if unpayable(core, decision, book.policy, left):
        return None
    now, snapshot = book.running.now, book.snapshot
    stated = request.get("standing_until_s")
    wanted = None if stated is None else core.arrival + int(stated // snapshot.slot_seconds)
    until = rule.until(core, horizon=snapshot.horizon, wanted=wanted)
    # Its end does not depend on its owner.
    one = StandingBid(number=int(core.id), bid=core, tried=now, until=until, owner=0)
    # Utilities never rise, so there is a first slot in which it has ended.
    last = now - 1 + bisect_left(range(now, max(until, now) + 1), True, key=one.ended)
    return last if last >= rule.soonest_try(arrival=core.arrival, tried=now) else None


def is_due(rule: StandingRule, *, before: int, now: int, ended: bool) -> bool:
    """Return whether standing bids have a turn when the first slot on sale becomes `now`; it was `before`.

    `ended` says whether a job ended in these slots, so that the policy planned for `Cause.ENDED`. If slots were
    skipped, because no worker ran, standing bids have one turn for all of them.
    """
    return before < now and (rule.next_turn(before) <= now or (rule.at_ends and ended))


def in_turn(standing: Iterable[StandingBid], now: int, rule: StandingRule) -> list[StandingBid]:
    """Return the standing bids to try in a turn that is due, in order."""
    return turns(standing, now, replace(rule, every=1))


def credits_of(turn: Json) -> dict[int, int]:
    """Return what the record of a turn says that teams had left, by the sequence numbers of the tried bids."""
    return {int(number): left for number, left in turn.get("credits", {}).items()}


def try_bid(tried: TriedBook, candidate: Candidate, left: int | None = None) -> Try:
    """Try a standing bid, and apply an admission to the book; `left` is what its team may spend."""
    try:
        made = decide_again(tried, candidate.standing, candidate.first, owner=candidate.owner, left=left)
    except PolicyFailed as failed:
        # A copy, without caches that the policy may have left on the ledger.
        tried.book.running = tried.book.running.copy()
        tried.without(candidate.standing.bid)
        return Try(candidate, None, failed)
    return Try(candidate, made)


def final_rejection(candidate: Candidate, book: LiveBook) -> Decision:
    """Return the rejection of a bid that stands no longer."""
    one, first = candidate.standing, candidate.first
    now, last = book.running.now, one.until
    if last >= now:
        reason = Reason.REFUSED
        ending = f"{book.policy.title} posts no prices, so no bid stands under it."
    elif one.bid.utility.at(last + 2 - one.bid.arrival) <= 0:
        reason, ending = Reason.WORTHLESS, "Finishing later would be worth nothing."
    else:
        reason, ending = Reason.EXPIRED, "It was to be tried no longer."
    return Decision.reject(
        one.bid.id,
        reason,
        f"It stood from slot {first.slot} to slot {min(last, now)} and was not admitted. {ending}",
        slot=now,
        density=(0.0,) * len(book.snapshot.inventory.resources),
        standalone_value=first.standalone_value,
    )


_STANDING: Final = Bid.objects.filter(state=BidState.STANDING).select_related("first_decision")
_FIRST_TO_END = Prepared(
    lambda market: _STANDING.filter(market=market).order_by("stands_until", "sequence")[:ENDED_AT_ONCE], int
)
_OVER = Prepared(
    lambda market, now: _STANDING.filter(market=market, stands_until__lt=now).order_by("stands_until", "sequence")[
        :ENDED_AT_ONCE
    ],
    int,
    int,
)


@dataclass(frozen=True)
class TurnTaken:
    """A turn, with what `write` needs."""

    turn: Turn
    bids: dict[int, Bid] = field(default_factory=dict)
    """Rows of the bids that were tried or ended, by sequence number."""
    credits: TeamCredits = field(default_factory=TeamCredits)


def take_turn(
    market: Market, book: LiveBook, moment: MarketTime, *, before: int, ended: bool, teams: Iterable[int | None]
) -> TurnTaken:
    """End standing bids, and try those whose turn it is, when slots have begun.

    `before` is the first slot on sale before, and `ended` says whether a job ended since. Admissions are in the book
    afterwards; `write` writes the rows. `teams` are those whose budgets the same transaction locks later.
    """
    posted, rule, now = posts_prices(book.policy), rule_for(book.policy), moment.now
    ending = _OVER(market.pk, now) if posted else _FIRST_TO_END(market.pk)
    trying: list[Bid] = []
    if posted and is_due(rule, before=before, now=now, ended=ended):
        trying = _next(rule)(market.pk, now)
    bids = {bid.sequence: bid for bid in (*ending, *trying)}
    if not bids:
        return TurnTaken(Turn(rule))
    found = _candidates(market, book, bids)
    over_now = [(bid.sequence, final_rejection(found[bid.sequence], book)) for bid in ending]
    order = in_turn((found[bid.sequence].standing for bid in trying), moment.now, rule)
    credits = team_credits.locked([*teams, *(bids[one.number].team_id for one in order)], moment)
    tries, seen, tried = [], {}, TriedBook(book)
    if order:
        competitors.let_compete(market, book)
    for one in order:
        team = bids[one.number].team_id
        left = credits.left(team)
        if left is not None:
            seen[one.number] = left
        tries.append(try_bid(tried, found[one.number], left))
        if tries[-1].made is not None:
            credits.take(team, tries[-1].made.decision.payment)
    book.competitors = ()
    return TurnTaken(Turn(rule, tries, over_now, seen), bids, credits)


@cache
def _next(rule: StandingRule) -> Prepared[Bid]:
    """Return the query for the bids of a market whose turn it is in a slot.

    These are the first few of each owner that `rule.is_able` allows to be tried, and of these the first few.
    """
    place = Window(RowNumber(), partition_by="owner", order_by=("tried_slot", "sequence"))

    def rows(market: int, now: int) -> QuerySet[Bid]:
        able = _STANDING.filter(market=market, stands_until__gte=now, tried_slot__lt=now)
        if rule.per_age:
            aged = rule.per_age * F("tried_slot") - (rule.per_age - 1) * Value(now)
            able = able.filter(arrival_slot__gte=aged)
        mine = able.annotate(place=place).filter(place__lte=rule.each)
        return mine.order_by("tried_slot", "sequence")[: rule.most]

    return Prepared(rows, int, int)


def write(market: Market, taken: TurnTaken, book: LiveBook, moment: MarketTime, *, event: Event) -> None:
    """Write a turn's rows after the event of the slot, under the market's lock."""
    turn, bids = taken.turn, taken.bids
    transitions.tried([bids[one.sequence] for one in turn.tries], slot=moment.now)
    transitions.end([bids[number] for number, _ in turn.ended])
    DecisionRecord.objects.bulk_create(
        _final_record(bids[number], decision, book, moment, event) for number, decision in turn.ended
    )
    for one in turn.tries:
        bid = bids[one.sequence]
        if one.failed is not None:
            outcomes.quarantine(market, bid, book, moment, one.failed)
        elif one.made is not None:
            made = outcomes.Outcomes(market, book, moment, taken.credits)
            made.add(bid, one.made, stood_from=one.candidate.first.slot)
            made.write()


def first_offer(first: Decision, *, old: InventorySnapshot, new: InventorySnapshot) -> Decision:
    """Return a first decision with its densities, and their factors, in the order of the resources of `new`."""
    (density,) = realigned([first.density], old=old, new=new)
    factors = realigned([first.offer_factors] if first.offer_factors else [], old=old, new=new)
    return replace(first, density=density, offer_factors=tuple(one or 1.0 for row in factors for one in row))


def _candidates(market: Market, book: LiveBook, bids: dict[int, Bid]) -> dict[int, Candidate]:
    firsts = {number: bid.first_decision for number, bid in bids.items()}
    old = snapshots_at(market.pk, {first.inventory_version for first in firsts.values()} - {market.inventory_version})
    found = {}
    for number, bid in bids.items():
        first = Decision.from_json(parse(firsts[number].receipt))
        if firsts[number].inventory_version in old:
            first = first_offer(first, old=old[firsts[number].inventory_version], new=book.snapshot)
        core = outcomes.current_core(market, bid, book)
        if bid.tried_slot is None or bid.stands_until is None:
            raise ValueError(f"bid {number} is standing, yet it has no turn")
        one = StandingBid(number, core, tried=bid.tried_slot, until=bid.stands_until, owner=bid.owner_id)
        found[number] = Candidate(one, first, bid.owner_id)
    return found


def _final_record(bid: Bid, decision: Decision, book: LiveBook, moment: MarketTime, event: Event) -> DecisionRecord:
    return DecisionRecord(
        bid=bid,
        policy_id=book.policy_id,
        ledger_version=event.version,
        version=event.version,
        inventory_version=bid.inventory_version,
        slot=moment.now,
        decided_at=moment.wall,
        decided_s=moment.seconds,
        latency_ms=0.0,
        standalone_value=decision.standalone_value,
        receipt=canonical(decision.to_json()),
        stood_from=bid.first_decision.slot,
    )
