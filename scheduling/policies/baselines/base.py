"""Base classes of baselines: nobody pays, and a job either runs from now to its end or waits."""

from collections.abc import Iterable
from dataclasses import replace

from scheduling.batch.consumption import consumptions
from scheduling.book.state import Book, Cause, Job
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision, Move, Reason
from scheduling.model.parameters import parameter
from scheduling.model.schedule import Schedule
from scheduling.policies.base import Objective, PolicyBase, greatest_value, value_with
from scheduling.policies.baselines.gang import Gang, fixed_gang
from scheduling.policies.baselines.pass_state import PassState

LARGEST_SEED = 10**9


def seed_parameter() -> int:
    """Declare the seed from which the sizes of fixed gangs are drawn."""
    seed: int = parameter(0, "Seed of the draw of how many workers each job has.", low=0, high=LARGEST_SEED)
    return seed


def drained_parameter() -> bool:
    """Declare whether jobs that run on servers that take no new work are stopped only where that makes room."""
    kept: bool = parameter(
        True,
        "A job on a server that takes no new work goes on where stopping it makes no room for another one. Without "
        "this it loses its machines, and may not return to them.",
        absent=False,
    )
    return kept


class Baseline(PolicyBase):
    """A policy that chooses which jobs run from now on; the others wait in line."""

    title: str
    objective = Objective.WEIGHTED_COMPLETION
    architectures = frozenset(Architecture)
    keep_drained: bool = True
    """See `drained_parameter`; baselines that stop nobody have no such parameter."""
    machines = "machines of its ideal types"
    """The machines named in the reason of a rejection."""

    def arrange(self, floor: PassState, cause: Cause | None) -> None:
        """Start and stop jobs in the pass state; `cause` is None if a job arrived."""
        raise NotImplementedError

    def can_run(self, bid: Bid, floor: PassState) -> bool:
        """Whether the job could be completed on the empty cluster within the horizon."""
        raise NotImplementedError

    def refuse(self, floor: PassState) -> tuple[Reason, str] | None:
        """Return the reason and the explanation if a new job that could run is rejected; None if it is admitted."""

    def pass_state(self, book: Book, new: Job | None = None) -> PassState:
        """Return a plan in progress, in which `new` is the new job."""
        return PassState(book, pause=self.pause, keep_drained=self.keep_drained, new=new)

    def decide(self, bid: Bid, book: Book) -> Decision:
        """Admit a job, running or in line; reject it only if it could never run or `refuse` rejects it."""
        floor = self.pass_state(book, Job(bid, held=(), completion=None))
        density = consumptions([bid], book.ledger)[bid.id].densities(bid.utility.value)
        if not self.can_run(bid, floor):
            return _impossible(bid, book, density, self.machines)
        refused = self.refuse(floor)
        if refused is not None:
            reason, explanation = refused
            return replace(_impossible(bid, book, density, self.machines), reason=reason, explanation=explanation)
        self.arrange(floor, None)
        schedule = floor.newcomer.schedule
        place, waiting = (0, 0) if schedule is not None else floor.place()
        return Decision.admit(
            bid.id,
            schedule,
            _explain(schedule, waiting=waiting, place=place),
            slot=book.now,
            value=value_with(bid, schedule),
            standalone_value=greatest_value(bid),
            density=density,
            moves=tuple(move for move in floor.moves() if move.job != bid.id),
        )

    def plan(self, book: Book, cause: Cause) -> tuple[Move, ...]:
        """Return moves for the jobs whose machines change."""
        if cause is Cause.SLOT and all(job.completion is not None for job in book.jobs):
            return ()
        floor = self.pass_state(book)
        self.arrange(floor, cause)
        return floor.moves()

    def never_run(self, jobs: Iterable[Job], book: Book) -> tuple[Job, ...]:
        """Return the jobs that could not be completed on the empty cluster within the horizon."""
        floor = self.pass_state(book)
        return tuple(job for job in jobs if not self.can_run(job.bid, floor))


class FixedGangs(Baseline):
    """A baseline whose jobs run in gangs of a fixed number of workers of the ideal types."""

    seed: int

    def gang(self, bid: Bid, floor: PassState) -> Gang | None:
        """Return the job's gang; None if the job is impossible."""
        return floor.memory.gang(bid, ("fixed", self.seed), lambda: self._fixed(bid, floor))

    def _fixed(self, bid: Bid, floor: PassState) -> Gang | None:
        return fixed_gang(bid, floor.inventory, slots=floor.slots, seed=self.seed)

    def can_run(self, bid: Bid, floor: PassState) -> bool:
        """Whether the job's gang, halved as needed, could complete the job on the empty cluster."""
        return self.gang(bid, floor) is not None


def _explain(schedule: Schedule | None, *, waiting: int, place: int) -> str:
    if schedule is None:
        line = "alone in line" if waiting == 1 else f"number {place} of the {waiting} jobs in line"
        return f"Admitted: it is {line} and has no planned start. Nobody pays here."
    start, completion = schedule.start, schedule.completion
    return f"Admitted: it starts now, in slot {start}, and is to be complete at slot {completion}. Nobody pays here."


def _impossible(bid: Bid, book: Book, density: Iterable[float], machines: str) -> Decision:
    explanation = f"Even on the empty cluster {machines} could not complete it in {book.ledger.end - book.now} slots."
    return Decision.reject(bid.id, Reason.IMPOSSIBLE, explanation, slot=book.now, density=density)
