"""The jobs of a book while a plan is made: what each job holds from now on, and the resulting moves."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, islice

import numpy as np

from scheduling.book.state import Book, Cause, Job
from scheduling.model.decision import Move
from scheduling.model.progress import Machines
from scheduling.model.schedule import Placement
from scheduling.model.types import Ints
from scheduling.policies.baselines.allocation import NOTHING, Allocation
from scheduling.policies.baselines.cache import Cache
from scheduling.policies.baselines.capacity import FreeCapacity
from scheduling.policies.baselines.gang import Gang, find_place, room_for
from scheduling.policies.baselines.pass_job import PassJob, Stopped
from scheduling.policies.baselines.priority import Priority, Ranked, Row


class PassState:
    """A plan in progress: jobs in order of admission, and the free capacity. Bound jobs are not touched."""

    def __init__(self, book: Book, *, pause: int, new: Job | None = None) -> None:
        self.now = book.now
        self.inventory = book.inventory
        self.room = FreeCapacity.of(book.ledger)
        self.slots = self.room.slots
        self.memory = Cache.of(book.ledger)
        self.pause = pause
        self._jobs = book.jobs
        self._new = new
        last = book.line[-1].bid.arrival if book.line else book.now
        known = self.room.falling and (new is None or new.bid.arrival >= last)
        self._line = book.line if known else None
        """Jobs that hold nothing, but the new one, which comes after them; None if all tasks have to be looked at."""
        self._uploading = book.uploading if known else None
        self._prompt = book.prompt and known
        self._met: dict[str, PassJob] = {}
        # Another policy may have planned ahead: here a job runs now, or waits.
        for task in self.tasks if not self.room.falling else ():
            if task.running and all(p.start > book.now for p in task.held):
                self.stop(task)

    @cached_property
    def tasks(self) -> list[PassJob]:
        """All, in order of admission."""
        free = (job for job in self.jobs if not job.bound)
        rows = self.memory.recall(free, pause=self.pause)
        self._met |= {row.job.bid.id: PassJob(row, now=self.now) for row in rows if row.job.bid.id not in self._met}
        return [self._met[known.job.bid.id] for known in rows]

    def meet(self, job: Job) -> PassJob:
        """Return the pass job of a job that may be moved."""
        task = self._met.get(job.bid.id)
        if task is None:
            task = self._met[job.bid.id] = PassJob(self.memory.known(job, pause=self.pause), now=self.now)
        return task

    @property
    def newcomer(self) -> PassJob:
        """The pass job of the new job."""
        if self._new is None:
            raise ValueError("no job is new here")
        return self.tasks[-1] if self._looked_at_all else self.meet(self._new)

    def in_line(self) -> Iterator[PassJob]:
        """Yield `waiting` lazily; only yielded jobs may be started meanwhile. Jobs that are not reached cost
        nothing."""
        if self._line is None or self._looked_at_all:
            yield from self.waiting
            return
        for job in self._line if self._new is None else (*self._line, self._new):
            task = self.meet(job)
            if not task.running:
                yield task

    def jobs_in_line(self) -> list[Job]:
        """Return the jobs of `in_line` without creating pass jobs."""
        if self._line is None or self._looked_at_all:
            return [task.job for task in self.waiting]
        line = self._line if self._new is None else (*self._line, self._new)
        return [job for job in line if (task := self._met.get(job.bid.id)) is None or not task.running]

    def may_start(self, cause: Cause | None) -> Iterator[PassJob]:
        """Yield the jobs of `in_line` that may fit now although they did not fit at the last event.

        If a job arrived (None) or only slots passed, no machines became free for waiting jobs. Then only the new job
        and
        jobs for which a server has just become usable are checked.
        """
        if cause not in (None, Cause.SLOT) or self._uploading is None or self._looked_at_all:
            yield from self.in_line()
            return
        for job in self._uploading if self._new is None else (*self._uploading, self._new):
            task = self.meet(job)
            if not task.running:
                yield task

    @property
    def settled(self) -> bool:
        """Whether no job in line except the new one can use a server that it could not use at the last event."""
        return self._new is not None and self._prompt and not self._looked_at_all

    def running_now(self) -> list[PassJob]:
        """Return the jobs that hold machines, in order of arrival, then of admission."""
        if self._line is None or self._looked_at_all:
            return [task for task in self.in_order if task.running]
        tasks = [task for task in map(self.meet, self._planned()) if task.running]
        return sorted(tasks, key=lambda task: task.job.bid.arrival)

    def merged(self, first: Iterable[Job], second: Iterable[Job]) -> list[Job]:
        """Merge two groups of jobs that are each in order of arrival, then of admission, in that order."""
        jobs, more = [*first], [*second]
        if jobs and more:
            place = {job.bid.id: number for number, job in enumerate(self.jobs)}
            jobs = sorted([*jobs, *more], key=lambda job: (job.bid.arrival, place[job.bid.id]))
        return jobs or more

    def _planned(self) -> tuple[Job, ...]:
        return tuple(job for job in self._jobs if job.completion is not None and not job.bound)

    def ranked_line(self, policy: object, rank: Callable[[PassJob], Priority | None]) -> Sequence[Ranked] | None:
        """Return the line, with the new job if it waits, in the order of a policy; None if not known."""
        if self._line is None or self._looked_at_all:
            return None
        row = self.memory.row("line", policy, self._line, lambda job: self.as_ranked(job, rank))
        if self._new is None or self.newcomer.running:
            return row.ranked
        newcomer = self.as_ranked(self._new, rank)
        return row.ranked if newcomer is None else row.with_last(newcomer)

    def ranked_running(self, policy: object, rank: Callable[[PassJob], Priority | None]) -> Row:
        """Return the jobs that ran before the plan began, in the order of a policy, where the line is known."""
        return self.memory.row("running", (policy, self.now), self._planned(), lambda job: self.as_ranked(job, rank))

    def as_ranked(self, job: Job, rank: Callable[[PassJob], Priority | None]) -> Ranked | None:
        """Return a job with its rank."""
        task = self.meet(job)
        of = rank(task)
        if of is None:
            return None
        turn, units = (of.key, job.bid.arrival), self.total(task)
        return Ranked(turn, job, of.gang, units, of.slots, of.demand, task.known.upload)

    def runs(self, job: Job) -> bool:
        """Whether a job that ran before the plan began still runs."""
        task = self._met.get(job.bid.id)
        return task is None or task.running

    def total(self, task: PassJob) -> list[int]:
        """Units of each resource that it holds now, of all servers together, R numbers."""
        return task.hold.total(self.inventory, self.now)

    @property
    def jobs(self) -> Iterator[Job]:
        """All, in order of admission."""
        return chain(self._jobs, () if self._new is None else (self._new,))

    @property
    def full(self) -> bool:
        """Whether not even one worker of any type has a place now."""
        return any(have < least for have, least in zip(self.room.idle, self.memory.smallest, strict=True))

    def place(self) -> tuple[int, int]:
        """Return the new job's place among the waiting jobs (0 if it runs), and the number of waiting jobs."""
        newcomer = self.newcomer
        if self._looked_at_all:
            waiting = self.waiting
            return (0 if newcomer.running else waiting.index(newcomer) + 1), len(waiting)
        left = len(self._line or ()) + 1
        left += sum(task.known.hold.lasts(self.now) - task.running for task in self._met.values())
        return (0 if newcomer.running else left), left

    @property
    def waiting(self) -> list[PassJob]:
        """Return the jobs that hold nothing, in order of arrival."""
        return [task for task in self.in_order if not task.running]

    @property
    def in_order(self) -> list[PassJob]:
        """Return all jobs, in order of arrival, then of admission."""
        return sorted(self.tasks, key=lambda task: task.job.bid.arrival)

    def start(self, task: PassJob, gang: Gang) -> bool:
        """Run a waiting job as this gang from now to its end, if the gang fits; return whether it does."""
        if not self.may_fit(gang):
            return False
        machines = find_place(gang, self.room, task.left, usable=task.usable, lost=task.lost())
        if machines is None:
            return False
        self.put(task, machines, gang)
        return True

    def put(self, task: PassJob, machines: Machines, gang: Gang) -> None:
        """Run a waiting job on these machines, which must be free, from now to its end."""
        spread = len({server for _, server, _, _ in machines}) > 1
        end = self.now + task.lost(machines) + gang.duration(task.left, spread=spread)
        task.hold = Allocation(tuple(sorted(Placement(self.now, end, *machine) for machine in machines)))
        task.completion = end
        self.room.take(task.hold)

    def stop(self, task: PassJob) -> Stopped:
        """Release all that a job holds; return it, for `resume`."""
        before = Stopped(task.hold, task.completion)
        self.room.give(task.hold)
        task.hold, task.completion = NOTHING, None
        return before

    def resume(self, task: PassJob, before: Stopped) -> None:
        """Undo `stop`."""
        task.hold, task.completion = before
        self.room.take(task.hold)

    def has_room(self, hold: Allocation) -> bool:
        """Whether machines held from now on would fit; they end together."""
        free = self.room.free(hold.last_end - self.now) - hold.units(self.inventory, self.now)
        return bool((free >= 0).all())

    def start_instead(self, task: PassJob, gang: Gang, victims: Iterable[PassJob]) -> bool:
        """Run a job, stopping victims one by one, in the order given, until the job fits.

        Then victims that still fit on their old machines resume there, the last one stopped first. Nothing changes if
        stopping all victims would not make enough room.
        """
        if self.start(task, gang):
            return True
        victims = list(victims)
        if not self.may_fit_instead(task, gang, victims):
            return False
        stopped = []
        for victim in victims:
            stopped.append((victim, self.stop(victim)))
            if self.start(task, gang):
                break
        for victim, before in reversed(stopped):
            if not task.running or self.has_room(before.hold):
                self.resume(victim, before)
        return task.running

    def may_fit(self, gang: Gang, more: Sequence[int] | None = None, *, count: int | None = None) -> bool:
        """Whether all servers together have enough units, plus `more` of each: a cheap check that usually fails.

        `count` replaces the number of workers of the gang.
        """
        idle, least = self.room.idle, self.memory.least_units(gang, count or gang.count)
        return all(idle[r] + (more[r] if more else 0) >= units for r, units in least)

    def held_by(self, tasks: Iterable[PassJob]) -> list[int]:
        """Return the units of each resource that these jobs hold now, R numbers."""
        totals = [self.total(task) for task in tasks]
        return [sum(column) for column in zip(*totals, strict=True)] if totals else [0] * len(self.room.idle)

    def shared_out(self) -> Ints:
        """Return the capacity of all servers now, without what bound jobs hold, R numbers."""
        return np.array(self.room.idle, dtype=np.int64) + self.held_by(self.running_now())

    def may_fit_instead(self, task: PassJob, gang: Gang, victims: Sequence[PassJob]) -> bool:
        """Whether the job's usable servers would have room for the workers if all victims were stopped."""
        if not victims or not self.may_fit(gang, self.held_by(victims)):
            return False
        free = self.room.free(1)
        for victim in victims:
            free += victim.hold.units(self.inventory, self.now)
        free[~task.usable] = 0
        return int(room_for(free, self.inventory.worker_demand[gang.worker]).sum()) >= gang.count

    def moves(self) -> tuple[Move, ...]:
        """Return the moves, in order of admission."""
        return tuple(Move(task.job.bid.id, task.schedule) for task in self._changed())

    @property
    def _looked_at_all(self) -> bool:
        return self._line is None or "tasks" in self.__dict__

    def _changed(self) -> list[PassJob]:
        if self._looked_at_all:
            return [task for task in self.tasks if task.moved]
        moved = {name: task for name, task in self._met.items() if task.moved}
        if len(moved) < 2:
            return [*moved.values()]
        return [*islice((moved[job.bid.id] for job in self.jobs if job.bid.id in moved), len(moved))]
