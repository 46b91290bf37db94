"""Replay a market from its events and bids alone: receipts and moves must be equal byte for byte."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Final

import numpy as np

from auctions.domain.bid_conversion import core_bid
from auctions.domain.credits import limited
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.domain.lock import MOVES_THE_LEDGER
from auctions.domain.owners import pool_owner
from auctions.domain.policy_errors import PolicyFailed, policy_errors
from auctions.engine import planning, standing
from auctions.engine.decide import TriedBook, answer, explained
from auctions.engine.planning import Planned
from auctions.engine.standing import Candidate, Try, Turn
from auctions.history.recorded import RecordedReceipts, Rows, Source
from auctions.history.standing_bids import Snapshots, StandingBids
from auctions.history.steps import Replayed, Step
from auctions.models import Bid, Event, EventKind, Market
from auctions.state.book import LiveBook
from auctions.state.queue_rows import RecordedWork, taken, together
from auctions.state.seals import state_at_cut
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

UNREADABLE: Final = (SchedulingError, LookupError, ValueError, TypeError, AttributeError, PolicyFailed)
"""Errors that tampered documents, or a policy in a replay, may raise."""


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
    """Replay every decision that is not archived and compare it with the record."""
    source, start = Rows(market, since=market.sealed_version), state_at_cut(market)
    recorded, state = RecordedReceipts(market, source), Replaying(priced=False, source=source)
    if start is not None:
        state.resume_state(start["replay"]["state"], market.pk, source)
        recorded.resume(start["replay"]["receipts"])
    decisions, wrong = 0, []
    for page in source.pages():
        for event in page:
            steps = state.steps(event)
            made = [step for step in steps if isinstance(step, Replayed)]
            for step, receipt in recorded.compared(made, event.bid):
                decisions += 1
                if receipt != step.receipt:
                    wrong.append(Mismatch(step.sequence, receipt, step.receipt))
            wrong += [
                Mismatch(0, step.recorded_moves, step.moves) for step in steps if step.moves != step.recorded_moves
            ]
    wrong += [Mismatch(number, receipt, "") for number, receipt in recorded.left()]
    return Replay(decisions=decisions, mismatches=tuple(wrong))


class Replaying:
    """The state of a market between two events. The recorded policy decides and plans again."""

    def __init__(self, *, priced: bool, source: Source | None = None) -> None:
        self._priced, self._source = priced, source
        self.keys: dict[int, int] = {}
        """Keys of the bids that stood so far, by sequence number."""
        self.runs: list[RecordedWork] = []
        """Work that workers did from queues so far, step by step."""
        self._opening: Event | None = None
        self._book: LiveBook | None = None
        self._on_sale = 0
        """The first slot on sale after the events so far."""
        self._released = False
        """Whether machines were freed for a policy that plans since slots last passed."""
        self.standing = StandingBids()
        self.turned: list[Replayed] = []
        """Decisions on standing bids that belong to the last event, which began a slot."""
        self._admitted: set[int] = set()
        """Numbers of standing bids that were admitted in that turn; the events of their admissions follow."""

    @property
    def source(self) -> Source:
        """The place from which bids are read; raises TypeError if none was given."""
        if self._source is None:
            raise TypeError("this replay reads no bids")
        return self._source

    @property
    def under_way(self) -> tuple[str, ...]:
        """Ids of the bids whose jobs are in the book."""
        return () if self._book is None else tuple(self._book.running.jobs)

    def state_json(self, gone: Collection[int]) -> Json:
        """Return the state as a document from which `resume_state` goes on to the same bytes.

        Work on the bids with the sequence numbers in `gone` is left out.
        """
        book, known = self.at(0), Snapshots()
        work, lost = together(self.runs), set(gone)
        return {
            "policy": [book.policy.name, book.policy.to_json()],
            "snapshot": known.position(book.snapshot),
            "book": book.running.to_json(),
            "on_sale": self._on_sale,
            "admitted": sorted(self._admitted),
            "standing": self.standing.to_json(known),
            "segments": [row for row in work.segments if row[0] not in lost],
            "preemptions": [row for row in work.preemptions if lost.isdisjoint(row[1:3])],
            "snapshots": known.documents,
        }

    def resume_state(self, document: Json, market_id: int, source: Source) -> None:
        """Go on from what `state_json` wrote; `source` has the bids that stand."""
        snapshots = [InventorySnapshot.from_json(one) for one in document["snapshots"]]
        snapshot, stored = snapshots[document["snapshot"]], document["book"]
        self._book = LiveBook(
            version=0,
            market_id=market_id,
            snapshot=snapshot,
            policy=recorded_policy(*document["policy"]),
            policy_id=0,
            running=RunningBook.from_json(stored, snapshot.ledger(start=stored["now"])),
        )
        self._on_sale, self._admitted = document["on_sale"], set(document["admitted"])
        self.standing = StandingBids.from_json(document["standing"], snapshots, source)
        self.keys = self.standing.keys()
        rows = (tuple(map(tuple, document[name])) for name in ("segments", "preemptions"))
        self.runs = [RecordedWork(*rows)]

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

    def decided(self, book: LiveBook, core: CoreBid, event: Event, bid: Bid) -> Decision:
        """Return the decision on a bid; nothing is changed. Raises PolicyFailed if the policy fails on it.

        What the bid's team may spend is what it had left on record.
        """
        left = event.payload.get("credits")
        self.standing.let_compete(book)
        with policy_errors():
            decision = limited(answer(core, book), left)
        book.competitors = ()
        return explained(core, decision, book.policy, left) if bid.resolved_request.get("standing") else decision

    def ended(self, book: LiveBook, bid: Bid, event: Event) -> tuple[Move, ...]:
        """Remove a job and return the moves; nothing happens if an inventory removed it already."""
        if "by" in event.payload:
            return ()
        book.end(str(bid.sequence))
        return self.planned(book, Cause.ENDED, event).moves

    def passed(self, book: LiveBook, event: Event) -> tuple[tuple[Move, ...], bool]:
        """Return the moves after slots have passed, and whether a job ended in them."""
        # Events recorded before policies could plan have no cause: no policy planned.
        cause = event.payload.get("cause")
        if cause is None:
            return (), False
        return self.planned(book, Cause(cause), event).moves, cause == Cause.ENDED or "freed" in event.payload

    def rebased(self, book: LiveBook, event: Event) -> planning.Rebased:
        """Return the book under another inventory, with the jobs that move or fail."""
        ask, keep = partial(self.planned, event=event), partial(self.kept, event=event)
        return planning.rebased(book, InventorySnapshot.from_json(event.payload), self.offers_of(book), ask, keep)

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
            self._released |= self._book.advance(now)
            self.runs.append(taken(self._book.running.ran, self._book.snapshot))
            self._book.running.ran.clear()
        return self._book

    def steps(self, event: Event) -> list[Step]:
        """Apply one event and return its steps, with the decisions on standing bids."""
        step = self.apply(event)
        return [*([] if step is None else [step]), *self.turned]

    def bid_of(self, event: Event) -> Bid | None:
        """Return the bid of an event, which was read with it."""
        return event.bid

    def apply(self, event: Event) -> Step | None:
        """Apply one event; return None if it opens the market or only changes a bid's state."""
        self.turned = []
        step = self._applied(event, self.bid_of(event))
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
        moves, ended = self.passed(book, event)
        recorded = event.payload.get("standing", {})
        self.state_rule(recorded)
        turn = self.turn_of_standing_bids(
            book, ended=ended, failing=recorded.get("failed", ()), credits=standing.credits_of(recorded)
        )
        self._admitted |= {one.sequence for one in turn.tries if one.made is not None}
        # The rule is the recorded one; older records state fewer of its parameters.
        made = [{**stated, "rule": recorded.get("rule")} for stated in turn.payload().values()]
        return self._step(event, moves, standing=made)

    def state_rule(self, recorded: Json) -> None:
        """Note the rule of standing bids if an event, or its turn, states one."""
        if "rule" in recorded:
            self.standing.rule = StandingRule.from_json(recorded["rule"])

    def turn_of_standing_bids(
        self, book: LiveBook, *, ended: bool, failing: Sequence[int], credits: Mapping[int, int]
    ) -> Turn:
        """Give standing bids their turn in a slot that begins, and note their decisions in `turned`."""
        charged: dict[int, float] = {}

        def ask(tried: TriedBook, candidate: Candidate, left: int | None) -> Try:
            book = tried.book
            view = book.view()
            prices = book.policy.prices(view) if self._priced and not book.policy.competes else None
            done = standing.try_bid(tried, candidate, left)
            if prices is not None and done.made is not None:
                charged[done.sequence] = _cost(candidate.standing.bid, done.made.decision, prices, view) or 0.0
            return done

        turn = self.standing.turn(book, before=self._on_sale, ended=ended, failing=failing, credits=credits, ask=ask)
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
        self.state_rule(event.payload)
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
        decision = self.decided(book, core, event, bid)
        charged = self._charged(book, core, decision)
        again = bid.sequence in self.standing
        with policy_errors():
            book.apply_decision(core, decision, owner=self.pool_owner(event, bid), again=again)
        self.standing.remove(bid.sequence)
        self.state_rule(event.payload)
        until = self.stand(bid, core, book, decision, event)
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

    def pool_owner(self, event: Event, bid: Bid) -> int:
        """Return who owned the bid in pools of prices when this event decided it."""
        return pool_owner(
            user=bid.owner_id, team=bid.team_id, version=event.version, teams_from=self._teams_pooled_from
        )

    @cached_property
    def _teams_pooled_from(self) -> int:
        return Market.objects.values_list("teams_pooled_from", flat=True).get(pk=self.at(0).market_id)

    def _charged(self, book: LiveBook, core: CoreBid, decision: Decision) -> float | None:
        """Return what an admitted job has to pay at posted prices; None if that is not known, or there are none."""
        if not self._priced or book.policy.competes:
            return None
        if book.policy.objective is Objective.WELFARE:
            return _posted_cost(book, core, decision)
        # If jobs do not pay, prices are only used to choose schedules.
        return 0.0 if decision.admitted else None

    def stand(self, bid: Bid, core: CoreBid, book: LiveBook, decision: Decision, event: Event) -> int | None:
        """Let a bid stand if it does after this decision, with what its team had left on record; return until when."""
        left = event.payload.get("credits")
        until = standing.last_slot(bid.resolved_request, core, book, decision, self.standing.rule, left)
        if until is not None:
            one = StandingBid(bid.sequence, core, tried=book.running.now, until=until, owner=bid.owner_id)
            self.keys[bid.sequence] = bid.pk
            self.standing.add(bid, one, decision, book.snapshot)
        return until

    def _core(self, bid: Bid, event: Event, book: LiveBook) -> CoreBid:
        """Return the bid in the positions of the inventory in force; the row has those of the bid's last try."""
        if event.kind != EventKind.STANDING:
            return CoreBid.from_json(bid.core_bid)
        return core_bid(bid.resolved_request, book.snapshot, bid_id=str(bid.sequence), arrival=bid.arrival_slot)

    def offers_of(self, book: LiveBook) -> dict[str, Json]:
        """Return the resolved requests of the jobs in a book, by the ids of their bids."""
        bids = self.source.numbered([int(name) for name in book.running.jobs])
        return {str(number): bid.resolved_request for number, bid in bids.items()}

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
