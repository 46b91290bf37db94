"""One job while a plan is made, with what it holds from now on in the current plan."""

from collections.abc import Iterable
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduling.model.progress import Machines, done_in
from scheduling.model.schedule import Placement, Schedule
from scheduling.policies.baselines.allocation import Allocation
from scheduling.policies.baselines.cache import JobFacts


class Stopped(NamedTuple):
    """The machines of a job before it was stopped."""

    hold: Allocation
    completion: int | None


class PassJob:
    """A job that may be moved, and what it holds from now on in the current plan."""

    def __init__(self, known: JobFacts, *, now: int) -> None:
        self.known = known
        self.job = known.job
        self.now = now
        self.hold = known.hold
        self.completion = known.job.completion
        self.waited = not self.hold.lasts(now)
        """Whether it held nothing when the plan began."""

    @property
    def held(self) -> tuple[Placement, ...]:
        """Placements from now on, sorted."""
        return self.hold.since(self.now)

    @property
    def running(self) -> bool:
        """Whether the job holds machines."""
        return self.hold.lasts(self.now)

    @property
    def workers(self) -> int:
        """Number of workers that the job holds."""
        return self.hold.workers(self.now)

    @cached_property
    def left(self) -> Fraction:
        """Exact number of mini-batches left."""
        if not self.job.held:
            return Fraction(self.job.bid.work)
        return self.job.bid.work - done_in(self.job.bid, self.known.stretches, until=self.now)

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """Servers to which the upload has ended, S flags."""
        return np.array(self.job.bid.delay) + self.job.bid.arrival <= self.now

    @property
    def first(self) -> int:
        """First slot before now in which the job held machines; now if it held none."""
        held = self.job.held
        return min(held[0].start, self.now) if held else self.now

    def lost(self, machines: Machines | None = None) -> int:
        """Return the slots without work: a pause if the job ran before, but not on these machines until now."""
        if not self.known.pause or self.first == self.now:
            return 0
        if machines is None:
            return self.known.pause
        last = _machines(p for p in self.job.held if p.start < self.now <= p.end)
        return 0 if last == machines else self.known.pause

    @property
    def schedule(self) -> Schedule | None:
        """Return the schedule of what the job holds from now on."""
        if self.completion is None or not self.running:
            return None
        held = self.held
        return Schedule(start=min(p.start for p in held), completion=self.completion, placements=held)

    @property
    def moved(self) -> bool:
        """Whether the plan differs from what the job held before."""
        if self.hold is self.known.hold:
            return False
        return (self.held, self.completion) != (self.known.hold.since(self.now), self.job.completion)


def _machines(placements: Iterable[Placement]) -> Machines:
    return tuple(sorted((p.role, p.server, p.type, p.count) for p in placements))
