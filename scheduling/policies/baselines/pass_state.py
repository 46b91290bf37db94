"""The jobs of a book while a plan is made: what each job holds from now on, and the resulting moves."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import takewhile
from operator import add, lt

import numpy as np

from scheduling.book.state import Book, Job
from scheduling.model.decision import Move
from scheduling.model.progress import Machines
from scheduling.model.schedule import Placement
from scheduling.model.types import Ints
from scheduling.policies.baselines.allocation import NOTHING, Allocation
from scheduling.policies.baselines.cache import Cache
from scheduling.policies.baselines.capacity import FreeCapacity
from scheduling.policies.baselines.gang import Gang, find_place, room_for
from scheduling.policies.baselines.pass_job import PassJob, Stopped


class PassState:
    """A plan in progress: the jobs of a book, and the free capacity. Bound jobs are not touched.

    A pass job is created only for a job that the plan looks at, as a book has thousands of jobs and an event concerns
    few of them.
    """

    def __init__(self, book: Book, *, pause: int, keep_drained: bool, new: Job | None = None) -> None:
        self.now = book.now
        self.keep_drained = keep_drained
        self.inventory = book.inventory
        self.room = FreeCapacity.of(book.ledger)
        self.slots = self.room.slots
        self.memory = Cache.of(book.ledger)
        self.pause = pause
        self.jobs = book.jobs if new is None else (*book.jobs, new)
        """All, in order of admission."""
        self._new = new
        self._met: dict[str, PassJob] = {}
        # Another policy may have planned ahead: here a job runs now, or waits.
        ahead = [] if self.room.falling else [task for task in self.running_now() if task.held[0].start > book.now]
        for task in ahead:
            self.stop(task)
            task.waited = True
        if ahead:
            self.ran = tuple(job for job in self.ran if not self.meet(job).waited)
        self.line = self._line(book.waiting, ahead)
        """Jobs that held nothing when the plan began, in order of arrival, then of admission; the new job is one."""

    def _line(self, waiting: tuple[Job, ...], ahead: list[PassJob]) -> tuple[Job, ...]:
        new = () if self._new is None else (self._new,)
        line = (*waiting, *(task.job for task in ahead), *new)
        in_order = not ahead and (not new or not waiting or waiting[-1].bid.arrival <= new[0].bid.arrival)
        return line if in_order else tuple(self.by_arrival(line))

    @cached_property
    def ran(self) -> tuple[Job, ...]:
        """Return the jobs that ran when the plan began, in order of admission."""
        return tuple([job for job in self.jobs if job.completion is not None and job.held and not job.bound])

    def meet(self, job: Job) -> PassJob:
        """Return the pass job of a job that may be moved."""
        task = self._met.get(job.bid.id)
        if task is None:
            task = self._met[job.bid.id] = PassJob(self.memory.known(job, pause=self.pause), now=self.now)
        return task

    def by_arrival(self, jobs: Iterable[Job]) -> list[Job]:
        """Return these jobs in order of arrival, then of admission."""
        return sorted(jobs, key=self.turn)

    def turn(self, job: Job) -> tuple[int, int]:
        """Return the key that sorts jobs by arrival, then by admission."""
        return job.bid.arrival, self.admitted[job.bid.id]

    @cached_property
    def admitted(self) -> dict[str, int]:
        """Return the place of each job in order of admission, by id."""
        return {job.bid.id: number for number, job in enumerate(self.jobs)}

    @property
    def newcomer(self) -> PassJob:
        """The pass job of the new job."""
        if self._new is None:
            raise ValueError("no job is new here")
        return self.meet(self._new)

    @property
    def tasks(self) -> list[PassJob]:
        """All, in order of admission."""
        return [self.meet(job) for job in self.jobs if not job.bound]

    @property
    def in_order(self) -> list[PassJob]:
        """Return all jobs, in order of arrival, then of admission."""
        return sorted(self.tasks, key=lambda task: task.job.bid.arrival)

    def running_now(self, jobs: Iterable[Job] | None = None) -> list[PassJob]:
        """Return those of `jobs`, or of all that ran before the plan began, that hold machines, in order of arrival."""
        tasks = [task for task in map(self.meet, self.ran if jobs is None else jobs) if task.running]
        return sorted(tasks, key=lambda task: task.job.bid.arrival)

    def in_line(self) -> Iterator[PassJob]:
        """Yield the jobs of the line that wait; only these may be started meanwhile."""
        return (task for task in map(self.meet, self.line) if not task.running)

    def uploading(self) -> list[PassJob]:
        """Return the jobs of the line whose upload to some server ends in this slot or later."""
        return [self.meet(job) for job in self.line if self.memory.uploaded(job.bid) >= self.now]

    def runs(self, job: Job) -> bool:
        """Whether a job that ran before the plan began still runs."""
        task = self._met.get(job.bid.id)
        return task is None or task.running

    def total(self, task: PassJob) -> list[int]:
        """Units of each resource that it holds now, of all servers together, R numbers."""
        return task.hold.total(self.inventory, self.now)

    def is_full(self, more: Sequence[int] | None = None) -> bool:
        """Whether all servers together have too few units for any worker, even with `more` of each resource."""
        idle = self.room.idle if more is None else map(add, self.room.idle, more)
        return any(map(lt, idle, self.memory.smallest))

    def place(self) -> tuple[int, int]:
        """Return the new job's place among the waiting jobs (0 if it runs), and the number of waiting jobs."""
        new = self.newcomer
        waiting = len(self.line) + sum((not task.waited) - task.running for task in self._met.values())
        later = takewhile(lambda job: job.bid.arrival > new.job.bid.arrival, reversed(self.line))
        behind = sum(not self.meet(job).running for job in later)
        return (0 if new.running else waiting - behind), waiting

    def start(self, task: PassJob, gang: Gang) -> bool:
        """Run a waiting job as this gang from now to its end, if the gang fits; return whether it does."""
        if not self.may_fit(gang):
            return False
        machines = self.find_place(task, gang)
        if machines is None:
            return False
        self.put(task, machines, gang)
        return True

    def find_place(self, task: PassJob, gang: Gang) -> Machines | None:
        """Find machines for a waiting job's gang from now to its end, packed; None if there are none."""
        return find_place(gang, self.room, task.left, usable=task.usable, lost=task.lost())

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
        """Whether machines that a job held until now, from now on, would fit; they end together."""
        slots = hold.last_end - self.now
        free = self.room.free(slots)
        for server, slot in self.room.closed.items() if self.keep_drained else ():
            # Nobody else may have what was held there from the slot on in which the server closes, so it is left.
            before = min(slots, slot - self.now)
            free[server] = self.room.free(before)[server] if before > 0 else self.inventory.capacity[server]
        return bool((free >= hold.units(self.inventory, self.now)).all())

    def start_instead(self, task: PassJob, gang: Gang, victims: Iterable[PassJob]) -> bool:
        """Run a job where it fits, or instead of victims as in `displace`; return whether it runs."""
        return self.start(task, gang) or self.displace(task, gang, list(victims))

    def displace(self, task: PassJob, gang: Gang, victims: Sequence[PassJob]) -> bool:
        """Run a job that has no place, stopping victims one by one, in the order given, until it fits.

        Then victims that still fit on their old machines resume there, the last one stopped first. Nothing changes if
        stopping all victims would not make enough room.
        """
        if not self._may_displace(task, gang, victims):
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
        idle, least = self.room.idle, self.memory.units(gang, count or gang.count).least
        return all(idle[r] + (more[r] if more else 0) >= units for r, units in least)

    def held_by(self, tasks: Iterable[PassJob]) -> list[int]:
        """Return the units of each resource that these jobs hold now, R numbers."""
        totals = [self.total(task) for task in tasks]
        return [sum(column) for column in zip(*totals, strict=True)] if totals else [0] * len(self.room.idle)

    def shared_out(self) -> Ints:
        """Return the capacity of all servers now, without what bound jobs hold, R numbers.

        Only before a job was started.
        """
        return np.array(self.room.idle, dtype=np.int64) + self.held_by(self.running_now())

    def _may_displace(self, task: PassJob, gang: Gang, victims: Sequence[PassJob]) -> bool:
        """Whether the job's usable servers would have room for the workers if all victims were stopped."""
        if not victims:
            return False
        free = self.room.free(1)
        for victim in victims:
            free += victim.hold.units(self.inventory, self.now)
        free[~task.usable] = 0
        return int(room_for(free, self.inventory.worker_demand[gang.worker]).sum()) >= gang.count

    def moves(self) -> tuple[Move, ...]:
        """Return the moves, in order of admission."""
        moved = {name: task for name, task in self._met.items() if task.moved}
        order = [job.bid.id for job in self.jobs if job.bid.id in moved] if len(moved) > 1 else list(moved)
        return tuple(Move(name, moved[name].schedule) for name in order)
