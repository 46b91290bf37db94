"""Dispatch of the chunks of a new job: eq. (5), and the choice between edge and cloud."""

from dataclasses import dataclass

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.schedule import CLOUD, Chunks
from scheduling.model.types import Floats, Ints
from scheduling.preemptive import kernel
from scheduling.preemptive.queues import Queues
from scheduling.preemptive.storage import PLENTY
from scheduling.preemptive.workers import Task

RULES = ("jobmax", "paper", "cloud", "edge")
GRAIN = 2.0**-26
"""Ticks to which D x Q is rounded: sums of 1 / D that are equal in fractions are then equal in doubles, and ties are
ties."""
NOBODY: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Dispatch:
    """The workers that receive a job's chunks."""

    order: Ints
    """Number of each chunk's worker (`Workers` says which), in the order of placing; CLOUD."""
    workers: Ints
    """Numbers of the workers that take some, N, in order."""
    counts: Ints
    """Number of chunks that each of them takes, N."""
    cloud_chunks: tuple[Chunks, ...]
    """Chunks in the cloud."""
    alone: bool
    """The whole job is in the cloud: without communication (zeta = 1)."""
    handicap: int
    """The requested handicap, ticks."""
    alpha: Floats
    """Least Q of each chunk in the order of placing (eq. 5), slots: the dual variable alpha."""

    def send(self, bid: Bid, queues: Queues) -> None:
        """Push the chunks to the chosen queues."""
        queues.send(bid, self.workers, self.counts, self.cloud_chunks, handicap=self.handicap)

    def chunks(self, queues: Queues) -> tuple[Chunks, ...]:
        """Return the chunks by server, type and index."""
        pairs = zip(self.workers.tolist(), self.counts.tolist(), strict=True)
        return (*(Chunks(*queues.workers.where(worker), count) for worker, count in pairs), *self.cloud_chunks)


@dataclass(frozen=True)
class _Edge:
    """Workers that a job could use, and the work ahead of it at each, ticks."""

    workers: Ints
    delay: Ints
    ahead: Ints
    harm: Floats

    def keys(self, task: Task, chunks: int) -> Floats:
        """Return D x Q of a first chunk at each worker (eq. 5), ticks."""
        return _rounded((self.delay + self.ahead + task.each) + self.harm * float(task.each * chunks))


@dataclass(frozen=True)
class _Cloud:
    server: int
    delay: int


def dispatch(
    bid: Bid,
    queues: Queues,
    *,
    rule: str = "jobmax",
    count: int | None = None,
    room: Ints | None = None,
    handicap: int = 0,
) -> Dispatch | None:
    """Choose a worker for each chunk; the queues are not changed.

    Parameters
    ----------
    bid
        The job; its upload begins now.
        queues
            The present queues.
    rule
        jobmax: the greedy mixed plan against the whole job in the cloud (ours). paper: the first chunk decides
        (Algorithm 2). cloud: all to the cloud. edge: none.
    count
        Chunks to place; all of the job's by default.
    room
        For how many chunks each server has storage (Section VI), S; no limit by default.
    handicap
        Ticks added to the rank of a job that never joined a queue.

    Returns
    -------
    Dispatch or None
        None if some chunk has nowhere to go.

    References
    ----------
    Preemptive edge-cloud paper, Algorithms 2 and 3. Each chunk is committed before the next is placed.
    """
    task = queues.task(bid, handicap)
    if task is None or task.worker == kernel.NONE:
        return None
    count = bid.chunks if count is None else count
    whole = count == bid.chunks
    cloud = None if rule == "edge" else _cloud(bid, task, queues, count, room)
    if rule == "cloud" and cloud is not None:
        return _all_in_cloud(cloud, task, bid, count, queues, alone=whole)
    edge = _edge(bid, task, queues)
    keys = edge.keys(task, bid.chunks)
    space = np.full(len(queues.workers.inventory.servers), PLENTY) if room is None else room.astype(np.int64, copy=True)
    server = queues.workers.server[edge.workers]
    if rule == "paper" and cloud is not None:
        best = keys[space[server] > 0].min(initial=np.inf)
        if cloud.delay + (task.alone if whole else task.each) < best:
            return _all_in_cloud(cloud, task, bid, count, queues, alone=whole)
    chosen, placed, counts = np.full(count, CLOUD), np.zeros(count), np.zeros(len(keys), dtype=np.int64)
    cloud_key = np.inf if cloud is None else float(cloud.delay + task.each)
    in_cloud = kernel.place(keys, task.each, server, space, cloud_key, chosen, placed, counts)
    if in_cloud and cloud is None:
        return None
    used = np.flatnonzero(counts)
    if rule == "jobmax" and cloud is not None and whole:
        ends = (edge.delay + edge.ahead + counts * task.each)[used]
        estimate = max(int(ends.max(initial=0)), cloud.delay + task.each if in_cloud else 0)
        harm = _rounded(np.array((counts * edge.harm).sum() * task.each))
        if cloud.delay + task.alone <= estimate + harm:
            return _all_in_cloud(cloud, task, bid, count, queues, alone=True)
    chosen[: count - in_cloud] = edge.workers[chosen[: count - in_cloud]]
    placed[count - in_cloud :] = cloud_key
    return Dispatch(
        order=chosen,
        workers=edge.workers[used],
        counts=counts[used],
        cloud_chunks=(Chunks(cloud.server, task.worker, CLOUD, in_cloud),) if in_cloud and cloud is not None else (),
        alone=whole and in_cloud == count,
        handicap=task.handicap,
        alpha=placed / (bid.chunks * queues.ticks),
    )


def _rounded(ticks: Floats) -> Floats:
    near: Floats = np.round(ticks / GRAIN) * GRAIN
    return near


def _all_in_cloud(cloud: _Cloud, task: Task, bid: Bid, count: int, queues: Queues, *, alone: bool) -> Dispatch:
    key = cloud.delay + (task.alone if alone else task.each)
    return Dispatch(
        order=np.full(count, CLOUD),
        workers=NOBODY,
        counts=NOBODY,
        cloud_chunks=(Chunks(cloud.server, task.worker, CLOUD, count),),
        alone=alone,
        handicap=task.handicap,
        alpha=np.full(count, key / (bid.chunks * queues.ticks)),
    )


def _cloud(bid: Bid, task: Task, queues: Queues, count: int, room: Ints | None) -> _Cloud | None:
    """Return the nearest cloud server with a worker and storage for each of `count` chunks, the first of equals."""
    near = [
        (bid.delay[s], s)
        for s, cloud in enumerate(queues.workers.inventory.cloud)
        if cloud
        and queues.workers.count[s, task.worker] - queues.in_cloud(s, task.worker) >= count
        and (room is None or room[s] >= count)
    ]
    delay, server = min(near, default=(0, None))
    return None if server is None else _Cloud(server, delay * queues.ticks)


def _edge(bid: Bid, task: Task, queues: Queues) -> _Edge:
    workers = queues.workers.of_type[task.worker]
    delay = np.array(bid.delay, dtype=np.int64)[queues.workers.server[workers]] * queues.ticks
    ahead, harm = np.empty(len(workers), dtype=np.int64), np.empty(len(workers))
    state = queues.state
    at = queues.now * queues.ticks + delay
    kernel.outlooks(workers, at, task.rank, state.workers, state.blocks, ahead, harm)
    return _Edge(workers, delay, ahead, harm)
