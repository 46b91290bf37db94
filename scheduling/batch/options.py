"""Options of one job on the empty cluster, from which the batch planner chooses. Private: arrays only.

Letters are those of `scheduling.best_response.rigid.tables`.
"""

from typing import NamedTuple

import numpy as np

from scheduling.batch.compiled import borrowing, kernel
from scheduling.best_response.rigid.compiled import Counts, Flags, greatest
from scheduling.model.types import Ints


class MachineTypes(NamedTuple):
    """Machine types, and what fits the empty servers."""

    demand: Ints
    """M x R."""
    capacity: Ints
    """S x R."""
    pss: Counts
    """Number of PSs that n remote workers need, W x P x (N + 1)."""
    fitting: Ints
    """Machines that fit each empty server, M x S."""
    with_ps: Ints
    """Largest number of workers that fit an empty server together with one PS, W x P; 0 if none."""
    apart: Ints
    """Largest number of workers, at most N, that fit the empty servers with their PSs all on one of them, W x P."""


@kernel
def count_fitting(demand: Ints, capacity: Ints, fitting: Ints, with_ps: Ints) -> None:
    """Fill in `fitting` and `with_ps`."""
    for m in range(len(demand)):
        for s in range(len(capacity)):
            fitting[m, s] = fit(capacity[s], demand[m])
    workers, pss = with_ps.shape
    for w in range(workers):
        for p in range(pss):
            for s in range(len(capacity)):
                if fitting[workers + p, s] > 0:
                    with_ps[w, p] = max(with_ps[w, p], fit(capacity[s] - demand[workers + p], demand[w]))


@kernel
def count_apart(types: MachineTypes) -> None:
    """Fill in `apart`, which has zeros. What fits with n workers fits with n - 1, too."""
    for w in range(types.apart.shape[0]):
        for p in range(types.apart.shape[1]):
            above = types.pss.shape[2]
            while types.apart[w, p] + 1 < above:
                n = (types.apart[w, p] + above) // 2
                if _fit_apart(types, w, p, n):
                    types.apart[w, p] = n
                else:
                    above = n


@borrowing
def _fit_apart(types: MachineTypes, w: int, p: int, n: int) -> bool:
    """Return whether n workers fit the empty servers together with their PSs on one host, one of them elsewhere."""
    total = 0
    for s in range(types.fitting.shape[1]):
        total += min(types.fitting[w, s], n)
    ps = types.pss.shape[0] + p
    for h in range(types.fitting.shape[1]):
        here = min(types.fitting[w, h], n - 1)
        for g in range(max(0, n - (total - min(types.fitting[w, h], n))), here + 1):
            k, fits = types.pss[w, p, n - g], True
            # Most servers have no room for the PSs alone.
            if k > types.fitting[ps, h]:
                continue
            for r in range(types.demand.shape[1]):
                fits = fits and g * types.demand[w, r] + k * types.demand[ps, r] <= types.capacity[h, r]
            if fits:
                return True
    return False


class Options(NamedTuple):
    """Groups of (duration, workers, worker type), longest duration first, then fewest workers; each with its options.

    An option is a PS type (-1 in a ring), on one server or spread. Only the fewest workers for each duration are
    listed, and only options that fit the empty cluster.
    """

    duration: Ints
    """G."""
    number: Ints
    """Workers, G."""
    worker: Ints
    """Worker type, G."""
    apart: Flags
    """Whether any option of the group is spread, G."""
    ready: Ints
    """No option of the group fits the servers whose delay is less than these slots, G."""
    first: Ints
    """Index of the first option of each group, G + 1."""
    ps: Ints
    """PS type of each option, F options in total."""
    spread: Ints
    """1 if the option is spread over servers, else 0, F."""
    least: Ints
    """Least number of PSs that a host must have room for, F."""


def list_options(types: MachineTypes, lengths: Counts, longest: int, ring: bool, delay: Ints) -> Options:
    """List the options of a job that needs `lengths` slots, 2 x W x P x (N + 1); `longest` (T + 1) is too long.

    `delay` (S) are the slots from the arrival until each server can be used.
    """
    # Sort outside the kernel: numba needs about a second to compile its own sort.
    options = _grouped(np.sort(_keys(types, lengths, longest, ring)), types, lengths, longest, ring)
    slots = np.unique(delay)
    _find_ready(options, types, slots, np.searchsorted(slots, delay))
    return options


@kernel
def _keys(types: MachineTypes, lengths: Counts, longest: int, ring: bool) -> Ints:
    """Encode (duration, workers, worker type, PS type, spread) of each option as one number that sorts in option
    order."""
    _, workers, pss, width = lengths.shape
    keys, size = np.empty(2 * workers * pss * min(width, longest), np.int64), 0
    for w in range(workers):
        largest, total = greatest(types.fitting[w]), 0
        for fitting in types.fitting[w]:
            total += fitting
        for p in range(pss):
            for spread in range(2):
                if spread == 0:
                    most = largest if ring else types.with_ps[w, p]
                else:
                    most = total if ring else types.apart[w, p]
                shortest = longest
                for n in range(2 if ring and spread == 1 else 1, min(most + 1, width)):
                    d = lengths[spread, w, p, n]
                    if d < shortest:
                        shortest = d
                        keys[size] = ((((longest - d) * width + n) * workers + w) * pss + p) * 2 + spread
                        size += 1
    return keys[:size]


@kernel
def _grouped(keys: Ints, types: MachineTypes, lengths: Counts, longest: int, ring: bool) -> Options:
    _, workers, pss, width = lengths.shape
    size = len(keys)
    groups = 0
    for i in range(size):
        if i == 0 or keys[i] // (2 * pss) != keys[i - 1] // (2 * pss):
            groups += 1
    o = Options(
        np.empty(groups, np.int64),
        np.empty(groups, np.int64),
        np.empty(groups, np.int64),
        np.zeros(groups, np.bool_),
        np.empty(groups, np.int64),
        np.empty(groups + 1, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
        np.empty(size, np.int64),
    )
    most = np.empty(workers, np.int64)
    for w in range(workers):
        most[w] = greatest(types.fitting[w])
    g = -1
    for i in range(size):
        group = keys[i] // (2 * pss)
        w, n = group % workers, group // workers % width
        if i == 0 or group != keys[i - 1] // (2 * pss):
            g += 1
            o.first[g], o.worker[g], o.number[g], o.duration[g] = i, w, n, longest - group // workers // width
        p = keys[i] // 2 % pss
        o.spread[i] = keys[i] % 2
        o.apart[g] = o.apart[g] or o.spread[i] == 1
        o.ps[i] = -1 if ring else p
        o.least[i] = 0 if ring else 1 if o.spread[i] == 0 else types.pss[w, p, n - min(most[w], n - 1)]
    o.first[groups] = size
    return o


@kernel
def _find_ready(o: Options, types: MachineTypes, slots: Ints, wait: Ints) -> None:
    """Fill in `ready`, where each server has the delay `slots[wait]`; the numbers in `slots` rise.

    Only the greatest count of one server and the sum of all servers are compared with what an option needs.
    """
    delays, machines = len(slots), len(types.demand)
    largest, total = np.zeros((2, delays, machines), np.int64)
    for m in range(machines):
        for s in range(len(wait)):
            largest[wait[s], m] = max(largest[wait[s], m], types.fitting[m, s])
            total[wait[s], m] += types.fitting[m, s]
        for k in range(1, delays):
            largest[k, m] = max(largest[k, m], largest[k - 1, m])
            total[k, m] += total[k - 1, m]
    for i in range(len(o.ready)):
        w, n, k = o.worker[i], o.number[i], 0
        while k < delays - 1 and not _may_fit(o, types, i, largest[k], total[k, w] >= n):
            k += 1
        o.ready[i] = slots[k]


@borrowing
def _may_fit(o: Options, types: MachineTypes, i: int, largest: Ints, all_fit: bool) -> bool:
    """Return whether an option of a group may fit servers, given the most machines of each type that fit one of them
    and whether the workers fit all of them."""
    w, n = o.worker[i], o.number[i]
    for f in range(o.first[i], o.first[i + 1]):
        near = n if o.spread[f] == 0 else min(largest[w], n - 1)
        fits = largest[w] >= n if o.spread[f] == 0 else all_fit
        if o.ps[f] >= 0:
            fits = fits and largest[types.pss.shape[0] + o.ps[f]] >= types.pss[w, o.ps[f], n - near]
        if fits:
            return True
    return False


@borrowing
def fit(free: Ints, demand: Ints) -> int:
    """Return how many machines of this demand fit the free units."""
    most = 1 << 24
    for r in range(len(demand)):
        if demand[r] > 0:
            most = min(most, max(free[r], 0) // demand[r])
    return most
