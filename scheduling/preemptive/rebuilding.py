"""Rebuild queues from a record of what joined them, or for an inventory that has changed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.errors import SchedulingError
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import CLOUD, Chunks
from scheduling.model.types import Ints
from scheduling.preemptive import kernel
from scheduling.preemptive.contents import CloudChunks, Contents
from scheduling.preemptive.kernel import AT, BEGUN, DONE, HEAD, JOB, NONE, OPEN
from scheduling.preemptive.record import Restored
from scheduling.preemptive.workers import TICKS, Task


class Rebuilt(Contents):
    """Contents that can be rebuilt."""

    @classmethod
    def restored(
        cls, inventory: Inventory, *, now: int, next_order: int, jobs: Iterable[Restored], ticks: int = TICKS
    ) -> Self:
        """Rebuild the queues at slot `now` from a record of what joined them and what was done."""
        queues = cls(inventory, now=now, ticks=ticks)
        queues._next_order = next_order
        for job in sorted(jobs, key=lambda job: job.order):
            queues._restore(job)
        return queues

    def relaid(
        self,
        inventory: Inventory,
        *,
        servers: Sequence[int | None],
        types: Sequence[int | None],
        bids: Mapping[str, Bid],
    ) -> Self:
        """Return the same queues for another inventory; chunks of removed workers wait.

        `servers` and `types` (of workers) say where each one is now, None if it is gone; `bids` are the jobs' in the
        new positions.
        """
        new = type(self)(inventory, now=self.now, ticks=self.ticks)
        new._next_order = self._next_order
        names = {known.number: name for name, known in self._known.items()}
        for name, known in self._known.items():
            task = Task.of(bids[name], types[known.task.worker], known.task.each, self.ticks, known.task.handicap)
            met = new._meet(bids[name], task, known.order, waiting=known.waiting)
            new._state.jobs[met.number, [DONE, BEGUN]] = self._state.jobs[known.number, [DONE, BEGUN]]
            for old, count in self._stored.of(name).items():
                if (server := servers[old]) is not None:
                    new._stored.add(name, server, count, size=known.bid.chunk_size)
        for w in range(len(self.workers)):
            s, m, k = servers[self.workers.server[w]], types[self.workers.type[w]], int(self._state.workers[w, HEAD])
            to = None if s is None or m is None else new.workers.number(Chunks(s, m, int(self.workers.index[w]), 1))
            while k != NONE:
                name, block = names[int(self._state.blocks[k, JOB])], self._state.blocks[k]
                new._settle(name, block, to, self._state.workers[w, AT] == k)
                if to is None and s is not None:
                    new._stored.add(name, s, -int(block[kernel.COUNT]), size=new._known[name].bid.chunk_size)
                k = int(self._state.blocks[k, kernel.NEXT])
        for sent in self._cloud_chunks:
            s, m = servers[sent.chunks.server], types[sent.chunks.type]
            if s is None or m is None or not inventory.cloud[s] or not new.workers.has(s, m, CLOUD):
                known = new._known[sent.name]
                new._known[sent.name] = replace(known, waiting=known.waiting + sent.chunks.count)
                if s is not None:
                    new._stored.add(sent.name, s, -sent.chunks.count, size=known.bid.chunk_size)
            else:
                new._cloud_chunks.append(replace(sent, chunks=replace(sent.chunks, server=s, type=m)))
                new._state.jobs[new._known[sent.name].number, OPEN] += sent.chunks.count
        return new

    def _settle(self, name: str, block: Ints, worker: int | None, at: bool) -> None:
        """Move a block of another queue to a worker's queue; if there is no worker, its chunks wait."""
        known, count = self._known[name], int(block[kernel.COUNT])
        if worker is None:
            self._known[name] = replace(known, waiting=known.waiting + count)
            return
        joining = np.array([[worker, count, block[kernel.RELEASE]]], dtype=np.int64)
        self._state.join(joining, (NONE, known.number, *block[kernel.COUNT :].tolist()))
        self._state.jobs[known.number, OPEN] += count
        if at:
            self._state.workers[worker, AT] = self._state.block_of(worker, known.number)

    def _restore(self, job: Restored) -> None:
        task = Task.of(job.bid, job.type, job.each, self.ticks, job.handicap)
        known = self._meet(job.bid, task, job.order, waiting=job.bid.chunks)
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
                self._cloud_chunks.append(CloudChunks(job.bid.id, c, release, part.each))
                continue
            worker, count = self.workers.number(c), -(-left // part.each)
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
