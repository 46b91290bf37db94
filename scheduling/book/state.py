"""What a policy may look at when it decides: the book at one moment, with the jobs in it."""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.decision import Move
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Placement
from scheduling.model.types import Floats, Ints
from scheduling.preemptive.queues import Queues

HISTORY = 512
"""How many past bids prices may learn from."""
NOBODY = -1
"""Owner of bids of which each counts as that of another owner: as in the papers, where nobody has two."""


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
