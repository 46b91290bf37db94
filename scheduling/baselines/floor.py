"""The jobs of a book while a plan for them is made: who holds what from now on, and what that changes."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from scheduling.baselines.gang import Gang, find_place
from scheduling.baselines.room import Room
from scheduling.decision import Move
from scheduling.policy import Book, Job
from scheduling.schedule import Placement, Role, Schedule
from scheduling.work import Machines, work_done


@dataclass(eq=False)
class Task:
    """A job that may be moved, and what it holds from now on as the plan stands."""

    job: Job
    now: int
    pause: int
    held: tuple[Placement, ...]
    completion: int | None

    @classmethod
    def of(cls, job: Job, *, now: int, pause: int) -> "Task":
        """As the book has it."""
        return cls(job, now, pause, _future(job, now), job.completion)

    @property
    def running(self) -> bool:
        """Whether it holds something."""
        return bool(self.held)

    @property
    def workers(self) -> int:
        """How many it holds."""
        return sum(p.count for p in self.held if p.role is Role.WORKER)

    @cached_property
    def past(self) -> tuple[Placement, ...]:
        """What it held before now."""
        return tuple(p.until(self.now) for p in self.job.held if p.start < self.now)

    @cached_property
    def left(self) -> Fraction:
        """Mini-batches still to do, exact."""
        return self.job.bid.work - work_done(self.job.bid, self.past, until=self.now, pause=self.pause)

    def lost(self, machines: Machines | None = None) -> int:
        """Slots in which nothing is done: a pause where it ran before, but not on these machines until now."""
        last = _machines(p for p in self.past if p.end == self.now)
        return 0 if not self.past or last == machines else self.pause

    @property
    def schedule(self) -> Schedule | None:
        """What it holds from now on."""
        if self.completion is None or not self.held:
            return None
        return Schedule(start=min(p.start for p in self.held), completion=self.completion, placements=self.held)

    @property
    def moved(self) -> bool:
        """Whether that differs from what it held."""
        return (self.held, self.completion) != (_future(self.job, self.now), self.job.completion)


class Floor:
    """A plan in the making: tasks in order of admission, and the room around them. Bound jobs are not touched."""

    def __init__(self, book: Book, *, pause: int, new: Job | None = None) -> None:
        self.now = book.now
        self.inventory = book.inventory
        self.room = Room.of(book.ledger)
        self.slots = self.room.slots
        jobs = [*book.jobs] if new is None else [*book.jobs, new]
        self.tasks = [Task.of(job, now=book.now, pause=pause) for job in jobs if not job.bound]
        for task in self.tasks:
            # Another policy may have planned ahead: here a job runs now, or waits.
            if task.held and all(p.start > book.now for p in task.held):
                self.stop(task)

    @property
    def waiting(self) -> list[Task]:
        """Those that hold nothing, in order of arrival."""
        return [task for task in self.in_order if not task.running]

    @property
    def in_order(self) -> list[Task]:
        """All, in order of arrival, then of admission."""
        return sorted(self.tasks, key=lambda task: task.job.bid.arrival)

    def start(self, task: Task, gang: Gang) -> bool:
        """Run a task that holds nothing as this gang from now to its end, if there is a place."""
        usable = np.array(task.job.bid.delay) + task.job.bid.arrival <= self.now
        machines = find_place(gang, self.room, task.left, usable=usable, lost=task.lost())
        if machines is None:
            return False
        self.put(task, machines, gang)
        return True

    def put(self, task: Task, machines: Machines, gang: Gang) -> None:
        """Run a task that holds nothing on these machines, which have the room, from now to its end."""
        spread = len({server for _, server, _, _ in machines}) > 1
        end = self.now + task.lost(machines) + gang.duration(task.left, spread=spread)
        task.held = tuple(sorted(Placement(self.now, end, *machine) for machine in machines))
        task.completion = end
        self.room.take(task.held)

    def stop(self, task: Task) -> tuple[tuple[Placement, ...], int | None]:
        """Take all it holds from a task; returns that, for `resume`."""
        before = (task.held, task.completion)
        self.room.give(task.held)
        task.held, task.completion = (), None
        return before

    def resume(self, task: Task, before: tuple[tuple[Placement, ...], int | None]) -> None:
        """Undo `stop`."""
        task.held, task.completion = before
        self.room.take(task.held)

    def has_room(self, placements: Iterable[Placement]) -> bool:
        """Whether machines held from now on would fit; they end together."""
        placements = tuple(placements)
        free = self.room.free(max(p.end for p in placements) - self.now)
        for p in placements:
            free[p.server] -= p.count * np.array(p.machine(self.inventory).demand, dtype=np.int64)
        return bool((free >= 0).all())

    def start_instead(self, task: Task, gang: Gang, victims: Iterable[Task]) -> bool:
        """Run a task, stopping victims one by one, in the order given, until it has a place.

        Then those that still have room where they were go on there, the last one stopped first. Nothing changes if
        all victims together would not make room.
        """
        if self.start(task, gang):
            return True
        stopped = []
        for victim in victims:
            stopped.append((victim, self.stop(victim)))
            if self.start(task, gang):
                break
        for victim, before in reversed(stopped):
            if not task.running or self.has_room(before[0]):
                self.resume(victim, before)
        return task.running

    def moves(self) -> tuple[Move, ...]:
        """What changes, in order of admission."""
        return tuple(Move(task.job.bid.id, task.schedule) for task in self.tasks if task.moved)


def _future(job: Job, now: int) -> tuple[Placement, ...]:
    return tuple(sorted(p.since(now) for p in job.held if p.end > now))


def _machines(placements: Iterable[Placement]) -> Machines:
    return tuple(sorted((p.role, p.server, p.type, p.count) for p in placements))
