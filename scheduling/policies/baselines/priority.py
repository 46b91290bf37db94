"""Priority order of jobs by a key, updated from event to event because few jobs come or go."""

from bisect import insort_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import is_
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from scheduling.book.state import Job
from scheduling.policies.baselines.gang import Gang

Key = tuple[float | Fraction, ...]
"""A sort key; the least one is first."""


class Priority(NamedTuple):
    """The priority of a job."""

    key: Key
    gang: Gang
    """Its allocation when it runs."""
    slots: int = 0
    """Slots that it still has to run, if the policy needs them."""
    demand: Sequence[int] = ()
    """Its demand on all servers together, R numbers, if the policy needs it."""
    uploaded: int = 0
    """Slot from which it can use some server, if the policy needs it."""


FEW = 8
"""Up to this many new jobs are inserted one by one; with more, all jobs are sorted."""


class Ranked(NamedTuple):
    """A job with its priority."""

    turn: tuple[Key, int]
    """Key and arrival: the least is first; ties are in order of admission."""
    job: Job
    of: Priority
    units: list[int]
    """Units that it holds now on all servers together, R numbers."""


class Sortable(Protocol):
    """A job and the key by which it is sorted."""

    @property
    def turn(self) -> Any:
        """The sort key: the least is first."""

    @property
    def job(self) -> Job:
        """The job."""


One = TypeVar("One", bound=Sortable)


@dataclass(frozen=True)
class OrderedJobs(Generic[One]):
    """Jobs by a sort key. It is immutable because quotes are answered in several threads."""

    jobs: tuple[Job, ...] = ()
    """All jobs, in an order in which ties are in order of admission."""
    ranked: tuple[One, ...] = ()
    """The jobs that are not impossible, by priority."""

    def after(self, jobs: tuple[Job, ...], rank: Callable[[Job], One | None]) -> Self:
        """Return the order of other jobs: O(n) to find arrivals and departures, and one search for each arrival.

        Parameters
        ----------
        jobs
            Jobs in an order where equal keys are in order of admission. A job that was moved is another object.
        rank
            Called only for arrivals; returns None if a job is impossible.
        """
        known = len(self.jobs)
        came, gone, place = jobs[known:], set[int](), dict[int, int]()
        # Identities are compared in C, as a look at thousands of objects takes milliseconds.
        if len(jobs) < known or not all(map(is_, self.jobs, jobs)):
            place = dict(zip(map(id, jobs), range(len(jobs)), strict=True))
            before = set(map(id, self.jobs))
            gone = before - place.keys()
            came = tuple(jobs[number] for number in sorted(place[one] for one in place.keys() - before))
        elif not came:
            return self
        ranked = [one for one in self.ranked if id(one.job) not in gone] if gone else list(self.ranked)
        arrivals = [one for one in map(rank, came) if one is not None]

        def turn(one: One) -> tuple[Any, int]:
            # Without places, arrivals are the last of equals.
            return one.turn, place.get(id(one.job), 0)

        if len(arrivals) > FEW:
            ranked = sorted([*ranked, *arrivals], key=turn)
        else:
            for one in arrivals:
                insort_right(ranked, one, key=turn)
        return type(self)(jobs, tuple(ranked))


@dataclass(frozen=True)
class RankedJobs(OrderedJobs[Ranked]):
    """Jobs by priority, with sums over those behind."""

    @cached_property
    def keys(self) -> list[Key]:
        """Return the keys of the ranked jobs."""
        return [one.turn[0] for one in self.ranked]

    @cached_property
    def units_behind(self) -> list[list[int]]:
        """Return the total units of each ranked job and all jobs behind it, R numbers each."""
        return sums_behind([one.units for one in self.ranked])


def sums_behind(rows: list[list[int]]) -> list[list[int]]:
    """Return, for each list of numbers, the sum of it and all lists behind it."""
    if not rows:
        return []
    sums: list[list[int]] = np.cumsum(np.array(rows, dtype=np.int64)[::-1], axis=0)[::-1].tolist()
    return sums
