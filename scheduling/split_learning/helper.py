"""One helper: passes run by static priorities, preemptively; an optimal schedule of a helper is always of this kind."""

from typing import Any, Final

import numpy as np

from scheduling.model.types import Ints
from scheduling.split_learning.compiled import inner, kernel

FAR = 1 << 60
"""A slot that never comes, and a priority above all."""
MANY = 40
"""Clients from which on heaps are faster than to look at all passes whenever one begins."""
PREEMPTIVE: Final[Any] = np.bool_(True)
"""One of numpy's: True itself would be a type of its own, and `run` compiled for it once more."""


@inner
def copy(source: Ints, into: Ints) -> None:
    """Copy a row. Assigning to a slice would also compile the words of an error that cannot happen, for seconds."""
    for x in range(len(source)):
        into[x] = source[x]


@kernel
def run(
    release: Ints,
    forward: Ints,
    gap: Ints,
    backward: Ints,
    key_forward: Ints,
    key_backward: Ints,
    ended_forward: Ints,
    ended_backward: Ints,
    rows: Ints,
    preemptive: bool,
) -> int:
    """Run n clients: of the passes that are there the greatest key, then who came first, then forward, then client.

    One that arrives interrupts a pass with a smaller key, if `preemptive`. Fills the slots at which passes are
    complete. A pass of 0 slots is complete when it is there. Where `rows` has rows, and 4 n are enough, it is filled
    with (client, 0 forward or 1 backward, start, end) in order of time. Returns how many of them. Times in slots,
    arrays of n. O(n log n).
    """
    n = len(release)
    left = np.empty(2 * n, np.int64)
    ready = np.empty(2 * n, np.int64)
    key = np.empty(2 * n, np.int64)
    for j in range(n):
        left[j], left[n + j] = forward[j], backward[j]
        ready[j], ready[n + j] = release[j], FAR
        key[j] = key_forward[j] if forward[j] else FAR
        key[n + j] = key_backward[j] if backward[j] else FAR
    if n >= MANY:
        return _run_many(left, ready, key, gap, ended_forward, ended_backward, rows, preemptive)
    to_do = 2 * n
    count = 0
    now = 0
    while to_do:
        best = _next(left, ready, key, now)
        if ready[best] > now:
            now = int(ready[best])
            continue
        end = _until(best, left, ready, key, now) if preemptive else now + left[best]
        if len(rows) and end > now:
            count = _write(rows, count, best % n, best // n, now, end)
        left[best] -= end - now
        now = end
        if left[best] > 0:
            continue
        left[best] = -1
        to_do -= 1
        if best < n:
            ended_forward[best] = now
            ready[n + best] = now + gap[best]
        else:
            ended_backward[best - n] = now
    return count


@inner
def _run_many(
    left: Ints,
    ready: Ints,
    key: Ints,
    gap: Ints,
    ended_forward: Ints,
    ended_backward: Ints,
    rows: Ints,
    preemptive: bool,
) -> int:
    """The same for many clients: those to come and those that are there are in heaps."""
    n = len(gap)
    coming, able = np.empty(2 * n, np.int64), np.empty(2 * n, np.int64)
    expected, there, count, now = 0, 0, 0, 0
    last = -key
    for j in range(n):
        expected = _push(coming, expected, j, ready, ready)
    while expected or there:
        if not there:
            now = max(now, int(ready[coming[0]]))
        while expected and ready[coming[0]] <= now:
            there = _push(able, there, coming[0], last, ready)
            expected = _pop(coming, expected, ready, ready)
        best = able[0]
        end = now + left[best]
        while preemptive and expected and ready[coming[0]] < end:
            new = coming[0]
            there = _push(able, there, new, last, ready)
            expected = _pop(coming, expected, ready, ready)
            if key[new] > key[best]:
                end = ready[new]
        if len(rows) and end > now:
            count = _write(rows, count, best % n, best // n, now, end)
        left[best] -= end - now
        now = int(end)
        if left[best] > 0:
            continue
        # Nobody who came meanwhile goes before it, as that would have interrupted it: it still is the first.
        there = _pop(able, there, last, ready)
        if best < n:
            ended_forward[best] = now
            ready[n + best] = now + gap[best]
            expected = _push(coming, expected, n + best, ready, ready)
        else:
            ended_backward[best - n] = now
    return count


@inner
def _before(a: int, b: int, first: Ints, second: Ints) -> bool:
    """Return whether a comes before b by the first key, then the second, then the number."""
    if first[a] != first[b]:
        return bool(first[a] < first[b])
    return bool(second[a] < second[b] or (second[a] == second[b] and a < b))


@inner
def _push(heap: Ints, size: int, new: int, first: Ints, second: Ints) -> int:
    """One more in a heap of `size`; returns how many there are then."""
    at = size
    while at and _before(new, heap[(at - 1) // 2], first, second):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = new
    return size + 1


@inner
def _pop(heap: Ints, size: int, first: Ints, second: Ints) -> int:
    """Remove the first one; return the number of the others."""
    moved = heap[size - 1]
    at, child = 0, 1
    while child < size - 1:
        if child + 1 < size - 1 and _before(heap[child + 1], heap[child], first, second):
            child += 1
        if _before(moved, heap[child], first, second):
            break
        heap[at] = heap[child]
        at, child = child, 2 * child + 1
    heap[at] = moved
    return size - 1


@inner
def _next(left: Ints, ready: Ints, key: Ints, now: int) -> int:
    """The pass to run now, or else the one that is there next."""
    best = -1
    for k in range(len(left)):
        if left[k] < 0:
            continue
        if best < 0:
            best = k
        elif ready[k] > now or ready[best] > now:
            if ready[k] < ready[best]:
                best = k
        elif key[k] > key[best] or (key[k] == key[best] and ready[k] < ready[best]):
            best = k
    return best


@inner
def _until(best: int, left: Ints, ready: Ints, key: Ints, now: int) -> int:
    """Return the slot in which the running pass is complete or interrupted."""
    end = now + int(left[best])
    for k in range(len(left)):
        if left[k] >= 0 and now < ready[k] < end and key[k] > key[best]:
            end = int(ready[k])
    return end


@inner
def _write(rows: Ints, count: int, client: int, kind: int, start: int, end: int) -> int:
    """One piece more, or a longer one."""
    last = count - 1
    if count and rows[last, 0] == client and rows[last, 1] == kind and rows[last, 3] == start:
        rows[last, 3] = end
        return count
    rows[count, 0], rows[count, 1], rows[count, 2], rows[count, 3] = client, kind, start, end
    return count + 1


@kernel
def span(members: Ints, count: int, release: Ints, forward: Ints, gap: Ints, backward: Ints, tail: Ints) -> int:
    """Slots until members[:count] are over on one helper, the largest remaining path first; 0 for none.

    The other arrays are the helper's rows of all clients. Key of a forward pass: gap + backward + tail; of a backward
    pass: tail. Optimal for nine helpers in ten, and never better than optimal.
    """
    times = np.empty((6, count), np.int64)
    for x in range(count):
        j = members[x]
        times[0, x], times[1, x], times[2, x], times[3, x] = release[j], forward[j], gap[j], backward[j]
        times[4, x] = gap[j] + backward[j] + tail[j]
        times[5, x] = tail[j]
    ended = np.empty((2, count), np.int64)
    unwritten = np.empty((0, 4), np.int64)
    run(times[0], times[1], times[2], times[3], times[4], times[5], ended[0], ended[1], unwritten, PREEMPTIVE)
    worst = 0
    for x in range(count):
        worst = max(worst, int(ended[1, x] + times[5, x]))
    return worst
