"""The exact numbers of slots and PSs that a rigid job or a ring needs with each number of workers.

`scheduling.model.iteration_time` computes the time of one mini-batch for one set of machines, by the same formulas.
"""

import math
from fractions import Fraction

import numpy as np

from scheduling.best_response.rigid.compiled import MACHINES, SAFE, Counts, kernel
from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Ints


def durations(bid: Bid, *, most: int, slots: int) -> Counts:
    """Compute the slots that n workers need (DPS eq. 8; rings: weighted completion, eq. 14).

    Parameters
    ----------
    bid
        The job, in slots.
    most
        N, the greatest number of workers.
    slots
        T, the number of slots; longer durations are reported as T + 1.

    Returns
    -------
    Counts
        With all machines on one server, then spread over servers: 2 x W x P x (N + 1); P is 1 for a ring. The entry
        for no workers is T + 1.

    Notes
    -----
    O(W P N). All quotients are of whole numbers. With PSs n workers need 1 / n of the slots of one worker, and these
    may be rounded up first: ceil(x / n) = ceil(ceil(x) / n). For rings Python's integers are used beyond 64 bits.

    Examples
    --------
    >>> from scheduling.model.example import job
    >>> durations(job(), most=2, slots=8)[:, 0, 0].tolist()
    [[9, 2, 1], [9, 4, 2]]
    """
    ring = bid.architecture is Architecture.RING
    longest = slots + 1
    shape = (2, len(bid.worker_time), 1 if ring else len(bid.ps_time), most + 1)
    # A job that needs more than all workers in all slots never fits. A cut there keeps the numerators small.
    limit = most * longest
    if not ring:
        return _durations(np.array(_alone(bid, limit), np.int64), most, longest).reshape(shape)
    rows, scale = _ring_rows(bid, limit), max(most, 1) ** 2
    if all((step + shared) * scale < SAFE and q * scale < SAFE for step, shared, q in rows):
        steps, shared, parts = np.array(rows, np.int64).reshape(-1, 3).T.copy()
        return _ring_durations(steps, shared, parts, most, longest).reshape(shape)
    exact = [[longest, *(_slots(*row, n, longest) for n in range(1, most + 1))] for row in rows]
    return np.array(exact, np.int32).reshape(shape)


def _alone(bid: Bid, limit: int) -> list[int]:
    """Return the slots that one worker needs for all the work (DPS eq. 1), rounded up, at most `limit`.

    The numbers for all machines on one server come first, then those for spread machines; each in order of the worker
    type, then of the PS type.
    """
    sides: tuple[list[int], ...] = ([], [])
    for worker, transfer in zip(bid.worker_time, bid.transfer_time, strict=True):
        q = math.lcm(worker.denominator, transfer.denominator, *(ps.denominator for ps in bid.ps_time))
        pss = [_times(ps, q) for ps in bid.ps_time]
        for side, step in zip(sides, (_times(worker, q), _times(worker, q) + _times(transfer, q)), strict=True):
            side.extend(min(-(-(step + ps) * bid.work // q), limit) for ps in pss)
    return sides[0] + sides[1]


def _ring_rows(bid: Bid, limit: int) -> list[tuple[int, int, int]]:
    """Return rows (slots that one worker needs, as parts of q; what the others add, eq. 14; q), ordered as `_alone`."""
    rows: tuple[list[tuple[int, int, int]], ...] = ([], [])
    for worker, transfer in zip(bid.worker_time, bid.transfer_time, strict=True):
        q = math.lcm(worker.denominator, transfer.denominator, bid.reduce_time.denominator)
        reduce = _times(bid.reduce_time, q)
        for side, shared in zip(rows, (reduce, reduce + _times(transfer, q)), strict=True):
            side.append((min(_times(worker, q) * bid.work, limit * q), min(shared * bid.work, 2 * limit * q), q))
    return rows[0] + rows[1]


def _times(number: Fraction, q: int) -> int:
    """Return a number times a multiple of its denominator, which is whole."""
    return number.numerator * (q // number.denominator)


def _slots(step: int, shared: int, q: int, n: int, longest: int) -> int:
    return min(longest, max(1, -(-(step * n + shared * (n - 1)) // (q * n * n))))


def ps_counts(inventory: Inventory, most: int, *, rings: bool = False) -> Counts:
    """Compute max(1, ceil(n b_w / b_p)) for n = 0..most remote workers, W x P x (most + 1), exact (DPS eq. 12).

    With `rings` there is one more PS type, which stands for the missing PS of a ring: one of it always suffices.
    """
    out = np.ones((len(inventory.workers), len(inventory.parameter_servers) + rings, most + 1), np.int32)
    for w, worker in enumerate(inventory.workers):
        for p, ps in enumerate(inventory.parameter_servers):
            ratio = worker.bandwidth_mbps / ps.bandwidth_mbps
            exact = np.int64 if max(ratio.numerator * most, ratio.denominator) < SAFE else object
            remote = np.arange(most + 1).astype(exact)
            out[w, p] = np.clip(-(-remote * ratio.numerator // ratio.denominator), 1, MACHINES + 1)
    return out


@kernel
def _durations(work: Ints, most: int, longest: int) -> Counts:
    """Compute max(1, ceil(work / n)) for n = 1..most (DPS eq. 8), at most `longest`, for K rows."""
    out = np.empty((len(work), most + 1), dtype=np.int32)
    for i in range(len(work)):
        out[i, 0] = longest
        for n in range(1, most + 1):
            out[i, n] = min(longest, max(1, -(-work[i] // n)))
    return out


@kernel
def _ring_durations(work: Ints, shared: Ints, parts: Ints, most: int, longest: int) -> Counts:
    """Compute max(1, ceil((work + shared (n - 1) / n) / (parts n))) for n = 1..most, at most `longest`, for K rows."""
    out = np.empty((len(work), most + 1), dtype=np.int32)
    for i in range(len(work)):
        out[i, 0] = longest
        for n in range(1, most + 1):
            out[i, n] = min(longest, max(1, -(-(work[i] * n + shared[i] * (n - 1)) // (parts[i] * n * n))))
    return out
