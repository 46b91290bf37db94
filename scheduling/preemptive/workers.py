"""The individual workers of a cluster, and the processing times of chunks on them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import CLOUD, Chunks
from scheduling.model.types import Ints
from scheduling.preemptive.kernel import NONE

TICKS = 10**9
"""Ticks in a slot: times within a slot are whole billionths of it."""
LATEST = 1 << 61
"""No time may be later, ticks."""


@dataclass(frozen=True)
class Task:
    """Processing data of one chunk of a job, constant for the life of the job; times in ticks."""

    worker: int
    """Type of its workers; NONE if there are no such workers any more."""
    each: int
    """Ticks of a chunk with communication (p0)."""
    alone: int
    """Ticks of a chunk without communication, if the whole job is in the cloud (p1)."""
    rank: int
    """D p0, the reciprocal of the average processing rate, and the handicap; less is first."""
    handicap: int
    """Ticks that ageing adds, so that earlier jobs are not passed for ever."""

    @classmethod
    def of(cls, bid: Bid, worker: int | None, each: int, ticks: int, handicap: int) -> "Task":
        """Create a task with `each` ticks per chunk on workers of this type."""
        transfer, minibatches = 0, bid.epochs * bid.minibatches
        if worker is not None:
            time = bid.transfer_time[worker]
            transfer = minibatches * ticks * time.numerator // time.denominator
        rank = bid.chunks * each + handicap
        return cls(NONE if worker is None else worker, each, max(1, each - transfer), rank, handicap)

    def with_handicap(self, handicap: int) -> "Task":
        """Return the same task with another handicap."""
        return replace(self, rank=self.rank - self.handicap + handicap, handicap=handicap)


class Saving(NamedTuple):
    """Jobs that an idle edge would complete before the cloud, and sums over them, ticks."""

    jobs: int
    sooner: int
    """Ticks by which each would be complete sooner than in the cloud."""
    work: int
    """Work on one worker."""
    cloud: int
    """Time from arrival to completion in the cloud."""

    def plus(self, other: "Saving", sign: int = 1) -> "Saving":
        """Return the sums over both; with -1, without the other's."""
        return Saving(
            self.jobs + sign * other.jobs,
            self.sooner + sign * other.sooner,
            self.work + sign * other.work,
            self.cloud + sign * other.cloud,
        )


NOTHING = Saving(0, 0, 0, 0)


class Workers:
    """Workers of the edge, numbered by server, type and index; those of the cloud are only counted. Never changed.

    Parameters
    ----------
    inventory
        Workers of each type on each server: as many as its capacity has room for, types looked at one by one.
    ticks
        In a slot.
    """

    def __init__(self, inventory: Inventory, ticks: int) -> None:
        self.inventory, self.ticks = inventory, ticks
        self.count = machines(inventory.capacity, inventory.worker_demand)
        """Workers of each type on each server, S x W."""
        edge = np.where(np.array(inventory.cloud, dtype=np.bool_)[:, None], 0, self.count)
        servers, types = np.indices(edge.shape)
        self.server: Ints = np.repeat(servers.ravel(), edge.ravel())
        self.type: Ints = np.repeat(types.ravel(), edge.ravel())
        first = np.cumsum(edge.ravel()) - edge.ravel()
        self.first: Ints = first.reshape(edge.shape)
        """Number of the first worker of each type on each server, S x W."""
        self.index: Ints = np.arange(len(self.server)) - np.repeat(first, edge.ravel())
        self.of_type: list[Ints] = [np.flatnonzero(self.type == m) for m in range(edge.shape[1])]
        """Numbers of the workers of each type."""
        self.hosts: list[Ints] = [np.flatnonzero(edge[:, m]) for m in range(edge.shape[1])]
        """Servers of the edge with workers of each type."""
        self.clouds: Ints = np.flatnonzero(np.array(inventory.cloud, dtype=np.bool_))
        """Servers that are clouds."""
        self.pss: list[int] = machines(inventory.capacity, inventory.ps_demand).sum(axis=0).tolist()
        """Parameter servers of each type."""
        self._worker_types = [m for m in range(len(inventory.workers)) if self.count[:, m].any()]
        self._ps_types = [p for p, number in enumerate(self.pss) if number]

    def __len__(self) -> int:
        return len(self.server)

    def task(self, bid: Bid, handicap: int = 0) -> Task | None:
        """Return the task of a chunk of this job on machines of its ideal types; None if no server has such machines.

        The worker type is the one with the least time for a mini-batch and its transfer, the PS type the one with the
        least for an update, the first of equals.
        """
        if not self._worker_types or not self._ps_types:
            return None
        worker = _least((bid.worker_time, bid.transfer_time), self._worker_types)
        ps = _least((bid.ps_time,), self._ps_types)
        step = bid.worker_time[worker], bid.transfer_time[worker], bid.ps_time[ps]
        each = max(1, _ceil(bid.epochs * bid.minibatches * self.ticks, step))
        return Task.of(bid, worker, each, self.ticks, handicap)

    def saving(self, chunks: int, task: Task, delay: Ints) -> Saving:
        """Return what the edge saves a job over the cloud, alone and at its best; NOTHING if the cloud is no later.

        At the edge its chunks are dealt evenly to all workers of its type, all as near as the nearest.

        Parameters
        ----------
        chunks
            Number of chunks of the job.
        task
            Its processing data.
        delay
            Slots of upload to each server, S.
        """
        hosts = self.hosts[task.worker]
        clouds = [int(delay[s]) for s in self.clouds.tolist() if self.count[s, task.worker] >= chunks]
        if not len(hosts) or not clouds:
            return NOTHING
        cloud = min(clouds) * self.ticks + task.alone
        rounds = -(-chunks // len(self.of_type[task.worker]))
        sooner = cloud - int(delay[hosts].min()) * self.ticks - rounds * task.each
        return Saving(1, sooner, chunks * task.each, cloud) if sooner > 0 else NOTHING

    def ps_type(self, bid: Bid) -> int:
        """Return the type of parameter server that the job uses."""
        return min(self._ps_types, key=lambda p: (bid.ps_time[p], p), default=0)

    def has(self, server: int, type: int, index: int) -> bool:
        """Whether the worker exists; `CLOUD` is the index of every worker of a cloud server."""
        here = int(self.count[server, type])
        return index == CLOUD and here > 0 if self.inventory.cloud[server] else 0 <= index < here

    def number(self, c: Chunks) -> int | None:
        """Return the number of the worker of these chunks; None if it does not exist or is in the cloud."""
        if self.inventory.cloud[c.server] or not 0 <= c.index < self.count[c.server, c.type]:
            return None
        return int(self.first[c.server, c.type]) + c.index

    def where(self, number: int) -> tuple[int, int, int]:
        """Return server, type and index of a worker."""
        return int(self.server[number]), int(self.type[number]), int(self.index[number])


def _ceil(number: int, times: Iterable[Fraction]) -> int:
    """Return `number` times the sum of times, rounded up; quicker than fractions, since nothing is reduced."""
    over, under = 0, 1
    for time in times:
        over, under = over * time.denominator + time.numerator * under, under * time.denominator
    return -(-number * over // under)


def _least(times: Sequence[Sequence[Fraction]], among: Sequence[int]) -> int:
    """Return the index of the least sum of times, first of equals; exact sums are computed only for near-ties."""
    if len(among) == 1:
        return among[0]
    rough = [sum([each[i].numerator / each[i].denominator for each in times]) for i in among]
    limit = min(rough) * (1 + 1e-12)
    near = [i for i, time in zip(among, rough, strict=True) if time <= limit]
    return near[0] if len(near) == 1 else min((sum([each[i] for each in times[1:]], times[0][i]), i) for i in near)[1]


def machines(capacity: Ints, demands: Ints) -> Ints:
    """Return how many machines of each type alone each server has room for, servers x types."""
    number = np.zeros((len(capacity), len(demands)), dtype=np.int64)
    for m, demand in enumerate(demands):
        needed = demand > 0
        number[:, m] = (capacity[:, needed] // demand[needed]).min(axis=1)
    return number
