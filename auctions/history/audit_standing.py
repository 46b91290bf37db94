"""Checks of standing bids: their turns, how long they stand, and what their rows say of both."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import astuple, dataclass, replace
from operator import attrgetter

from django.db.models import F

from auctions.engine.standing import ENDED_AT_ONCE
from auctions.models import Bid, DecisionRecord, Event, EventKind, Market
from scheduling.model.types import Json
from scheduling.policies.posted_price import PostedPricePolicy
from scheduling.policies.standing import StandingRule
from scheduling.registry import POLICIES


@dataclass(frozen=True, slots=True)
class _Stood:
    """Turns and end of a bid that stood, by the events so far."""

    number: int
    owner: int
    """Key of the owner."""
    arrival: int
    tried: int
    until: int
    tries: int = 0


class StandingTurns:
    """The bids that stand after the events so far, by sequence number, and what was wrong with their turns."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._known: dict[int, _Stood] = {}
        """All bids that ever stood."""
        self._now: dict[int, _Stood] = {}
        """Those that stand."""
        self._posts_prices = False

    def to_json(self, gone: Collection[int]) -> Json:
        """Return the bids that stood without those whose numbers are in `gone`, as `resume` reads them."""
        known = [astuple(one) for number, one in self._known.items() if number not in gone]
        return {"known": known, "now": list(self._now), "posts_prices": self._posts_prices}

    def resume(self, document: Json) -> None:
        """Go on from the bids that `to_json` wrote."""
        self._known = {one.number: one for one in (_Stood(*row) for row in document["known"])}
        self._now = {number: self._known[number] for number in document["now"]}
        self._posts_prices = document["posts_prices"]

    def take(self, event: Event) -> Iterator[str]:
        """Read one event; yield what is wrong with it."""
        number = 0 if event.bid is None else event.bid.sequence
        match event.kind:
            case EventKind.POLICY:
                self._posts_prices = issubclass(POLICIES[event.payload["name"]], PostedPricePolicy)
            case EventKind.STANDING:
                self._stand(event)
            case EventKind.ADMITTED | EventKind.WITHDRAWN | EventKind.QUARANTINED:
                self._now.pop(number, None)
            case EventKind.RETRIED if number in self._known:
                self._set(self._known[number])
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
        if turn["tried"]:
            first = self._first(now, StandingRule.from_json(turn["rule"]))
            if turn["tried"] != first or not self._posts_prices:
                yield f"slot {event.slot}: it was the turn of bids {first}, yet {turn['tried']} were tried"
        for number in turn["ended"]:
            self._now.pop(number, None)
        for number in turn["tried"]:
            if number in self._now:
                self._set(replace(self._now[number], tried=now, tries=self._now[number].tries + 1))

    def _first(self, now: int, rule: StandingRule) -> list[int]:
        """Return the numbers of the bids in turn: the first few of each owner, and of these the first few."""
        of: dict[int, list[_Stood]] = defaultdict(list)
        for one in sorted(self._now.values(), key=attrgetter("tried", "number")):
            if now <= one.until and rule.is_able(arrival=one.arrival, tried=one.tried, now=now):
                of[one.owner].append(one)
        allowed = (one for group in of.values() for one in group[: rule.each])
        return [one.number for one in sorted(allowed, key=attrgetter("tried", "number"))][: rule.most]

    def _stand(self, event: Event) -> None:
        if event.bid is None:
            raise ValueError(f"event {event.version} says that a bid stands, yet it has none")
        bid, slot = event.bid, event.slot
        self._set(_Stood(bid.sequence, bid.owner_id, bid.arrival_slot, tried=slot, until=event.payload["until"]))

    def _set(self, one: _Stood) -> None:
        self._known[one.number] = self._now[one.number] = one

    def finish(self) -> Iterator[str]:
        """Compare turns and ends with the rows, and check that no job began before its bid was admitted."""
        found = Bid.objects.filter(market=self._market, seal=None).exclude(stands_until=None)
        columns = ("sequence", "stands_until", "tried_slot", "tries")
        rows = {number: tuple(row) for number, *row in found.order_by("sequence").values_list(*columns)}
        for number in sorted(rows.keys() ^ self._known):
            yield f"bid {number} stood by its row or by its events, but not by both"
        for number in sorted(rows.keys() & self._known):
            until, tried, tries = rows[number]
            one = self._known[number]
            if (until, tried, tries) != (one.until, one.tried, one.tries):
                yield (
                    f"bid {number} stands until slot {until}, was tried {tries} times, last in slot {tried}; its"
                    f" events say until {one.until}, {one.tries} times, last in {one.tried}"
                )
        yield from _begun_too_early(self._market)


def _begun_too_early(market: Market) -> list[str]:
    found = DecisionRecord.objects.filter(bid__market=market, stood_from__isnull=False, bid__start_slot__lt=F("slot"))
    rows = found.order_by("version").values_list("bid__sequence", "bid__start_slot", "slot")
    return [f"bid {number} starts in slot {start}, yet it was admitted in slot {slot}" for number, start, slot in rows]
