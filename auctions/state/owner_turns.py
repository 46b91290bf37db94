"""The decision queue of a market in memory: the bids that wait and the turns, by the rule of `domain/turns.py`.

Rows decide. What a process remembers is brought up to date by the events since, and read again from rows if it differs
from them.
"""

from dataclasses import dataclass
from threading import Lock
from typing import Final
from uuid import UUID

from auctions.domain.owners import owner_number
from auctions.domain.turns import Turns, WaitingBid
from auctions.models import Bid, BidState, Event, EventKind, Market, OwnerTurn
from cluster.database.prepared import Prepared

TAKES: Final = frozenset({EventKind.STANDING, EventKind.ADMITTED, EventKind.REJECTED, EventKind.QUARANTINED})
"""Kinds of events by which a bid that waits leaves the queue, as a turn of its owner if others wait."""
MOST_EVENTS: Final = 1000
"""Largest number of events that are applied: after more, the queue is read from rows."""

_SINCE = Prepared(
    lambda market, version, last: (
        # With the last version, too, the planner expects few rows: else it read all bids of a large table.
        Event.objects.filter(market=market, version__gt=version, version__lte=last)
        .order_by("version")
        .values_list("version", "kind", "bid__sequence", "bid__arrival_slot", "bid__owner", "bid__team")
    ),
    int,
    int,
    int,
)
_queues: dict[UUID, "DecisionQueue"] = {}
"""Queues by the market's token."""
_guard = Lock()


@dataclass
class DecisionQueue:
    """The bids of a market that wait, for the holder of its lock."""

    version: int
    """The market's version of its contents."""
    turns: Turns

    def next_bids(self, market: Market, *, at_most: int) -> list[Bid]:
        """Return the waiting bids of one slot that are decided next, in order."""
        chosen = self._chosen(market, at_most)
        if chosen is None:  # rows were changed without an event, or restored from a copy
            self.turns = _read(market).turns
            chosen = self._chosen(market, at_most)
        return chosen or []

    def _chosen(self, market: Market, at_most: int) -> list[Bid] | None:
        """Return the next bids; None if rows say something else, or no bid is known to wait."""
        numbers = [bid.number for bid in self.turns.next(at_most, version=market.version)]
        found = Bid.objects.filter(market=market, state=BidState.SUBMITTED, sequence__in=numbers)
        rows = {bid.sequence: bid for bid in found} if numbers else {}
        return [rows[number] for number in numbers] if numbers and len(rows) == len(numbers) else None

    def take(self, market: Market, decided: "list[tuple[Bid, int]]") -> None:
        """Take bids from the queue, each with the version of its event, and write turns; all events are recorded."""
        last = {}
        for bid, version in decided:
            if self.turns.take(bid.sequence, version=version):
                last[owner_number(user=bid.owner_id, team=bid.team_id)] = version
        if last:
            OwnerTurn.objects.bulk_create(
                [OwnerTurn(market=market, owner=owner, version=version) for owner, version in last.items()],
                update_conflicts=True,
                unique_fields=["market", "owner"],
                update_fields=["version"],
            )
        self.version = market.version

    def catch_up(self, market: Market) -> bool:
        """Apply the events since its version; return False if it must be read from rows instead."""
        if not 0 <= market.version - self.version <= MOST_EVENTS or self.version < market.sealed_version:
            return False  # the events since are too many, or may be archived
        events = _SINCE(market.pk, self.version, market.version) if market.version > self.version else ()
        for version, kind, number, slot, owner, team in events:
            if kind == EventKind.RETRIED:
                return False  # a bid that stood does not wait again
            if kind == EventKind.SUBMITTED:
                self.turns.add(WaitingBid(number, slot, owner_number(user=owner, team=team)))
            elif kind == EventKind.WITHDRAWN:
                self.turns.remove(number)
            elif kind in TAKES and self.turns.waits(number):
                self.turns.take(number, version=version)
        self.version = market.version
        return True


def checkout(market: Market) -> DecisionQueue:
    """Return the queue of a market whose lock is held; the caller owns it until `store` puts it back."""
    with _guard:
        queue = _queues.pop(market.token, None)
    return queue if queue is not None and queue.catch_up(market) else _read(market)


def store(market: Market, queue: DecisionQueue) -> None:
    """Remember a queue; all its changes must have been committed."""
    with _guard:
        _queues[market.token] = queue


def forget() -> None:
    """Forget all queues of this process: the next one is read from rows."""
    with _guard:
        _queues.clear()


def _read(market: Market) -> DecisionQueue:
    """Read a queue from rows."""
    turns = Turns(dict(OwnerTurn.objects.filter(market=market).values_list("owner", "version")))
    bids = Bid.objects.filter(market=market, state=BidState.SUBMITTED).order_by("sequence")
    for number, slot, owner, team in bids.values_list("sequence", "arrival_slot", "owner_id", "team_id"):
        turns.add(WaitingBid(number, slot, owner_number(user=owner, team=team)))
    return DecisionQueue(market.version, turns)
