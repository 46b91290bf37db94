"""A_maxweight at price 0: plans whole batches of jobs in one call, each job with its earliest completion."""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np

from scheduling.batch.capacity import make_tables, release
from scheduling.batch.kernel import Batch, BatchPlan, plan
from scheduling.batch.options import MachineTypes, Options, count_fitting, list_options
from scheduling.best_response.rigid.durations import durations, ps_counts
from scheduling.best_response.rigid.kernel import smallest_problem
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Ints

REMEMBERED = 4096
"""Largest number of jobs whose options are cached."""


def plan_batch(
    bids: Sequence[Bid],
    ledger: Ledger,
    windows: Iterable[tuple[int, int]],
    *,
    freed: Iterable[Placement] = (),
    only: str | None = None,
) -> dict[str, Schedule]:
    """Place jobs one by one in each window in turn, each with its earliest completion.

    Parameters
    ----------
    bids
        Bids in the order in which they are placed; their utilities are not used.
    ledger
        Reservations of other jobs. It is not changed.
    windows
        First slot and latest completion of each round; a round places the jobs that earlier rounds did not place.
    freed
        Placements in the ledger that count as free: what these jobs held so far.
    only
        The id of the one bid whose schedule is returned; None for all.

    Returns
    -------
    dict
        Schedules of the placed bids, by bid id.

    Notes
    -----
    The result is the same as committing, one by one, the `rigid.best_response` at price 0 with a utility that is
    positive
    until the window ends and zero afterwards: earliest completion, then start, then the fewest workers, then the first
    worker type, PS type and host. Tables bound where a job may fit; these bounds only tighten while a batch is planned.
    A job that does not fit even the empty cluster costs no time.

    References
    ----------
    .. [1] The weighted-completion paper, Algorithms 2 and 3 at lambda = 1.
    """
    free = ledger.inventory.capacity - ledger.used
    release(free, _cluster_of(ledger).types.demand, _rows(freed, ledger, len(ledger.inventory.workers)))
    return _plan(bids, ledger, windows, free, only)


def plan_idle(bid: Bid, ledger: Ledger, *, first: int, end: int) -> Schedule | None:
    """Return the schedule of earliest completion that uses only idle resources of servers; None if there is none.

    If only resources in use have a price, no schedule costs less.
    """
    free = np.where(ledger.used == 0, ledger.inventory.capacity, 0)
    return _plan([bid], ledger, [(first, end)], free).get(bid.id)


def plan_alone(bid: Bid, ledger: Ledger) -> Schedule | None:
    """Return the schedule of earliest completion on the empty cluster; None if the job does not fit."""
    slots = ledger.end - ledger.start
    free = np.repeat(ledger.inventory.capacity[None], slots, axis=0)
    return _plan([bid], ledger, [(ledger.start, ledger.end)], free).get(bid.id)


def _plan(
    bids: Sequence[Bid], ledger: Ledger, windows: Iterable[tuple[int, int]], free: Ints, only: str | None = None
) -> dict[str, Schedule]:
    """Plan on free capacity T x S x R, which is modified."""
    if not bids:
        return {}
    cluster = _cluster_of(ledger)
    start, slots = ledger.start, ledger.end - ledger.start
    options = [cluster.options(bid) for bid in bids]
    spans = [(max(first - start, 0), min(end - start, slots)) for first, end in windows]
    out = _nothing(len(bids), free.shape[1])
    plan(
        make_tables(cluster.types, free, most=max((int(o.number.max(initial=1)) for o in options), default=1)),
        _batch(bids, options, start),
        np.array(spans, np.int64).reshape(-1, 2),
        out,
    )
    placed = ((j, bid.id) for j, bid in enumerate(bids) if out.worker[j] >= 0)
    return {name: _schedule(out, j, start) for j, name in placed if only is None or name == only}


def warm_up() -> None:
    """Compile every kernel, or load it from disk, so that no request has to wait for it."""
    ledger, bid = smallest_problem()
    plan_batch([bid, replace(bid, id="ring", architecture=Architecture.RING)], ledger, [(0, ledger.end)])


@dataclass
class _Cluster:
    """Cached data about a ledger's servers and about the jobs planned on them recently."""

    inventory: Inventory
    slots: int
    types: MachineTypes
    total: int
    """Largest number of workers of one type that fit the cluster."""
    known: dict[str, tuple[Bid, Options]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Guards `known`: quotes are answered in several threads."""

    def options(self, bid: Bid) -> Options:
        """Return the options of a job on the empty cluster."""
        with self.lock:
            old = self.known.pop(bid.id, None)
            if old is None or (old[0] is not bid and old[0] != bid):
                old = bid, self._list(bid)
            # The most recently used jobs come last.
            self.known[bid.id] = old
            while len(self.known) > REMEMBERED:
                del self.known[next(iter(self.known))]
            return old[1]

    def _list(self, bid: Bid) -> Options:
        most = min(bid.chunks, self.total)
        if most >= self.types.pss.shape[2]:
            self.types = self.types._replace(pss=ps_counts(self.inventory, 2 * most))
        lengths = durations(bid, most=most, slots=self.slots)
        return list_options(self.types, lengths, self.slots + 1, bid.architecture is Architecture.RING)


def _cluster_of(ledger: Ledger) -> _Cluster:
    kept, slots = ledger.derived.get("planner"), ledger.end - ledger.start
    if isinstance(kept, _Cluster) and kept.inventory is ledger.inventory and kept.slots == slots:
        return kept
    inventory = ledger.inventory
    demand, capacity = np.concatenate([inventory.worker_demand, inventory.ps_demand]), np.array(inventory.capacity)
    fitting = np.zeros((len(demand), len(capacity)), np.int64)
    with_ps = np.zeros((len(inventory.workers), len(inventory.parameter_servers)), np.int64)
    count_fitting(demand, capacity, fitting, with_ps)
    types = MachineTypes(
        demand=demand, capacity=capacity, pss=ps_counts(inventory, 1), fitting=fitting, with_ps=with_ps
    )
    cluster = _Cluster(inventory, slots, types, total=int(fitting[: len(with_ps)].sum(axis=1).max(initial=0)))
    ledger.derived["planner"] = cluster
    return cluster


def _rows(freed: Iterable[Placement], ledger: Ledger, workers: int) -> Ints:
    """Return start, end, machine type, server and count of the placements in the horizon."""
    rows = [
        (max(p.start, ledger.start), p.end, p.type if p.role is Role.WORKER else workers + p.type, p.server, p.count)
        for p in freed
        if p.end > ledger.start
    ]
    table: Ints = np.array(rows, np.int64).reshape(-1, 5)
    table[:, :2] -= ledger.start
    return table


def _batch(bids: Sequence[Bid], options: Sequence[Options], start: int) -> Batch:
    begin = np.array([0, *accumulate(len(o.number) for o in options)], np.int64)
    usable = np.array([bid.delay for bid in bids], np.int64)
    arrival = np.array([bid.arrival - start for bid in bids], np.int64)
    usable += arrival[:, None]
    return Batch(
        # Most batches have one job, whose options are only read.
        options=options[0] if len(options) == 1 else _joined(options),
        begin=begin,
        usable=usable,
        earliest=np.maximum(np.maximum(usable.min(axis=1), arrival), 0),
        complete=np.zeros(begin[-1], np.int64),
    )


def _joined(options: Sequence[Options]) -> Options:
    """Concatenate the options of several jobs."""
    ways = np.cumsum([0, *(len(o.ps) for o in options)])
    first = np.concatenate([*(o.first[:-1] + way for o, way in zip(options, ways, strict=False)), ways[-1:]])
    joined = Options(*(np.concatenate(part) for part in zip(*options, strict=True)))
    return joined._replace(first=first.astype(np.int64))


def _nothing(jobs: int, servers: int) -> BatchPlan:
    columns: Ints = np.full((6, jobs), -1, np.int64)
    return BatchPlan._make([*columns, np.zeros((jobs, servers), np.int32)])


def _schedule(out: BatchPlan, j: int, start: int) -> Schedule:
    at, end = start + int(out.start[j]), start + int(out.end[j])
    placements = [
        Placement(start=at, end=end, role=Role.WORKER, server=int(s), type=int(out.worker[j]), count=int(c))
        for s, c in enumerate(out.counts[j].tolist())
        if c
    ]
    if out.ps[j] >= 0:
        ps, pss, host = int(out.ps[j]), int(out.pss[j]), int(out.host[j])
        placements.append(Placement(start=at, end=end, role=Role.PS, server=host, type=ps, count=pss))
    return Schedule(start=at, completion=end, placements=tuple(placements))
