"""Dispatch of the chunks of a new job: eq. (5), and the choice between edge and cloud."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.schedule import CLOUD, Chunks
from scheduling.model.types import Floats, Ints
from scheduling.preemptive import kernel, placing
from scheduling.preemptive.queues import Queues
from scheduling.preemptive.workers import Task

RULES = ("marginal", "jobmax", "paper", "cloud", "edge")
ENOUGH = 5
"""Jobs from which the price of the edge's work is learned; fewer say little about those that come."""
HEAVY = 3
"""Ratio of coming work to what the workers can do from which the price does not rise much more."""
HEAD_START = 40
"""The first job here counts as this part of a mean time in the cloud earlier: a rate of arrivals needs some time."""
NOBODY: Ints = np.zeros(0, dtype=np.int64)
UNLIMITED: Ints = np.zeros(0, dtype=np.int64)
"""Storage of servers without limits, for kernels."""


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


class _Edge(NamedTuple):
    """Workers that a job could use, and the work ahead of it at each, ticks."""

    workers: Ints
    delay: Ints
    ahead: Ints
    harm: Floats
    everything: Ints
    """Work of all ranks at each."""
    keys: Floats
    """D x Q of a first chunk at each (eq. 5), ticks."""
    last: int
    """Greatest rank in their queues."""
    backlog: int
    """Sum of `everything`."""


class _Cloud(NamedTuple):
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
    keys, server = edge.keys, queues.workers.server
    if rule == "paper" and cloud is not None:
        best = (keys if room is None else keys[room[server[edge.workers]] > 0]).min(initial=np.inf)
        if cloud.delay + (task.alone if whole else task.each) < best:
            return _all_in_cloud(cloud, task, bid, count, queues, alone=whole)
    chosen, placed = np.empty(count, dtype=np.int64), np.empty(count)
    counts = np.zeros(len(keys), dtype=np.int64)
    cloud_key = np.inf if cloud is None else float(cloud.delay + task.each)
    in_cloud = placing.place(keys, task.each, edge.workers, server, _space(room), cloud_key, chosen, placed, counts)
    if in_cloud and cloud is None:
        return None
    used = counts.nonzero()[0]
    if rule in ("marginal", "jobmax") and cloud is not None and whole:
        ends = edge.delay[used] + edge.ahead[used] + counts[used] * task.each
        estimate = max(int(ends.max(initial=0)), cloud.delay + task.each if in_cloud else 0)
        harm = round(float((counts * edge.harm).sum()) * task.each / kernel.GRAIN) * kernel.GRAIN
        if float(cloud.delay + task.alone) <= estimate + harm:
            return _all_in_cloud(cloud, task, bid, count, queues, alone=True)
    return Dispatch(
        order=chosen,
        workers=edge.workers[used],
        counts=counts[used],
        cloud_chunks=(Chunks(cloud.server, task.worker, CLOUD, in_cloud),) if in_cloud and cloud is not None else (),
        alone=whole and in_cloud == count,
        handicap=task.handicap,
        alpha=placed / (bid.chunks * queues.ticks),
    )


class _Packed(NamedTuple):
    """All chunks of a job on workers of the edge, dealt for the earliest completion."""

    order: Ints
    """Number of each chunk's worker, in the order of placing."""
    used: Ints
    """Indices of the edge's workers that take some, N."""
    counts: Ints
    """Number of chunks that each of them takes, N."""
    ends: Floats
    """Forecast completion of each chunk in the order of placing, ticks from now."""
    completion: int
    """Forecast completion of the job, ticks from now."""


def _pack(edge: _Edge, ahead: Ints, task: Task, chunks: int, server: Ints, room: Ints | None) -> _Packed | None:
    """Give each chunk to the worker that completes it first, after `ahead` ticks of work; None without storage."""
    order, ends = np.empty(chunks, dtype=np.int64), np.empty(chunks)
    counts = np.zeros(len(ahead), dtype=np.int64)
    last = placing.pack(edge.delay, ahead, task.each, edge.workers, server, _space(room), order, ends, counts)
    if last == kernel.NONE:
        return None
    used = counts.nonzero()[0]
    return _Packed(order, used, counts[used], ends, last)


def _marginal(bid: Bid, task: Task, queues: Queues, edge: _Edge, cloud: _Cloud, room: Ints | None) -> Dispatch:
    """Choose what adds least to the times of all jobs: the edge by rank, the edge behind all others, or the cloud.

    The work of the edge has a price. All of it is compared in whole ticks times `unit`.
    """
    away, server = cloud.delay + task.alone, queues.workers.server
    price, unit = _price(bid.chunks * task.each, max(1, len(edge.workers)) * away, edge.backlog, queues)
    least, best, handicap, grown = away * unit, None, task.handicap, 0
    first = _pack(edge, edge.ahead, task, bid.chunks, server, room)
    if first is not None and first.completion * unit + price < least:
        used = first.used
        if edge.harm[used].any():
            grown = queues.growth(edge.workers[used], first.counts * task.each, task, edge.delay[used])
        cost = (first.completion + grown) * unit + price
        if cost < least:
            least, best = cost, first
    if grown > 0:  # else to join behind all others is no better
        last = _pack(edge, edge.everything, task, bid.chunks, server, room)
        if last is not None and last.completion * unit + price < least:
            best, handicap = last, task.handicap + edge.last - task.rank
    if best is None:
        return _all_in_cloud(cloud, task, bid, bid.chunks, queues, alone=True)
    return Dispatch(
        order=best.order,
        workers=edge.workers[best.used],
        counts=best.counts,
        cloud_chunks=(),
        alone=False,
        handicap=handicap,
        alpha=best.ends / (bid.chunks * queues.ticks),
    )


def _price(work: int, capacity: int, backlog: int, queues: Queues) -> tuple[int, int]:
    """Return the price of `work` ticks of the edge, ticks, as numerator and denominator.

    A tick of work costs what the edge could save the jobs that are here now by it, in the mean, times half of (load +
    `HEAVY` r / (`HEAVY` + r)). Load is `backlog` and half of the work over `capacity`, which is what the workers of the
    type can do until the job would be complete in the cloud. r is the work of the jobs here that the edge could save
    time over what all workers can do in the time in which such jobs came: since the first of the jobs here, and at most
    their mean time in the cloud. If only n < `ENOUGH` jobs are here, the price is multiplied by (n / `ENOUGH`)^2.
    """
    here = queues.saving
    elapsed = (queues.now - queues.since) * queues.ticks
    comes = here.work * here.jobs * HEAD_START
    served = len(queues.workers) * min(HEAD_START * here.cloud, HEAD_START * here.jobs * elapsed + here.cloud)
    whole = max(1, HEAVY * served + comes)
    load = (2 * backlog + work) * whole + 2 * capacity * HEAVY * comes
    price = min(queues.present, ENOUGH) ** 2 * here.sooner * work * load
    return price, 4 * ENOUGH**2 * max(1, here.work) * capacity * whole


def _space(room: Ints | None) -> Ints:
    """Return for how many chunks each server has storage, S, as an array that may be changed."""
    return UNLIMITED if room is None else room.astype(np.int64, copy=True)


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
        for s in queues.workers.clouds.tolist()
        if queues.workers.count[s, task.worker] - queues.in_cloud(s, task.worker) >= count
        and (room is None or room[s] >= count)
    ]
    delay, server = min(near, default=(0, None))
    return None if server is None else _Cloud(server, delay * queues.ticks)


def _edge(bid: Bid, task: Task, queues: Queues) -> _Edge:
    workers = queues.workers.of_type[task.worker]
    delay = queues.delays(bid)[queues.workers.server[workers]] * queues.ticks
    ahead, everything = np.empty_like(workers), np.empty_like(workers)
    harm, keys, state, now = np.empty(len(workers)), np.empty(len(workers)), queues.state, queues.now * queues.ticks
    last, backlog = kernel.outlooks(
        workers,
        now,
        delay,
        task.rank,
        task.each,
        bid.chunks,
        state.workers,
        state.blocks,
        ahead,
        harm,
        everything,
        keys,
    )
    return _Edge(workers, delay, ahead, harm, everything, keys, last, backlog)
