"""The mutable book: reservations, plans and history, updated from one decision to the next.

Live markets, replays and simulations all use these methods, so their results cannot differ.
"""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from scheduling.book.job_index import JobIndex
from scheduling.book.ledger import Ledger
from scheduling.book.offer_history import OfferHistory
from scheduling.book.state import HISTORY, NOBODY, Book, Job
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision, Move
from scheduling.model.schedule import Schedule
from scheduling.model.types import Json
from scheduling.preemptive.queues import Queues
from scheduling.preemptive.record import Ran


@dataclass
class RunningBook:
    """The ledger, the active jobs, and the offers of past bids. The ledger contains what jobs hold from now on.

    Under a policy that queues, chunks of jobs are in the queues of workers, and the ledger is empty.

    Examples
    --------
    >>> from scheduling.book.ledger import Ledger
    >>> from scheduling.book.running import RunningBook
    >>> from scheduling.model.example import INVENTORY, job
    >>> from scheduling.policies.dps import Dps
    >>> book, policy, bid = RunningBook(Ledger(INVENTORY, start=0, slots=8)), Dps(), job()
    >>> decision = policy.decide(bid, book.view())
    >>> book.apply_decision(bid, decision, bound=policy.binding)
    >>> list(book.jobs), book.decided
    (['job'], 1)
    >>> [job.bid.id for job in book.advance(2)], list(book.jobs)
    (['job'], [])
    """

    ledger: Ledger
    history: deque[tuple[float, ...]] = field(default_factory=lambda: deque(maxlen=HISTORY))
    decided: int = 0
    jobs: dict[str, Job] = field(default_factory=dict)
    """Admitted jobs that are not complete, by bid id, in order of admission."""
    queues: Queues | None = None
    """Queues of the workers; None until the first chunks join a queue."""
    ran: list[Ran] = field(default_factory=list)
    """Work of workers since a caller last emptied this list."""
    offers: deque[tuple[int, float, int]] = field(default_factory=lambda: deque(maxlen=HISTORY))
    """Decision slot, standalone value and owner number of each bid of `history`."""
    _offer_history: OfferHistory | None = field(default=None, init=False, repr=False, compare=False)
    """The history and the offers as arrays; None until `view` first needs them."""
    _indexed: tuple[dict[str, Job], JobIndex] | None = field(default=None, init=False, repr=False, compare=False)
    """The job dictionary that the index was built from, and the index."""

    @property
    def now(self) -> int:
        """The first slot that can still be used."""
        return self.ledger.start

    def view(self, competitors: tuple[Bid, ...] = ()) -> Book:
        """Return the read-only view that a policy decides on; `competitors` are bids that stand, if it reads them."""
        if self._offer_history is None:
            self._offer_history = OfferHistory(
                self.history, self.offers, resources=len(self.ledger.inventory.resources)
            )
        history, slots, standalone_values, owners = self._offer_history.arrays()
        return Book(
            self.now,
            self.ledger,
            history=history,
            decided=self.decided,
            jobs=tuple(self.jobs.values()),
            queues=self.queues,
            slots=slots,
            standalone_values=standalone_values,
            owners=owners,
            competitors=competitors,
            line=self._index.line(),
        )

    def advance(self, now: int) -> tuple[Job, ...]:
        """Advance to slot `now`; remove and return the jobs that are over by then.

        Raises
        ------
        ValueError
            If a queued job completes at another slot than forecast: this is an error of the policy.
        """
        self.ledger.advance(now)
        done = self._index.over(now)
        for job in done:
            self._remove(job.bid.id)
        if self.queues is not None:
            ran = self.queues.advance(now)
            if set(ran.completed) != {job.bid.id for job in done if not job.held}:
                raise ValueError(f"slot {now} found {sorted(ran.completed)} complete, which was not forecast")
            if ran.segments or ran.preemptions:
                self.ran.append(ran)
        return done

    def catch_up_queues(self) -> None:
        """Advance queues that were restored at an earlier slot to `now`."""
        if self.queues is not None and self.queues.now < self.now:
            self.ran.append(self.queues.advance(self.now))

    def apply_decision(
        self, bid: Bid, decision: Decision, *, bound: bool, owner: int = NOBODY, again: bool = False
    ) -> None:
        """Apply a decision: make its moves, reserve its schedule, and add the bid to the history.

        `owner` is the number of the bid's owner, the same for all bids of that owner. `again` is set if the bid was
        decided before: then it is in the history already.

        Raises
        ------
        OverCapacity, OutsideHorizon, ValueError
            If the decision does not fit or moves a job that may not be moved: this is an error of the policy. Nothing
            is changed then.
        """
        moves = self._allowed(decision.moves)
        if decision.admitted:
            self._put(Job(bid, held=(), completion=None, bound=bound, due=decision.due))
            moves += (Move(bid.id, decision.schedule),)
        try:
            self._make(moves)
        except Exception:  # whatever it was: undone, and passed on
            if decision.admitted:
                self._remove(bid.id)
            raise
        if again:
            return
        density, value = decision.counted
        self.history.append(density)
        self.offers.append((decision.slot, value, owner))
        if self._offer_history is not None:
            self._offer_history.add(density, decision.slot, value, owner)
        self.decided += 1

    def apply(self, moves: Iterable[Move]) -> None:
        """Apply moves: set what jobs hold from now on. If it raises, nothing is changed.

        Raises
        ------
        OverCapacity, OutsideHorizon
            If the schedules do not fit.
        ValueError
            If a job is not in the book, is bound, or is named twice, or if its slots are not in order.
        """
        self._make(self._allowed(moves))

    def bind(self, bound: bool) -> None:
        """Bind jobs with a promised slot to the machines that they hold, or let the policy move them again."""
        for job in [job for job in self.jobs.values() if job.due is not None and job.bound is not bound]:
            self._put(replace(job, bound=bound))

    def lose(self, job_id: str) -> Job:
        """Release all that a job holds from now on, promised or not; the job stays in the book."""
        job = self.jobs[job_id]
        self.ledger.release(_as_schedule(job), from_slot=self.now)
        self._put(job.after(Move(job_id, None), now=self.now))
        return self.jobs[job_id]

    def keep(self, move: Move) -> None:
        """Assign other machines to a promised job that lost its own. If it raises, nothing is changed.

        Raises
        ------
        OverCapacity, OutsideHorizon
            If the machines do not fit.
        ValueError
            If the slots of the job are not in order.
        """
        self._make((move,))

    def end(self, job_id: str) -> Job:
        """Remove a job from the book, release what it holds from now on, and remove its chunks from the queues."""
        job = self._remove(job_id)
        if self.queues is not None:
            self.queues.drop(job_id)
        self.ledger.release(_as_schedule(job), from_slot=self.now)
        return job

    def to_json(self) -> Json:
        """Return everything but what workers did, as a document from which `from_json` makes an equal book."""
        return {
            "now": self.now,
            "history": [list(density) for density in self.history],
            "offers": [list(offer) for offer in self.offers],
            "decided": self.decided,
            "jobs": [job.to_json() for job in self.jobs.values()],
            "queues": None if self.queues is None else self.queues.to_json(),
        }

    @classmethod
    def from_json(cls, document: Json, ledger: Ledger) -> "RunningBook":
        """Read what `to_json` wrote; `ledger` is an empty one from slot `now` on, under the same inventory."""
        jobs = {job.bid.id: job for job in map(Job.from_json, document["jobs"])}
        ledger.restore(_as_schedule(job) for job in jobs.values())
        queues = document["queues"]
        return cls(
            ledger=ledger,
            history=deque(map(tuple, document["history"]), maxlen=HISTORY),
            decided=document["decided"],
            jobs=jobs,
            queues=None if queues is None else Queues.from_json(queues, ledger.inventory),
            offers=deque(((slot, value, owner) for slot, value, owner in document["offers"]), maxlen=HISTORY),
        )

    def copy(self) -> "RunningBook":
        """Return an independent book with the same contents."""
        other = RunningBook(
            ledger=self.ledger.copy(),
            history=deque(self.history, maxlen=HISTORY),
            decided=self.decided,
            jobs=dict(self.jobs),
            queues=None if self.queues is None else self.queues.copy(),
            ran=list(self.ran),
            offers=deque(self.offers, maxlen=HISTORY),
        )
        other._indexed = other.jobs, self._index.copy()
        return other

    def _allowed(self, moves: Iterable[Move]) -> tuple[Move, ...]:
        moves = tuple(moves)
        named = Counter(move.job for move in moves)
        wrong = [name for name, count in named.items() if name not in self.jobs or self.jobs[name].bound or count > 1]
        if wrong:
            raise ValueError(f"cannot move {', '.join(sorted(wrong))}: not in the book, bound, or named twice")
        return moves

    def _make(self, moves: tuple[Move, ...]) -> None:
        after = [self.jobs[move.job].after(move, now=self.now) for move in moves]
        wrong = [job.bid.id for job in after if not _forward(job)]
        if wrong:
            raise ValueError(f"slots of {', '.join(sorted(wrong))} do not run from arrival to start to completion")
        held = [_as_schedule(job) for job in (self.jobs[move.job] for move in moves) if job.held]
        for schedule in held:
            self.ledger.release(schedule, from_slot=self.now)
        made: list[Schedule] = []
        try:
            for move in moves:
                if move.schedule is not None:
                    self.ledger.commit(move.schedule)
                    made.append(move.schedule)
        except Exception:  # whatever it was: undone, and passed on
            for schedule in made:
                self.ledger.release(schedule, from_slot=self.now)
            self.ledger.restore(held)
            raise
        for move, job in zip(moves, after, strict=True):
            self._queue(move)
            self._put(job)

    @property
    def _index(self) -> JobIndex:
        if self._indexed is None or self._indexed[0] is not self.jobs:
            self._indexed = self.jobs, JobIndex(self.jobs.values())
        return self._indexed[1]

    def _put(self, job: Job) -> None:
        self._index.put(job)
        self.jobs[job.bid.id] = job

    def _remove(self, name: str) -> Job:
        self._index.drop(name)
        return self.jobs.pop(name)

    def _queue(self, move: Move) -> None:
        if move.schedule is None:
            if self.queues is not None:
                self.queues.take(move.job)
        elif move.schedule.chunks:
            if self.queues is None:
                self.queues = Queues(self.ledger.inventory, now=self.now)
            bid, schedule = self.jobs[move.job].bid, move.schedule
            self.queues.push(bid, schedule.chunks, now=self.now, handicap=schedule.handicap)


def _forward(job: Job) -> bool:
    """Whether the job starts at its arrival or later and completes after its start."""
    if job.start is None:
        return True
    return job.bid.arrival <= job.start and (job.completion is None or job.start < job.completion)


def _as_schedule(job: Job) -> Schedule:
    """Return all placements of a job as a schedule; the ledger ignores its start and completion."""
    return Schedule(start=0, completion=0, placements=job.held)
