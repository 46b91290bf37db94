"""Compiled queues of workers: equal chunks of a job on a worker form one block; times are whole ticks.

A worker's blocks are a linked list in order of rank. A worker always processes the first block that is released
(highest average processing rate first), and leaves it in the middle of a chunk for a better one.
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from scheduling.model.types import Floats, Ints
from scheduling.solvers.numba_tools import Compiler

Mark = NDArray[np.int64]
"""One number that a kernel counts up."""

# Columns of a block.
NEXT, JOB, COUNT, LEFT, EACH, RELEASE, RANK, CHUNKS, ORDER = range(9)
BLOCK_COLUMNS = 9
# Columns of a worker.
HEAD, AT, CLOCK = range(3)
WORKER_COLUMNS = 3
# Columns of a job.
OPEN, DONE, BEGUN = range(3)
JOB_COLUMNS = 3
# Columns of a segment and of a preemption.
WORKER, WHO, FROM, TO = range(4)
SEGMENT_COLUMNS = 4

NONE = -1
FAR = 1 << 62
"""Later than every tick."""
GRAIN = 2.0**-26
"""Ticks to which D x Q is rounded: sums of 1 / D that are equal in fractions are then equal in doubles, and ties are
ties."""


_COMPILER = Compiler(Path(__file__))
kernel, inner = _COMPILER.kernel, _COMPILER.inner


@inner
def left_of(block: Ints) -> int:
    """Return the ticks of work left in a block; `LEFT` is the work left in its first chunk."""
    work: int = block[LEFT] + (block[COUNT] - 1) * block[EACH]
    return work


@inner
def insert(worker: int, k: int, workers: Ints, blocks: Ints) -> None:
    """Put block k into the queue of a worker, after those of the same rank and order."""
    rank, order = blocks[k, RANK], blocks[k, ORDER]
    before, x = NONE, workers[worker, HEAD]
    while x != NONE and (blocks[x, RANK] < rank or (blocks[x, RANK] == rank and blocks[x, ORDER] <= order)):
        before, x = x, blocks[x, NEXT]
    blocks[k, NEXT] = x
    if before == NONE:
        workers[worker, HEAD] = k
    else:
        blocks[before, NEXT] = k


@kernel
def join(first: int, joining: Ints, block: Ints, workers: Ints, blocks: Ints, free: Mark) -> int:
    """Put a block into the queue of each worker, rows `first` on of `joining` (worker, chunks, release).

    `block` has the columns that are equal for all. Return the row at which to continue once there are more unused
    blocks.
    """
    for i in range(first, len(joining)):
        k = free[0]
        if k == NONE:
            return i
        free[0] = blocks[k, NEXT]
        for column in range(BLOCK_COLUMNS):  # one by one: a whole row would compile code for an error message
            blocks[k, column] = block[column]
        blocks[k, COUNT], blocks[k, RELEASE] = joining[i, 1], joining[i, 2]
        insert(joining[i, 0], k, workers, blocks)
    return len(joining)


@inner
def _unlink(worker: int, before: int, k: int, workers: Ints, blocks: Ints, free: Mark) -> None:
    if before == NONE:
        workers[worker, HEAD] = blocks[k, NEXT]
    else:
        blocks[before, NEXT] = blocks[k, NEXT]
    blocks[k, NEXT] = free[0]
    free[0] = k
    if workers[worker, AT] == k:
        workers[worker, AT] = NONE


@kernel
def remove(job: int, workers: Ints, blocks: Ints, free: Mark, taken: Ints) -> int:
    """Remove every block of a job; write rows (worker, chunks left) to `taken` and return their number."""
    found = 0
    for w in range(len(workers)):
        before, k = NONE, workers[w, HEAD]
        while k != NONE:
            after = blocks[k, NEXT]
            if blocks[k, JOB] == job:
                taken[found, 0], taken[found, 1] = w, blocks[k, COUNT]
                found += 1
                _unlink(w, before, k, workers, blocks, free)
            else:
                before = k
            k = after
    return found


@inner
def _work_on(block: Ints, job: Ints, start: int, end: int) -> bool:
    """Work on a block from tick `start` to `end`; True if all its chunks are complete then."""
    spent = end - start
    if spent == left_of(block):
        job[OPEN] -= block[COUNT]
        job[DONE] = max(job[DONE], end)
        return True
    if spent < block[LEFT]:
        block[LEFT] -= spent
        return False
    spent -= block[LEFT]
    whole, rest = 1 + spent // block[EACH], spent % block[EACH]
    job[OPEN] -= whole
    job[DONE] = max(job[DONE], end - rest)
    block[COUNT] -= whole
    block[LEFT] = block[EACH] - rest
    return False


@kernel
def advance(
    first: int,
    to: int,
    workers: Ints,
    blocks: Ints,
    free: Mark,
    jobs: Ints,
    segments: Ints,
    counted: Mark,
    preemptions: Ints,
    preempted: Mark,
) -> int:
    """Run workers from number `first` on until tick `to` (or all is done); return the worker at which to continue.

    This is the number of workers if all reached `to`; it is less if the segment or preemption arrays are full.
    """
    keeps = len(segments) > 0
    for w in range(first, len(workers)):
        t = workers[w, CLOCK]
        while t < to and workers[w, HEAD] != NONE:
            before, k, soon = NONE, workers[w, HEAD], to
            while k != NONE and blocks[k, RELEASE] > t:
                soon = min(soon, blocks[k, RELEASE])
                before, k = k, blocks[k, NEXT]
            if k == NONE:
                t = soon
                continue
            if keeps and (counted[0] == len(segments) or preempted[0] == len(preemptions)):
                workers[w, CLOCK] = t
                return w
            at = workers[w, AT]
            if at != NONE and at != k and blocks[at, LEFT] < blocks[at, EACH] and keeps:
                row = preemptions[preempted[0]]
                row[WORKER], row[WHO], row[FROM], row[TO] = w, blocks[at, JOB], t, blocks[k, JOB]
                preempted[0] += 1
            workers[w, AT] = k
            j, end = blocks[k, JOB], min(t + left_of(blocks[k]), soon)
            if jobs[j, BEGUN] == NONE or t < jobs[j, BEGUN]:
                jobs[j, BEGUN] = t
            if keeps:
                row = segments[counted[0]]
                row[WORKER], row[WHO], row[FROM], row[TO] = w, j, t, end
                counted[0] += 1
            if _work_on(blocks[k], jobs[j], t, end):
                _unlink(w, before, k, workers, blocks, free)
            t = end
        workers[w, CLOCK] = to
    return len(workers)


@inner
def _gather(w: int, workers: Ints, blocks: Ints, rows: Ints, work: Ints) -> int:
    """Write the numbers of a worker's blocks, in order, and the ticks left of each; return how many there are."""
    n, k = 0, workers[w, HEAD]
    while k != NONE:
        rows[n], work[n] = k, blocks[k, LEFT] + (blocks[k, COUNT] - 1) * blocks[k, EACH]
        n, k = n + 1, blocks[k, NEXT]
    return n


@inner
def _pass(t: int, to: int, n: int, blocks: Ints, rows: Ints, work: Ints) -> None:
    """Let the worker of these n blocks work from tick t to `to`, and subtract the work done from `work`."""
    while t < to:
        soon, i = to, 0
        while i < n and (work[i] == 0 or blocks[rows[i], RELEASE] > t):
            if work[i] > 0:
                soon = min(soon, blocks[rows[i], RELEASE])
            i += 1
        if i < n:
            spent = min(work[i], soon - t)
            work[i] -= spent
            t += spent
        else:
            t = soon


@inner
def _waiting(n: int, blocks: Ints, rows: Ints, work: Ints, above: int) -> float:
    """Return the sum of 1 / D over the chunks with work left whose rank is greater than `above`."""
    total = 0.0
    for i in range(n):
        k = rows[i]
        if work[i] > 0 and blocks[k, RANK] > above:
            total += ((work[i] - 1) // blocks[k, EACH] + 1) / blocks[k, CHUNKS]
    return total


@inner
def outlook(
    w: int, at: int, rank: int, workers: Ints, blocks: Ints, rows: Ints, work: Ints
) -> tuple[int, float, int, int]:
    """Return what a new job of this rank would find at a worker at tick `at`, if no other job arrives.

    The result is the ticks of work before it, the sum of 1 / D over the chunks behind it, the ticks of all work, and
    the greatest rank in the queue now (0 if it is empty). `rows` and `work` are scratch arrays with one entry for each
    block.
    """
    n = _gather(w, workers, blocks, rows, work)
    last = 0 if n == 0 else blocks[rows[n - 1], RANK]
    _pass(workers[w, CLOCK], at, n, blocks, rows, work)
    ahead, everything = 0, 0
    for i in range(n):
        everything += work[i]
        if blocks[rows[i], RANK] <= rank:
            ahead += work[i]
    return ahead, _waiting(n, blocks, rows, work, rank), everything, last


@inner
def rounded(ticks: float) -> float:
    """Return a number of ticks rounded to `GRAIN`, to even numbers of it where two are equally near."""
    near: float = np.rint(ticks / GRAIN) * GRAIN
    return near


@kernel
def outlooks(
    candidates: Ints,
    now: int,
    delay: Ints,
    rank: int,
    each: int,
    chunks: int,
    workers: Ints,
    blocks: Ints,
    ahead: Ints,
    harm: Floats,
    everything: Ints,
    keys: Floats,
) -> tuple[int, int]:
    """Compute `outlook` for every candidate, each after its own delay.

    `keys` are D x Q of the first of `chunks` chunks that take `each` ticks (eq. 5), in ticks. Return the greatest rank
    in their queues, and the sum of `everything`.
    """
    rows, work = np.empty(len(blocks), dtype=np.int64), np.empty(len(blocks), dtype=np.int64)
    greatest, total = 0, 0
    for i in range(len(candidates)):
        at = now + delay[i]
        ahead[i], harm[i], everything[i], last = outlook(candidates[i], at, rank, workers, blocks, rows, work)
        keys[i] = rounded((delay[i] + ahead[i] + each) + harm[i] * float(each * chunks))
        greatest = max(greatest, last)
        total += everything[i]
    return greatest, total


@kernel
def ends(candidates: Ints, at: Ints, added: Ints, rank: int, workers: Ints, blocks: Ints, latest: Ints) -> None:
    """Raise `latest` to the tick at which the last chunk of each job on these workers is complete.

    Parameters
    ----------
    candidates, at, added
        Workers, and the ticks of work of a new job that each receives, and when; N.
    rank
        The rank of the new job; it is behind others of the same rank.
    latest
        By row of the job; modified.
    """
    who, ready = np.empty(len(blocks) + 1, dtype=np.int64), np.empty(len(blocks) + 1, dtype=np.int64)
    work = np.empty(len(blocks) + 1, dtype=np.int64)
    for i in range(len(candidates)):
        n, k, new = 0, workers[candidates[i], HEAD], added[i]
        while k != NONE or new > 0:
            if new > 0 and (k == NONE or blocks[k, RANK] > rank):
                who[n], ready[n], work[n], new = NONE, at[i], new, 0
            else:
                who[n], ready[n], work[n] = blocks[k, JOB], blocks[k, RELEASE], left_of(blocks[k])
                k = blocks[k, NEXT]
            n += 1
        t, open_blocks = workers[candidates[i], CLOCK], n
        while open_blocks > 0:
            soon, x = FAR, 0
            while x < n and (work[x] == 0 or ready[x] > t):
                if work[x] > 0:
                    soon = min(soon, ready[x])
                x += 1
            if x == n:
                t = soon
                continue
            spent = min(work[x], soon - t)
            work[x] -= spent
            t += spent
            if work[x] == 0:
                open_blocks -= 1
                if who[x] != NONE:
                    latest[who[x]] = max(latest[who[x]], t)


@kernel
def backlog(w: int, workers: Ints, blocks: Ints, at: Ints, sums: Floats) -> None:
    """Write to column w of `sums` the sum of 1 / D over the incomplete chunks at each of the ticks `at`."""
    rows, work = np.empty(len(blocks), dtype=np.int64), np.empty(len(blocks), dtype=np.int64)
    n = _gather(w, workers, blocks, rows, work)
    t = workers[w, CLOCK]
    for row in range(len(at)):
        _pass(t, at[row], n, blocks, rows, work)
        t = at[row]
        sums[row, w] = _waiting(n, blocks, rows, work, NONE)
        if sums[row, w] == 0.0:
            return
