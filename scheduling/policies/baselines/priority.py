"""Priority order of jobs by a key, updated from event to event because few jobs come or go."""

from bisect import insort_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from operator import is_
from typing import NamedTuple

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


@dataclass(frozen=True)
class RankedJobs:
    """Jobs by priority. It is immutable because quotes are answered in several threads."""

    jobs: tuple[Job, ...] = ()
    """All jobs, in an order in which ties are in order of admission."""
    ranked: tuple[Ranked, ...] = ()
    """The jobs that are not impossible, by priority."""

    def after(self, jobs: tuple[Job, ...], rank: Callable[[Job], Ranked | None]) -> "RankedJobs":
        """Return the order of other jobs: O(n) to find arrivals and departures, and one search for each arrival.

        Parameters
        ----------
        jobs
            Jobs in an order where equal keys are in order of admission. A job that was moved is another object.
        rank
            Called only for arrivals; returns None if a job is impossible.
        """
        if len(jobs) == len(self.jobs) and all(map(is_, jobs, self.jobs)):
            return self
        place = {id(job): number for number, job in enumerate(jobs)}
        before = {id(job) for job in self.jobs}
        ranked = [one for one in self.ranked if id(one.job) in place]
        came = [one for one in (rank(job) for job in jobs if id(job) not in before) if one is not None]

        def turn(one: Ranked) -> tuple[tuple[Key, int], int]:
            return one.turn, place[id(one.job)]

        if len(came) > FEW:
            ranked = sorted([*ranked, *came], key=turn)
        else:
            for one in came:
                insort_right(ranked, one, key=turn)
        return RankedJobs(jobs, tuple(ranked))

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
