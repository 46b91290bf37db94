"""How many slots and PSs a rigid job needs with each number of workers, exact."""

import math
from fractions import Fraction

import numpy as np

from scheduling.arrays import Ints
from scheduling.bid import Architecture, Bid
from scheduling.inventory import Inventory
from scheduling.rigid_compiled import MACHINES, SAFE, Counts, kernel


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
    # Anything longer than every worker over every slot is hopeless, whatever it is: keeps numerators small.
    limit = Fraction(most * longest)
    rows = _ring_steps(bid, limit) if ring else _steps(bid, limit)
    shape = (2, len(bid.worker_time), 1 if ring else len(bid.ps_time), most + 1)
    parts = [math.lcm(step.denominator, shared.denominator) for step, shared in rows]
    whole = [(int(step * q), int(shared * q)) for (step, shared), q in zip(rows, parts, strict=True)]
    scale = max(most, 1) ** 2 if ring else max(most, 1)
    if all((a + b) * scale < SAFE and q * scale < SAFE for (a, b), q in zip(whole, parts, strict=True)):
        work, q = np.array(whole, np.int64).reshape(-1, 2), np.array(parts, np.int64)
        if ring:
            return _ring_durations(work[:, 0], work[:, 1], q, most, longest).reshape(shape)
        return _durations(work[:, 0], q, most, longest).reshape(shape)
    exact = [[longest, *(_slots(step, shared, n, longest) for n in range(1, most + 1))] for step, shared in rows]
    return np.array(exact, np.int32).reshape(shape)


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


def _steps(bid: Bid, limit: Fraction) -> list[tuple[Fraction, Fraction]]:
    """Slots that one worker needs for all the work (DPS eq. 1), and nothing more for further ones."""
    return [
        (min((worker + ps + transfer) * bid.work, limit), Fraction(0))
        for spread in (False, True)
        for worker, transfer in zip(bid.worker_time, bid.transfer_time if spread else _none(bid), strict=True)
        for ps in bid.ps_time
    ]


def _ring_steps(bid: Bid, limit: Fraction) -> list[tuple[Fraction, Fraction]]:
    """Slots that one worker needs for all the work, and what all others add to it: (n - 1) / n of it (eq. 14)."""
    return [
        (min(worker * bid.work, limit), min((bid.reduce_time + transfer) * bid.work, 2 * limit))
        for spread in (False, True)
        for worker, transfer in zip(bid.worker_time, bid.transfer_time if spread else _none(bid), strict=True)
    ]


def _none(bid: Bid) -> tuple[Fraction, ...]:
    return (Fraction(0),) * len(bid.worker_time)


def _slots(step: Fraction, shared: Fraction, n: int, longest: int) -> int:
    return min(longest, max(1, math.ceil((step + shared * (n - 1) / n) / n)))


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
