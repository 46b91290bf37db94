"""The one loop: bids arrive, slots pass, and a policy decides and plans, as in a live market."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Cause, Job
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision, Move
from scheduling.policies.base import Policy


@dataclass
class Simulation:
    """A policy at work on one ledger."""

    policy: Policy
    book: RunningBook
    decisions: list[Decision] = field(default_factory=list)
    done: dict[str, Job] = field(default_factory=dict)
    """Complete jobs, by id, in order of completion."""
    moves: list[tuple[int, Move]] = field(default_factory=list)
    """What was moved, and in which slot it was decided."""

    def arrive(self, bid: Bid) -> Decision:
        """Decide a bid now."""
        decision = self.policy.decide(bid, self.book.view())
        self.book.apply_decision(bid, decision, bound=self.policy.binding)
        self.decisions.append(decision)
        self._note(decision.moves)
        return decision

    def advance(self, now: int) -> None:
        """Let slots pass one by one up to `now`; the policy looks at its plan in each."""
        while self.book.now < now:
            # Where nothing can be planned again, nothing happens between.
            step = now if self.policy.binding or not self.book.jobs else self.book.now + 1
            ended = self.book.advance(step)
            self.done |= {job.bid.id: job for job in sorted(ended, key=_completion)}
            if self.book.jobs:
                self._plan(Cause.ENDED if ended else Cause.SLOT)

    def cancel(self, job_id: str) -> Job:
        """Take a job out before it is complete."""
        job = self.book.end(job_id)
        self._plan(Cause.ENDED)
        return job

    def _plan(self, cause: Cause) -> None:
        moves = self.policy.plan(self.book.view(), cause)
        self.book.apply(moves)
        self._note(moves)

    def _note(self, moves: Sequence[Move]) -> None:
        self.moves += [(self.book.now, move) for move in moves]


def simulate(policy: Policy, bids: Sequence[Bid], ledger: Ledger, *, until: int) -> Simulation:
    """Run bids, in order of arrival, through a policy, and let slots pass until all is complete.

    Parameters
    ----------
    policy
        Decides each bid in its slot of arrival, after what that slot's beginning brought.
    bids
        In order of arrival, none before the ledger's start.
    ledger
        What is in use before the first; it moves. Its horizon rolls with the slots.
    until
        The slot at which the run stops even if jobs are left in the book.

    Returns
    -------
    Simulation
        Every decision, every complete job with all it held, and what is left in the book:
        submitted = rejected + complete + left.
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
