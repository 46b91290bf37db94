"""Grants according to events: machines, start and completion of every admitted bid, from receipts and moves."""

from collections.abc import Collection
from dataclasses import astuple, dataclass, field, replace

from auctions.domain.inventory_snapshot import Holding, InventorySnapshot
from auctions.domain.lock import ENDS
from auctions.domain.transitions import Window
from auctions.models import Bid, Event, EventKind
from scheduling.model.decision import Decision, Move, parse
from scheduling.model.types import Json
from scheduling.registry import POLICIES


@dataclass
class Grant:
    """The grant of one admitted bid."""

    number: int
    """Sequence number of the bid."""
    completion: int | None = None
    held: list[Holding] = field(default_factory=list)
    inventory_version: int = 0
    """Version of the inventory under which the last of `held` was granted."""
    queued_from: int | None = None
    """Forecast start of a job in queues."""
    changes: list[tuple[int, int, int | None, int | None]] = field(default_factory=list)
    """Version, slot, start and completion of each step of a plan that is not a promise."""

    @property
    def window(self) -> Window:
        """First slot and completion; None if nothing is planned."""
        return min((h.start for h in self.held), default=self.queued_from), self.completion


class Grants:
    """The grants after the events so far; commitments and the windows in the bids' rows are not read.

    The bid of each admission must have been read with its decision and the decision's policy: nothing is read here.
    """

    def __init__(self) -> None:
        self._keys: dict[str, int] = {}
        self._snapshot: InventorySnapshot | None = None
        self._inventory_version = 0
        self.all: dict[int, Grant] = {}
        """Grants by the bid's key."""

    def to_json(self, gone: Collection[int]) -> Json:
        """Return the grants without those of the bids in `gone`, as `resume` reads them."""
        return {
            "inventory_version": self._inventory_version,
            "snapshot": None if self._snapshot is None else self._snapshot.to_json(),
            "bids": [[pk, *_row(grant)] for pk, grant in self.all.items() if pk not in gone],
        }

    def resume(self, document: Json) -> None:
        """Go on from the grants that `to_json` wrote."""
        snapshot = document["snapshot"]
        self._snapshot = None if snapshot is None else InventorySnapshot.from_json(snapshot)
        self._inventory_version = document["inventory_version"]
        for pk, number, completion, held, version, queued_from, changes in document["bids"]:
            holdings, steps = [Holding(*row) for row in held], [tuple(row) for row in changes]
            self.all[pk] = Grant(number, completion, holdings, version, queued_from, steps)
            self._keys[str(number)] = pk

    def step(self, event: Event) -> list[int]:
        """Apply one event; return the keys of the bids whose machines changed."""
        if event.kind in (EventKind.OPENED, EventKind.INVENTORY):
            self._snapshot, self._inventory_version = InventorySnapshot.from_json(event.payload), event.version
        if event.kind == EventKind.ADMITTED and event.bid is not None:
            self._admit(event, event.bid)
        if event.kind in ENDS and event.bid_id is not None:
            grant = self.all[event.bid_id]
            grant.held = [replace(h, end=min(h.end, max(h.start, event.slot))) for h in grant.held]
        moves = [Move.from_json(move) for move in event.payload.get("moves", ())]
        now = event.payload["now"] if event.kind == EventKind.SLOT and moves else event.slot
        for move in moves:
            self._make(move, event, now=now)
        return [self._keys[move.job] for move in moves]

    def _admit(self, event: Event, bid: Bid) -> None:
        self._keys[str(bid.sequence)] = bid.pk
        schedule = Decision.from_json(parse(bid.decision.receipt)).schedule
        grant = self.all[bid.pk] = Grant(bid.sequence, inventory_version=self._inventory_version)
        if schedule is not None and self._snapshot is not None:
            grant.completion = schedule.completion
            grant.held = list(self._snapshot.holdings(schedule.placements))
            grant.queued_from = None if schedule.placements else schedule.start
        if not POLICIES[bid.decision.policy.name].binding:
            grant.changes.append((event.version, event.slot, *grant.window))

    def _make(self, move: Move, event: Event, *, now: int) -> None:
        grant = self.all[self._keys[move.job]]
        before = grant.window
        kept = [replace(h, end=min(h.end, now)) for h in grant.held if h.start < now]
        placements = () if move.schedule is None else move.schedule.placements
        new = () if self._snapshot is None else self._snapshot.holdings(placements)
        if move.schedule is not None and not placements:
            grant.queued_from = move.schedule.start
        elif grant.queued_from is not None and grant.queued_from >= now:
            grant.queued_from = None
        grant.held, grant.inventory_version = [*kept, *new], self._inventory_version
        grant.completion = None if move.schedule is None else move.schedule.completion
        if grant.window != before:
            grant.changes.append((event.version, now, *grant.window))


def _row(grant: Grant) -> list[object]:
    held = [astuple(holding) for holding in grant.held]
    return [grant.number, grant.completion, held, grant.inventory_version, grant.queued_from, grant.changes]
