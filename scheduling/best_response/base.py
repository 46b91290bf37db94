"""The interface of best-response kernels."""

from dataclasses import dataclass
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Schedule
from scheduling.model.types import Floats, Ints

PAYOFF, RATIO, LATEST = 0, 1, 2
"""Objectives: greatest payoff; least cost per unit of value; latest start with a payoff above the threshold."""


class PriceOf(Protocol):
    """Prices as a function of use and of time ahead, so that only servers that changed need new prices."""

    def of(self, used: Ints, capacity: Ints, ahead: Ints) -> Floats:
        """Return the price of one unit for one slot, money, with the shape of `used`: (..., R) units.

        `ahead` is the number of slots from the first one of the horizon; it broadcasts to the shape of `used` without
        its last axis. Of two slots with the same use, the later one costs at least as much.
        """

    @property
    def rises_ahead(self) -> bool:
        """Whether a later slot can cost more than an earlier one with the same use."""


def slots_ahead(slots: int) -> Ints:
    """Return how far ahead each slot of a horizon is, for `PriceOf.of` with T x S x R units: 0 to T - 1, T x 1."""
    return np.arange(slots)[:, np.newaxis]


@dataclass(frozen=True)
class NoPrice:
    """The price function that is 0 whatever is in use."""

    rises_ahead: ClassVar[bool] = False

    def of(self, used: Ints, capacity: Ints, ahead: Ints) -> Floats:
        """Return zeros with the shape of `used`."""
        return np.zeros(used.shape)


@dataclass(frozen=True)
class Response:
    """A schedule with its value and its cost at the posted prices, money."""

    schedule: Schedule
    value: float
    cost: float

    @property
    def payoff(self) -> float:
        """Value minus cost, money."""
        return self.value - self.cost


class Index(Protocol):
    """Tables that a kernel keeps for one ledger."""

    inventory: Inventory

    def __init__(self, inventory: Inventory, slots: int) -> None:
        """Make tables for these servers and this number of slots."""


AnyIndex = TypeVar("AnyIndex", bound=Index)


def index_of(ledger: Ledger, kind: type[AnyIndex]) -> AnyIndex:
    """Return the index of this kind that a ledger keeps; a new one at first use and after a change of inventory."""
    index = ledger.tables.get(kind.__name__)
    if not isinstance(index, kind) or index.inventory is not ledger.inventory:
        index = kind(ledger.inventory, ledger.end - ledger.start)
        ledger.tables[kind.__name__] = index
    return index


class Kernel(Protocol):
    """Best responses on one ledger at its posted prices.

    Implementations: `RigidKernel` (the same machines from start to completion; rings), `ElasticKernel` (machines that
    change in number every slot) and `ChunkKernel` (the recursion of the OASiS paper).
    """

    def best(self, bid: Bid, *, above: float = 0.0, first_start: int | None = None) -> Response | None:
        """Return the schedule of greatest payoff that starts in slot `first_start` or later; None if not above
        `above`."""

    def min_cost_per_value(self, bid: Bid) -> Response | None:
        """Return the schedule of least cost per unit of value, among those of positive value."""

    def latest(self, bid: Bid) -> Response | None:
        """Return the schedule of positive payoff that starts last."""


@runtime_checkable
class LastStarts(Protocol):
    """A kernel that finds the best of the schedules that start last without finding one of positive payoff before."""

    def best_of_last_start(self, bid: Bid, *, first_start: int) -> Response | None:
        """Return the schedule of greatest payoff among those that start last, in slot `first_start` or later.

        Only schedules of positive payoff count. None if there is none.
        """


class ExactKernel:
    """A kernel that has one exact search for the three objectives."""

    def best(self, bid: Bid, *, above: float = 0.0, first_start: int | None = None) -> Response | None:
        """Return the schedule of greatest payoff if the payoff exceeds `above` (see `best_response`)."""
        response = self._respond(bid, mode=PAYOFF, above=above, first_start=first_start)
        return response if response is not None and response.payoff > above else None

    def min_cost_per_value(self, bid: Bid) -> Response | None:
        """Return the schedule of least cost per unit of value, among those of positive value.

        At `cost / value` times its amplitude the bid's payoff for this schedule is 0, and at any lower amplitude no
        schedule has a positive payoff. One search solves this fractional program.
        """
        response = self._respond(bid, mode=RATIO, above=0.0, first_start=None)
        return response if response is not None and response.value > 0 else None

    def latest(self, bid: Bid) -> Response | None:
        """Return the schedule of positive payoff that starts last."""
        response = self._respond(bid, mode=LATEST, above=0.0, first_start=None)
        return response if response is not None and response.payoff > 0 else None

    def _respond(self, bid: Bid, *, mode: int, above: float, first_start: int | None) -> Response | None:
        """Return the best schedule by one of the objectives."""
        raise NotImplementedError
