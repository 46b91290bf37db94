"""Replay a market from its events and bids alone: receipts and moves must be equal byte for byte."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from auctions.domain.bid_conversion import core_bid
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.domain.lock import MOVES_THE_LEDGER
from auctions.domain.policy_errors import PolicyFailed, policy_errors
from auctions.engine import planning, standing
from auctions.engine.decide import answer
from auctions.engine.planning import Planned
from auctions.engine.standing import Candidate, Try, Turn
from auctions.history.standing_bids import StandingBids
from auctions.models import Bid, DecisionRecord, Event, EventKind, FirstDecision, Market
from auctions.state.book import LiveBook
from auctions.state.queue_rows import RecordedWork, taken, together
from cluster.database.paging import in_pages
from scheduling.batch.consumption import consumption_of
from scheduling.book.running import RunningBook
from scheduling.book.state import Book, Cause, Job
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, Move, canonical
from scheduling.model.errors import SchedulingError
from scheduling.model.schedule import Schedule
from scheduling.model.types import Floats, Json
from scheduling.policies.base import Objective
from scheduling.policies.standing import StandingBid, StandingRule
from scheduling.registry import recorded_policy

COLUMNS: Final = ("pk", "sequence", "owner_id", "core_bid", "resolved_request", "arrival_slot")
"""Columns of bids that a replay reads."""

UNREADABLE: Final = (SchedulingError, LookupError, ValueError, TypeError, AttributeError, PolicyFailed)
"""Errors that tampered documents, or a policy in a replay, may raise."""


@dataclass(frozen=True)
class Step:
    """One replayed event."""

    version: int
    kind: EventKind
    moves: str
    """Changes beside those of its bid, as canonical text: new schedules of jobs, the numbers of jobs that fail
    because of it, the turn of standing bids, and until when a bid stands."""
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
    stands: bool = False
    """Whether the bid stands after this decision, so that it has another one later."""


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
    recorded = recorded_receipts(market)
    decisions, wrong = 0, []
    for step in replayed(market):
        if isinstance(step, Replayed):
            decisions += 1
            receipt = recorded.pop((step.bid_id, step.stands), "")
            if receipt != step.receipt:
                wrong.append(Mismatch(step.sequence, receipt, step.receipt))
        if step.moves != step.recorded_moves:
            wrong.append(Mismatch(0, step.recorded_moves, step.moves))
    numbers = dict(Bid.objects.filter(pk__in={pk for pk, _ in recorded}).values_list("pk", "sequence"))
    wrong += [Mismatch(numbers[pk], receipt, "") for (pk, _), receipt in recorded.items()]
    return Replay(decisions=decisions, mismatches=tuple(wrong))


def recorded_receipts(market: Market) -> dict[tuple[int, bool], str]:
    """Return all receipts, by the bid's key and whether the bid stood after that decision."""
    last = DecisionRecord.objects.filter(bid__market=market).values_list("bid_id", "receipt")
    first = FirstDecision.objects.filter(bid__market=market).values_list("bid_id", "receipt")
    return {**{(pk, False): receipt for pk, receipt in last}, **{(pk, True): receipt for pk, receipt in first}}


@dataclass(frozen=True)
class WholeReplay:
    """The result of a replay of all events of a market, with the posted prices at each admission."""

    steps: Sequence[Step]
    """In order; recorded decisions and moves are not used."""
    runs: RecordedWork
    """The work that workers did from queues."""
    kept: Mapping[int, tuple[int, list[object], list[object]]]
    """For each slot that began, the values to be stored: version of the inventory, prices and use."""
    broken_off: Exception | None = None
    """The error of a replay that could not go on, so that it only covers the events before."""

    def complete(self) -> "WholeReplay":
        """Return this replay, or raise the error that it broke off with."""
        if self.broken_off is not None:
            raise self.broken_off
        return self


_shared: ContextVar[dict[int, WholeReplay] | None] = ContextVar("replays", default=None)


@contextmanager
def replayed_once() -> Iterator[None]:
    """Replay each market once in the block, however often `whole_replay` is called; nothing may write to it."""
    outer = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(outer)


def whole_replay(market: Market) -> WholeReplay:
    """Replay a market; an error that tampered documents cause is kept in `broken_off`."""
    known = _shared.get()
    if known is None:
        return _whole_replay(market)
    if market.pk not in known:
        known[market.pk] = _whole_replay(market)
    return known[market.pk]


def _whole_replay(market: Market) -> WholeReplay:
    steps: list[Step] = []
    kept: dict[int, tuple[int, list[object], list[object]]] = {}
    inventory_version, broken_off = 0, None
    state = _start(market, priced=True)
    try:
        for event in _events(market):
            if event.kind == EventKind.SLOT:
                kept |= {slot: (inventory_version, *row) for slot, row in _kept(state, event).items()}
            elif event.kind in (EventKind.OPENED, EventKind.INVENTORY):
                inventory_version = event.version
                kept = {slot: row for slot, row in kept.items() if slot < event.slot}
            steps += _steps(state, event)
    except UNREADABLE as error:
        broken_off = error
    return WholeReplay(steps, together(state.runs), kept, broken_off)


def _kept(state: "Replaying", event: Event) -> dict[int, tuple[list[object], list[object]]]:
    """Return the prices and use that are stored for the slots that begin with an event, before it."""
    book = state.at(event.payload["from"])
    rows = book.slots_to_keep(last=event.payload["to"])
    if not rows or event.payload.get("unpriced"):
        return {}
    prices, used, start = book.prices(), book.used(), book.ledger.start
    return {slot: (prices[slot - start].tolist(), used[slot - start].tolist()) for slot in rows}


def replayed(market: Market) -> Iterator[Step]:
    """Yield the steps of a market's events, in order; recorded decisions and moves are not used."""
    state = _start(market)
    for event in _events(market):
        yield from _steps(state, event)


def _steps(state: "Replaying", event: Event) -> list[Step]:
    step = state.apply(event)
    return [*([] if step is None else [step]), *state.turned]


def _start(market: Market, *, priced: bool = False) -> "Replaying":
    """Return the state before the first event."""
    return Replaying({bid.pk: bid for bid in Bid.objects.filter(market=market).only(*COLUMNS)}, priced=priced)


def _events(market: Market) -> Iterator[Event]:
    return in_pages(Event.objects.filter(market=market), by="version")


class Replaying:
    """The state of a market between two events. The recorded policy decides and plans again."""

    def __init__(self, bids: Mapping[int, Bid], *, priced: bool) -> None:
        self.bids, self._priced = bids, priced
        self.keys = {bid.sequence: pk for pk, bid in bids.items()}
        """Keys of the bids by sequence number."""
        self.runs: list[RecordedWork] = []
        """Work that workers did from queues so far, step by step."""
        self._opening: Event | None = None
        self._book: LiveBook | None = None
        self._on_sale = 0
        """The first slot on sale after the events so far."""
        self.standing = StandingBids()
        self.turned: list[Replayed] = []
        """Decisions on standing bids that belong to the last event, which began a slot."""
        self._admitted: set[int] = set()
        """Numbers of standing bids that were admitted in that turn; the events of their admissions follow."""

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
        self.turned = []
        step = self._applied(event, None if event.bid_id is None else self.bids[event.bid_id])
        if event.kind in MOVES_THE_LEDGER:
            self._on_sale = max(self._on_sale, event.payload.get("now", event.slot))
        return step

    def _applied(self, event: Event, bid: Bid | None) -> Step | None:
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
                for number in event.payload.get("withdrawn", ()):
                    self.withdraw(number, event)
                return self._slots_pass(event)
            case EventKind.CANCELLED | EventKind.FAILED | EventKind.COMPLETED if bid is not None:
                return self._step(event, self.ended(self.at(event.slot), bid, event))
            case EventKind.STANDING | EventKind.ADMITTED | EventKind.REJECTED if bid is not None:
                return None if self._was_admitted(bid) else self.settled(event, bid)
            case _ if bid is not None:
                self._change_queue(event, bid.sequence)
        return None

    def _was_admitted(self, bid: Bid) -> bool:
        """Return whether the bid was admitted in the turn of standing bids to which the next events belong."""
        found = bid.sequence in self._admitted
        self._admitted.discard(bid.sequence)
        return found

    def _change_queue(self, event: Event, number: int) -> None:
        """Update which bids stand after an event that does not decide its bid."""
        match event.kind:
            case EventKind.WITHDRAWN:
                self.standing.remove(number)
            case EventKind.QUARANTINED:
                self.standing.quarantine(number)
            case EventKind.RETRIED:
                self.standing.retry(number)

    def withdraw(self, number: int, event: Event) -> None:
        """Remove a standing bid that the event of a slot names as withdrawn."""
        self.standing.remove(number)

    def _slots_pass(self, event: Event) -> Step:
        book = self.at(event.payload.get("now", event.slot + 1))
        moves = self.passed(book, event)
        recorded = event.payload.get("standing", {})
        if "rule" in recorded:
            self.standing.rule = StandingRule.from_json(recorded["rule"])
        turn = self.turn_of_standing_bids(book, failing=recorded.get("failed", ()))
        self._admitted |= {one.sequence for one in turn.tries if one.made is not None}
        return self._step(event, moves, standing=list(turn.payload().values()))

    def turn_of_standing_bids(self, book: LiveBook, *, failing: Sequence[int]) -> Turn:
        """Give standing bids their turn in a slot that begins, and note their decisions in `turned`."""
        charged: dict[int, float] = {}

        def ask(book: LiveBook, candidate: Candidate) -> Try:
            view = book.view()
            prices = book.policy.prices(view) if self._priced else None
            done = standing.try_bid(book, candidate)
            if prices is not None and done.made is not None:
                charged[done.sequence] = _cost(candidate.standing.bid, done.made.decision, prices, view) or 0.0
            return done

        turn = self.standing.turn(book, before=self._on_sale, failing=failing, ask=ask)
        decided = [(number, decision) for number, decision in turn.ended]
        decided += [(one.sequence, one.made.decision) for one in turn.tries if one.made is not None]
        self.turned = [
            Replayed(
                version=0,
                kind=EventKind.SLOT,
                moves="",
                recorded_moves="",
                sequence=number,
                bid_id=self.keys[number],
                decision=decision,
                receipt=canonical(decision.to_json()),
                charged=charged.get(number),
            )
            for number, decision in decided
        ]
        return turn

    def _change_policy(self, event: Event) -> Step:
        policy = recorded_policy(event.payload["name"], event.payload["parameters"])
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
        book.choose(policy)
        return self._step(event, self.planned(book, Cause.CHANGED, event).moves)

    def settled(self, event: Event, bid: Bid) -> Step:
        """Decide a bid again."""
        book = self.at(event.slot)
        core = self._core(bid, event, book)
        decision = self.decided(book, core, event)
        # If jobs do not pay, prices are only used to choose schedules.
        pays = self._priced and book.policy.objective is Objective.WELFARE
        charged = _posted_cost(book, core, decision) if pays else 0.0 if self._priced and decision.admitted else None
        again = bid.sequence in self.standing
        with policy_errors():
            book.apply_decision(core, decision, owner=bid.owner_id, again=again)
        self.standing.remove(bid.sequence)
        until = self.stand(bid, core, book, decision)
        step = self._step(event, decision.moves, standing=[] if until is None else [until])
        return Replayed(
            **vars(step),
            sequence=bid.sequence,
            bid_id=bid.pk,
            decision=decision,
            receipt=canonical(decision.to_json()),
            charged=charged,
            stands=until is not None,
        )

    def stand(self, bid: Bid, core: CoreBid, book: LiveBook, decision: Decision) -> int | None:
        """Let a bid stand if it does after this decision; return until when."""
        until = standing.last_slot(bid.resolved_request, core, book, decision, self.standing.rule)
        if until is not None:
            one = StandingBid(bid.sequence, core, tried=book.running.now, until=until, owner=bid.owner_id)
            self.standing.add(bid, one, decision, book.snapshot)
        return until

    def _core(self, bid: Bid, event: Event, book: LiveBook) -> CoreBid:
        """Return the bid in the positions of the inventory in force; the row has those of the bid's last try."""
        if event.kind != EventKind.STANDING:
            return CoreBid.from_json(bid.core_bid)
        return core_bid(bid.resolved_request, book.snapshot, bid_id=str(bid.sequence), arrival=bid.arrival_slot)

    def _offers_of(self, book: LiveBook) -> dict[str, Json]:
        names = book.running.jobs.keys()
        return {name: bid.resolved_request for bid in self.bids.values() if (name := str(bid.sequence)) in names}

    def _step(
        self,
        event: Event,
        moves: tuple[Move, ...],
        failed: tuple[str, ...] = (),
        standing: Sequence[Json | int] = (),
    ) -> Step:
        recorded = [*event.payload.get("moves", []), *event.payload.get("failed", [])]
        recorded += [event.payload[key] for key in ("standing", "until") if key in event.payload]
        return Step(
            version=event.version,
            kind=EventKind(event.kind),
            moves=canonical([*(move.to_json() for move in moves), *map(int, failed), *standing]),
            recorded_moves=canonical(recorded),
        )


def _posted_cost(book: LiveBook, bid: CoreBid, decision: Decision) -> float | None:
    view = book.view()
    return None if decision.schedule is None else _cost(bid, decision, book.policy.prices(view), view)


def _cost(bid: CoreBid, decision: Decision, price: Floats, view: Book) -> float | None:
    """Return what a decision costs at these prices, which are those of slots from the view's first one on.

    That is the price of its machines; or of its least work before the promised slot, if it was promised a completion.
    """
    if decision.schedule is None:
        return None
    first = view.now
    if decision.due is not None:
        work = np.array(consumption_of(bid, view.ledger).units)
        return float(price[decision.due - 1 - first].max(axis=0) @ work)
    return float(
        sum(
            p.count * (price[p.start - first : p.end - first, p.server] @ p.machine(view.inventory).demand).sum()
            for p in decision.schedule.placements
        )
    )
