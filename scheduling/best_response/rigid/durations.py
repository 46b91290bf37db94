"""How many slots and PSs a rigid job needs with each number of workers, exact."""

import math
from fractions import Fraction

import numpy as np

from scheduling.best_response.rigid.compiled import MACHINES, SAFE, Counts, kernel
from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Ints


def durations(bid: Bid, *, most: int, slots: int) -> Counts:
    """Slots that n workers need, clipped to one more than there are.

    Parameters
    ----------
    most
        N, the greatest number of workers asked for.
    slots
        T, those there are.

    Returns
    -------
    Counts
        Together and spread, 2 x W x P x (N + 1); P is 1 for a ring. T + 1 for no workers.
    """
    ring = bid.architecture is Architecture.RING
    longest = slots + 1
    shape = (2, len(bid.worker_time), 1 if ring else len(bid.ps_time), most + 1)
    # Anything longer than every worker over every slot is hopeless, whatever it is: keeps numerators small.
    rows = (_ring_rows if ring else _rows)(bid, most * longest)
    scale = max(most, 1) ** 2 if ring else max(most, 1)
    if all((step + shared) * scale < SAFE and q * scale < SAFE for step, shared, q in rows):
        steps, shared, parts = np.array(rows, np.int64).reshape(-1, 3).T.copy()
        if ring:
            return _ring_durations(steps, shared, parts, most, longest).reshape(shape)
        return _durations(steps, parts, most, longest).reshape(shape)
    exact = [[longest, *(_slots(*row, n, longest) for n in range(1, most + 1))] for row in rows]
    return np.array(exact, np.int32).reshape(shape)


def _rows(bid: Bid, limit: int) -> list[tuple[int, int, int]]:
    """Slots that one worker needs for all the work (DPS eq. 1), as parts of q; nothing more for further ones; q.

    Together first, then spread; for each worker type, for each PS type.
    """
    rows: tuple[list[tuple[int, int, int]], ...] = ([], [])
    for worker, transfer in zip(bid.worker_time, bid.transfer_time, strict=True):
        q = math.lcm(worker.denominator, transfer.denominator, *(ps.denominator for ps in bid.ps_time))
        pss = [_times(ps, q) for ps in bid.ps_time]
        for side, step in zip(rows, (_times(worker, q), _times(worker, q) + _times(transfer, q)), strict=True):
            side.extend((min((step + ps) * bid.work, limit * q), 0, q) for ps in pss)
    return rows[0] + rows[1]


def _ring_rows(bid: Bid, limit: int) -> list[tuple[int, int, int]]:
    """Slots that one worker needs for all the work, as parts of q; what all others add (eq. 14); q. As above."""
    rows: tuple[list[tuple[int, int, int]], ...] = ([], [])
    for worker, transfer in zip(bid.worker_time, bid.transfer_time, strict=True):
        q = math.lcm(worker.denominator, transfer.denominator, bid.reduce_time.denominator)
        reduce = _times(bid.reduce_time, q)
        for side, shared in zip(rows, (reduce, reduce + _times(transfer, q)), strict=True):
            side.append((min(_times(worker, q) * bid.work, limit * q), min(shared * bid.work, 2 * limit * q), q))
    return rows[0] + rows[1]


def _times(number: Fraction, q: int) -> int:
    """A number times a multiple of its denominator."""
    return number.numerator * (q // number.denominator)


def _slots(step: int, shared: int, q: int, n: int, longest: int) -> int:
    return min(longest, max(1, -(-(step * n + shared * (n - 1)) // (q * n * n))))


def ps_counts(inventory: Inventory, most: int, *, rings: bool = False) -> Counts:
    """max(1, ceil(n b_w / b_p)) for n remote workers, W x P x (most + 1), exact (DPS eq. 12).

    With `rings` there is one PS type more, which stands for none: one of it always does.
    """
    out = np.ones((len(inventory.workers), len(inventory.pss) + rings, most + 1), np.int32)
    for w, worker in enumerate(inventory.workers):
        for p, ps in enumerate(inventory.pss):
            ratio = worker.bandwidth_mbps / ps.bandwidth_mbps
            exact = np.int64 if max(ratio.numerator * most, ratio.denominator) < SAFE else object
            remote = np.arange(most + 1).astype(exact)
            out[w, p] = np.clip(-(-remote * ratio.numerator // ratio.denominator), 1, MACHINES + 1)
    return out


@kernel
def _durations(work: Ints, parts: Ints, most: int, longest: int) -> Counts:
    """max(1, ceil(work / (parts n))) for n = 1..most (DPS eq. 8), clipped to `longest`; K rows of work, parts."""
    out = np.empty((len(work), most + 1), dtype=np.int32)
    for i in range(len(work)):
        out[i, 0] = longest
        for n in range(1, most + 1):
            out[i, n] = min(longest, max(1, -(-work[i] // (parts[i] * n))))
    return out


@kernel
def _ring_durations(work: Ints, shared: Ints, parts: Ints, most: int, longest: int) -> Counts:
    """max(1, ceil((work + shared (n - 1) / n) / (parts n))), a ring of n = 1..most, clipped to `longest`; K rows."""
    out = np.empty((len(work), most + 1), dtype=np.int32)
    for i in range(len(work)):
        out[i, 0] = longest
        for n in range(1, most + 1):
            out[i, n] = min(longest, max(1, -(-(work[i] * n + shared[i] * (n - 1)) // (parts[i] * n * n))))
    return out
