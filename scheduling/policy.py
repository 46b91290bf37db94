"""What every policy is: parameters that check themselves, and pure functions from the book to decisions."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import numpy as np

from scheduling.arrays import Floats, Ints, Json
from scheduling.bid import Architecture, Bid
from scheduling.decision import Decision, Move
from scheduling.inventory import Inventory
from scheduling.ledger import Ledger
from scheduling.preemptive.queues import Queues
from scheduling.schedule import Placement, Schedule


class Objective(StrEnum):
    """What a policy tries to make as good as it can be."""

    WELFARE = "welfare"
    """Sum of the values of what completes: an auction, bids state a utility and pay posted prices."""
    WEIGHTED_COMPLETION = "weighted_completion"
    """Sum of weight x completion time, least: bids state a weight and nobody pays."""
    COMPLETION = "completion"
    """Mean time from arrival to completion, least: weights are shown and not used, and nobody pays."""


class Cause(StrEnum):
    """Why a policy is asked to look at its plan again."""

    ENDED = "ended"
    """A job was completed, cancelled or failed."""
    SLOT = "slot"
    """Slots passed; nothing ended."""
    CHANGED = "changed"
    """Servers or the policy changed."""


@dataclass(frozen=True)
class Job:
    """An admitted job that is not complete."""

    bid: Bid
    held: tuple[Placement, ...]
    """Everything it holds, past and future, sorted."""
    completion: int | None
    """As planned; None while nothing is planned: it waits in line, or is paused."""
    bound: bool = False
    """Granted as a promise: no policy may move it."""
    queued_from: int | None = None
    """The first slot in which a worker takes one of its chunks from a queue, as forecast; None if it is in none."""

    @property
    def start(self) -> int | None:
        """The first slot in which it runs, as planned; None while it waits in line."""
        return self.held[0].start if self.held else self.queued_from

    def started(self, now: int) -> bool:
        """Whether it ran before slot `now`."""
        return self.start is not None and self.start < now

    def is_over(self, now: int) -> bool:
        """Whether it is complete by slot `now` and holds nothing from then on (inclusive windows hold a slot more)."""
        return self.completion is not None and self.completion <= now and all(p.end <= now for p in self.held)

    def after(self, move: Move, *, now: int) -> "Job":
        """The job once `move` is made at slot `now`: what it held before stays, what it holds from then on is new."""
        past = tuple(p.until(now) for p in self.held if p.start < now)
        schedule = move.schedule
        future = () if schedule is None else schedule.placements
        completion = None if schedule is None else schedule.completion
        queued = self.queued_from if self.started(now) and not self.held else None
        if schedule is not None and not schedule.placements:
            queued = schedule.start
        return Job(self.bid, tuple(sorted(past + future)), completion, self.bound, queued)


@dataclass(frozen=True)
class Book:
    """What a policy may look at when it decides. It can be rebuilt from rows at any time."""

    now: int
    """The current slot; nothing starts before it."""
    ledger: Ledger
    """All that jobs hold from `now` on, its horizon starting at `now`. To be read, never moved, by a policy."""
    history: Floats
    """`density` of the bids decided earlier, in order, N x R (the last `HISTORY` of them at most)."""
    decided: int
    """How many bids were decided before this one, N or more."""
    jobs: tuple[Job, ...] = ()
    """Admitted and not over by `now`, in order of admission."""
    queues: Queues | None = None
    """Data chunks in workers' queues; None where no job is in one. To be read, never moved, by a policy."""
    slots: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """In which slot each bid of `history` was decided, N numbers; empty where nobody asks."""
    ceilings: Floats = field(default_factory=lambda: np.zeros(0))
    """Worth of each bid of `history` on an empty cluster, its ceiling, money, N numbers; empty where nobody asks."""
    owners: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """A number for the owner of each bid of `history`, N numbers; empty: `NOBODY` for all."""
    line: tuple[Job, ...] | None = None
    """Of `jobs`, those that may be moved and hold nothing from now on, by arrival, then admission; None: not known."""
    uploading: tuple[Job, ...] | None = None
    """Of `line`, in its order, those to which a server may become usable now or later; None: not known."""
    prompt: bool = False
    """Whether all of `line` could use every server from their arrival on; False: not known, too."""

    @property
    def inventory(self) -> Inventory:
        """Servers, resources and machine types."""
        return self.ledger.inventory


HISTORY = 512
"""How many past bids prices may learn from."""
NOBODY = -1
"""Owner of bids of which each counts as that of another owner: as in the papers, where nobody has two."""


class Terms(Protocol):
    """The empty cluster at fixed prices: what each bid would earn there."""

    def term(self, bid: Bid, *, first: int | None = None, end: int | None = None) -> float:
        """max(0, best payoff), money, of schedules that start in slot `first` or later and are complete by `end`."""


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
