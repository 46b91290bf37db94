"""Contents of all workers' queues and of the cloud, and data about the jobs of these chunks."""

from collections import Counter
from dataclasses import astuple, dataclass, replace
from typing import Self

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import CLOUD, Chunks
from scheduling.model.types import Ints, Json
from scheduling.preemptive import kernel
from scheduling.preemptive.kernel import CLOCK, NONE
from scheduling.preemptive.state import State
from scheduling.preemptive.storage import Stored, room
from scheduling.preemptive.workers import LATEST, NOTHING, TICKS, Saving, Task, Workers


@dataclass(frozen=True)
class JobFacts:
    """Data about a job other than its blocks."""

    bid: Bid
    task: Task
    number: int
    """Its row."""
    order: int
    waiting: int
    """Chunks that are neither complete nor in a queue."""
    saving: Saving
    """The time that an idle edge would save it over the cloud."""


@dataclass(frozen=True)
class CloudChunks:
    """Chunks in the cloud, processed in parallel."""

    name: str
    chunks: Chunks
    release: int
    """Tick at which each can be begun."""
    each: int
    """Ticks that each takes."""


class Contents:
    """Workers of the edge with a queue each, in order of server, type and index; chunks in the cloud have none.

    Parameters are those of `queues.Queues`.
    """

    def __init__(self, inventory: Inventory, *, now: int, ticks: int = TICKS) -> None:
        self.now, self.ticks = now, ticks
        self.workers = Workers(inventory, ticks)
        workers = np.full((len(self.workers), kernel.WORKER_COLUMNS), NONE, dtype=np.int64)
        workers[:, CLOCK] = now * ticks
        blocks = np.zeros((0, kernel.BLOCK_COLUMNS), dtype=np.int64)
        jobs = np.zeros((0, kernel.JOB_COLUMNS), dtype=np.int64)
        self._state = State(workers, blocks, np.full(1, NONE, dtype=np.int64), jobs, unused=[])
        self._known: dict[str, JobFacts] = {}
        self._cloud_chunks: list[CloudChunks] = []
        self._next_order = 0
        self._work = 0
        """Ticks of all chunks of all jobs that are not complete."""
        self._serving: Counter[int] = Counter()
        """Number of parameter servers in use, by type."""
        self._saving = NOTHING
        self._stored = Stored(len(inventory.servers))
        self._asked: tuple[Bid, int, Task | None] | None = None
        """The last newcomer that was asked for: it is dispatched, then sent."""
        self._delays: tuple[Bid, Ints] | None = None

    @property
    def jobs(self) -> tuple[str, ...]:
        """Return the jobs that are not complete, in the order in which they first joined."""
        return tuple(self._known)

    @property
    def state(self) -> State:
        """The arrays, for kernels that only read them."""
        return self._state

    @property
    def blocks(self) -> int:
        """Number of blocks of equal chunks in queues."""
        state = self._state
        unused, k = 0, int(state.free[0])
        while k != NONE:
            unused, k = unused + 1, int(state.blocks[k, kernel.NEXT])
        return len(state.blocks) - unused

    def copy(self) -> Self:
        """Return independent queues with the same contents."""
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__ | {
            "_state": self._state.copy(),
            "_known": dict(self._known),
            "_cloud_chunks": list(self._cloud_chunks),
            "_stored": self._stored.copy(),
            "_serving": self._serving.copy(),
        }
        return other

    def to_json(self) -> Json:
        """Return everything as a document from which `from_json` makes queues that go on in the same way."""
        return {
            "now": self.now,
            "ticks": self.ticks,
            "next_order": self._next_order,
            "state": self._state.to_json(),
            "stored": self._stored.to_json(),
            "jobs": [
                [known.bid.to_json(), *astuple(known.task), known.number, known.order, known.waiting]
                for known in self._known.values()
            ],
            "cloud": [[sent.name, *astuple(sent.chunks), sent.release, sent.each] for sent in self._cloud_chunks],
        }

    @classmethod
    def from_json(cls, document: Json, inventory: Inventory) -> Self:
        """Read what `to_json` wrote under this inventory."""
        queues = cls(inventory, now=document["now"], ticks=document["ticks"])
        sizes = {}
        for core, worker, each, alone, rank, handicap, number, order, waiting in document["jobs"]:
            bid, task = Bid.from_json(core), Task(worker, each, alone, rank, handicap)
            met = queues._meet(bid, task, order, waiting=waiting)
            queues._known[bid.id] = replace(met, number=number)
            sizes[bid.id] = bid.chunk_size
        queues._next_order = document["next_order"]
        queues._state = State.from_json(document["state"])
        queues._stored = Stored.from_json(document["stored"], sizes=sizes, servers=len(inventory.servers))
        queues._cloud_chunks = [
            CloudChunks(name, Chunks(server, type, index, count), release, each)
            for name, server, type, index, count, release, each in document["cloud"]
        ]
        return queues

    def task(self, bid: Bid, handicap: int = 0) -> Task | None:
        """Return the task of a chunk of this job; None if no server has machines. A job that joined keeps its
        handicap."""
        known = self._known.get(bid.id)
        if known is not None:
            return known.task
        if self._asked is None or self._asked[0] is not bid:
            self._asked = bid, handicap, self.workers.task(bid, handicap)
        elif self._asked[1] != handicap:
            task = self._asked[2]
            self._asked = bid, handicap, None if task is None else task.with_handicap(handicap)
        return self._asked[2]

    def delays(self, bid: Bid) -> Ints:
        """Return the slots that an upload of the job's data takes to each server, S."""
        if self._delays is None or self._delays[0] is not bid:
            self._delays = bid, np.array(bid.delay, dtype=np.int64)
        return self._delays[1]

    def joined(self, bid: Bid) -> bool:
        """Whether the job has joined queues and is not complete."""
        return bid.id in self._known

    @property
    def present(self) -> int:
        """Number of jobs that have joined and are not complete."""
        return len(self._known)

    @property
    def saving(self) -> Saving:
        """Return sums over the jobs here that an idle edge would complete before the cloud."""
        return self._saving

    @property
    def since(self) -> int:
        """Return the slot in which the first of the jobs here arrived, in the order of joining; now without jobs."""
        first = next(iter(self._known.values()), None)
        return self.now if first is None else first.bid.arrival

    def rank(self, bid: Bid, handicap: int = 0) -> tuple[int, int]:
        """Return the sort key of the job: D p0 plus the handicap in ticks, then the order of joining."""
        known, task = self._known.get(bid.id), self.task(bid, handicap)
        return LATEST if task is None else task.rank, self._next_order if known is None else known.order

    def order_of(self, job: str) -> int:
        """Return the job's number among all jobs that ever joined."""
        return self._known[job].order

    def chunks_of(self, job: str) -> int:
        """Return the number of chunks of a job that joined, wherever they are."""
        return self._known[job].bid.chunks

    def task_of(self, job: str) -> Task:
        """Return the task of a chunk of a job that joined."""
        return self._known[job].task

    def release_of(self, job: str, chunks: Chunks) -> int:
        """Return the slot at which the chunks that a job sent last to a queue are uploaded there."""
        known = self._known[job]
        worker = self.workers.number(chunks) if chunks.index != CLOUD else None
        if worker is not None:
            return int(self._state.blocks[self._state.block_of(worker, known.number), kernel.RELEASE]) // self.ticks
        own = [sent for sent in self._cloud_chunks if sent.name == job and sent.chunks == chunks]
        return own[-1].release // self.ticks

    def waiting(self, bid: Bid) -> int:
        """Return the number of chunks that are neither complete nor in a queue; all chunks if the job never joined."""
        known = self._known.get(bid.id)
        return bid.chunks if known is None else known.waiting

    def has_ps(self, bid: Bid) -> bool:
        """Whether a parameter server is free for the job; they are not shared, and a cloud always has a free one."""
        if bid.id in self._known or any(self.workers.inventory.cloud):
            return True
        mine = self.workers.ps_type(bid)
        return self._serving[mine] < int(self.workers.pss[mine])

    def can_count(self, bid: Bid, task: Task) -> bool:
        """Whether times cannot overflow if the job joins, even if one worker processes all chunks."""
        mine = 0 if bid.id in self._known else bid.chunks * task.each
        return (self.now + max(bid.delay, default=0)) * self.ticks + self._work + mine <= LATEST

    def in_cloud(self, server: int, type: int) -> int:
        """Return the number of workers of a cloud server that are in use or assigned."""
        return sum(a.chunks.count for a in self._cloud_chunks if (a.chunks.server, a.chunks.type) == (server, type))

    @property
    def stored(self) -> tuple[int, ...]:
        """Return the storage used on each server, S: chunks stay where they were sent until their job is complete."""
        return self._stored.total

    def room(self, bid: Bid) -> Ints | None:
        """Return for how many more chunks of the job each server has storage, S; None if there is no limit."""
        return room(self.workers.inventory.storage, self.stored, bid.chunk_size)

    def _meet(self, bid: Bid, task: Task, order: int, *, waiting: int) -> JobFacts:
        number = self._state.row()
        self._state.jobs[number] = (0, 0, NONE)
        self._work += bid.chunks * task.each
        self._serving[self.workers.ps_type(bid)] += 1
        saving = NOTHING if task.worker == NONE else self.workers.saving(bid.chunks, task, self.delays(bid))
        self._saving = self._saving.plus(saving)
        known = self._known[bid.id] = JobFacts(bid, task, number, order, waiting=waiting, saving=saving)
        self._next_order = max(self._next_order, order + 1)
        return known

    def _block(self, known: JobFacts, each: int, *, left: int) -> tuple[int, ...]:
        """Return a job's block without its count and release; `left`: ticks left of the first chunk."""
        return (NONE, known.number, 0, left, each, 0, known.task.rank, known.bid.chunks, known.order)

    def _forget(self, job: str) -> None:
        known = self._known.pop(job)
        self._stored.forget(job, size=known.bid.chunk_size)
        self._work -= known.bid.chunks * known.task.each
        self._serving[self.workers.ps_type(known.bid)] -= 1
        self._saving = self._saving.plus(known.saving, -1)
        self._state.unused.append(known.number)
