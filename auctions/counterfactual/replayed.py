"""Replay a market's record: as it was (factual), or under another policy from some event on (counterfactual).

In factual mode no policy is evaluated: recorded receipts and moves are applied. Under another policy, the same bids are
decided in the same slots, the same servers come and go, and the same slots pass. docs/users/counterfactuals.md states
the further assumptions.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from auctions.counterfactual.outcome import Outcome
from auctions.domain.inventory_snapshot import InventorySnapshot
from auctions.domain.policy_errors import PolicyFailed, policy_errors
from auctions.domain.refunds import Refund
from auctions.domain.standing_rule import rule_under
from auctions.engine import planning
from auctions.engine.planning import Planned
from auctions.engine.policies import check_line
from auctions.engine.standing import Turn
from auctions.history.recorded import Source
from auctions.history.replay import Replaying
from auctions.history.steps import Step
from auctions.models import Bid, BidState, Event, EventKind
from auctions.state.book import LiveBook
from scheduling.book.state import Cause, Job
from scheduling.model.bid import Bid as CoreBid
from scheduling.model.decision import Decision, Move, parse
from scheduling.model.errors import OutsideHorizon, OverCapacity
from scheduling.model.schedule import Schedule
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.policies.standing import StandingBid

GOING: Final = (BidState.PLANNED, BidState.RUNNING)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Receipts:
    """Receipts of a record, as canonical text by the bid's key."""

    last: Mapping[int, str] = field(default_factory=dict)
    """Those of admissions and final rejections."""
    first: Mapping[int, str] = field(default_factory=dict)
    """Those of rejections after which bids stood."""
    stood: frozenset[int] = frozenset()
    """Keys of the bids in `last` that stood before."""
    costs: Mapping[int, tuple[float, ...]] = field(default_factory=dict)
    """Posted cost of each slot of the granted schedule, where known."""


class ReplayedMarket(Replaying):
    """The state of a market between two events of its record.

    Parameters
    ----------
    bids
        By key; `core` is in the positions of the inventory under which the bid was decided.
    receipts
        Receipts of their decisions.
    """

    def __init__(self, bids: Mapping[int, Bid], receipts: Receipts) -> None:
        super().__init__(priced=False)
        self.bids, self._receipts = bids, receipts
        self.keys = {bid.sequence: pk for pk, bid in bids.items()}
        self.other: Policy | None = None
        """The policy that decides and plans instead of the record; None in factual mode."""
        self.outcomes: dict[str, Outcome] = {str(bid.sequence): Outcome() for bid in bids.values()}
        """Outcomes by the bid's id."""
        self.slot: int | None = None
        """The last slot that began; None before the first."""
        self._since = 0
        """The first slot that could be traded when slots last passed."""
        self._going: set[str] = set()
        """Ids of admitted bids that were neither complete nor ended when slots last passed."""
        self.failed_plans = 0
        """The number of times that the other policy failed to plan."""
        self._plan_failed = False
        """Whether it failed the last time it planned."""
        self._freed = False
        """Whether a job was cancelled, failed, or was complete early since slots last passed."""

    @property
    def book(self) -> LiveBook:
        """The present book; raises ValueError before the market opened."""
        return self.at(0)

    def resume(self, book: LiveBook, *, slot: int | None, since: int) -> None:
        """Set the state to this book: after slot `slot` began, when `since` was the first slot that could be traded."""
        self._book, self.slot, self._since, self._on_sale = book, slot, since, book.running.now
        for name, job in book.running.jobs.items():
            outcome = self.outcomes.setdefault(name, Outcome())
            outcome.admitted = True
            outcome.plan(job)
            self._going.add(name)

    def resume_sealed(self, sealed: Json, market_id: int, source: Source) -> None:
        """Set the state to that after the last archived event, as `EventPass.state` wrote it."""
        document, keys = sealed["replay"]["state"], self.keys
        self.resume_state(document, market_id, source)
        self.keys = keys | self.keys
        self.resume(self.book, slot=sealed["states"]["slot"], since=sealed["states"]["traded"])
        self._on_sale = document["on_sale"]
        for number, first in self.standing.firsts().items():
            outcome = self.outcomes[str(number)] = Outcome.of(first)
            outcome.stands = True

    def let_stand(self, bid: Bid, one: StandingBid, first: Decision, snapshot: InventorySnapshot) -> None:
        """Add a bid that stands since its first decision, made under this inventory."""
        self.standing.add(bid, one, first, snapshot)
        outcome = self.outcomes[str(bid.sequence)] = Outcome.of(first)
        outcome.stands = True

    def receipt_of(self, bid_id: int) -> str:
        """Return the last receipt of a bid, by its key, as canonical text."""
        return self._receipts.last[bid_id]

    def fork(self) -> "ReplayedMarket":
        """Return an independent copy that can continue from here."""
        other = self._with(self.bids, self._receipts)
        other.outcomes = {name: Outcome(**vars(outcome)) for name, outcome in self.outcomes.items()}
        return other

    def continued(self, bids: Mapping[int, Bid], receipts: Receipts) -> "ReplayedMarket":
        """Return a fork with these bids and receipts, and otherwise only with the jobs that are under way."""
        other = self._with(bids, receipts)
        under_way = self._going | (set() if self._book is None else self._book.running.jobs.keys())
        known = {name: Outcome(**vars(self.outcomes[name])) for name in under_way if name in self.outcomes}
        other.outcomes |= known
        return other

    def _with(self, bids: Mapping[int, Bid], receipts: Receipts) -> "ReplayedMarket":
        other = ReplayedMarket(bids, receipts)
        other._opening, other.other, other.slot, other._since = self._opening, self.other, self.slot, self._since
        other._on_sale, other.standing, other._admitted = self._on_sale, self.standing.copy(), set(self._admitted)
        other._book = None if self._book is None else self._book.copy()
        other._going = set(self._going)
        other.failed_plans, other._plan_failed, other._freed = self.failed_plans, self._plan_failed, self._freed
        other._released = self._released
        return other

    def switch(self, policy: Policy) -> None:
        """Let this policy decide from here on. If it differs from the one in force, it plans again, as after a change.

        Raises
        ------
        InvalidField
            If a market could not have changed to it here.
        """
        book, self.other = self.book, policy
        self.standing.rule = rule_under(policy, self.standing.rule)
        if (policy.name, policy.to_json()) == (book.policy.name, book.policy.to_json()):
            return
        policy.check(book.snapshot.inventory)
        check_line(policy, book.view())
        book.choose(policy)
        self._note(book, self._replan(book, Cause.CHANGED).moves)

    def bid_of(self, event: Event) -> Bid | None:
        """Return the bid of an event, which is one of the record's."""
        return None if event.bid_id is None else self.bids[event.bid_id]

    def offers_of(self, book: LiveBook) -> dict[str, Json]:
        """Return the resolved requests of the jobs in a book, which are some of the record's."""
        names = book.running.jobs.keys()
        return {name: bid.resolved_request for bid in self.bids.values() if (name := str(bid.sequence)) in names}

    def apply(self, event: Event) -> Step | None:
        """Apply one event and update the outcomes of the jobs that it changes."""
        match event.kind:
            case EventKind.POLICY if self.other is not None:
                return None
            case EventKind.WITHDRAWN | EventKind.QUARANTINED | EventKind.RETRIED if event.bid_id is not None:
                if self._decided_otherwise(event, event.bid_id):
                    return None
                self._end_or_resubmit(event, self._outcome(event.bid_id))
            case EventKind.ADMITTED if self.other is not None and event.bid_id in self._receipts.stood:
                return None  # the other policy tries the bid when it is its turn here
            case EventKind.OPENED:
                self._since = event.slot
        return super().apply(event)

    def withdraw(self, number: int, event: Event) -> None:
        """Withdraw a bid that stood in the record, unless the other policy has admitted it."""
        super().withdraw(number, event)
        outcome = self.outcomes.get(str(number))
        if outcome is not None and not (self.other is not None and outcome.admitted):
            outcome.end(BidState.WITHDRAWN, event.payload["now"])

    def _decided_otherwise(self, event: Event, bid_id: int) -> bool:
        """Return whether an event cannot happen here because the other policy decided the bid before.

        A bid that is admitted here was withdrawn in the record while it stood, or the recorded policy failed on a try.
        """
        if self.other is None:
            return False
        outcome = self._outcome(bid_id)
        return bool(outcome.admitted) or (event.kind != EventKind.WITHDRAWN and outcome.admitted is not None)

    def _end_or_resubmit(self, event: Event, outcome: Outcome) -> None:
        if event.kind == EventKind.RETRIED:
            outcome.resubmit()
        else:
            outcome.end(BidState(event.kind), event.slot)

    def state_rule(self, recorded: Json) -> None:
        """Note the rule of standing bids; the other policy may have a rule of its own."""
        super().state_rule(recorded)
        if self.other is not None:
            self.standing.rule = rule_under(self.other, self.standing.rule)

    def turn_of_standing_bids(
        self, book: LiveBook, *, ended: bool, failing: Sequence[int], credits: Mapping[int, int]
    ) -> Turn:
        """Give standing bids their turn under the other policy, and update their outcomes."""
        turn = super().turn_of_standing_bids(book, ended=ended, failing=(), credits=credits)
        for number, decision in turn.ended:
            self.outcomes[str(number)] = Outcome.of(decision)
        for one in turn.tries:
            name = str(one.sequence)
            if one.made is not None:
                self.outcomes[name] = Outcome.of(one.made.decision)
                self.outcomes[name].plan(book.running.jobs[name])
                self._going.add(name)
                self._note(book, one.made.decision.moves)
            elif one.failed is not None:
                self.outcomes[name].end(BidState.QUARANTINED, book.running.now)
        self._admitted.clear()
        return turn

    def _slots_pass(self, event: Event) -> Step:
        if self.other is not None:
            return super()._slots_pass(event)
        book = self.at(event.payload.get("now", event.slot + 1))
        moves, _ = self.passed(book, event)
        recorded = event.payload.get("standing", {})
        self.state_rule(recorded)
        for number in recorded.get("tried", ()):
            self.standing.tried(number, slot=book.running.now)
        for number in recorded.get("ended", ()):
            self.standing.remove(number)
            self.outcomes[str(number)] = self._final(number)
        return self._step(event, moves)

    def _final(self, number: int) -> Outcome:
        """Return the outcome of a standing bid that ended."""
        if number not in self.keys:
            return Outcome(admitted=False)
        return Outcome.of(Decision.from_json(parse(self._receipts.last[self.keys[number]])))

    def planned(self, book: LiveBook, cause: Cause, event: Event) -> Planned:
        """Return the other policy's plan, or the recorded moves."""
        if self.other is not None:
            planned = self._replan(book, cause)
        else:
            recorded = (Move.from_json(move) for move in event.payload.get("moves", ()))
            # Moves that keep promises on other machines were applied already.
            planned = Planned(tuple(move for move in recorded if not book.running.jobs[move.job].bound))
            book.running.apply(planned.moves)
        self._note(book, planned.moves)
        return planned

    def _replan(self, book: LiveBook, cause: Cause) -> Planned:
        """Return the other policy's plan; if it fails, jobs keep what they hold, and the failure is counted."""
        planned = planning.plan(book, cause)
        self._plan_failed = planned.failed is not None
        if planned.failed is not None:
            self.failed_plans += 1
            log.warning("%s fails to plan in slot %s: %s", book.policy.name, book.running.now, planned.failed)
        return planned

    def decided(self, book: LiveBook, core: CoreBid, event: Event, bid: Bid) -> Decision:
        """Return the other policy's decision, or the decision of the receipt."""
        if self.other is not None:
            return super().decided(book, core, event, bid)
        key = cast(int, event.bid_id)
        first = event.kind == EventKind.STANDING
        receipt = parse((self._receipts.first if first else self._receipts.last)[key])
        moves = tuple(Move.from_json(move) for move in event.payload.get("moves", ()))
        costs = () if first else self._receipts.costs.get(key, ())
        return replace(Decision.from_json(receipt), moves=moves, costs=costs)

    def settled(self, event: Event, bid: Bid) -> Step:
        """Decide a bid.

        A bid on which the other policy fails is quarantined, and prices do not learn from it.
        """
        book, name = self.at(event.slot), str(bid.sequence)
        core = self._core(bid, event, book)
        again = self.other is None and bid.pk in self._receipts.stood and event.kind != EventKind.STANDING
        try:
            with policy_errors():
                decision = self.decided(book, core, event, bid)
                book.apply_decision(core, decision, owner=self.pool_owner(event, bid), again=again)
        except PolicyFailed as failed:
            if self.other is None:
                raise failed.error from None
            log.warning("%s fails on bid %s of market %s: %s", self.other.name, name, event.market_id, failed)
            self.outcomes[name] = Outcome(explanation="The policy fails on this bid.")
            self.outcomes[name].end(BidState.QUARANTINED, event.slot)
            return self._step(event, ())
        self.outcomes[name] = Outcome.of(decision)
        self._let_stand(event, bid, core, decision)
        if decision.admitted:
            self.outcomes[name].plan(book.running.jobs[core.id])
            self._going.add(name)
        self._note(book, decision.moves)
        return self._step(event, decision.moves)

    def _let_stand(self, event: Event, bid: Bid, core: CoreBid, decision: Decision) -> None:
        """Let a bid stand if the other policy rejects it and it stands then, or if it stood in the record."""
        name, book = str(bid.sequence), self.book
        self.state_rule(event.payload)
        if self.other is not None:
            self.outcomes[name].stands = self.stand(bid, core, book, decision, event) is not None
        elif event.kind == EventKind.STANDING:
            until = event.payload["until"]
            one = StandingBid(bid.sequence, core, tried=book.running.now, until=until, owner=bid.owner_id)
            self.standing.add(bid, one, decision, book.snapshot)
            self.outcomes[name].stands = True
        else:
            self.standing.remove(bid.sequence)

    def ended(self, book: LiveBook, bid: Bid, event: Event) -> tuple[Move, ...]:
        """Remove a job if it is still under way in this replay, too, and not removed by an inventory already.

        A job that was complete early on record is complete in the same slot if it runs then. If it has not started, it
        does all of its work: nobody knows how much less it would have needed.
        """
        name = str(bid.sequence)
        outcome = self.outcomes[name]
        if self.other is None:
            outcome.refund = event.payload.get("refund", 0.0)
        if "by" in event.payload or name not in self._going:
            return ()
        if event.kind == EventKind.COMPLETED and outcome.state(event.payload["begun"]) is not BidState.RUNNING:
            return ()
        outcome.end(BidState(event.kind), event.slot)
        if event.kind == EventKind.FAILED and self.other is not None:
            # Events recorded before refunds were introduced do not state one.
            outcome.pay_back(Refund(event.payload.get("how", Refund.NONE)), event.slot)
        self._freed = True
        self._going.discard(name)
        book.end(name)
        return self.planned(book, Cause.ENDED, event).moves

    def passed(self, book: LiveBook, event: Event) -> tuple[tuple[Move, ...], bool]:
        """Plan after slots have passed; the jobs of this replay show whether a job ended in these slots."""
        since, now = self._since, event.payload.get("now", event.slot + 1)
        completions = [self.outcomes[name].completion for name in self._going]
        ended = any(c is not None and since < c <= now for c in completions)
        ended = ended or self._released or self._plan_failed or now > since + 1
        cause = Cause.ENDED if ended else Cause.SLOT
        self._released = False
        self.slot, self._since = event.slot, now
        self._going = {name for name in self._going if self.outcomes[name].state(event.slot) in GOING}
        freed, self._freed = self._freed, False
        return self.planned(book, cause, event).moves, freed or cause is Cause.ENDED

    def rebased(self, book: LiveBook, event: Event) -> planning.Rebased:
        """Return the book under another inventory; jobs whose machines are gone fail if there is no other place."""
        snapshot = InventorySnapshot.from_json(event.payload)
        if self.other is not None:
            self.other.check(snapshot.inventory)
            for name in without_room(book, snapshot):
                self._fail(name, event.slot)
                book.end(name)
        rebased = super().rebased(book, event)
        for name in rebased.failed:
            self._fail(name, event.slot)
        self._note(rebased.book, rebased.moves)
        return rebased

    def kept(self, book: LiveBook, job: Job, event: Event) -> Schedule | None:
        """Return how the other policy keeps the promise, or the recorded schedule."""
        if self.other is not None:
            return planning.keep_promise(book, job)
        moves = (Move.from_json(move) for move in event.payload.get("moves", ()))
        return next((move.schedule for move in moves if move.job == job.bid.id), None)

    def _step(
        self,
        event: Event,
        moves: tuple[Move, ...],
        failed: tuple[str, ...] = (),
        standing: Sequence[Json | int] = (),
    ) -> Step:
        """Return the step without its moves, because they are not compared with the record."""
        return Step(event.version, EventKind(event.kind), moves="", recorded_moves="")

    def _outcome(self, bid_id: int) -> Outcome:
        return self.outcomes[str(self.bids[bid_id].sequence)]

    def _fail(self, name: str, slot: int) -> None:
        """Record that a promise was broken and what was not delivered is paid back."""
        self.outcomes[name].end(BidState.FAILED, slot)
        self.outcomes[name].pay_back(Refund.UNDELIVERED, slot)
        self._going.discard(name)
        self._freed = True

    def _note(self, book: LiveBook, moves: tuple[Move, ...]) -> None:
        for move in moves:
            placed = move.schedule is not None and move.schedule.placements
            if placed and book.running.jobs[move.job].bound and self.outcomes[move.job].kept_from is None:
                self.outcomes[move.job].kept_from = book.running.now
            self.outcomes[move.job].plan(book.running.jobs[move.job])


def without_room(book: LiveBook, snapshot: InventorySnapshot) -> list[str]:
    """Return jobs whose machines another snapshot no longer has; jobs admitted earlier keep their machines first."""
    now, gone = book.running.now, []
    ledger = snapshot.ledger(start=now)
    moved = planning.hit(book, snapshot)  # these are handled when the inventory changes
    for name, job in book.running.jobs.items():
        if name in moved or not _stays(job, now=now, binding=book.policy.binding):
            continue
        held = [p.since(now) for p in job.held if p.end > now]
        placements = snapshot.placements(book.snapshot.holdings(held))
        try:
            ledger.restore([Schedule(start=0, completion=0, placements=placements)])
        except (OverCapacity, OutsideHorizon):
            gone.append(name)
        else:
            if len(placements) < len(held):
                gone.append(name)
    return gone


def _stays(job: Job, *, now: int, binding: bool) -> bool:
    """Return whether a job keeps what it holds under a new inventory (`planning.rebased` plans the others again)."""
    return binding or job.bound or job.due is not None or job.started(now)
