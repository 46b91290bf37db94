"""Compiled batch planner: places jobs one by one, each with the earliest completion. Private: arrays only.

At price 0 the best response with a deadline is the earliest completion. Ties are broken by the least (start, workers,
worker type, PS type, host), as in the rigid search. Candidates are visited in this order, so the first one that fits
is the answer. Slots count from the ledger's start.
"""

from typing import NamedTuple

from scheduling.batch.capacity import (
    FAR,
    CapacityTables,
    build_until,
    fits_all,
    fits_one,
    hold,
    load,
    mark_change,
    mark_changed,
    refill,
)
from scheduling.batch.compiled import borrowing, inlined, kernel
from scheduling.batch.options import Options
from scheduling.best_response.rigid.compiled import Counts
from scheduling.model.types import Ints


class Batch(NamedTuple):
    """The jobs in the order in which they are placed: J jobs with G groups of options in total."""

    options: Options
    begin: Ints
    """Index of the first group of each job, J."""
    end: Ints
    """Index after the last group of each job, J."""
    row: Ints
    """Row of each job in `usable`, J."""
    usable: Ints
    """First slot in which each job of the pool can use each server, in slots of the market, J' x S."""
    since: int
    """The slot of the market from which all other slots count."""
    arrival: Ints
    """Slot in which each job arrived, J."""
    earliest: Ints
    """Earliest start of each job, J."""
    complete: Ints
    """Completion of each group at its first start that is not yet ruled out, G."""


class BatchPlan(NamedTuple):
    """The plan found, one row for each job; worker type -1 where nothing fits."""

    worker: Ints
    ps: Ints
    pss: Ints
    host: Ints
    start: Ints
    end: Ints
    turn: Ints
    """Number of jobs that were placed before."""
    counts: Counts
    """Workers on each server, J x S."""


class Within(NamedTuple):
    """Groups, servers and slots from which one job may choose."""

    low: int
    high: int
    """Groups [low, high)."""
    option: int
    """The option that it has to use; -1: any."""
    last: bool
    """Whether it takes the last servers with room, not the first."""
    start: int
    latest: int
    """Starts from slot `start` to `latest`: `FAR`, unless no later call places the job."""
    end: int
    """Latest completion."""


@kernel
def plan(
    tables: CapacityTables,
    batch: Batch,
    windows: Ints,
    due: Ints,
    later: int,
    most: int,
    soonest: Ints,
    out: BatchPlan,
) -> None:
    """Place the jobs in each window in turn, V rows of (first slot, latest completion).

    `due` (J) are the slots by which jobs have to be complete, `FAR` for others. When such a job is not, nothing more is
    placed: the caller has no use for the plan.

    After `later` jobs that start later than the first slot of the first window, other jobs are placed only if they
    can start in that slot. After `most` jobs nothing more is placed. `soonest` (J) are lower bounds on the completion
    of each job, which are raised.
    """
    for j in range(len(soonest)):
        if soonest[j] > 0:
            for i in range(batch.begin[j], batch.end[j]):
                batch.complete[i] = soonest[j]
    placed, late = _placed(out), False
    until = min(len(soonest), placed + most)
    for v in range(len(windows)):
        for j in range(len(soonest)):
            if placed == until or late:
                return
            if later <= 0:
                _start_at_once(tables, batch, windows[0, 0], windows[len(windows) - 1, 1], placed, until, out)
                return
            if out.worker[j] < 0 and soonest[j] <= windows[v, 1]:
                end = min(windows[v, 1], due[j])
                within = Within(batch.begin[j], batch.end[j], -1, False, windows[v, 0], FAR, end)
                soonest[j] = place(tables, batch, j, within, out)
                late = out.worker[j] < 0 and due[j] < FAR
                if out.worker[j] >= 0:
                    out.turn[j] = placed
                    placed += 1
                    later -= 1 if out.start[j] > windows[0, 0] else 0


@inlined
def _placed(out: BatchPlan) -> int:
    """Return the number of jobs that have a place."""
    count = 0
    for j in range(len(out.worker)):
        if out.worker[j] >= 0:
            count += 1
    return count


@inlined
def _start_at_once(
    tables: CapacityTables, batch: Batch, start: int, end: int, placed: int, until: int, out: BatchPlan
) -> None:
    """Place jobs in slot `start`, or not at all, until `until` jobs are placed."""
    build_until(tables, start + 1)
    for j in range(len(batch.earliest)):
        if placed == until or not _has_room(tables, start):
            return
        if out.worker[j] < 0 and batch.earliest[j] <= start:
            place(tables, batch, j, Within(batch.begin[j], batch.end[j], -1, False, start, start, end), out)
            if out.worker[j] >= 0:
                out.turn[j] = placed
                placed += 1


@inlined
def _has_room(tables: CapacityTables, t: int) -> bool:
    """Return whether a worker of any type fits some server in slot t."""
    room = False
    for m in range(tables.types.pss.shape[0]):
        room = room or tables.total[m, t] > 0
    return room


@borrowing
def place(tables: CapacityTables, batch: Batch, j: int, within: Within, out: BatchPlan) -> int:
    """Place one job with its earliest completion and return it; else return a lower bound on it for later windows."""
    complete, duration, apart = batch.complete, batch.options.duration, batch.options.apart
    low, high, latest = within.low, within.high, within.latest
    for s in range(len(tables.usable)):
        tables.usable[s] = batch.usable[batch.row[j], s] - batch.since
    earliest, arrival, ready = max(within.start, batch.earliest[j]), batch.arrival[j], batch.options.ready
    now = FAR
    for i in range(low, high):
        complete[i] = max(complete[i], max(earliest, arrival + ready[i]) + duration[i])
        if complete[i] - duration[i] > latest:
            complete[i] = FAR
        now = min(now, complete[i])
    while now <= within.end:
        build_until(tables, int(now))  # converted to int: the constant FAR would cause a second compilation
        built = tables.clock[1]
        later = FAR
        for i in range(low, high):
            if complete[i] == now:
                m, n, d = batch.options.worker[i], batch.options.number[i], duration[i]
                # Passing whole tuples of arrays to a function costs more than this check of one array.
                bounds = (tables.sums if apart[i] else tables.largest)[m, :, min(n, tables.sums.shape[2] - 1)]
                complete[i] = _next(bounds, tables.next_change, tables.usable, built, now - d, latest, d)
                if complete[i] == now:
                    if _try(tables, batch, j, i, now - d, within, out):
                        _commit(tables, j, out)
                        return int(now)
                    after = _after(tables.next_change, tables.usable, now - d)
                    complete[i] = _next(bounds, tables.next_change, tables.usable, built, after, latest, d)
            later = min(later, complete[i])
        now = later
    return int(now)


@borrowing
def _next(bounds: Counts, next_change: Ints, usable: Ints, built: int, start: int, latest: int, duration: int) -> int:
    """Return the completion at the first start, from `start` to `latest`, for which the workers of a group may fit.

    Nothing is known of starts from slot `built` on.
    """
    last, a = min(latest, len(bounds) - duration), start
    while a <= last and a < built:
        if bounds[a] >= a + duration:
            return int(a + duration)
        a = _after(next_change, usable, a)
    after = max(a, built)
    return int(after + duration) if after <= last else FAR


@borrowing
def _after(next_change: Ints, usable: Ints, start: int) -> int:
    """Return the first start after `start` at which a job may fit that does not fit at `start`.

    Slots before the next change are like `start`: what fits from one of them on would fit from `start` on, too, unless
    a server can first be used in that slot.
    """
    later = next_change[start]
    for s in range(len(usable)):
        if start < usable[s] < later:
            later = usable[s]
    return int(later)


@inlined
def _try(tables: CapacityTables, batch: Batch, j: int, i: int, start: int, within: Within, out: BatchPlan) -> bool:
    """Return whether a group fits at one start; if so, write its first option that fits to the plan."""
    options = batch.options
    m, n, end = options.worker[i], options.number[i], start + options.duration[i]
    loaded, total, top = False, 0, 0
    for f in range(options.first[i], options.first[i + 1]):
        if within.option >= 0 and within.option != f:
            continue
        if not _may_fit(tables, options, f, m, n, start, end):
            continue
        if not loaded:
            total, top = load(tables, m, start, end, tables.usable, out.counts[j])
            loaded = True
        if total < n:
            break
        if not _pss_may_fit(tables, options, f, m, n, top, start, end):
            continue
        host, near, pss = _host(tables, batch, j, f, m, n, start, end, within.last, out.counts[j])
        if host < 0:
            continue
        twin = f + 1 < options.first[i + 1] and options.ps[f + 1] == options.ps[f]
        if options.spread[f] == 0 and twin and within.option < 0 and not within.last:
            # The same machines spread, around a host of a lower number.
            other, near_other, pss_other = _host(tables, batch, j, f + 1, m, n, start, end, within.last, out.counts[j])
            if 0 <= other < host:
                host, near, pss = other, near_other, pss_other
        out.worker[j], out.ps[j], out.pss[j], out.host[j] = m, options.ps[f], pss, host
        out.start[j], out.end[j] = start, end
        _share_out(out.counts[j], n, host, near, within.last)
        return True
    return False


@inlined
def _may_fit(tables: CapacityTables, options: Options, f: int, m: int, n: int, start: int, end: int) -> bool:
    """Return whether workers and PSs may each fit alone; the PSs are checked against the existing bounds."""
    if options.ps[f] >= 0:
        ps = tables.types.pss.shape[0] + options.ps[f]
        if tables.largest[ps, start, min(options.least[f], tables.largest.shape[2] - 1)] < end:
            return False
    if options.spread[f] == 0:
        return fits_one(tables, m, n, start, end)
    return fits_all(tables, m, n, start, end)


@inlined
def _pss_may_fit(
    tables: CapacityTables, options: Options, f: int, m: int, n: int, top: int, start: int, end: int
) -> bool:
    """Return whether one server may have room for the PSs of an option alone, where no server has room for more than
    `top` workers. All workers fit, so a fresh bound is worth computing."""
    p = options.ps[f]
    if p < 0:
        return True
    near = n if options.spread[f] == 0 else min(top, n - 1)
    # The table has shorter integers, which would cause a second compilation; the larger number is that of the table.
    pss = max(options.least[f], tables.types.pss[m, p, n - near])
    return fits_one(tables, tables.types.pss.shape[0] + p, pss, start, end)


@borrowing
def _host(
    tables: CapacityTables, batch: Batch, j: int, f: int, m: int, n: int, start: int, end: int, last: bool, room: Counts
) -> tuple[int, int, int]:
    """Return the first (or last) host of an option, the fewest workers on it, and the number of PSs; host -1 if none.

    `room` is how many workers fit each server throughout. A spread ring has no host: the number of servers is returned.
    """
    p, servers = batch.options.ps[f], len(room)
    if batch.options.spread[f] == 0:
        for s in range(servers):
            h = servers - 1 - s if last else s
            if room[h] >= n and _fits(tables, h, m, n, p, 1 if p >= 0 else 0, start, end):
                return h, n, 1
        return -1, 0, 0
    total, top = 0, 0
    for s in range(servers):
        total += min(room[s], n)
        top = max(top, room[s])
    if p < 0:
        return (servers, 0, 0) if total >= n else (-1, 0, 0)
    usable, hosted = tables.usable, tables.room[tables.types.pss.shape[0] + p, start]
    least = tables.types.pss[m, p, n - min(top, n - 1)]
    for s in range(servers):
        h = servers - 1 - s if last else s
        # Most servers have no room for the PSs alone.
        if hosted[h] < least or usable[h] > start:
            continue
        here = min(room[h], n - 1)
        most = _pss_throughout(tables, p, h, start, end, tables.types.pss[m, p, n - here])
        for g in range(max(0, n - (total - min(room[h], n))), here + 1):
            k = tables.types.pss[m, p, n - g]
            if k <= most and (g == 0 or _fits(tables, h, m, g, p, k, start, end)):
                return h, g, k
    return -1, 0, 0


@inlined
def _pss_throughout(tables: CapacityTables, p: int, h: int, start: int, end: int, least: int) -> int:
    """Return how many PSs fit a server throughout; 0 if fewer than `least`."""
    m, most, t = tables.types.pss.shape[0] + p, FAR, start
    while t < end:
        most = min(most, tables.room[m, t, h])
        if most < least:
            return 0
        t = tables.next_change[t]
    return most


@borrowing
def _fits(tables: CapacityTables, h: int, m: int, near: int, p: int, pss: int, start: int, end: int) -> bool:
    """Return whether `near` workers and `pss` PSs fit one server throughout, for every resource."""
    demand = tables.types.demand
    ps, t = tables.types.pss.shape[0] + max(p, 0), start
    while t < end:
        for r in range(demand.shape[1]):
            need = near * demand[m, r]
            if pss > 0:
                need += pss * demand[ps, r]
            if tables.free[t, h, r] < need:
                return False
        t = tables.next_change[t]
    return True


@inlined
def _share_out(counts: Counts, n: int, host: int, near: int, last: bool) -> None:
    """Replace the counts by workers on each server: `near` on the host, the others on the first (or last) servers with
    room."""
    left = n - near
    for i in range(len(counts)):
        s = len(counts) - 1 - i if last else i
        if s == host:
            counts[s] = near
        else:
            counts[s] = min(counts[s], left)
            left -= counts[s]


@inlined
def _commit(tables: CapacityTables, j: int, out: BatchPlan) -> None:
    """Reserve the machines that were found for a job."""
    start, end = out.start[j], out.end[j]
    mark_change(tables, start)
    mark_change(tables, end)
    for s in range(out.counts.shape[1]):
        hosting = out.pss[j] if s == out.host[j] and out.ps[j] >= 0 else 0
        if out.counts[j, s] == 0 and hosting == 0:
            continue
        hold(tables, s, start, end, out.worker[j], out.counts[j, s])
        if hosting > 0:
            hold(tables, s, start, end, tables.types.pss.shape[0] + out.ps[j], hosting)
        refill(tables, s, start, end)
    mark_changed(tables, end)
