"""SRTF and Tiresias-L by arrays of every slot, everything again at every event, nothing remembered."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from scheduling.book.state import Book, Cause, Job
from scheduling.model.bid import Bid
from scheduling.model.decision import Decision, Move
from scheduling.model.progress import work_done
from scheduling.model.schedule import Placement, Role
from scheduling.model.types import Ints
from scheduling.policies.baselines.allocation import NOTHING, Allocation
from scheduling.policies.baselines.base import Baseline
from scheduling.policies.baselines.capacity import FreeCapacity
from scheduling.policies.baselines.gang import Gang, find_place, ideal_gang
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState

Key = tuple[Fraction, ...]
Ranked = tuple[Key, PassJob, Gang]


def srtf_key(job: Job, gang: Gang, now: int) -> Key:
    return ((job.bid.work - work_done(job.bid, past(job, now), until=now)) * gang.pace(spread=False),)


def tiresias_l_key(threshold: float) -> Callable[[Job, Gang, int], Key]:
    def key(job: Job, _gang: Gang, now: int) -> Key:
        before = past(job, now)
        attained = sum(p.count * (p.end - p.start) for p in before if p.role is Role.WORKER)
        queue = 0 if attained < threshold else 1 if attained < 10 * threshold else 2
        if not before:
            return Fraction(queue), Fraction(1), Fraction(0)
        return Fraction(queue), Fraction(0), Fraction(min(p.start for p in before))

    return key


def past(job: Job, now: int) -> list[Placement]:
    return [p.until(now) for p in job.held if p.start < now]


class SlowWholeGangs(Baseline):
    def __init__(self, name: str, key: Callable[[Job, Gang, int], Key]) -> None:
        self.name = name
        self.key = key
        self.used: Ints = np.zeros((0, 0, 0), dtype=np.int64)

    def decide(self, bid: Bid, book: Book) -> Decision:
        self.used = book.ledger.used.copy()
        return super().decide(bid, book)

    def plan(self, book: Book, cause: Cause) -> tuple[Move, ...]:
        self.used = book.ledger.used.copy()
        return super().plan(book, cause)

    def can_run(self, bid: Bid, floor: PassState) -> bool:
        return self._gang(bid, floor) is not None

    def arrange(self, floor: PassState, cause: Cause | None) -> None:
        ranked: list[Ranked] = []
        for task in floor.in_order:
            gang = self._gang(task.job.bid, floor)
            if gang is not None:
                ranked.append((self.key(task.job, gang, floor.now), task, gang))
        ranked.sort(key=lambda row: row[0])
        for key, task, gang in ranked:
            if task.held:
                continue
            if cause is Cause.SLOT:
                if floor.now <= task.job.bid.arrival + max(task.job.bid.delay, default=0):
                    self._start(task, gang, floor)
                continue
            self._start_instead(task, gang, [t for rank, t, _ in reversed(ranked) if rank > key and t.held], floor)

    def _start_instead(self, task: PassJob, gang: Gang, victims: list[PassJob], floor: PassState) -> None:
        before = []
        while not self._start(task, gang, floor) and victims:
            victim = victims.pop(0)
            before.append((victim, victim.held, victim.completion))
            self._use(victim.held, -1, floor)
            victim.hold, victim.completion = NOTHING, None
        for victim, held, completion in reversed(before):
            self._use(held, 1, floor)
            if (self.used <= floor.inventory.capacity).all():
                victim.hold, victim.completion = Allocation(held), completion
            else:
                self._use(held, -1, floor)

    def _start(self, task: PassJob, gang: Gang, floor: PassState) -> bool:
        room = FreeCapacity(floor.inventory, now=floor.now, slots=len(self.used), used=self.used)
        usable = np.array([task.job.bid.arrival + delay <= floor.now for delay in task.job.bid.delay])
        left = task.job.bid.work - work_done(task.job.bid, past(task.job, floor.now), until=floor.now)
        machines = find_place(gang, room, left, usable=usable)
        if machines is None:
            return False
        spread = len({server for _, server, _, _ in machines}) > 1
        task.completion = floor.now + gang.duration(left, spread=spread)
        held = tuple(sorted(Placement(floor.now, task.completion, *machine) for machine in machines))
        task.hold = Allocation(held)
        self._use(held, 1, floor)
        return True

    def _use(self, held: tuple[Placement, ...], sign: int, floor: PassState) -> None:
        for p in held:
            demand = np.array(p.machine(floor.inventory).demand)
            self.used[p.start - floor.now : p.end - floor.now, p.server] += sign * p.count * demand

    def _gang(self, bid: Bid, floor: PassState) -> Gang | None:
        gang = ideal_gang(bid, floor.inventory, 1)
        if gang is None:
            return None
        demand = floor.inventory.workers[gang.worker].demand
        qualified = sum(
            min(int(capacity) // asked for capacity, asked in zip(row, demand, strict=True) if asked)
            for row in floor.inventory.capacity
        )
        everywhere = np.ones(len(floor.inventory.servers), dtype=np.bool_)
        count = min(bid.chunks, qualified)
        while count:
            empty = FreeCapacity(floor.inventory, now=0, slots=floor.slots)
            if find_place(replace(gang, count=count), empty, Fraction(bid.work), usable=everywhere) is not None:
                return replace(gang, count=count)
            count //= 2
        return None
