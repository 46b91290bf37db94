"""The policy interface: validated parameters, and pure functions from the book to decisions."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np

from scheduling.best_response.dual_bound import Terms
from scheduling.book.state import Book, Cause, Job
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision, Move
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.inventory import Inventory
from scheduling.model.parameters import check_parameters, parameters_to_json
from scheduling.model.schedule import Schedule
from scheduling.model.types import Floats, Json


class Objective(StrEnum):
    """The objective of a policy."""

    WELFARE = "welfare"
    """Maximise the sum of values of completed jobs: an auction where bids state a utility and pay posted prices."""
    WEIGHTED_COMPLETION = "weighted_completion"
    """Minimise the sum of weight x completion time: bids state a weight and nobody pays."""
    COMPLETION = "completion"
    """Minimise the mean time from arrival to completion: weights are shown but not used, and nobody pays."""


class Policy(Protocol):
    """A frozen dataclass of validated parameters; equal inputs give byte-identical outputs."""

    name: str
    """Name in the registry."""
    title: str
    """Title shown to people."""
    objective: Objective
    architectures: frozenset[Architecture]
    """Architectures of the jobs that the policy can run."""
    binding: bool
    """True if a granted schedule is a promise and never moves. False if a job that has not started may move."""
    keeps_slots: bool
    """True if it plans jobs so that slots of completion that were promised earlier are kept."""
    queues: bool
    """True if chunks wait in the queues of shared workers; False if machines are reserved for slots."""
    competes: bool
    """True if it reads `Book.competitors`: the bids that stand compete, and each is decided in view of all of them."""
    pause: int
    """Slots without work whenever the set of a job's machines changes."""

    def decide(self, bid: Bid, book: Book) -> Decision:
        """Decide one bid against the book; the book is not changed."""

    def plan(self, book: Book, cause: Cause) -> tuple[Move, ...]:
        """Return moves for the jobs whose plan changes; a binding policy returns none."""

    def keep_promise(self, job: Job, book: Book) -> Schedule | None:
        """Return a schedule for the rest of a job that lost its machines, complete by the promised slot, at no extra
        cost.

        The job holds nothing in the book from now on. Return None if the promise cannot be kept or if the policy makes
        no promises.
        """

    def prices(self, book: Book) -> Floats:
        """Posted price of one unit of each resource for one slot, T x S x R, money."""

    def check(self, inventory: Inventory) -> None:
        """Check that the policy can run on these servers and types; raise InvalidField if it cannot."""

    def never_run(self, jobs: Iterable[Job], book: Book) -> tuple[Job, ...]:
        """Return those of the jobs without a plan that the policy would let wait for ever, even on an empty cluster."""

    def at_prices(self, inventory: Inventory, prices: Floats, *, start: int) -> Terms | None:
        """Return the terms of the dual bound at prices T x S x R from `start` on; None if the objective is not
        welfare."""

    def to_json(self) -> Json:
        """Every parameter by name, plain JSON values."""


@dataclass(frozen=True)
class Grant:
    """Schedule and payment of an admitted bid."""

    schedule: Schedule | None
    """None while the job waits without a plan."""
    payment: float = 0.0
    due: int | None = None
    """The promised slot of completion, if that is what the bid bought."""


@runtime_checkable
class Granting(Protocol):
    """A policy that can say what it grants without the rest of the decision, which takes most of the time."""

    def grants(self, book: Book) -> Callable[[Bid], Grant | None]:
        """Return a function from a bid to its grant on this book, as `decide` finds it; None if the bid is rejected."""


@runtime_checkable
class Admitting(Protocol):
    """A policy that finds admissions alone: a rejection without its receipt takes less time."""

    def admissions(self, book: Book) -> Callable[[Bid], Decision | None]:
        """Return a function from a bid to its admission on this book, as `decide` gives it; None if it is rejected."""


class PolicyBase:
    """Default implementation: the policy makes no promises, moves no job and has no prices."""

    architectures = frozenset({Architecture.PS})
    binding = False
    keeps_slots = False
    queues = False
    competes = False
    pause = 0

    def __post_init__(self) -> None:
        check_parameters(self)
        refuse_all(list(self.misfits()))

    def misfits(self) -> Iterator[InvalidField]:
        """Yield an error for each parameter, right in itself, that does not fit the others."""
        yield from ()

    def plan(self, book: Book, cause: Cause) -> tuple[Move, ...]:
        """Return no moves: plans stay the same."""
        return ()

    def keep_promise(self, job: Job, book: Book) -> Schedule | None:
        """Return None: the policy makes no promises."""
        return None

    def prices(self, book: Book) -> Floats:
        """Return T x S x R zeros: nothing has a price."""
        return np.zeros(book.ledger.used.shape)

    def check(self, inventory: Inventory) -> None:
        """Accept any servers and types."""

    def never_run(self, jobs: Iterable[Job], book: Book) -> tuple[Job, ...]:
        """Return no jobs: what was admitted by another policy can run."""
        return ()

    def at_prices(self, inventory: Inventory, prices: Floats, *, start: int) -> Terms | None:
        """Return None: there is no dual bound because the objective is not welfare."""
        return None

    def to_json(self) -> Json:
        """Every parameter by name, plain JSON values."""
        return parameters_to_json(self)


def value_with(bid: Bid, schedule: Schedule | None) -> float:
    """Return the bid's value under a schedule, money or weight; its greatest value while it waits without a start."""
    return greatest_value(bid) if schedule is None else bid.utility.at(schedule.completion - bid.arrival)


def greatest_value(bid: Bid) -> float:
    """Return the value of a completion one slot after arrival, money or weight: utilities never rise."""
    return bid.utility.at(1)
