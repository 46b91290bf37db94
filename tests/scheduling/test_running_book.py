"""A book that moves, and the loop around it, under a policy that fits in the head: the last to come runs alone."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest

from scheduling.best_response.dual_bound import Terms
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Book, Cause, Job
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision, Move
from scheduling.model.errors import OverCapacity
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Floats, Json
from scheduling.model.utility import Constant
from scheduling.policies.base import Objective
from scheduling.policies.simulation import Simulation, simulate

ONE = Inventory(
    resources=("gpu",),
    servers=("s",),
    cloud=(False,),
    capacity=np.array([[1]], dtype=np.int64),
    workers=(MachineType("w", (1,), Fraction(1)),),
    parameter_servers=(),
)


def bid(name: str, arrival: int, slots: int) -> Bid:
    return Bid(name, arrival, 1, 1, slots, (Fraction(1),), (), (Fraction(0),), (0,), Constant(1.0), Architecture.RING)


def alone(start: int, slots: int) -> Schedule:
    held = Placement(start=start, end=start + slots, role=Role.WORKER, server=0, type=0, count=1)
    return Schedule(start=start, completion=start + slots, placements=(held,))


@dataclass(frozen=True)
class LastComeFirst:
    """The job that came last runs alone from now on; the one it displaces waits and starts again."""

    name = "last"
    title = "Last come, first served"
    objective = Objective.WEIGHTED_COMPLETION
    architectures = frozenset({Architecture.RING})
    binding = False
    keeps_slots = False
    queues = False
    competes = False
    pause = 0

    def decide(self, bid: Bid, book: Book) -> Decision:
        moves = tuple(Move(job.bid.id, None) for job in book.jobs if job.completion is not None)
        return Decision(
            bid.id,
            book.now,
            True,
            1.0,
            0.0,
            1.0,
            alone(book.now, bid.work),
            None,
            "It runs.",
            None,
            1.0,
            (1.0,),
            {},
            moves,
        )

    def plan(self, book: Book, cause: Cause) -> tuple[Move, ...]:
        if cause is Cause.SLOT or not book.jobs or any(job.completion is not None for job in book.jobs):
            return ()
        last = book.jobs[-1].bid
        return (Move(last.id, alone(book.now, last.work)),)

    def keep_promise(self, job: Job, book: Book) -> None:
        return None

    def never_run(self, jobs: Iterable[Job], book: Book) -> tuple[Job, ...]:
        return ()

    def prices(self, book: Book) -> Floats:
        return np.zeros(book.ledger.used.shape)

    def check(self, inventory: Inventory) -> None:
        return None

    def at_prices(self, inventory: Inventory, prices: Floats, *, start: int) -> Terms | None:
        return None

    def to_json(self) -> Json:
        return {}


def test_a_job_that_is_moved_keeps_its_past_and_gives_back_its_future() -> None:
    run = simulate(LastComeFirst(), [bid("a", 0, 4), bid("b", 2, 3)], Ledger(ONE, start=0, slots=20), until=50)
    assert list(run.done) == ["b", "a"]
    assert [(p.start, p.end) for p in run.done["a"].held] == [(0, 2), (5, 9)]
    assert run.done["a"].completion == 9
    assert [(slot, move.job) for slot, move in run.moves] == [(2, "a"), (5, "a")]
    assert not run.book.jobs


def test_a_cancelled_job_makes_room_at_once() -> None:
    run = Simulation(LastComeFirst(), RunningBook(Ledger(ONE, start=0, slots=20)))
    run.arrive(bid("a", 0, 4))
    run.arrive(bid("b", 0, 3))
    run.advance(1)
    run.cancel("b")
    assert run.book.jobs["a"].completion == 5
    assert not run.book.jobs["a"].started(1)


def test_nothing_changes_when_moves_do_not_fit_or_break_a_promise() -> None:
    book = RunningBook(Ledger(ONE, start=0, slots=20))
    decide = LastComeFirst().decide
    book.apply_decision(bid("a", 0, 4), decide(bid("a", 0, 4), book.view()), bound=True)
    book.apply_decision(
        bid("b", 0, 4), replace(decide(bid("b", 0, 4), book.view()), schedule=None, moves=()), bound=False
    )
    before = (book.ledger.used.copy(), dict(book.jobs))
    with pytest.raises(ValueError, match="cannot move a"):
        book.apply([Move("a", None)])
    with pytest.raises(OverCapacity):
        book.apply([Move("b", alone(3, 4))])
    with pytest.raises(OverCapacity):
        book.apply_decision(bid("c", 0, 1), replace(decide(bid("c", 0, 1), book.view()), moves=()), bound=False)
    book.apply_decision(
        bid("d", 0, 1), replace(decide(bid("d", 0, 1), book.view()), schedule=None, moves=()), bound=False
    )
    with pytest.raises(OverCapacity):
        book.apply([Move("b", alone(4, 4)), Move("d", alone(7, 1))])  # the first would fit
    book.end("d")
    assert (book.ledger.used == before[0]).all()
    assert book.jobs == before[1]
    book.apply([Move("b", alone(4, 4))])
    assert book.jobs["b"].completion == 8
    with pytest.raises(OverCapacity):
        book.apply([Move("b", alone(3, 4))])
    assert book.jobs["b"].completion == 8
    assert book.ledger.used[:, 0, 0].tolist() == [1] * 8 + [0] * 12


def test_a_copy_goes_its_own_way() -> None:
    book = RunningBook(Ledger(ONE, start=0, slots=20))
    book.apply_decision(bid("a", 0, 4), LastComeFirst().decide(bid("a", 0, 4), book.view()), bound=False)
    other = book.copy()
    other.end("a")
    assert list(book.jobs) == ["a"]
    assert book.ledger.used[:4].all()
    assert not other.ledger.used.any()


@pytest.mark.parametrize(("start", "completion"), [(1, 3), (4, 4), (5, 4)])
def test_slots_that_do_not_run_from_arrival_to_start_to_completion_are_a_mistake(start: int, completion: int) -> None:
    book = RunningBook(Ledger(ONE, start=0, slots=20))
    late = bid("late", 2, 2)
    wrong = replace(alone(start, 2), completion=completion)
    decision = replace(LastComeFirst().decide(late, book.view()), schedule=wrong)
    with pytest.raises(ValueError, match="slots of late do not run from arrival to start to completion"):
        book.apply_decision(late, decision, bound=False)
    assert not book.jobs
    assert not book.ledger.used.any()


def test_only_jobs_with_a_promised_slot_are_bound_or_freed() -> None:
    book = RunningBook(Ledger(ONE, start=0, slots=20))
    for name, start, due, bound in (("promised", 0, 9, False), ("rigid", 4, None, True), ("queued", 8, None, False)):
        held = tuple(alone(start, 4).placements)
        book._put(Job(bid(name, 0, 4), held=held, completion=start + 4, bound=bound, due=due))
    book.bind(True)
    assert [(job.bid.id, job.bound) for job in book.jobs.values()] == [
        *(("promised", True), ("rigid", True), ("queued", False))
    ]
    book.bind(False)
    assert [(job.bid.id, job.bound) for job in book.jobs.values()] == [
        *(("promised", False), ("rigid", True), ("queued", False))
    ]


def test_a_view_shows_the_bids_that_were_decided_after_an_earlier_view() -> None:
    book, policy = RunningBook(Ledger(ONE, start=0, slots=20)), LastComeFirst()
    assert len(book.view().history) == 0
    for number, owner in ((1, 7), (2, 8)):
        new = bid(str(number), 0, 4)
        book.apply_decision(new, policy.decide(new, book.view()), bound=False, owner=owner)
        seen = book.view()
        assert (seen.decided, seen.history.tolist()) == (number, [[1.0]] * number)
        assert seen.owners.tolist() == [7, 8][:number]


def test_the_index_of_jobs_is_kept_until_there_are_other_jobs() -> None:
    running = RunningBook(Ledger(ONE, start=0, slots=8))
    first = running._index
    assert running._index is first
    running.jobs = {}
    assert running._index is not first
