"""What every policy is: parameters that check themselves, and pure functions from the book to decisions."""

from enum import StrEnum
from typing import Protocol

import numpy as np

from scheduling.best_response.at_prices import Terms
from scheduling.book.state import Book, Cause, Job
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision, Move
from scheduling.model.inventory import Inventory
from scheduling.model.parameters import check_parameters, parameters_to_json
from scheduling.model.schedule import Schedule
from scheduling.model.types import Floats, Json


class Objective(StrEnum):
    """What a policy tries to make as good as it can be."""

    WELFARE = "welfare"
    """Sum of the values of what completes: an auction, bids state a utility and pay posted prices."""
    WEIGHTED_COMPLETION = "weighted_completion"
    """Sum of weight x completion time, least: bids state a weight and nobody pays."""
    COMPLETION = "completion"
    """Mean time from arrival to completion, least: weights are shown and not used, and nobody pays."""


class Policy(Protocol):
    """A frozen dataclass of validated parameters; same inputs, same bytes out."""

    name: str
    """As in the registry."""
    title: str
    """For people."""
    objective: Objective
    architectures: frozenset[Architecture]
    """How the jobs it can run exchange gradients."""
    binding: bool
    """True if what it grants is a promise: a schedule never moves. False if a job that has not started may move."""
    queues: bool
    """True if chunks wait in workers' queues, which jobs share; False if machines are booked for slots."""
    pause: int
    """Slots at the beginning of every new constellation of a job's machines in which nothing is done."""

    def decide(self, bid: Bid, book: Book) -> Decision:
        """Decide one bid against the book; nothing is changed."""

    def plan(self, book: Book, cause: Cause) -> tuple[Move, ...]:
        """What jobs hold from now on, for those where that changes; a binding policy moves none."""

    def keep_promise(self, job: Job, book: Book) -> Schedule | None:
        """How the rest of a job whose machines are gone is complete by the slot it was promised, at no more cost.

        The job holds nothing in the book from now on. None if the promise cannot be kept, or nothing is promised here.
        """

    def prices(self, book: Book) -> Floats:
        """Posted price of one unit of each resource for one slot, T x S x R, money."""

    def check(self, inventory: Inventory) -> None:
        """Raise InvalidField, naming what is wrong, if the policy cannot run on these servers and types."""

    def at_prices(self, inventory: Inventory, prices: Floats, *, start: int) -> Terms | None:
        """The terms of the dual bound at prices T x S x R from `start` on; None if its objective is not welfare."""

    def to_json(self) -> Json:
        """Every parameter by name, plain JSON values."""


class PolicyBase:
    """What policies have in common unless they say otherwise: nothing is promised, moved or priced."""

    architectures = frozenset({Architecture.PS})
    binding = False
    queues = False
    pause = 0

    def __post_init__(self) -> None:
        check_parameters(self)

    def plan(self, book: Book, cause: Cause) -> tuple[Move, ...]:
        """What jobs hold stays as it is."""
        return ()

    def keep_promise(self, job: Job, book: Book) -> Schedule | None:
        """Nothing is promised here."""
        return None

    def prices(self, book: Book) -> Floats:
        """Nothing has a price, T x S x R zeros."""
        return np.zeros(book.ledger.used.shape)

    def check(self, inventory: Inventory) -> None:
        """Any servers and types will do."""

    def at_prices(self, inventory: Inventory, prices: Floats, *, start: int) -> Terms | None:
        """No dual bound: the objective is not welfare."""
        return None

    def to_json(self) -> Json:
        """Every parameter by name, plain JSON values."""
        return parameters_to_json(self)


def value_with(bid: Bid, schedule: Schedule | None) -> float:
    """What the bid's owner gets from a schedule, money or weight; its full value while it waits without a start."""
    return bid.utility.value if schedule is None else bid.utility.at(schedule.completion - bid.arrival)
