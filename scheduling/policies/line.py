"""The line of weighted completion: jobs that may be planned, in order, without a look at each at every event."""

from bisect import bisect_right
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from scheduling.batch.consumption import consumption_of
from scheduling.book.ledger import Ledger
from scheduling.book.state import Book, Job
from scheduling.policies.baselines.priority import OrderedJobs


class Ranked(NamedTuple):
    """A job with its turn."""

    turn: tuple[float, int]
    """Merit, negative, and arrival: the least is first."""
    job: Job
    density: float
    """Weight over the least share of the cluster x slots that the job needs."""


class Waiting(OrderedJobs[Ranked]):
    """Jobs that hold nothing from now on, in order."""

    @cached_property
    def least_density(self) -> float:
        """Return the least density above 0; infinite if there is none."""
        return min((one.density for one in self.ranked if one.density > 0), default=float("inf"))


@dataclass(frozen=True)
class Line:
    """Jobs of a book, in order of merit, then of arrival, then of admission."""

    waiting: Waiting
    """Jobs that may be planned and hold nothing from now on."""
    movable: tuple[Job, ...]
    """Jobs that may be planned again, as they have not started, in order of admission."""
    others: tuple[Job, ...]
    """Jobs that run, and promised ones, in order of admission."""
    places: dict[int, int]
    """Place of each job in order of admission, by the identity of its object."""
    new: Ranked | None
    """The job that arrives."""
    ledger: Ledger
    order: str

    @classmethod
    def of(cls, book: Book, order: str, new: Job | None = None) -> "Line":
        """Return the line of a book; the ledger caches the order of the jobs that wait."""
        ledger = book.ledger

        def rank(job: Job) -> Ranked:
            return _ranked(job, ledger, order)

        key = order, book.inventory
        kept = ledger.derived.get("line")
        known = kept[1] if isinstance(kept, tuple) and kept[0] == key else Waiting()
        waiting = known.after(book.waiting, rank)
        ledger.derived["line"] = key, waiting
        # Identities are compared in C, as a look at thousands of objects takes milliseconds.
        places = dict(zip(map(id, book.jobs), range(len(book.jobs)), strict=True))
        rest = [
            book.jobs[place] for place in sorted(map(places.__getitem__, places.keys() - set(map(id, book.waiting))))
        ]
        movable, others = [], []
        for job in rest:
            if job.bound or job.started(book.now):
                others.append(job)
            else:
                movable.append(job)
        return cls(
            waiting,
            tuple(movable),
            tuple(others),
            places,
            None if new is None else rank(new),
            ledger,
            order,
        )

    @cached_property
    def planned(self) -> tuple[Ranked, ...]:
        """Jobs that may be planned again, as they have not started; in order.

        In interval mode hundreds of them wait for their batch to start, and a slot that passes does not need them.
        """
        ranked = (_ranked(job, self.ledger, self.order) for job in self.movable)
        return tuple(sorted(ranked, key=attrgetter("turn")))

    def jobs(self, *, planned: bool = True, most: int | None = None, stopped: Collection[Ranked] = ()) -> list[Job]:
        """Return the jobs in order: the `most` first ones that wait, those with a plan if `planned`, the new one.

        Running jobs that are `stopped` are among them.
        """
        rows = [islice(self.waiting.ranked, most), *([self.planned] if planned else [])]
        rows += [[self.new]] if self.new is not None else []
        rows += [sorted(stopped, key=self._key)]
        return [one.job for one in merge(*rows, key=self._key)]

    def running(self, now: int) -> list[Ranked]:
        """Return the running jobs that may be moved, those that are complete last first."""
        running = [_ranked(job, self.ledger, self.order) for job in self.others if not job.bound and job.started(now)]
        return sorted(running, key=lambda one: (-(one.job.completion or 0), self.places[id(one.job)]))

    def jobs_after(self, most: int) -> list[Job]:
        """Return the jobs that wait, in order, without the `most` first ones."""
        return [one.job for one in self.waiting.ranked[most:]]

    def place_of_new(self, started: Iterable[Job]) -> tuple[int, int]:
        """Return the place of the new job in line and the length of the line, without jobs that have started now.

        The place is 0 if the new job has started.
        """
        if self.new is None:
            raise ValueError("no job is new here")
        turn, gone = self.new.turn, list(started)
        ahead = bisect_right(self.waiting.ranked, turn, key=attrgetter("turn"))
        ahead += sum(one.turn <= turn for one in self.planned)
        passed = sum(_ranked(job, self.ledger, self.order).turn <= turn for job in gone if job is not self.new.job)
        length = len(self.waiting.ranked) + len(self.planned) + 1 - len(gone)
        return (0 if any(job is self.new.job for job in gone) else ahead + 1 - passed), length

    @property
    def least_density(self) -> float:
        """Return the least density above 0 of all jobs; 1 if there is none."""
        found = [self.waiting.least_density]
        found += [
            one.density for one in (*self.planned, *([self.new] if self.new is not None else [])) if one.density > 0
        ]
        for job in self.others:
            density = consumption_of(job.bid, self.ledger).density(job.bid.utility.value)
            if density > 0:
                found.append(density)
        least = min(found)
        return least if least < float("inf") else 1.0

    def _key(self, one: Ranked) -> tuple[tuple[float, int], int]:
        return one.turn, self.places.get(id(one.job), len(self.places))


def _ranked(job: Job, ledger: Ledger, order: str) -> Ranked:
    weight, least = job.bid.utility.value, consumption_of(job.bid, ledger)
    density = least.density(weight)
    merit = density if order == "density" else {"weight": weight, "size": -least.volume, "arrival": 0.0}[order]
    return Ranked((-merit, job.bid.arrival), job, density)
