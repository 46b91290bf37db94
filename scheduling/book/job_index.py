"""Incremental index of a book's waiting and planned jobs, so that no event has to scan all jobs."""

from collections.abc import Iterable

from scheduling.book.state import Job


class JobIndex:
    """Jobs of a book by state. It is derived data: the book's jobs are the source of truth."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._rank: dict[str, int] = {}
        """Rank of each job in order of admission."""
        self._admitted = 0
        self._line: dict[str, Job] = {}
        """Jobs that may be moved and hold nothing from now on, in order of arrival, then of admission."""
        self._last = (0, 0)
        """Upper bound on (arrival, rank) of the jobs in the line."""
        self._disordered = False
        """Whether a job came to the line that does not belong to its end: `line` sorts it."""
        self._planned: dict[str, Job] = {}
        """Jobs with a planned completion."""
        self._odd: set[str] = set()
        """Planned jobs whose machines end before their completion: whether they hold anything depends on the slot."""
        for job in jobs:
            self.put(job)

    def copy(self) -> "JobIndex":
        """Return an independent index, for a copy of the book."""
        other = JobIndex(())
        other._rank, other._admitted, other._last = dict(self._rank), self._admitted, self._last
        other._line, other._planned, other._odd = dict(self._line), dict(self._planned), set(self._odd)
        other._disordered = self._disordered
        return other

    def put(self, job: Job) -> None:
        """Add a job, or replace its earlier state."""
        name = job.bid.id
        if name not in self._rank:
            self._rank[name] = self._admitted
            self._admitted += 1
        _set(self._planned, job, belongs=job.completion is not None)
        if job.completion is not None and job.held and max(p.end for p in job.held) < job.completion:
            self._odd.add(name)
        else:
            self._odd.discard(name)
        waits = not job.bound and (not job.held or job.completion is None)
        comes = self._key(job)
        if waits and name not in self._line and comes < self._last:
            self._disordered = True
        _set(self._line, job, belongs=waits)
        if waits:
            self._last = max(self._last, comes)

    def drop(self, name: str) -> None:
        """Remove a job that leaves the book."""
        del self._rank[name]
        self._line.pop(name, None)
        self._planned.pop(name, None)
        self._odd.discard(name)

    def over(self, now: int) -> tuple[Job, ...]:
        """Return the jobs that are over by `now`, in order of admission."""
        done = [job for job in self._planned.values() if job.is_over(now)]
        return tuple(sorted(done, key=lambda job: self._rank[job.bid.id]))

    def line(self) -> tuple[Job, ...] | None:
        """Return the value for `Book.line`."""
        if self._disordered:
            self._line = {job.bid.id: job for job in sorted(self._line.values(), key=self._key)}
            self._disordered = False
        return None if self._odd else tuple(self._line.values())

    def _key(self, job: Job) -> tuple[int, int]:
        return job.bid.arrival, self._rank[job.bid.id]


def _set(jobs: dict[str, Job], job: Job, *, belongs: bool) -> None:
    if belongs:
        jobs[job.bid.id] = job
    else:
        jobs.pop(job.bid.id, None)
