"""The simulation loop: bids arrive, slots pass, and a policy decides and plans, as in a live market."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Book, Cause, Job
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision, Move
from scheduling.policies.base import Policy
from scheduling.policies.standing import (
    StandingBid,
    StandingRule,
    Tries,
    competing,
    stands,
    turns,
    with_first_offer,
)


@dataclass
class Simulation:
    """A simulation of one policy on one ledger."""

    policy: Policy
    book: RunningBook
    decisions: list[Decision] = field(default_factory=list)
    done: dict[str, Job] = field(default_factory=dict)
    """Completed jobs, by id, in order of completion."""
    moves: list[tuple[int, Move]] = field(default_factory=list)
    """Moves, each with the slot in which it was decided."""
    rule: StandingRule | None = None
    """The rule by which rejected bids are tried again; None: a rejection is final. Each bid has an owner of its own."""
    standing: dict[int, StandingBid] = field(default_factory=dict)
    """Standing bids, by their places in `decisions`."""
    tries: int = 0
    """Number of times that standing bids were tried."""
    freed: bool = False
    """Whether a job was cancelled since slots last passed."""

    def arrive(self, bid: Bid) -> Decision:
        """Decide a bid now."""
        decision = self.policy.decide(bid, self.view())
        self.book.apply_decision(bid, decision, bound=self.policy.binding)
        self.decisions.append(decision)
        self._note(decision.moves)
        if self.rule is not None and stands(decision):
            horizon = self.book.ledger.end - self.book.ledger.start
            number = len(self.decisions) - 1
            until = self.rule.until(bid, horizon=horizon)
            self.standing[number] = StandingBid(number, bid, tried=self.book.now, until=until, owner=number)
        return decision

    def advance(self, now: int) -> None:
        """Advance slot by slot to `now`; in each slot the policy updates its plan, then standing bids have a turn."""
        while self.book.now < now:
            # If nothing can be planned again, the slots between can be skipped.
            step = now if self.policy.binding or not self.book.jobs else self.book.now + 1
            if self.rule is not None and self.standing:
                step = min(step, self.rule.next_turn(self.book.now))
            ended = self.book.advance(step)
            self.done |= {job.bid.id: job for job in sorted(ended, key=_completion)}
            if self.book.jobs:
                self._plan(Cause.ENDED if ended else Cause.SLOT)
            if self.rule is not None:
                self._try_standing(self.rule, ended=bool(ended) or self.freed)
                self.freed = False

    def view(self) -> Book:
        """Return what the policy decides on; bids that have ended stand no longer."""
        if not self.policy.competes:
            return self.book.view()
        now = self.book.now
        owners = {number: one.owner for number, one in self.standing.items() if not one.ended(now)}
        return self.book.view(tuple(self.standing[number].bid for number in competing(owners)))

    def _try_standing(self, rule: StandingRule, *, ended: bool) -> None:
        now = self.book.now
        if not rule.is_turn(now, ended=ended):
            return
        tries = Tries(self.policy, self.view)
        for one in turns(self.standing.values(), now, rule, ended=ended):
            self.tries += 1
            admission = tries.admission(one.bid)
            if admission is None:
                self.standing[one.number] = one.tried_in(now)
                continue
            decision = with_first_offer(admission, self.decisions[one.number])
            self.book.apply_decision(one.bid, decision, bound=self.policy.binding, again=True)
            tries.after(admitted=True)
            self.decisions[one.number] = decision
            self._note(decision.moves)
            del self.standing[one.number]
        self.standing = {number: one for number, one in self.standing.items() if not one.ended(now)}

    def cancel(self, job_id: str) -> Job:
        """Cancel a job before it is complete."""
        job = self.book.end(job_id)
        self.freed = True
        self._plan(Cause.ENDED)
        return job

    def _plan(self, cause: Cause) -> None:
        moves = self.policy.plan(self.book.view(), cause)
        self.book.apply(moves)
        self._note(moves)

    def _note(self, moves: Sequence[Move]) -> None:
        self.moves += [(self.book.now, move) for move in moves]


def simulate(policy: Policy, bids: Sequence[Bid], ledger: Ledger, *, until: int) -> Simulation:
    """Run a policy on bids, in order of arrival, and let slots pass until all jobs are complete.

    Parameters
    ----------
    policy
        The policy; it decides each bid in its slot of arrival, after the events at the beginning of that slot.
    bids
        Bids in order of arrival, none before the ledger's start.
    ledger
        Reservations before the first bid; it is modified. Its horizon moves with the slots.
    until
        The slot at which the run stops even if jobs are left in the book.

    Returns
    -------
    Simulation
        Every decision, every completed job with all its placements, and the jobs left in the book:
        submitted = rejected + complete + left.

    Examples
    --------
    Both jobs want both workers at once: the second one starts when the first one is complete.

    >>> from scheduling.book.ledger import Ledger
    >>> from scheduling.model.example import INVENTORY, job
    >>> from scheduling.policies.simulation import simulate
    >>> from scheduling.registry import make_policy
    >>> bids = [job(10.0, id="first"), job(9.0, id="second")]
    >>> done = simulate(make_policy("dps", {}), bids, Ledger(INVENTORY, start=0, slots=8), until=100).done
    >>> {name: end.completion for name, end in done.items()}
    {'first': 2, 'second': 4}
    """
    run = Simulation(policy, RunningBook(ledger))
    for bid in bids:
        run.advance(min(bid.arrival, until))
        if bid.arrival <= until:
            run.arrive(bid)
    while run.book.jobs and run.book.now < until:
        run.advance(run.book.now + 1)
    return run


def _completion(job: Job) -> int:
    return job.completion if job.completion is not None else 0
