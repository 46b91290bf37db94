"""The queues of all workers: chunks join, workers process them, and completions are forecast."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.errors import SchedulingError
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import CLOUD, Chunks
from scheduling.model.types import Floats, Ints
from scheduling.preemptive import kernel
from scheduling.preemptive.contents import CloudChunks
from scheduling.preemptive.kernel import BEGUN, CLOCK, DONE, FAR, HEAD, JOB, NONE, OPEN
from scheduling.preemptive.parameter_servers import first_excess
from scheduling.preemptive.rebuilding import Rebuilt
from scheduling.preemptive.record import Preemption, Ran, Segment, Window
from scheduling.preemptive.state import State
from scheduling.preemptive.workers import TICKS, Task

ROOM = 1024
"""Segments a kernel has room for in one go."""


class Queues(Rebuilt):
    """Queues of chunks, and the workers that process them in order of rank.

    Parameters
    ----------
    inventory
        Workers of each type on each server: as many as its capacity has room for, types looked at one by one.
    now
        First slot.
    ticks
        Ticks per slot.
    """

    def __init__(self, inventory: Inventory, *, now: int, ticks: int = TICKS) -> None:
        super().__init__(inventory, now=now, ticks=ticks)
        self._windows: dict[str, Window] | None = None

    def push(self, bid: Bid, chunks: Iterable[Chunks], *, now: int, handicap: int = 0) -> None:
        """Add chunks of a job to queues now; each can begin once it is uploaded.

        If all chunks of a job go to the cloud together, it runs there without communication.

        Raises
        ------
        SchedulingError
            If there are more chunks than the job has waiting, if there is no such worker, or if a time would overflow.
        """
        chunks = tuple(chunks)
        if now != self.now:
            raise SchedulingError(f"these queues are at slot {self.now}, not {now}")
        edge = [c for c in chunks if c.index != CLOUD]
        numbers = [self.workers.number(c) for c in edge]
        if None in numbers:
            lost = edge[numbers.index(None)]
            raise SchedulingError(f"there is no worker {lost.index} of type {lost.type} on server {lost.server}")
        workers, counts = np.array(numbers, dtype=np.int64), np.array([c.count for c in edge], dtype=np.int64)
        self.send(bid, workers, counts, [c for c in chunks if c.index == CLOUD], handicap=handicap)

    def send(self, bid: Bid, workers: Ints, counts: Ints, cloud_chunks: Sequence[Chunks], *, handicap: int = 0) -> None:
        """Push chunks as in `push`, given the numbers of edge workers and the chunks for each, N of both."""
        task, total = self.task(bid, handicap), int(counts.sum()) + sum(c.count for c in cloud_chunks)
        if task is None or total > self.waiting(bid):
            raise SchedulingError(f"bid {bid.id} has {self.waiting(bid)} chunks to send, not {total}")
        if not self.can_count(bid, task):
            raise SchedulingError(
                f"bid {bid.id}: {bid.chunks} chunks of {task.each} ticks after those that wait end later than can be "
                "counted"
            )
        known = self._known.get(bid.id)
        if known is None:
            known = self._meet(bid, task, self._next_order, waiting=bid.chunks - total)
        else:
            self._known[bid.id] = known = replace(known, waiting=known.waiting - total)
        if len(workers):
            joining = np.empty((len(workers), 3), dtype=np.int64)
            joining[:, 0], joining[:, 1] = workers, counts
            joining[:, 2] = (self.now + self.delays(bid)[self.workers.server[workers]]) * self.ticks
            self._state.join(joining, self._block(known, task.each, left=task.each))
        for c in cloud_chunks:
            each = task.alone if c.count == bid.chunks else task.each
            release = (self.now + bid.delay[c.server]) * self.ticks
            self._cloud_chunks.append(CloudChunks(bid.id, c, release, each))
        self._state.jobs[known.number, OPEN] += total
        if bid.chunk_size:
            for server, count in zip(self.workers.server[workers].tolist(), counts.tolist(), strict=True):
                self._stored.add(bid.id, server, count, size=bid.chunk_size)
            for c in cloud_chunks:
                self._stored.add(bid.id, c.server, c.count, size=bid.chunk_size)
        self._windows = None

    def take(self, job: str) -> None:
        """Remove the job's incomplete chunks from the queues; a partly processed chunk counts as a whole one."""
        known = self._known.get(job)
        if known is None:
            return
        taken = np.zeros((len(self._state.blocks), 2), dtype=np.int64)
        state = self._state
        found = kernel.remove(known.number, state.workers, state.blocks, state.free, taken)
        gone = [(a.chunks.server, a.chunks.count) for a in self._cloud_chunks if a.name == job]
        gone += [(int(self.workers.server[w]), count) for w, count in taken[:found].tolist()]
        left = sum(count for _, count in gone)
        for server, count in gone:
            self._stored.add(job, server, -count, size=known.bid.chunk_size)
        self._cloud_chunks = [a for a in self._cloud_chunks if a.name != job]
        state.jobs[known.number, OPEN] -= left
        self._known[job] = replace(known, waiting=known.waiting + left)
        self._windows = None

    def left(self, job: str) -> tuple[Chunks, ...]:
        """Return the job's incomplete chunks in queues or in the cloud; a partly processed chunk counts as a whole
        one."""
        number, blocks, found = self._known[job].number, self._state.blocks, []
        for w, k in enumerate(self._state.workers[:, HEAD].tolist()):
            while k != NONE:
                if blocks[k, JOB] == number:
                    found.append(Chunks(*self.workers.where(w), int(blocks[k, kernel.COUNT])))
                k = int(blocks[k, kernel.NEXT])
        return tuple(sorted(found + [sent.chunks for sent in self._cloud_chunks if sent.name == job]))

    def drop(self, job: str) -> None:
        """Remove a job that has ended."""
        self.take(job)
        if job in self._known:
            self._forget(job)

    def advance(self, now: int) -> Ran:
        """Advance all workers to slot `now`; return what they did."""
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
        self._cloud_chunks = [a for a in self._cloud_chunks if a.release + a.each > now * self.ticks]
        self._windows = None
        return Ran(tuple(sorted(segments)), tuple(sorted(preemptions)), completed)

    def windows(self) -> dict[str, Window]:
        """Forecast first tick and completion of every job without waiting chunks, if no more chunks join."""
        if self._windows is None:
            state = self._state.copy()
            self._run(state, FAR, keep=False)
            self._in_cloud(state, FAR)
            numbers = {name: known.number for name, known in self._known.items() if not known.waiting}
            rows = state.jobs[list(numbers.values())][:, [BEGUN, DONE]].tolist() if numbers else []
            self._windows = {name: Window(*row) for name, row in zip(numbers, rows, strict=True)}
        return self._windows

    def growth(self, workers: Ints, added: Ints, task: Task, delay: Ints) -> int:
        """Forecast by how many ticks the completions of all jobs grow together if a new job joins.

        `workers` of the job's type receive `added` ticks of work each, after `delay` ticks, N.
        """
        state = self._state
        before = state.jobs[:, DONE].copy()
        for sent in self._cloud_chunks:
            known = self._known[sent.name]
            if sent.chunks.count < known.bid.chunks:
                before[known.number] = max(before[known.number], sent.release + sent.each)
        every = self.workers.of_type[task.worker]
        nothing = np.zeros(len(every), dtype=np.int64)
        kernel.ends(every, nothing, nothing, task.rank, state.workers, state.blocks, before)
        after = before.copy()
        at = self.now * self.ticks + delay
        kernel.ends(workers, at, added, task.rank, state.workers, state.blocks, after)
        return sum((after - before).tolist())

    def planned(self) -> tuple[Segment, ...]:
        """Forecast what workers will do if no more chunks join."""
        state = self._state.copy()
        segments, _ = self._run(state, FAR)
        return tuple(sorted(segments + self._in_cloud(state, FAR)))

    def without_ps(self) -> list[str]:
        """Forecast which jobs would run without a parameter server, at the first time at which one does.

        Of the jobs that run then, those of the greatest ranks have none. In a cloud there is always one more.
        """
        if any(self.workers.inventory.cloud):
            return []
        for ps, serving in sorted(self._serving.items()):
            pss = self.workers.pss[ps]
            if serving <= pss:
                continue
            mine = {name: known.bid for name, known in self._known.items() if self.workers.ps_type(known.bid) == ps}
            going = first_excess((s for s in self.planned() if s.job in mine), pss=pss)
            if going:
                return sorted(going, key=lambda name: self.rank(mine[name]))[pss:]
        return []

    def congestion(self, slots: int) -> Floats:
        """Forecast the sum of 1 / D over a worker's incomplete chunks at the beginning of each slot, T x S x W.

        It is the mean over the workers of a type on a server; 0 if there are none, and in the cloud, where no chunk
        waits.
        """
        first = self.now * self.ticks
        at = first + np.arange(slots, dtype=np.int64) * self.ticks
        by_worker = np.zeros((slots, len(self.workers)))
        state = self._state
        for w in np.flatnonzero(state.workers[:, HEAD] != NONE):
            kernel.backlog(int(w), state.workers, state.blocks, at, by_worker)
        mean = np.zeros((slots, *self.workers.count.shape))
        for s, m in {(int(s), int(m)) for s, m in zip(self.workers.server, self.workers.type, strict=True)}:
            start = self.workers.first[s, m]
            mean[:, s, m] = by_worker[:, start : start + self.workers.count[s, m]].mean(axis=1)
        return mean

    def _run(self, state: State, to: int, *, keep: bool = True) -> tuple[list[Segment], list[Preemption]]:
        """Advance the workers of a state to tick `to`; return what they did, if `keep`."""
        segments, preemptions = [], []
        names = {known.number: name for name, known in self._known.items()}
        room, first = ROOM if keep else 0, 0
        while first < len(self.workers):
            rows = np.zeros((room, kernel.SEGMENT_COLUMNS), dtype=np.int64)
            lost = np.zeros((room, kernel.SEGMENT_COLUMNS), dtype=np.int64)
            n, m = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
            first = kernel.advance(first, to, state.workers, state.blocks, state.free, state.jobs, rows, n, lost, m)
            for w, job, start, end in rows[: n[0]].tolist():
                segments.append(Segment(start, end, *self.workers.where(w), names[job]))
            for w, job, at, by in lost[: m[0]].tolist():
                preemptions.append(Preemption(at, *self.workers.where(w), names[job], names[by]))
        return segments, preemptions

    def _in_cloud(self, state: State, to: int) -> list[Segment]:
        """Advance the cloud to tick `to`; it processes each chunk from its release on."""
        segments, clock = [], self.now * self.ticks
        for sent in self._cloud_chunks:
            start, end = max(sent.release, clock), min(sent.release + sent.each, to)
            row = state.jobs[self._known[sent.name].number]
            if start < end:
                c = sent.chunks
                segments.append(Segment(start, end, c.server, c.type, c.index, sent.name, c.count))
                row[BEGUN] = start if row[BEGUN] == NONE else min(row[BEGUN], start)
            if clock < sent.release + sent.each <= to:
                row[OPEN] -= sent.chunks.count
                row[DONE] = max(row[DONE], sent.release + sent.each)
        return segments
