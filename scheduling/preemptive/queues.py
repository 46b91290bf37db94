"""The queues of all workers: what joined them, what workers take from them, and when each job will be complete."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from scheduling.arrays import Floats, Ints
from scheduling.bid import Bid
from scheduling.errors import SchedulingError
from scheduling.inventory import Inventory
from scheduling.preemptive import kernel
from scheduling.preemptive.crew import LATEST, TICKS, Crew, Task
from scheduling.preemptive.kernel import AT, BEGUN, CLOCK, DONE, FAR, HEAD, JOB, NONE, OPEN
from scheduling.preemptive.record import Preemption, Ran, Restored, Segment, Window
from scheduling.preemptive.storage import Stored, room
from scheduling.schedule import CLOUD, Chunks

ROOM = 1024
"""Segments a kernel has room for in one go."""


@dataclass(frozen=True)
class _Known:
    """What is known of a job beside its blocks."""

    bid: Bid
    task: Task
    number: int
    """Its row."""
    order: int
    waiting: int
    """Chunks that are neither complete nor in a queue."""


@dataclass(frozen=True)
class _Away:
    """Chunks in the cloud, side by side."""

    name: str
    chunks: Chunks
    release: int
    each: int


@dataclass
class _State:
    """Arrays that kernels change; one block and one job a row."""

    workers: Ints
    blocks: Ints
    free: Ints
    """The first unused block."""
    jobs: Ints
    unused: list[int]
    """Rows of `jobs`."""

    def copy(self) -> "_State":
        arrays = (self.workers.copy(), self.blocks.copy(), self.free.copy(), self.jobs.copy())
        return _State(*arrays, list(self.unused))

    def row(self) -> int:
        """A row for a new job."""
        if not self.unused:
            size = len(self.jobs)
            more = np.zeros((max(size, 16), kernel.JOB_COLUMNS), dtype=np.int64)
            self.jobs = np.concatenate([self.jobs, more])
            self.unused = list(range(size, len(self.jobs)))
        return self.unused.pop()

    def grow(self) -> None:
        """Make room for more blocks; there is no unused one."""
        size = len(self.blocks)
        more = np.zeros((max(size, 64), kernel.BLOCK_COLUMNS), dtype=np.int64)
        more[:, kernel.NEXT] = np.arange(size + 1, size + len(more) + 1)
        more[-1, kernel.NEXT] = NONE
        self.blocks, self.free[0] = np.concatenate([self.blocks, more]), size

    def join(self, joining: Ints, block: tuple[int, ...]) -> None:
        """Put a block into the queues of workers, as in `kernel.join`."""
        same, row = np.array(block, dtype=np.int64), 0
        while (row := kernel.join(row, joining, same, self.workers, self.blocks, self.free)) < len(joining):
            self.grow()

    def block_of(self, worker: int, job: int) -> int:
        """The last block of a job in a worker's queue; NONE if it has none there."""
        found, k = NONE, int(self.workers[worker, HEAD])
        while k != NONE:
            found = k if self.blocks[k, JOB] == job else found
            k = int(self.blocks[k, kernel.NEXT])
        return found


class Queues:
    """Workers of the edge with a queue each, in order of server, type and index; chunks in the cloud have none.

    Parameters
    ----------
    inventory
        Workers of each type on each server: as many as its capacity has room for, types looked at one by one.
    now
        Slot in which it begins.
    ticks
        In a slot.
    """

    def __init__(self, inventory: Inventory, *, now: int, ticks: int = TICKS) -> None:
        self.now, self.ticks = now, ticks
        self.crew = Crew(inventory, ticks)
        workers = np.full((len(self.crew), kernel.WORKER_COLUMNS), NONE, dtype=np.int64)
        workers[:, CLOCK] = now * ticks
        blocks = np.zeros((0, kernel.BLOCK_COLUMNS), dtype=np.int64)
        jobs = np.zeros((0, kernel.JOB_COLUMNS), dtype=np.int64)
        self._state = _State(workers, blocks, np.full(1, NONE, dtype=np.int64), jobs, unused=[])
        self._known: dict[str, _Known] = {}
        self._away: list[_Away] = []
        self._next_order = 0
        self._work = 0
        """Ticks of all chunks of all jobs that are not complete."""
        self._stored = Stored(len(inventory.servers))
        self._windows: dict[str, Window] | None = None
        self._asked: tuple[Bid, int, Task | None] | None = None
        """The last newcomer that was asked for: it is dispatched, then sent."""

    @classmethod
    def restored(
        cls, inventory: Inventory, *, now: int, next_order: int, jobs: Iterable[Restored], ticks: int = TICKS
    ) -> "Queues":
        """The queues as they were at slot `now`, from a record of what joined them and what was done."""
        queues = cls(inventory, now=now, ticks=ticks)
        queues._next_order = next_order
        for job in sorted(jobs, key=lambda job: job.order):
            queues._restore(job)
        return queues

    @property
    def jobs(self) -> tuple[str, ...]:
        """Jobs that are not complete, in the order in which they first joined."""
        return tuple(self._known)

    @property
    def state(self) -> _State:
        """The arrays, for kernels that only look."""
        return self._state

    @property
    def blocks(self) -> int:
        """How many blocks of like chunks are in queues."""
        state = self._state
        unused, k = 0, int(state.free[0])
        while k != NONE:
            unused, k = unused + 1, int(state.blocks[k, kernel.NEXT])
        return len(state.blocks) - unused

    def copy(self) -> "Queues":
        """Independent queues with the same contents."""
        other = object.__new__(Queues)
        other.__dict__ |= self.__dict__ | {
            "_state": self._state.copy(),
            "_known": dict(self._known),
            "_away": list(self._away),
            "_stored": self._stored.copy(),
        }
        return other

    def task(self, bid: Bid, handicap: int = 0) -> Task | None:
        """What a chunk of this job is; None if no server has machines for it. Who joined keeps the handicap it had."""
        known = self._known.get(bid.id)
        if known is not None:
            return known.task
        if self._asked is None or self._asked[0] is not bid or self._asked[1] != handicap:
            self._asked = bid, handicap, self.crew.task(bid, handicap)
        return self._asked[2]

    def rank(self, bid: Bid, handicap: int = 0) -> tuple[int, int]:
        """Whose turn it is first: D p0 and the handicap in ticks, then the order of joining."""
        known, task = self._known.get(bid.id), self.task(bid, handicap)
        return LATEST if task is None else task.rank, self._next_order if known is None else known.order

    def order_of(self, job: str) -> int:
        """Its number among all jobs that ever joined."""
        return self._known[job].order

    def task_of(self, job: str) -> Task:
        """What a chunk of a job that joined is."""
        return self._known[job].task

    def release_of(self, job: str, chunks: Chunks) -> int:
        """Slot at which the chunks of a job that joined a queue last are uploaded there."""
        known = self._known[job]
        worker = self.crew.number(chunks) if chunks.index != CLOUD else None
        if worker is not None:
            return int(self._state.blocks[self._state.block_of(worker, known.number), kernel.RELEASE]) // self.ticks
        own = [away for away in self._away if away.name == job and away.chunks == chunks]
        return own[-1].release // self.ticks

    def waiting(self, bid: Bid) -> int:
        """Chunks that are neither complete nor in a queue: all of a job that never joined one."""
        known = self._known.get(bid.id)
        return bid.chunks if known is None else known.waiting

    def has_ps(self, bid: Bid) -> bool:
        """Whether a parameter server is free for the job: none is shared, and a cloud always has one more."""
        if bid.id in self._known or any(self.crew.inventory.cloud):
            return True
        mine = self.crew.ps_type(bid)
        in_use = sum(self.crew.ps_type(known.bid) == mine for known in self._known.values())
        return in_use < int(self.crew.pss[mine])

    def can_count(self, bid: Bid, task: Task) -> bool:
        """Whether times can be counted if the job joins, even if one worker processes all chunks there are."""
        mine = 0 if bid.id in self._known else bid.chunks * task.each
        return (self.now + max(bid.delay, default=0)) * self.ticks + self._work + mine <= LATEST

    def away(self, server: int, type: int) -> int:
        """Workers of a cloud server that are in use or spoken for."""
        return sum(a.chunks.count for a in self._away if (a.chunks.server, a.chunks.type) == (server, type))

    @property
    def stored(self) -> tuple[int, ...]:
        """What each server stores: chunks that were sent there, until their whole job is complete; S."""
        return self._stored.total

    def room(self, bid: Bid) -> Ints | None:
        """For how many more chunks of the job each server has storage, S; None if nothing limits them."""
        return room(self.crew.inventory.storage, self.stored, bid.chunk_size)

    def push(self, bid: Bid, chunks: Iterable[Chunks], *, now: int, handicap: int = 0) -> None:
        """Let chunks of a job join queues now; each can be begun once it is uploaded.

        A job all of whose chunks go to the cloud together runs there without communication.

        Raises
        ------
        SchedulingError
            If there are more chunks than wait, no such worker, or a time is beyond what can be counted.
        """
        chunks = tuple(chunks)
        if now != self.now:
            raise SchedulingError(f"these queues are at slot {self.now}, not {now}")
        edge = [c for c in chunks if c.index != CLOUD]
        numbers = [self.crew.number(c) for c in edge]
        if None in numbers:
            lost = edge[numbers.index(None)]
            raise SchedulingError(f"there is no worker {lost.index} of type {lost.type} on server {lost.server}")
        workers, counts = np.array(numbers, dtype=np.int64), np.array([c.count for c in edge], dtype=np.int64)
        self.send(bid, workers, counts, [c for c in chunks if c.index == CLOUD], handicap=handicap)

    def send(self, bid: Bid, workers: Ints, counts: Ints, away: Sequence[Chunks], *, handicap: int = 0) -> None:
        """`push`, with the numbers of workers of the edge and how many chunks each takes, N of both."""
        task, total = self.task(bid, handicap), int(counts.sum()) + sum(c.count for c in away)
        if task is None or total > self.waiting(bid):
            raise SchedulingError(f"bid {bid.id} has {self.waiting(bid)} chunks to send, not {total}")
        if not self.can_count(bid, task):
            raise SchedulingError(
                f"bid {bid.id}: {bid.chunks} chunks of {task.each} ticks after those that wait end later than can be "
                "counted"
            )
        known = self._known.get(bid.id) or self._meet(bid, task, self._next_order)
        self._known[bid.id] = known = replace(known, waiting=known.waiting - total)
        ready = (self.now + np.array(bid.delay, dtype=np.int64)) * self.ticks
        joining = np.empty((len(workers), 3), dtype=np.int64)
        joining[:, 0], joining[:, 1], joining[:, 2] = workers, counts, ready[self.crew.server[workers]]
        self._state.join(joining, self._block(known, task.each, left=task.each))
        for c in away:
            each = task.alone if c.count == bid.chunks else task.each
            self._away.append(_Away(bid.id, c, int(ready[c.server]), each))
        self._state.jobs[known.number, OPEN] += total
        if bid.chunk_size:
            for server, count in zip(self.crew.server[workers].tolist(), counts.tolist(), strict=True):
                self._stored.add(bid.id, server, count, size=bid.chunk_size)
            for c in away:
                self._stored.add(bid.id, c.server, c.count, size=bid.chunk_size)
        self._windows = None

    def take(self, job: str) -> None:
        """Take what is not complete out of its queues; a chunk in the middle counts whole."""
        known = self._known.get(job)
        if known is None:
            return
        taken = np.zeros((len(self._state.blocks), 2), dtype=np.int64)
        state = self._state
        found = kernel.remove(known.number, state.workers, state.blocks, state.free, taken)
        gone = [(a.chunks.server, a.chunks.count) for a in self._away if a.name == job]
        gone += [(int(self.crew.server[w]), count) for w, count in taken[:found].tolist()]
        left = sum(count for _, count in gone)
        for server, count in gone:
            self._stored.add(job, server, -count, size=known.bid.chunk_size)
        self._away = [a for a in self._away if a.name != job]
        state.jobs[known.number, OPEN] -= left
        self._known[job] = replace(known, waiting=known.waiting + left)
        self._windows = None

    def left(self, job: str) -> tuple[Chunks, ...]:
        """Its chunks that are in queues or in the cloud and not complete, one that is in the middle counted whole."""
        number, blocks, found = self._known[job].number, self._state.blocks, []
        for w, k in enumerate(self._state.workers[:, HEAD].tolist()):
            while k != NONE:
                if blocks[k, JOB] == number:
                    found.append(Chunks(*self.crew.where(w), int(blocks[k, kernel.COUNT])))
                k = int(blocks[k, kernel.NEXT])
        return tuple(sorted(found + [away.chunks for away in self._away if away.name == job]))

    def drop(self, job: str) -> None:
        """Forget a job that is gone."""
        self.take(job)
        if job in self._known:
            self._forget(job)

    def _forget(self, job: str) -> None:
        known = self._known.pop(job)
        self._stored.forget(job, size=known.bid.chunk_size)
        self._work -= known.bid.chunks * known.task.each
        self._state.unused.append(known.number)

    def advance(self, now: int) -> Ran:
        """Let workers work up to slot `now`."""
        segments, preemptions = self._run(self._state, now * self.ticks)
        segments += self._in_cloud(self._state, now * self.ticks)
        self.now = now
        self._state.workers[:, CLOCK] = now * self.ticks
        over = [
            name
            for name, known in self._known.items()
            if not known.waiting and not self._state.jobs[known.number, OPEN]
        ]
        completed = {name: int(self._state.jobs[self._known[name].number, DONE]) for name in over}
        for name in over:
            self._forget(name)
        self._away = [a for a in self._away if a.release + a.each > now * self.ticks]
        self._windows = None
        return Ran(tuple(sorted(segments)), tuple(sorted(preemptions)), completed)

    def windows(self) -> dict[str, Window]:
        """First tick and completion of every job none of whose chunks wait, if nothing else joins."""
        if self._windows is None:
            state = self._state.copy()
            self._run(state, FAR, keep=False)
            self._in_cloud(state, FAR)
            rows = ((name, state.jobs[known.number]) for name, known in self._known.items() if not known.waiting)
            self._windows = {name: Window(int(row[BEGUN]), int(row[DONE])) for name, row in rows}
        return self._windows

    def planned(self) -> tuple[Segment, ...]:
        """What workers will do if nothing else joins."""
        state = self._state.copy()
        segments, _ = self._run(state, FAR)
        return tuple(sorted(segments + self._in_cloud(state, FAR)))

    def congestion(self, slots: int) -> Floats:
        """Sum of 1 / D over a worker's chunks that are not complete when a slot begins, forecast, T x S x W.

        Mean over the workers of a type on a server; 0 where there are none, and in the cloud, where nobody waits.
        """
        first = self.now * self.ticks
        at = first + np.arange(slots, dtype=np.int64) * self.ticks
        by_worker = np.zeros((slots, len(self.crew)))
        state = self._state
        for w in np.flatnonzero(state.workers[:, HEAD] != NONE):
            kernel.backlog(int(w), state.workers, state.blocks, at, by_worker)
        mean = np.zeros((slots, *self.crew.count.shape))
        for s, m in {(int(s), int(m)) for s, m in zip(self.crew.server, self.crew.type, strict=True)}:
            start = self.crew.first[s, m]
            mean[:, s, m] = by_worker[:, start : start + self.crew.count[s, m]].mean(axis=1)
        return mean

    def relaid(
        self,
        inventory: Inventory,
        *,
        servers: Sequence[int | None],
        types: Sequence[int | None],
        bids: Mapping[str, Bid],
    ) -> "Queues":
        """The same queues in another inventory; chunks of workers that are gone wait.

        `servers` and `types` (of workers) say where each one is now, None if it is gone; `bids` are the jobs' in the
        new positions.
        """
        new = Queues(inventory, now=self.now, ticks=self.ticks)
        new._next_order = self._next_order
        names = {known.number: name for name, known in self._known.items()}
        for name, known in self._known.items():
            task = Task.of(bids[name], types[known.task.worker], known.task.each, self.ticks, known.task.handicap)
            met = new._meet(bids[name], task, known.order)
            new._state.jobs[met.number, [DONE, BEGUN]] = self._state.jobs[known.number, [DONE, BEGUN]]
            new._known[name] = replace(met, waiting=known.waiting)
            for old, count in self._stored.of(name).items():
                if (server := servers[old]) is not None:
                    new._stored.add(name, server, count, size=known.bid.chunk_size)
        for w in range(len(self.crew)):
            s, m, k = servers[self.crew.server[w]], types[self.crew.type[w]], int(self._state.workers[w, HEAD])
            to = None if s is None or m is None else new.crew.number(Chunks(s, m, int(self.crew.index[w]), 1))
            while k != NONE:
                name, block = names[int(self._state.blocks[k, JOB])], self._state.blocks[k]
                new._settle(name, block, to, self._state.workers[w, AT] == k)
                if to is None and s is not None:
                    new._stored.add(name, s, -int(block[kernel.COUNT]), size=new._known[name].bid.chunk_size)
                k = int(self._state.blocks[k, kernel.NEXT])
        for away in self._away:
            s, m = servers[away.chunks.server], types[away.chunks.type]
            if s is None or m is None or not inventory.cloud[s] or not new.crew.has(s, m, CLOUD):
                known = new._known[away.name]
                new._known[away.name] = replace(known, waiting=known.waiting + away.chunks.count)
                if s is not None:
                    new._stored.add(away.name, s, -away.chunks.count, size=known.bid.chunk_size)
            else:
                new._away.append(replace(away, chunks=replace(away.chunks, server=s, type=m)))
                new._state.jobs[new._known[away.name].number, OPEN] += away.chunks.count
        return new

    def _settle(self, name: str, block: Ints, worker: int | None, at: bool) -> None:
        """Put a block of another queue into a worker's, or let its chunks wait if there is no worker."""
        known, count = self._known[name], int(block[kernel.COUNT])
        if worker is None:
            self._known[name] = replace(known, waiting=known.waiting + count)
            return
        joining = np.array([[worker, count, block[kernel.RELEASE]]], dtype=np.int64)
        self._state.join(joining, (NONE, known.number, *block[kernel.COUNT :].tolist()))
        self._state.jobs[known.number, OPEN] += count
        if at:
            self._state.workers[worker, AT] = self._state.block_of(worker, known.number)

    def _meet(self, bid: Bid, task: Task, order: int) -> _Known:
        number = self._state.row()
        self._state.jobs[number] = (0, 0, NONE)
        self._work += bid.chunks * task.each
        known = self._known[bid.id] = _Known(bid, task, number, order, waiting=bid.chunks)
        self._next_order = max(self._next_order, order + 1)
        return known

    def _block(self, known: _Known, each: int, *, left: int) -> tuple[int, ...]:
        """A job's block, but for its count and release; `left`: ticks left of the first chunk."""
        return (NONE, known.number, 0, left, each, 0, known.task.rank, known.bid.chunks, known.order)

    def _restore(self, job: Restored) -> None:
        task = Task.of(job.bid, job.type, job.each, self.ticks, job.handicap)
        known = self._meet(job.bid, task, job.order)
        began, row = NONE if job.start is None else job.start, self._state.jobs
        row[known.number] = (0, job.completed_at, began)
        for server, count in job.stored:
            self._stored.add(job.bid.id, server, count, size=job.bid.chunk_size)
        for part in job.parts:
            c, release = part.chunks, part.release * self.ticks
            left = c.count * part.each - part.worked
            if left <= 0:
                continue
            if c.index == CLOUD:
                row[known.number, OPEN] += c.count
                self._away.append(_Away(job.bid.id, c, release, part.each))
                continue
            worker, count = self.crew.number(c), -(-left // part.each)
            if worker is None:
                raise SchedulingError(f"there is no worker {c.index} of type {c.type} on server {c.server}")
            first = left - (count - 1) * part.each
            joining = np.array([[worker, count, release]], dtype=np.int64)
            self._state.join(joining, self._block(known, part.each, left=first))
            row[known.number, OPEN] += count
            if part.last and first < part.each:
                self._state.workers[worker, AT] = self._state.block_of(worker, known.number)
        waiting = job.bid.chunks - job.complete - sum(part.chunks.count for part in job.parts)
        if waiting or row[known.number, OPEN]:
            self._known[job.bid.id] = replace(known, waiting=waiting)
        else:
            self._forget(job.bid.id)  # complete, though its row may not say so yet

    def _run(self, state: _State, to: int, *, keep: bool = True) -> tuple[list[Segment], list[Preemption]]:
        """Let the workers of a state work up to tick `to`; what they did, if it is to be kept."""
        segments, preemptions = [], []
        names = {known.number: name for name, known in self._known.items()}
        room, first = ROOM if keep else 0, 0
        while first < len(self.crew):
            rows = np.zeros((room, kernel.SEGMENT_COLUMNS), dtype=np.int64)
            lost = np.zeros((room, kernel.SEGMENT_COLUMNS), dtype=np.int64)
            n, m = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
            first = kernel.advance(first, to, state.workers, state.blocks, state.free, state.jobs, rows, n, lost, m)
            for w, job, start, end in rows[: n[0]].tolist():
                segments.append(Segment(start, end, *self.crew.where(w), names[job]))
            for w, job, at, by in lost[: m[0]].tolist():
                preemptions.append(Preemption(at, *self.crew.where(w), names[job], names[by]))
        return segments, preemptions

    def _in_cloud(self, state: _State, to: int) -> list[Segment]:
        """Let the cloud work up to tick `to`, on each chunk from its release on."""
        segments, clock = [], self.now * self.ticks
        for away in self._away:
            start, end = max(away.release, clock), min(away.release + away.each, to)
            row = state.jobs[self._known[away.name].number]
            if start < end:
                c = away.chunks
                segments.append(Segment(start, end, c.server, c.type, c.index, away.name, c.count))
                row[BEGUN] = start if row[BEGUN] == NONE else min(row[BEGUN], start)
            if clock < away.release + away.each <= to:
                row[OPEN] -= away.chunks.count
                row[DONE] = max(row[DONE], away.release + away.each)
        return segments
