"""A market's record told again: as it was, or from some event on as it would have been under another policy.

Told as it was, nothing is asked: receipts and recorded moves are taken at their word. Under another policy the same
bids are decided in the same slots, the same servers come and go, and the same slots pass; what is assumed beyond
that is said in docs/hindsight.md.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast

from auctions.counterfactual.outcome import Outcome
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.domain.policy_errors import PolicyFailed, policy_errors
from auctions.domain.refunds import Refund
from auctions.engine import moves as plans
from auctions.engine.moves import Planned
from auctions.engine.policies import check_line
from auctions.history.replay import Replaying, Step
from auctions.models import Bid, BidState, Event, EventKind
from auctions.state.book import LiveBook
from scheduling.book.state import Cause, Job
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, Move, parse
from scheduling.model.errors import OutsideHorizon, OverCapacity
from scheduling.model.schedule import Schedule
from scheduling.policies.base import Policy

GOING: Final = (BidState.PLANNED, BidState.RUNNING)
log = logging.getLogger(__name__)


class ReplayedMarket(Replaying):
    """The state of a market between two events of its record.

    Parameters
    ----------
    bids
        By key; with `core` in the positions of the inventory it was decided under.
    receipts
        By the bid's key: canonical text.
    costs
        By the bid's key: posted cost of each slot of the schedule that was granted, where it is known.
    """

    def __init__(
        self, bids: Mapping[int, Bid], receipts: Mapping[int, str], costs: Mapping[int, tuple[float, ...]] | None = None
    ) -> None:
        super().__init__(bids, priced=False)
        self._receipts = receipts
        self._costs = costs or {}
        self.other: Policy | None = None
        """Asked instead of the record; None: told as it was."""
        self.outcomes: dict[str, Outcome] = {str(bid.sequence): Outcome() for bid in bids.values()}
        """By the bid's id."""
        self.slot: int | None = None
        """The last slot that began; None before any did."""
        self._since = 0
        """The first slot that could be traded when slots last passed."""
        self._going: set[str] = set()
        """Admitted, and neither complete nor ended when slots last passed."""
        self.failed_plans = 0
        """How many times the other policy failed to plan."""
        self._plan_failed = False
        """Whether it failed when it last planned."""

    @property
    def book(self) -> LiveBook:
        """As it stands; raises ValueError before the market opened."""
        return self.at(0)

    @property
    def under_way(self) -> tuple[str, ...]:
        """Jobs of its book, by the bid's id; none before the market opened."""
        return () if self._book is None else tuple(self._book.running.jobs)

    def resume(self, book: LiveBook, *, slot: int | None, since: int) -> None:
        """Stand where this book stands: after slot `slot` began, when `since` was the first that could be traded."""
        self._book, self.slot, self._since = book, slot, since
        for name, job in book.running.jobs.items():
            outcome = self.outcomes.setdefault(name, Outcome())
            outcome.admitted = True
            outcome.plan(job)
            self._going.add(name)

    def receipt_of(self, bid_id: int) -> str:
        """Canonical text, by the bid's key."""
        return self._receipts[bid_id]

    def fork(self) -> "ReplayedMarket":
        """Another telling that goes on from here on its own."""
        other = self._with(self.bids, self._receipts, self._costs)
        other.outcomes = {name: Outcome(**vars(outcome)) for name, outcome in self.outcomes.items()}
        return other

    def going_on(self, bids: Mapping[int, Bid], receipts: Mapping[int, str]) -> "ReplayedMarket":
        """A fork that knows these bids and receipts, and otherwise only jobs that are under way."""
        other = self._with(bids, receipts, {})
        under_way = self._going | (set() if self._book is None else self._book.running.jobs.keys())
        known = {name: Outcome(**vars(self.outcomes[name])) for name in under_way if name in self.outcomes}
        other.outcomes |= known
        return other

    def _with(
        self, bids: Mapping[int, Bid], receipts: Mapping[int, str], costs: Mapping[int, tuple[float, ...]]
    ) -> "ReplayedMarket":
        other = ReplayedMarket(bids, receipts, costs)
        other._opening, other.other, other.slot, other._since = self._opening, self.other, self.slot, self._since
        other._book = None if self._book is None else self._book.copy()
        other._going = set(self._going)
        other.failed_plans, other._plan_failed = self.failed_plans, self._plan_failed
        return other

    def switch(self, policy: Policy) -> None:
        """Ask this policy from here on. If it is not the one in force, it looks at the plan, as when it is chosen.

        Raises
        ------
        InvalidField
            If a market could not have changed to it here.
        """
        book, self.other = self.book, policy
        if (policy.name, policy.to_json()) == (book.policy.name, book.policy.to_json()):
            return
        policy.check(book.layout.inventory)
        check_line(policy, book.view().jobs)
        book.policy = policy
        self._note(book, self._asked(book, Cause.CHANGED).moves)

    def apply(self, event: Event) -> Step | None:
        """Take one step and see what it makes of the jobs it moves."""
        match event.kind:
            case EventKind.POLICY if self.other is not None:
                return None
            case EventKind.WITHDRAWN | EventKind.QUARANTINED if event.bid_id is not None:
                self._outcome(event.bid_id).end(BidState(event.kind), event.slot)
            case EventKind.RETRIED if event.bid_id is not None:
                self._outcome(event.bid_id).resubmit()
            case EventKind.OPENED:
                self._since = event.slot - 1
        return super().apply(event)

    def planned(self, book: LiveBook, cause: Cause, event: Event) -> Planned:
        """What the other policy answers, or what the event recorded."""
        if self.other is not None:
            planned = self._asked(book, cause)
        else:
            recorded = (Move.from_json(move) for move in event.payload.get("moves", ()))
            # Promises that are kept with other machines were moved already.
            planned = Planned(tuple(move for move in recorded if not book.running.jobs[move.job].bound))
            book.running.apply(planned.moves)
        self._note(book, planned.moves)
        return planned

    def _asked(self, book: LiveBook, cause: Cause) -> Planned:
        """What the other policy answers; where it fails, jobs keep what they hold, and that is counted."""
        planned = plans.plan(book, cause)
        self._plan_failed = planned.failed is not None
        if planned.failed is not None:
            self.failed_plans += 1
            log.warning("%s fails to plan in slot %s: %s", book.policy.name, book.running.now, planned.failed)
        return planned

    def decided(self, book: LiveBook, core: CoreBid, event: Event) -> Decision:
        """What the other policy answers, or what the receipt says."""
        if self.other is not None:
            return super().decided(book, core, event)
        receipt = parse(self._receipts[cast(int, event.bid_id)])
        moves = tuple(Move.from_json(move) for move in event.payload.get("moves", ()))
        decision = Decision.from_json(receipt)
        return replace(decision, moves=moves, costs=self._costs.get(cast(int, event.bid_id), ()))

    def settled(self, event: Event, bid: Bid) -> Step:
        """A bid is decided.

        One on which the other policy fails is quarantined and teaches nothing.
        """
        book, core, name = self.at(event.slot), CoreBid.from_json(bid.core), str(bid.sequence)
        try:
            with policy_errors():
                decision = self.decided(book, core, event)
                book.apply_decision(core, decision, owner=bid.owner_id)
        except PolicyFailed as failed:
            if self.other is None:
                raise failed.error from None
            log.warning("%s fails on bid %s of market %s: %s", self.other.name, name, event.market_id, failed)
            self.outcomes[name] = Outcome(explanation="The policy fails on this bid.")
            self.outcomes[name].end(BidState.QUARANTINED, event.slot)
            return self._step(event, ())
        self.outcomes[name] = Outcome.of(decision)
        if decision.admitted:
            self.outcomes[name].plan(book.running.jobs[core.id])
            self._going.add(name)
        self._note(book, decision.moves)
        return self._step(event, decision.moves)

    def ended(self, book: LiveBook, bid: Bid, event: Event) -> tuple[Move, ...]:
        """A job is taken out if it is still under way here, too; whom an inventory took out was told with it."""
        name = str(bid.sequence)
        outcome = self.outcomes[name]
        if self.other is None:
            outcome.refund = event.payload.get("refund", 0.0)
        if "by" in event.payload or name not in self._going:
            return ()
        outcome.end(BidState(event.kind), event.slot)
        if event.kind == EventKind.FAILED and self.other is not None:
            # Events recorded before jobs were paid back say nothing.
            outcome.pay_back(Refund(event.payload.get("how", Refund.NONE)), event.slot)
        self._going.discard(name)
        book.end(name)
        return self.planned(book, Cause.ENDED, event).moves

    def passed(self, book: LiveBook, event: Event) -> tuple[Move, ...]:
        """Slots have passed: whether a job ended among them is seen from the jobs of this telling."""
        since, now = self._since, event.payload.get("now", event.slot + 1)
        completions = [self.outcomes[name].completion for name in self._going]
        ended = any(c is not None and since < c <= now for c in completions)
        cause = Cause.ENDED if ended or self._plan_failed else Cause.SLOT
        self.slot, self._since = event.slot, now
        self._going = {name for name in self._going if self.outcomes[name].state(event.slot) in GOING}
        return self.planned(book, cause, event).moves

    def laid(self, book: LiveBook, event: Event) -> plans.Relaid:
        """The book under another inventory; jobs that hold what is gone and have no other place have failed."""
        layout = InventorySnapshot.from_json(event.payload)
        if self.other is not None:
            self.other.check(layout.inventory)
            for name in without_room(book, layout):
                self._fail(name, event.slot)
                book.end(name)
        relaid = super().laid(book, event)
        for name in relaid.failed:
            self._fail(name, event.slot)
        self._note(relaid.book, relaid.moves)
        return relaid

    def kept(self, book: LiveBook, job: Job, event: Event) -> Schedule | None:
        """What the other policy answers, or what the event recorded."""
        if self.other is not None:
            return plans.keep_promise(book, job)
        moves = (Move.from_json(move) for move in event.payload.get("moves", ()))
        return next((move.schedule for move in moves if move.job == job.bid.id), None)

    def _step(self, event: Event, moves: tuple[Move, ...], failed: tuple[str, ...] = ()) -> Step:
        """Nobody compares what moves with what is on record: it is not written out."""
        return Step(event.version, EventKind(event.kind), moves="", recorded_moves="")

    def _outcome(self, bid_id: int) -> Outcome:
        return self.outcomes[str(self.bids[bid_id].sequence)]

    def _fail(self, name: str, slot: int) -> None:
        """A promise was broken: what was not delivered is paid back."""
        self.outcomes[name].end(BidState.FAILED, slot)
        self.outcomes[name].pay_back(Refund.UNDELIVERED, slot)
        self._going.discard(name)

    def _note(self, book: LiveBook, moves: tuple[Move, ...]) -> None:
        for move in moves:
            placed = move.schedule is not None and move.schedule.placements
            if placed and book.running.jobs[move.job].bound and self.outcomes[move.job].kept_from is None:
                self.outcomes[move.job].kept_from = book.running.now
            self.outcomes[move.job].plan(book.running.jobs[move.job])


def without_room(book: LiveBook, layout: InventorySnapshot) -> list[str]:
    """Jobs that hold what another layout no longer has, those admitted first being given room first."""
    now, gone = book.running.now, []
    ledger = layout.ledger(start=now)
    moved = plans.hit(book, layout)  # these are looked after when the layout changes
    for name, job in book.running.jobs.items():
        if name in moved or not _stays(job, now=now, binding=book.policy.binding):
            continue
        held = [p.since(now) for p in job.held if p.end > now]
        placements = layout.placements(book.layout.holdings(held))
        try:
            ledger.restore([Schedule(start=0, completion=0, placements=placements)])
        except (OverCapacity, OutsideHorizon):
            gone.append(name)
        else:
            if len(placements) < len(held):
                gone.append(name)
    return gone


def _stays(job: Job, *, now: int, binding: bool) -> bool:
    """Whether a job keeps what it holds under a new inventory (`plans.rebased` puts the others back in line)."""
    return binding or job.bound or job.started(now)
