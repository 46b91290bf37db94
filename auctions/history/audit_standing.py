"""Checks of standing bids: their turns, how long they stand, and what their rows say of both."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from django.db.models import F

from auctions.engine.standing import ENDED_AT_ONCE
from auctions.models import Bid, DecisionRecord, Event, EventKind, Market
from scheduling.policies.posted_price import PostedPricePolicy
from scheduling.policies.standing import StandingRule
from scheduling.registry import POLICIES


@dataclass(frozen=True)
class _Stood:
    """Turns and end of a bid that stood, by the events so far."""

    number: int
    tried: int
    until: int
    tries: int = 0


class _Standing:
    """The bids that stand after the events so far, by sequence number."""

    def __init__(self, owners: Mapping[int, int]) -> None:
        self.owners = owners
        """Key of the owner of each bid."""
        self.known: dict[int, _Stood] = {}
        """All bids that ever stood."""
        self._now: dict[int, _Stood] = {}
        """Those that stand."""
        self._posts_prices = False

    def take(self, event: Event, number: int) -> Iterator[str]:
        """Take one event, with its bid's number or 0; yield what is wrong with it."""
        match event.kind:
            case EventKind.POLICY:
                self._posts_prices = issubclass(POLICIES[event.payload["name"]], PostedPricePolicy)
            case EventKind.STANDING:
                self._set(_Stood(number, tried=event.slot, until=event.payload["until"]))
            case EventKind.ADMITTED | EventKind.WITHDRAWN | EventKind.QUARANTINED:
                self._now.pop(number, None)
            case EventKind.RETRIED if number in self.known:
                self._set(self.known[number])
            case EventKind.SLOT:
                yield from self._turn(event)

    def _turn(self, event: Event) -> Iterator[str]:
        for number in event.payload.get("withdrawn", ()):
            self._now.pop(number, None)
        turn, now = event.payload.get("standing", {"tried": [], "ended": []}), event.payload.get("now", 0)
        due = [one for one in self._now.values() if not self._posts_prices or one.until < now]
        due = sorted(due, key=attrgetter("until", "number"))[:ENDED_AT_ONCE]
        if turn["ended"] != [one.number for one in due]:
            yield f"slot {event.slot}: the bids that end should be {[one.number for one in due]}, not {turn['ended']}"
        able = sorted(
            (one for one in self._now.values() if one.tried < now <= one.until), key=attrgetter("tried", "number")
        )
        if turn["tried"]:
            first = self._first(able, StandingRule.from_json(turn["rule"]))
            if turn["tried"] != first or not self._posts_prices:
                yield f"slot {event.slot}: it was the turn of bids {first}, yet {turn['tried']} were tried"
        for number in turn["ended"]:
            self._now.pop(number, None)
        for number in turn["tried"]:
            if number in self._now:
                self._set(replace(self._now[number], tried=now, tries=self._now[number].tries + 1))

    def _first(self, able: Sequence[_Stood], rule: StandingRule) -> list[int]:
        """Return the numbers of the bids in turn: the first few of each owner, and of these the first few."""
        of: dict[int, list[_Stood]] = defaultdict(list)
        for one in able:
            of[self.owners[one.number]].append(one)
        allowed = (one for group in of.values() for one in group[: rule.each])
        return [one.number for one in sorted(allowed, key=attrgetter("tried", "number"))][: rule.most]

    def _set(self, one: _Stood) -> None:
        self.known[one.number] = self._now[one.number] = one


def standing_bids_in_order(market: Market) -> list[str]:
    """Check that standing bids were tried in turn and ended when due, that rows say so, and no job began before."""
    numbers = dict(Bid.objects.filter(market=market).values_list("pk", "sequence"))
    state = _Standing(dict(Bid.objects.filter(market=market).values_list("sequence", "owner")))
    problems: list[str] = []
    for event in Event.objects.filter(market=market).order_by("version"):
        problems += state.take(event, 0 if event.bid_id is None else numbers[event.bid_id])
    rows = {bid.sequence: bid for bid in Bid.objects.filter(market=market).exclude(stands_until=None)}
    problems += [
        f"bid {number} stood by its row or by its events, but not by both"
        for number in sorted(rows.keys() ^ state.known)
    ]
    for number in sorted(rows.keys() & state.known):
        bid, one = rows[number], state.known[number]
        if (bid.stands_until, bid.tried_slot, bid.tries) != (one.until, one.tried, one.tries):
            problems.append(
                f"bid {number} stands until slot {bid.stands_until}, was tried {bid.tries} times, last in slot"
                f" {bid.tried_slot}; its events say until {one.until}, {one.tries} times, last in {one.tried}"
            )
    return problems + _begun_too_early(market)


def _begun_too_early(market: Market) -> list[str]:
    found = DecisionRecord.objects.filter(bid__market=market, stood_from__isnull=False, bid__start_slot__lt=F("slot"))
    rows = found.order_by("version").values_list("bid__sequence", "bid__start_slot", "slot")
    return [f"bid {number} starts in slot {start}, yet it was admitted in slot {slot}" for number, start, slot in rows]
