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

RULES = ("marginal", "jobmax", "paper", "cloud", "edge")
GRAIN = 2.0**-26
"""Ticks to which D x Q is rounded: sums of 1 / D that are equal in fractions are then equal in doubles, and ties are
ties."""
ENOUGH = 20
"""Jobs from which the price of the edge's work is learned; fewer say less about those that come."""
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
    everything: Ints
    """Work of all ranks at each."""
    last: int
    """Greatest rank in their queues."""

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
        marginal: what adds least to the times of all jobs, with a price for the work of the edge (ours); without a
        cloud, and for a job that joined before, as jobmax.
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
    if rule == "marginal" and cloud is not None and whole and not queues.joined(bid):
        return _marginal(bid, task, queues, edge, cloud, room)
    keys = edge.keys(task, bid.chunks)
    space = _space(queues, room)
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
    if rule in ("marginal", "jobmax") and cloud is not None and whole:
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


@dataclass(frozen=True)
class _Packed:
    """All chunks of a job on workers of the edge, dealt for the earliest completion."""

    order: Ints
    counts: Ints
    ends: Floats
    """Forecast completion of each chunk in the order of placing, ticks from now."""
    completion: int
    """Forecast completion of the job, ticks from now."""


def _pack(edge: _Edge, ahead: Ints, task: Task, chunks: int, server: Ints, space: Ints) -> _Packed | None:
    """Give each chunk to the worker that completes it first, after `ahead` ticks of work; None without storage."""
    order, ends = np.full(chunks, CLOUD), np.zeros(chunks)
    counts = np.zeros(len(ahead), dtype=np.int64)
    before = edge.delay + ahead
    keys = (before + task.each).astype(np.float64)
    if kernel.place(keys, task.each, server, space, np.inf, order, ends, counts):
        return None
    used = counts > 0
    return _Packed(edge.workers[order], counts, ends, int((before + counts * task.each)[used].max()))


def _marginal(bid: Bid, task: Task, queues: Queues, edge: _Edge, cloud: _Cloud, room: Ints | None) -> Dispatch:
    """Choose what adds least to the times of all jobs: the edge by rank, the edge behind all others, or the cloud.

    All of it is compared in whole ticks times `unit`. The work of the edge has a price: what the edge could save the
    jobs that are here now for a tick of work, in the mean; half of it if the edge is idle, and one and a half times
    as much if its work lasts until the job would be complete in the cloud. With fewer than `ENOUGH` jobs the price is
    proportionally lower.
    """
    away, work = cloud.delay + task.alone, bid.chunks * task.each
    capacity = max(1, len(edge.workers)) * away
    saving, saving_work = queues.savings
    unit = 2 * max(1, saving_work) * capacity * ENOUGH
    price = min(queues.present, ENOUGH) * saving * work * (capacity + 2 * int(edge.everything.sum()) + work)
    server = queues.workers.server[edge.workers]
    least, best, handicap, grown = away * unit, None, task.handicap, 0
    first = _pack(edge, edge.ahead, task, bid.chunks, server, _space(queues, room))
    if first is not None and first.completion * unit + price < least:
        used = first.counts > 0
        if edge.harm[used].any():
            grown = queues.growth(edge.workers[used], first.counts[used] * task.each, task, edge.delay[used])
        cost = (first.completion + grown) * unit + price
        if cost < least:
            least, best = cost, first
    if grown > 0:  # else to join behind all others is no better
        last = _pack(edge, edge.everything, task, bid.chunks, server, _space(queues, room))
        if last is not None and last.completion * unit + price < least:
            best, handicap = last, task.handicap + edge.last - task.rank
    if best is None:
        return _all_in_cloud(cloud, task, bid, bid.chunks, queues, alone=True)
    used = best.counts > 0
    return Dispatch(
        order=best.order,
        workers=edge.workers[used],
        counts=best.counts[used],
        cloud_chunks=(),
        alone=False,
        handicap=handicap,
        alpha=best.ends / (bid.chunks * queues.ticks),
    )


def _space(queues: Queues, room: Ints | None) -> Ints:
    """Return for how many chunks each server has storage, S, as an array that may be changed."""
    if room is None:
        return np.full(len(queues.workers.inventory.servers), PLENTY)
    return room.astype(np.int64, copy=True)


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
    delay = queues.delays(bid)[queues.workers.server[workers]] * queues.ticks
    ahead, everything, last = (np.empty(len(workers), dtype=np.int64) for _ in range(3))
    harm, state = np.empty(len(workers)), queues.state
    at = queues.now * queues.ticks + delay
    kernel.outlooks(workers, at, task.rank, state.workers, state.blocks, ahead, harm, everything, last)
    return _Edge(workers, delay, ahead, harm, everything, int(last.max(initial=0)))
