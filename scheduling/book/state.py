"""The read-only state on which a policy decides: the book at one moment, with its jobs."""

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.decision import Move
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Placement, Schedule
from scheduling.model.types import Floats, Ints, Json
from scheduling.preemptive.queues import Queues

HISTORY = 512
"""Largest number of past bids that prices learn from."""
NOBODY = -(2**63)
"""Owner number of bids that each count as the bid of a different owner, as in the papers."""


class Cause(StrEnum):
    """The reason to plan again."""

    ENDED = "ended"
    """A job was completed, cancelled or failed; or several slots passed at once, in which uploads may have ended."""
    SLOT = "slot"
    """A slot passed and no job ended."""
    CHANGED = "changed"
    """Servers or the policy changed."""


@dataclass(frozen=True)
class Job:
    """An admitted job that is not complete."""

    bid: Bid
    held: tuple[Placement, ...]
    """All placements of the job, past and future, sorted."""
    completion: int | None
    """Planned completion slot; None while the job waits in line or is paused."""
    bound: bool = False
    """True if its schedule is a promise: no policy may move it."""
    due: int | None = None
    """Promised completion slot of a job whose machines may change; None if nothing is promised beyond the schedule."""
    queued_from: int | None = None
    """Forecast slot in which a worker first takes one of its chunks from a queue; None if it is in no queue."""

    def to_json(self) -> Json:
        """Return a document that `from_json` reads."""
        return {
            "bid": self.bid.to_json(),
            "held": Schedule(0, 0, self.held).to_json()["placements"],
            "completion": self.completion,
            "bound": self.bound,
            "due": self.due,
            "queued_from": self.queued_from,
        }

    @classmethod
    def from_json(cls, document: Json) -> "Job":
        """Read what `to_json` wrote."""
        held = Schedule.from_json({"start": 0, "completion": 0, "placements": document["held"]}).placements
        return cls(**document | {"bid": Bid.from_json(document["bid"]), "held": held})

    @property
    def start(self) -> int | None:
        """The first slot in which it runs, as planned; None while it waits in line."""
        return self.held[0].start if self.held else self.queued_from

    def started(self, now: int) -> bool:
        """Whether it ran before slot `now`."""
        start = self.held[0].start if self.held else self.queued_from
        return start is not None and start < now

    def is_over(self, now: int) -> bool:
        """Whether it is complete by slot `now` and holds nothing from then on (inclusive windows hold a slot more)."""
        return self.completion is not None and self.completion <= now and all(p.end <= now for p in self.held)

    def after(self, move: Move, *, now: int) -> "Job":
        """Return the job after `move` at slot `now`: earlier placements stay, those from `now` on are replaced."""
        past = tuple(p.until(now) for p in self.held if p.start < now)
        schedule = move.schedule
        future = () if schedule is None else schedule.placements
        completion = None if schedule is None else schedule.completion
        queued = self.queued_from if self.started(now) and not self.held else None
        if schedule is not None and not schedule.placements:
            queued = schedule.start
        return Job(self.bid, tuple(sorted(past + future)), completion, self.bound, self.due, queued)


@dataclass(frozen=True)
class Book:
    """The state on which a policy decides. It can be rebuilt from database rows at any time."""

    now: int
    """The current slot; nothing starts before it."""
    ledger: Ledger
    """All that jobs hold from `now` on; its horizon starts at `now`. A policy only reads it."""
    history: Floats
    """`density` of the bids decided earlier, in order, N x R; at most the last `HISTORY` bids."""
    decided: int
    """Number of bids decided before this one, N or more."""
    jobs: tuple[Job, ...] = ()
    """Admitted jobs that are not over by `now`, in order of admission."""
    queues: Queues | None = None
    """Data chunks in workers' queues; None if no job has chunks in a queue. A policy only reads it."""
    slots: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Decision slot of each bid of `history`, N numbers; empty if not needed."""
    standalone_values: Floats = field(default_factory=lambda: np.zeros(0))
    """Standalone value of each bid of `history` (its value on an empty cluster), money, N numbers; empty if not
    needed."""
    owners: Ints = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Owner number of each bid of `history`, N numbers; empty means `NOBODY` for all."""
    competitors: tuple[Bid, ...] = ()
    """Bids that stand, in order of arrival, for policies that compare them; the one that is decided may be among them.
    """
    line: tuple[Job, ...] | None = None
    """Jobs that may be moved and hold nothing from now on, by arrival, then admission; None if not known."""

    @property
    def inventory(self) -> Inventory:
        """Servers, resources and machine types."""
        return self.ledger.inventory

    @cached_property
    def waiting(self) -> tuple[Job, ...]:
        """Return `line`, found among all jobs where it is not known."""
        if self.line is not None:
            return self.line
        waiting = (job for job in self.jobs if not job.bound and all(p.end <= self.now for p in job.held))
        return tuple(sorted(waiting, key=lambda job: job.bid.arrival))
