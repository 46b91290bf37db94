"""Standing bids: rejected bids that are decided again later, at the prices posted then.

Pure functions that a live market, a replay and a simulation share: which bids stand, until when, whose turn it is, and
what a try gives. `docs/algorithms/standing-bids.md` says what a sequence of tries does to truthfulness.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, Self, runtime_checkable

from scheduling.book.state import Book
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision, Reason
from scheduling.model.errors import InvalidField
from scheduling.model.parameters import check_parameters, parameter, parameters_to_json
from scheduling.model.types import Json
from scheduling.policies.base import Admitting, Policy

Admissions = Callable[[Bid], Decision | None]
"""A function from a bid to its admission on one book; None for a rejection."""
COMPETITORS: Final = 200
"""Largest number of bids that compete; `competing` says which ones, where more stand."""


@dataclass(frozen=True)
class StandingRule:
    """The slots in which standing bids are tried again, and how many of them.

    Examples
    --------
    >>> from scheduling.policies.standing import StandingRule
    >>> [slot for slot in range(10) if StandingRule(every=4).is_turn(slot)]
    [0, 4, 8]
    """

    every: int = parameter(4, "Number of slots from one turn of standing bids to the next.", low=1, high=100_000)
    each: int = parameter(
        8, "Largest number of standing bids of one owner that are tried in one turn.", low=1, high=100_000
    )
    most: int = parameter(
        1000, "Largest number of standing bids of all owners that are tried in one turn.", low=1, high=100_000
    )
    per_age: int = parameter(
        16,
        "A bid is tried again once 1 / per_age of the time since its arrival has passed since its last try: the longer "
        "it stands, the less often it is tried. 0: it is tried in every turn.",
        low=0,
        high=100_000,
    )
    at_ends: bool = parameter(
        False,
        "Whether standing bids have a turn, too, at the beginning of each slot in which a job ended.",
        absent=False,
    )
    longest: float = parameter(
        2.0, "Longest time that a bid stands after its arrival, in horizons.", low=0.0, high=1000.0
    )

    def __post_init__(self) -> None:
        check_parameters(self)
        if self.per_age == 1:
            raise InvalidField("per_age", "expected 0 or at least 2, got 1: no bid would be tried twice")

    @classmethod
    def from_json(cls, recorded: Json) -> Self:
        """Return the rule that a turn recorded; before `each` or `per_age` was a parameter, there was no such limit."""
        return cls(**{"each": recorded["most"], "per_age": 0, **recorded})

    def is_turn(self, now: int, *, ended: bool = False) -> bool:
        """Return whether standing bids have a turn at the beginning of slot `now`; `ended` if a job has just ended."""
        return now % self.every == 0 or (self.at_ends and ended)

    def next_turn(self, now: int) -> int:
        """Return the first slot after `now` at whose beginning standing bids have a turn."""
        return (now // self.every + 1) * self.every

    def next_try(self, *, arrival: int, tried: int) -> int:
        """Return the first turn after slot `tried` in which a bid may be tried that arrived in slot `arrival` and was
        last decided in slot `tried`.

        Examples
        --------
        >>> from scheduling.policies.standing import StandingRule
        >>> rule = StandingRule(every=4, per_age=16)
        >>> [rule.next_try(arrival=0, tried=tried) for tried in (0, 4, 60, 64, 600)]
        [4, 8, 64, 72, 640]
        """
        return self.next_turn(self._able_from(arrival, tried) - 1)

    @property
    def least_stand(self) -> int:
        """Slots after the arrival from which on every bid may be tried again: one if that follows the end of a job."""
        return 1 if self.at_ends else self.every

    def soonest_try(self, *, arrival: int, tried: int) -> int:
        """Return the first slot in which a bid may be tried that was last decided in slot `tried`: if a job ends in
        time, before the next turn.
        """
        return self._able_from(arrival, tried) if self.at_ends else self.next_try(arrival=arrival, tried=tried)

    def is_able(self, *, arrival: int, tried: int, now: int) -> bool:
        """Return whether a bid that arrived and was last decided in these slots may be tried in slot `now`."""
        return now >= self._able_from(arrival, tried)

    def _able_from(self, arrival: int, tried: int) -> int:
        """Return the first slot s with s - tried >= (s - arrival) / per_age, after `tried`."""
        waits = -(-(tried - arrival) // (self.per_age - 1)) if self.per_age else 0
        return tried + max(1, waits)

    def until(self, bid: Bid, *, horizon: int, wanted: int | None = None) -> int:
        """Return the last slot in which the bid is tried.

        `horizon` is that of the market, in slots. `wanted` is the slot that the bidder chose; None: as long as the rule
        allows.
        """
        last = bid.arrival + int(self.longest * horizon)
        return last if wanted is None else min(last, wanted)

    def to_json(self) -> Json:
        """Return every parameter by name, as plain JSON values; `at_ends` only if it is set, as in older records."""
        values = parameters_to_json(self)
        return values if self.at_ends else {name: value for name, value in values.items() if name != "at_ends"}


def rule_for(policy: Policy | type[Policy]) -> StandingRule:
    """Return the rule by which bids stand under a policy.

    Where bids compete, all of them have a turn whenever machines are freed, and they stand for longer: a try takes
    little time for a bid that does not start.
    """
    return StandingRule(every=16, per_age=0, at_ends=True, longest=10.0) if policy.competes else StandingRule()


@dataclass(frozen=True)
class StandingBid:
    """A rejected bid that is tried again."""

    number: int
    """Its place in the order of arrival; a bid that was submitted later has a larger number."""
    bid: Bid
    """The bid with its first arrival, from which the time to its completion is counted."""
    tried: int
    """The slot in which it was last decided."""
    until: int
    """The last slot in which it is tried."""
    owner: int
    """Key of its owner."""

    def tried_in(self, slot: int) -> "StandingBid":
        """Return the bid after a try in this slot."""
        return StandingBid(self.number, self.bid, slot, self.until, self.owner)

    def ended(self, now: int) -> bool:
        """Return whether it stands no longer in slot `now`: its last slot has passed, or finishing in `now` would be
        worth nothing."""
        return self.until < now or self.bid.utility.at(now + 1 - self.bid.arrival) <= 0.0


def stands(decision: Decision) -> bool:
    """Return whether a bid with this decision may stand: it was rejected for its price or for lack of room.

    A job that no empty cluster can complete in time, or that is worth nothing by then, gains nothing by waiting.
    """
    return decision.reason in (Reason.PRICE, Reason.NO_ROOM)


def turns(standing: Iterable[StandingBid], now: int, rule: StandingRule, *, ended: bool = False) -> list[StandingBid]:
    """Return the bids to try at the beginning of slot `now`, in order; none if standing bids have no turn then.

    `ended` says whether a job has just ended.

    Those tried longest ago come first, and of these the one that arrived first. So the order depends on nothing that a
    bidder states. Each owner has a number of tries of its own, so bids of others take no turn from an owner, and how
    often a bid is tried does not depend on them. Bids that have ended, or were decided in this slot, are left out.

    Examples
    --------
    >>> from scheduling.model.example import job
    >>> from scheduling.policies.standing import StandingBid, StandingRule, turns
    >>> waiting = [StandingBid(n, job(), tried=tried, until=9, owner=7) for n, tried in enumerate([4, 0, 4, 0])]
    >>> other = StandingBid(4, job(), tried=4, until=9, owner=8)
    >>> [one.number for one in turns([*waiting, other], 8, StandingRule(every=4, each=3))]
    [1, 3, 0, 4]
    >>> turns(waiting, 7, StandingRule(every=4))
    []
    """
    if not rule.is_turn(now, ended=ended):
        return []
    able = (
        one
        for one in standing
        if rule.is_able(arrival=one.bid.arrival, tried=one.tried, now=now) and not one.ended(now)
    )
    taken: Counter[int] = Counter()
    chosen = []
    for one in sorted(able, key=lambda one: (one.tried, one.number)):
        if taken[one.owner] < rule.each:
            taken[one.owner] += 1
            chosen.append(one)
    return chosen[: rule.most]


def competing(owners: Mapping[int, int], *, most: int = COMPETITORS) -> list[int]:
    """Return which bids compete, in order: of each owner the latest one, then of each the one before it, and so on.

    `owners` are the owners of all bids that stand, by the bids' numbers. So the many bids of one owner leave those of
    others their places.

    Examples
    --------
    >>> from scheduling.policies.standing import competing
    >>> competing({1: 7, 2: 8, 3: 8, 4: 8, 5: 8}, most=3)
    [1, 4, 5]
    """
    if len(owners) <= most:
        return sorted(owners)
    seen: Counter[int] = Counter()
    places = []
    for number in sorted(owners, reverse=True):
        places.append((seen[owners[number]], -number))
        seen[owners[number]] += 1
    return sorted(-number for _, number in sorted(places)[:most])


@runtime_checkable
class Lasting(Protocol):
    """Admissions that use after an admission what they found before it."""

    def after(self, book: Book) -> Admissions:
        """Return the admissions that follow on this book."""


def admissions_of(policy: Policy, book: Book, before: Admissions | None = None) -> Admissions:
    """Return a function from a bid to its admission on this book, as `policy.decide` gives it; None for a rejection.

    If the policy can find admissions alone, a rejection needs a single best response at most, and no counter-offer.
    `before` are those of the same turn before the last admission.
    """
    if isinstance(before, Lasting):
        return before.after(book)
    if isinstance(policy, Admitting):
        return policy.admissions(book)

    def admitted(bid: Bid) -> Decision | None:
        decision = policy.decide(bid, book)
        return decision if decision.admitted else None

    return admitted


@dataclass
class Tries:
    """Tries of standing bids on one book, one after another.

    A rejection changes nothing, so what the policy has found out about the book holds for the next bid, too.
    """

    policy: Policy
    view: Callable[[], Book]
    """Returns the book as it is."""
    _admissions: Admissions | None = field(default=None, init=False)
    _changed: bool = field(default=False, init=False)

    def admission(self, bid: Bid) -> Decision | None:
        """Return the admission of a bid on the book as it is; None if the policy rejects the bid."""
        if self._admissions is None or self._changed:
            self._admissions = admissions_of(self.policy, self.view(), self._admissions)
            self._changed = False
        return self._admissions(bid)

    def after(self, *, admitted: bool) -> None:
        """Note that the book changed.

        If a bid was `admitted`, the policy goes on from what it has found out; otherwise it looks at the whole book
        again.
        """
        self._changed = True
        if not admitted:
            self._admissions = None


def with_first_offer(admission: Decision, first: Decision) -> Decision:
    """Return the receipt of a standing bid's admission with the offer of its first decision.

    What a bid offers for an empty cluster is counted once, when it arrives. So density and standalone value stay those
    of `first`, from which prices learned and which bounds use; the standalone value rises if more is possible by now.
    """
    most = max(first.standalone_value, admission.standalone_value)
    return replace(admission, density=first.density, offer_factors=first.offer_factors, standalone_value=most)
