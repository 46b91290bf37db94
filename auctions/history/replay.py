"""Replay a market from its events and bids alone: receipts and moves must be equal byte for byte."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.domain.policy_errors import PolicyFailed, policy_errors
from auctions.engine import planning
from auctions.engine.decide import answer
from auctions.engine.planning import Planned
from auctions.models import Bid, DecisionRecord, Event, EventKind, Market
from auctions.state.book import LiveBook
from auctions.state.queue_rows import RecordedWork, taken, together
from cluster.database.paging import in_pages
from scheduling.book.running import RunningBook
from scheduling.book.state import Cause, Job
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, Move, canonical
from scheduling.model.schedule import Schedule
from scheduling.model.types import Json
from scheduling.policies.base import Objective
from scheduling.registry import make_policy

COLUMNS: Final = ("pk", "sequence", "owner_id", "core_bid", "resolved_request", "arrival_slot")
"""Columns of bids that a replay reads."""


@dataclass(frozen=True)
class Step:
    """One replayed event."""

    version: int
    kind: EventKind
    moves: str
    """New schedules of jobs, and the numbers of jobs that fail because of the event, as canonical text."""
    recorded_moves: str


@dataclass(frozen=True)
class Replayed(Step):
    """A replayed decision."""

    sequence: int
    bid_id: int
    decision: Decision
    receipt: str
    charged: float | None
    """Its payment at the prices posted then, 0 if jobs do not pay; None if it was rejected, or if not requested."""


@dataclass(frozen=True)
class Mismatch:
    """A receipt, or the moves of an event, that differs between the record and the replay."""

    sequence: int
    """Sequence number of the bid; 0 for moves."""
    recorded: str
    """The recorded text; empty if there is no record."""
    replayed: str


@dataclass(frozen=True)
class Replay:
    """The result of a replay."""

    decisions: int
    mismatches: tuple[Mismatch, ...]


def replay_market(market: Market) -> Replay:
    """Replay every decision and compare it with the record."""
    recorded = dict(DecisionRecord.objects.filter(bid__market=market).values_list("bid_id", "receipt"))
    decisions, wrong = 0, []
    for step in replayed(market):
        if isinstance(step, Replayed):
            decisions += 1
            if recorded.get(step.bid_id) != step.receipt:
                wrong.append(Mismatch(step.sequence, recorded.get(step.bid_id, ""), step.receipt))
        if step.moves != step.recorded_moves:
            wrong.append(Mismatch(0, step.recorded_moves, step.moves))
    return Replay(decisions=decisions, mismatches=tuple(wrong))


def replayed(market: Market, *, priced: bool = False) -> Iterator[Step]:
    """Yield the steps of a market's events, in order; recorded decisions and moves are not used.

    With `priced`, the posted prices are computed at each admission, and the schedule's cost is summed from them.
    """
    state = _start(market, priced=priced)
    for event in _events(market):
        step = state.apply(event)
        if step is not None:
            yield step


def runs_by_replay(market: Market) -> RecordedWork:
    """Return what workers processed from queues, according to a replay."""
    state = _start(market)
    for event in _events(market):
        state.apply(event)
    return together(state.runs)


def kept_by_replay(market: Market) -> dict[int, tuple[int, list[object], list[object]]]:
    """Return what is stored for each slot that began, from a replay: version of the inventory, prices and use."""
    kept: dict[int, tuple[int, list[object], list[object]]] = {}
    inventory_version = 0
    state = _start(market)
    for event in _events(market):
        if event.kind == EventKind.SLOT:
            book = state.at(event.payload["from"])
            rows = book.slots_to_keep(last=event.payload["to"])
            if rows and not event.payload.get("unpriced"):
                prices, used, start = book.prices(), book.used(), book.ledger.start
                for slot in rows:
                    kept[slot] = (inventory_version, prices[slot - start].tolist(), used[slot - start].tolist())
        elif event.kind in (EventKind.OPENED, EventKind.INVENTORY):
            inventory_version = event.version
            kept = {slot: row for slot, row in kept.items() if slot < event.slot}
        state.apply(event)
    return kept


def _start(market: Market, *, priced: bool = False) -> "Replaying":
    """Return the state before the first event."""
    return Replaying({bid.pk: bid for bid in Bid.objects.filter(market=market).only(*COLUMNS)}, priced=priced)


def _events(market: Market) -> Iterator[Event]:
    return in_pages(Event.objects.filter(market=market), by="version")


class Replaying:
    """The state of a market between two events. The recorded policy decides and plans again."""

    def __init__(self, bids: Mapping[int, Bid], *, priced: bool) -> None:
        self.bids, self._priced = bids, priced
        self.runs: list[RecordedWork] = []
        """Work that workers did from queues so far, step by step."""
        self._opening: Event | None = None
        self._book: LiveBook | None = None

    def planned(self, book: LiveBook, cause: Cause, event: Event) -> Planned:
        """Return new schedules of jobs from this event on, and apply them to the book.

        If the record says that planning failed, the policy is not called: it may have been corrected since.
        """
        if event.payload.get("plan_failed"):
            return planning.unplanned(book, PolicyFailed("on record"))
        planned = planning.plan(book, cause)
        if planned.failed is not None:
            raise planned.failed
        return planned

    def decided(self, book: LiveBook, core: CoreBid, event: Event) -> Decision:
        """Return the decision on a bid; nothing is changed. Raises PolicyFailed if the policy fails on it."""
        with policy_errors():
            return answer(core, book)

    def ended(self, book: LiveBook, bid: Bid, event: Event) -> tuple[Move, ...]:
        """Remove a job and return the moves; nothing happens if an inventory removed it already."""
        if "by" in event.payload:
            return ()
        book.end(str(bid.sequence))
        return self.planned(book, Cause.ENDED, event).moves

    def passed(self, book: LiveBook, event: Event) -> tuple[Move, ...]:
        """Return the moves after slots have passed."""
        # Events recorded before policies could plan have no cause: no policy planned.
        cause = event.payload.get("cause")
        return () if cause is None else self.planned(book, Cause(cause), event).moves

    def rebased(self, book: LiveBook, event: Event) -> planning.Rebased:
        """Return the book under another inventory, with the jobs that move or fail."""
        ask, keep = partial(self.planned, event=event), partial(self.kept, event=event)
        return planning.rebased(book, InventorySnapshot.from_json(event.payload), self._offers_of(book), ask, keep)

    def kept(self, book: LiveBook, job: Job, event: Event) -> Schedule | None:
        """Return a schedule that keeps a promise on other machines; None if it is broken or the policy failed."""
        if int(job.bid.id) in event.payload.get("unkept", ()):
            return None
        return planning.keep_promise(book, job)

    def at(self, now: int) -> LiveBook:
        """Return the book advanced to slot `now`."""
        if self._book is None:
            raise ValueError("something happened before the market opened")
        if now > self._book.running.now:
            self._book.advance(now)
            self.runs.append(taken(self._book.running.ran, self._book.snapshot))
            self._book.running.ran.clear()
        return self._book

    def apply(self, event: Event) -> Step | None:
        """Apply one event; return None if it opens the market or only changes a bid's state."""
        bid = None if event.bid_id is None else self.bids[event.bid_id]
        match event.kind:
            case EventKind.OPENED:
                self._opening = event
                return None
            case EventKind.POLICY:
                return self._change_policy(event)
            case EventKind.INVENTORY:
                rebased = self.rebased(self.at(event.slot), event)
                self._book = rebased.book
                return self._step(event, rebased.moves, rebased.failed)
            case EventKind.SLOT:
                return self._step(event, self.passed(self.at(event.payload.get("now", event.slot + 1)), event))
            case EventKind.CANCELLED | EventKind.FAILED if bid is not None:
                return self._step(event, self.ended(self.at(event.slot), bid, event))
            case EventKind.ADMITTED | EventKind.REJECTED if bid is not None:
                return self.settled(event, bid)
        return None

    def _change_policy(self, event: Event) -> Step:
        policy = make_policy(event.payload["name"], event.payload["parameters"])
        if self._book is None:
            if self._opening is None:
                raise ValueError("a policy was chosen before the market opened")
            snapshot = InventorySnapshot.from_json(self._opening.payload)
            ledger = snapshot.ledger(start=self._opening.slot)
            running = RunningBook(ledger)
            self._book = LiveBook(
                version=0, market_id=event.market_id, snapshot=snapshot, policy=policy, policy_id=0, running=running
            )
            return self._step(event, ())
        book = self.at(event.slot)
        book.policy = policy
        return self._step(event, self.planned(book, Cause.CHANGED, event).moves)

    def settled(self, event: Event, bid: Bid) -> Step:
        """Decide a bid again."""
        book = self.at(event.slot)
        core = CoreBid.from_json(bid.core_bid)
        decision = self.decided(book, core, event)
        # If jobs do not pay, prices are only used to choose schedules.
        pays = self._priced and book.policy.objective is Objective.WELFARE
        charged = _posted_cost(book, decision) if pays else 0.0 if self._priced and decision.admitted else None
        with policy_errors():
            book.apply_decision(core, decision, owner=bid.owner_id)
        step = self._step(event, decision.moves)
        return Replayed(
            **vars(step),
            sequence=bid.sequence,
            bid_id=bid.pk,
            decision=decision,
            receipt=canonical(decision.to_json()),
            charged=charged,
        )

    def _offers_of(self, book: LiveBook) -> dict[str, Json]:
        names = book.running.jobs.keys()
        return {name: bid.resolved_request for bid in self.bids.values() if (name := str(bid.sequence)) in names}

    def _step(self, event: Event, moves: tuple[Move, ...], failed: tuple[str, ...] = ()) -> Step:
        recorded = [*event.payload.get("moves", []), *event.payload.get("failed", [])]
        return Step(
            version=event.version,
            kind=EventKind(event.kind),
            moves=canonical([*(move.to_json() for move in moves), *map(int, failed)]),
            recorded_moves=canonical(recorded),
        )


def _posted_cost(book: LiveBook, decision: Decision) -> float | None:
    if decision.schedule is None:
        return None
    view = book.view()
    price, first = book.policy.prices(view), view.now
    return float(
        sum(
            p.count * (price[p.start - first : p.end - first, p.server] @ p.machine(view.inventory).demand).sum()
            for p in decision.schedule.placements
        )
    )
