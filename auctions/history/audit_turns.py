"""Check in which order bids were taken from the decision queue.

Submissions, withdrawals and decisions are events under one lock. So it is known which bids waited at each decision, and
the rule of `auctions.domain.turns` says which one was next: nothing is left to a clock.
"""

from collections.abc import Collection, Iterator
from dataclasses import astuple

from auctions.domain.owners import owner_number
from auctions.domain.turns import Turns, WaitingBid
from auctions.history.recorded import keys_without
from auctions.models import Event, EventKind, Market, OwnerTurn
from auctions.state.owner_turns import TAKES
from scheduling.model.types import Json


class DecisionOrder:
    """The decision queue after the events so far.

    Up to the version `turns_from` bids were decided in the order of submission, as in markets that are older than turns
    of owners. That is the rule for bids of one slot and one owner.
    """

    def __init__(self, market: Market) -> None:
        self._market = market
        self._stood: set[int] = set()
        """Numbers of the bids that have left the queue for ever, since they stood."""
        self._turns = Turns()
        self._waiting: dict[int, WaitingBid] = {}
        self._version = 0

    def to_json(self, gone: Collection[int]) -> Json:
        """Return the queue without the bids whose numbers are in `gone`, as `resume` reads it."""
        return {
            "version": self._version,
            "stood": keys_without(self._stood, gone),
            "last": sorted(self._turns.last.items()),
            "waiting": [list(astuple(self._waiting[number])) for number in sorted(self._waiting)],
        }

    def resume(self, document: Json) -> None:
        """Go on from the queue that `to_json` wrote."""
        self._version, self._stood = document["version"], set(document["stood"])
        self._turns = Turns(dict(document["last"]))
        self._waiting = {bid.number: bid for bid in (WaitingBid(*row) for row in document["waiting"])}
        for bid in self._waiting.values():
            self._turns.add(self._placed(bid, self._version))

    def _placed(self, bid: WaitingBid, version: int) -> WaitingBid:
        """Return a bid as it waits after the event of this version."""
        return bid if version > self._market.turns_from else WaitingBid(bid.number, 0, 0)

    def take(self, event: Event) -> Iterator[str]:
        """Apply one event; yield what is wrong with it."""
        self._version = event.version
        if event.version == self._market.turns_from + 1:
            self._turns = Turns()
            for bid in self._waiting.values():
                self._turns.add(bid)
        if event.bid is None or event.bid.sequence in self._stood:
            return
        number = event.bid.sequence
        if event.kind in (EventKind.SUBMITTED, EventKind.RETRIED):
            owner = owner_number(user=event.bid.owner_id, team=event.bid.team_id)
            bid = self._waiting[number] = WaitingBid(number, event.bid.arrival_slot, owner)
            self._turns.add(self._placed(bid, event.version))
        elif event.kind == EventKind.WITHDRAWN:
            self._waiting.pop(number, None)
            self._turns.remove(number)
        elif event.kind in TAKES:
            yield from self._leaves(event, number)
        if event.kind == EventKind.STANDING:
            self._stood.add(number)

    def _leaves(self, event: Event, number: int) -> Iterator[str]:
        first = self._turns.first()
        if self._waiting.pop(number, None) is None:
            yield f"bid {number} was taken from the queue (version {event.version}), where it did not wait"
            return
        if first is not None and first.number != number:
            yield f"bid {number} was taken from the queue before bid {first.number}"
        self._turns.take(number, version=event.version)

    def finish(self) -> Iterator[str]:
        """Compare the last turns with the rows."""
        rows = dict(OwnerTurn.objects.filter(market=self._market).values_list("owner", "version"))
        for owner in sorted(rows.keys() | self._turns.last):
            row, last = rows.get(owner), self._turns.last.get(owner)
            if row != last:
                who = f"user {owner}" if owner > 0 else f"team {-owner}"
                yield f"the last turn of {who} is version {row} by its row, {last} by the events"
