"""A_maxweight at price 0: plans whole batches of jobs in one call, each job with its earliest completion."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from scheduling.batch.capacity import FAR, CapacityTables, end_of_room, make_tables, release
from scheduling.batch.kernel import Batch, BatchPlan, plan
from scheduling.batch.option_pool import OptionPool, PoolRow
from scheduling.batch.options import MachineTypes, Options, count_apart, count_fitting, list_options
from scheduling.batch.search import ANY, Draft, Terms, improve
from scheduling.best_response.rigid.durations import durations, ps_counts
from scheduling.best_response.rigid.kernel import smallest_problem
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Ints

UNLIMITED = 1 << 30
NOTHING_FREED: Final[Ints] = np.zeros((0, 5), np.int64)
"""No rows of machines; not to be modified."""


@dataclass(frozen=True)
class Search:
    """Settings of the local search."""

    jobs: int
    """Number of jobs whose plan is improved."""
    effort: int
    """Limit of its cost, cells of tables: less than a nanosecond each."""


@dataclass(frozen=True)
class Placed:
    """The bids that were placed; their schedules are built when they are asked for."""

    rows: Mapping[str, int]
    """Row of each placed bid in `out`, by bid id."""
    out: BatchPlan
    start: int
    """The slot from which `out` counts."""

    @cached_property
    def ends(self) -> Ints:
        """Completion slot of each bid, in the order in which they were placed; `FAR` without a place."""
        found: Ints = np.where(self.out.worker >= 0, self.start + self.out.end, FAR)
        return found

    @cached_property
    def completions(self) -> dict[str, int]:
        """Completion slot of each placed bid."""
        ends = self.out.end.tolist()
        return {name: self.start + ends[row] for name, row in self.rows.items()}

    def schedule(self, name: str) -> Schedule:
        """Return the schedule of a placed bid."""
        return _schedule(self.out, self.rows[name], self.start)

    def only(self, name: str) -> "Placed":
        """Return the plan of this bid alone, which is placed."""
        return Placed({name: self.rows[name]}, self.out, self.start)

    def schedules(self) -> dict[str, Schedule]:
        """Return all schedules."""
        return {name: self.schedule(name) for name in self.rows}


def place_batch(
    bids: Sequence[Bid],
    ledger: Ledger,
    window: tuple[int, int],
    *,
    freed: Ints | None = None,
    due: Ints | None = None,
) -> Placed:
    """Place jobs as `plan_batch` does in one window.

    `freed` are machines that count as free, as `rows_of` gives them. `due` are slots by which the jobs have to be
    complete, one for each bid, `FAR` for others. If one of them is not, no job after it is placed.
    """
    return _plan(bids, ledger, [window], ledger.used, freed=freed, due=due)


def used_without(ledger: Ledger, freed: Iterable[Placement]) -> Ints:
    """Return the units that are in use if these placements count as free, T x S x R, a new array."""
    used: Ints = ledger.used.copy()
    release(used, -_cluster_of(ledger).types.demand, rows_of(freed, ledger))
    return used


def rows_of(placements: Iterable[Placement], ledger: Ledger) -> Ints:
    """Return the parts of placements that can be sold again: rows of (start, end, machine type, server, count).

    Slots count from the ledger's start.
    """
    workers = len(ledger.inventory.workers)
    # To look at each part takes longer than to release it, and few servers are closed.
    parts = ledger.sellable(placements) if ledger.closed else placements
    rows = [(p.start, p.end, p.type if p.role is Role.WORKER else workers + p.type, p.server, p.count) for p in parts]
    table: Ints = np.array(rows, np.int64).reshape(-1, 5)
    table[:, :2] = np.maximum(0, table[:, :2] - ledger.start)
    return table


def plan_batch(
    bids: Sequence[Bid],
    ledger: Ledger,
    windows: Iterable[tuple[int, int]],
    *,
    freed: Iterable[Placement] = (),
    only: str | None = None,
    later: int | None = None,
    search: Search | None = None,
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
        Placements in the ledger that count as free, except on closed servers: what these jobs held so far.
    only
        The id of the one bid whose schedule is returned; None for all.
    later
        Largest number of jobs that start after the first slot of the first window. When it is reached, other jobs are
        placed, in order, only if they can start in that slot, with the earliest completion of these starts. None: no
        limit.
    search
        Improve the plan of the jobs that are placed first by local search; the others are placed after them. None: the
        plan is not changed.

    Returns
    -------
    dict
        Schedules of the placed bids, by bid id.

    Notes
    -----
    Without a search the result is the same as committing, one by one, the `rigid.best_response` at price 0 with a
    utility that is positive until the window ends and zero afterwards: earliest completion, then start, then the
    fewest workers, then the first worker type, PS type and host. Tables bound where a job may fit; these bounds only
    tighten while a batch is planned. A job that does not fit even the empty cluster costs no time. With `later`, a
    job that is not placed costs less than a microsecond where no machine is free in the first slot.

    References
    ----------
    .. [1] The weighted-completion paper, Algorithms 2 and 3 at lambda = 1.
    """
    placed = _plan(bids, ledger, windows, used_without(ledger, freed), later, search, remember=True)
    if only is None:
        return placed.schedules()
    return {only: placed.schedule(only)} if only in placed.rows else {}


def plan_idle(bid: Bid, ledger: Ledger, *, first: int, end: int) -> Schedule | None:
    """Return the schedule of earliest completion that uses only idle resources of servers; None if there is none.

    If only resources in use have a price, no schedule costs less.
    """
    used = np.where(ledger.used == 0, 0, ledger.inventory.capacity)
    return _plan([bid], ledger, [(first, end)], used).schedules().get(bid.id)


def plan_alone(bid: Bid, ledger: Ledger) -> Schedule | None:
    """Return the schedule of earliest completion on the empty cluster; None if the job does not fit."""
    window = ledger.start, ledger.end
    return _plan([bid], ledger, [window], _cluster_of(ledger).nothing_used).schedules().get(bid.id)


def shortest(bid: Bid, ledger: Ledger) -> int:
    """Return the least number of slots that a job runs on the empty cluster; more than any horizon if it never fits."""
    cluster = _cluster_of(ledger)
    with cluster.lock:
        return cluster.row(bid).shortest


def _plan(
    bids: Sequence[Bid],
    ledger: Ledger,
    windows: Iterable[tuple[int, int]],
    used: Ints,
    later: int | None = None,
    search: Search | None = None,
    *,
    freed: Ints | None = None,
    due: Ints | None = None,
    remember: bool = False,
) -> Placed:
    """Plan beside units in use, T x S x R, without machines that are freed.

    `remember` how soon jobs without a place can be complete.
    """
    spans = [(max(first - ledger.start, 0), min(end, ledger.end) - ledger.start) for first, end in windows]
    if not bids or not spans:
        return Placed({}, _nothing(0, used.shape[1]), ledger.start)
    cluster = _cluster_of(ledger)
    start = ledger.start
    within = np.array(spans, np.int64)
    out = _nothing(len(bids), used.shape[1])
    later = UNLIMITED if later is None else later
    if later == 0:
        # Jobs start in the first slot or not at all, so slots after the last one that such a job can use do not count.
        end = end_of_room(cluster.types, used, within[0, 0])
        if end == within[0, 0]:
            return Placed({}, out, start)
        used, within = used[:end], np.minimum(within, end)
        remember = False
    batch, most = cluster.batch(bids, start)
    known = np.zeros(len(bids), np.int64)
    dues = np.full(len(bids), FAR) if due is None else np.where(due < FAR, due - start, FAR)
    freed = NOTHING_FREED if freed is None else freed
    if remember and cluster.tried is not None:
        known = cluster.tried.soonest(bids, used, start)
    base = None if search is None else make_tables(cluster.types, used, freed, most=0)
    tables = make_tables(cluster.types, used, freed, most=most)
    soonest = known.copy()
    plan(tables, batch, within, dues, later, UNLIMITED if search is None else search.jobs, soonest, out)
    if search is not None and base is not None:
        _improve(tables, base, batch, within, bids, search, out)
        batch.complete[:] = 0
        later -= int(((out.worker >= 0) & (out.start > within[0, 0])).sum())
        soonest = known.copy()
        plan(tables, batch, within, dues, later, UNLIMITED, soonest, out)
    if remember and not within[:, 0].any():
        left = np.flatnonzero(out.worker < 0).tolist()
        after = (start + np.minimum(soonest, len(used) + 1)).tolist()
        built = tables.clock[1]
        in_use = np.concatenate([ledger.inventory.capacity - tables.free[:built], used[built:]])
        cluster.tried = Tried(in_use, start, {bids[j].id: (bids[j], after[j]) for j in left})
    return Placed({bids[j].id: j for j in np.flatnonzero(out.worker >= 0).tolist()}, out, start)


def _improve(
    tables: CapacityTables,
    base: CapacityTables,
    batch: Batch,
    within: Ints,
    bids: Sequence[Bid],
    search: Search,
    out: BatchPlan,
) -> None:
    """Improve the plan of the jobs that were placed, from their order and from those by weight and by its pace."""
    placed = np.flatnonzero(out.worker >= 0)
    turns = placed[np.argsort(out.turn[placed], kind="stable")]
    if not len(turns):
        return
    weights = np.array([bid.utility.value for bid in bids])
    groups = zip(batch.begin.tolist(), batch.end.tolist(), strict=True)
    shortest = np.array([batch.options.duration[low:high].min(initial=UNLIMITED) for low, high in groups])
    soonest = np.maximum(within[0, 0], batch.earliest) + shortest
    if len(turns) == 1 or (out.end[turns] <= soonest[turns]).all():
        return  # nothing can be complete sooner
    starts = [turns, turns[np.argsort(-weights[turns], kind="stable")]]
    starts.append(turns[np.argsort(-(weights / shortest)[turns], kind="stable")])
    terms = Terms(
        weights,
        soonest.astype(np.float64),
        np.array([within[0, 0], within[-1, 1], out.end[placed].max()]),
        np.array([search.effort]),
    )
    count = len(bids)
    draft = Draft(turns.copy(), np.full(count, ANY), np.zeros(count, np.int64), np.zeros(count, np.bool_))
    improve(tables, base, batch, terms, np.array(starts), draft, out)


def warm_up() -> None:
    """Compile every kernel, or load it from disk, so that no request has to wait for it."""
    ledger, bid = smallest_problem()
    # More jobs than servers, since there is nothing to search for if none has to wait.
    bids = [replace(bid, id=str(number)) for number in range(len(ledger.inventory.servers))]
    bids.append(replace(bid, id="ring", architecture=Architecture.RING))
    plan_batch(bids, ledger, [(0, ledger.end)], search=Search(jobs=len(bids), effort=1))
    plan_batch(bids, ledger, [(0, ledger.end)], later=0)


@dataclass(frozen=True)
class Tried:
    """Jobs that a plan found no place for, and what was in use then.

    While no less than that is in use, they cannot be complete sooner than it found. So when a slot passes, only the new
    slot at the end of the horizon is looked at.
    """

    used: Ints
    """T x S x R."""
    start: int
    """The first slot of `used`."""
    jobs: Mapping[str, tuple[Bid, int]]
    """Each bid by id, with a lower bound of its completion."""

    def soonest(self, bids: Sequence[Bid], used: Ints, start: int) -> Ints:
        """Return lower bounds of completions, slots from `start`, J; 0 if nothing is known."""
        found = np.zeros(len(bids), np.int64)
        before = self.used[start - self.start :] if start >= self.start else self.used[:0]
        if not len(before) or (used[: len(before)] < before).any():
            return found
        for j, bid in enumerate(bids):
            tried = self.jobs.get(bid.id)
            if tried is not None and (tried[0] is bid or tried[0] == bid):
                found[j] = max(0, tried[1] - start)
        return found


@dataclass
class _Cluster:
    """Cached data about a ledger's servers and about the jobs planned on them recently."""

    inventory: Inventory
    slots: int
    types: MachineTypes
    total: int
    """Largest number of workers of one type that fit the cluster."""
    pool: OptionPool
    tried: Tried | None = None
    """The jobs that the last plan of a batch found no place for."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Guards the pool: quotes are answered in several threads."""

    @cached_property
    def nothing_used(self) -> Ints:
        """No units in use in any slot, T x S x R; not to be modified."""
        return np.zeros((self.slots, *self.inventory.capacity.shape), np.int64)

    def batch(self, bids: Sequence[Bid], start: int) -> tuple[Batch, int]:
        """Return the jobs as the kernel reads them, and the largest number of workers in an option.

        Only arrays of the pool that are never written again are passed on.
        """
        with self.lock:
            if self.pool.full:
                self.pool.keep(bids)
            rows = [self.row(bid) for bid in bids]
            return self.pool.batch(rows, start), max((row.most for row in rows), default=1)

    def row(self, bid: Bid) -> PoolRow:
        """Return the options of a job in the pool; the lock has to be held."""
        return self.pool.row(bid) or self.pool.add(bid, self.options(bid))

    def options(self, bid: Bid) -> Options:
        """Return the options of a job on the empty cluster."""
        most = min(bid.chunks, self.total)
        if most >= self.types.pss.shape[2]:
            self.types = _until(self.types, self.inventory, 2 * most)
        lengths = durations(bid, most=most, slots=self.slots)
        ring, delay = bid.architecture is Architecture.RING, np.array(bid.delay, np.int64)
        return list_options(self.types, lengths, self.slots + 1, ring, delay)


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
        demand=demand, capacity=capacity, pss=ps_counts(inventory, 0), fitting=fitting, with_ps=with_ps, apart=with_ps
    )
    cluster = _Cluster(
        inventory,
        slots,
        _until(types, inventory, 1),
        total=int(fitting[: len(with_ps)].sum(axis=1).max(initial=0)),
        pool=OptionPool(servers=len(capacity)),
    )
    ledger.derived["planner"] = cluster
    return cluster


def _until(types: MachineTypes, inventory: Inventory, most: int) -> MachineTypes:
    """Return the types with what jobs of at most `most` workers need."""
    longer = types._replace(pss=ps_counts(inventory, most), apart=np.zeros_like(types.with_ps))
    count_apart(longer)
    return longer


def _nothing(jobs: int, servers: int) -> BatchPlan:
    columns: Ints = np.full((7, jobs), -1, np.int64)
    return BatchPlan._make([*columns, np.zeros((jobs, servers), np.int32)])


def _schedule(out: BatchPlan, j: int, start: int) -> Schedule:
    at, end = start + int(out.start[j]), start + int(out.end[j])
    servers, worker = out.counts[j].nonzero()[0], int(out.worker[j])
    counts = zip(servers.tolist(), out.counts[j, servers].tolist(), strict=True)
    placements = [Placement(at, end, Role.WORKER, server, worker, count) for server, count in counts]
    if out.ps[j] >= 0:
        placements.append(Placement(at, end, Role.PS, int(out.host[j]), int(out.ps[j]), int(out.pss[j])))
    return Schedule(start=at, completion=end, placements=tuple(placements))
