"""Compiled choice of a worker for each chunk of a job, by the least key or the earliest completion."""

from pathlib import Path

import numpy as np

from scheduling.model.types import Floats, Ints
from scheduling.preemptive.kernel import NONE
from scheduling.solvers.numba_tools import Compiler

_COMPILER = Compiler(Path(__file__), Path(__file__).with_name("kernel.py"))
kernel, inner = _COMPILER.kernel, _COMPILER.inner


@inner
def _sift(heap: Ints, n: int, at: int, key: Floats) -> None:
    x = heap[at]
    while True:
        c = 2 * at + 1
        if c >= n:
            break
        if c + 1 < n:
            a, b = heap[c], heap[c + 1]
            if key[b] < key[a] or (key[b] == key[a] and b < a):
                c += 1
        o = heap[c]
        if key[x] < key[o] or (key[x] == key[o] and x < o):
            break
        heap[at] = o
        at = c
    heap[at] = x


@kernel
def place(
    key: Floats,
    each: int,
    candidates: Ints,
    server: Ints,
    room: Ints,
    cloud: float,
    chosen: Ints,
    keys: Floats,
    counts: Ints,
) -> int:
    """Give chunks one by one to the candidate of least key (D x Q of eq. 5, ticks), which then grows by `each`.

    Parameters
    ----------
    key
        Key of each candidate for its first chunk, N; modified.
    each
        Ticks of a chunk.
    candidates
        Number of the worker of each candidate, N.
    server, room
        Server of each worker, and for how many chunks each server has storage; `room` is modified. Without numbers
        storage is not limited.
    cloud
        Key of the cloud; where it is less than every candidate's, all that are left go there. Infinite: no cloud.
    chosen, keys
        Results: the worker of each chunk and its key, or NONE and the key of the cloud; one place for each chunk.
    counts
        Result: how many chunks each candidate has, N; zeros before.

    Returns
    -------
    int
        Number of chunks left for the cloud, or without a place.
    """
    n, limited = len(key), len(room) > 0
    heap = np.arange(n)
    for a in range(n // 2 - 1, -1, -1):
        _sift(heap, n, a, key)
    for placed in range(len(chosen)):
        while limited and n > 0 and room[server[candidates[heap[0]]]] < 1:
            n -= 1
            heap[0] = heap[n]
            if n > 0:
                _sift(heap, n, 0, key)
        if n == 0 or cloud < key[heap[0]]:
            chosen[placed:], keys[placed:] = NONE, cloud
            return len(chosen) - placed
        i = heap[0]
        chosen[placed] = candidates[i]
        counts[i] += 1
        if limited:
            room[server[candidates[i]]] -= 1
        keys[placed] = key[i]
        key[i] += each
        _sift(heap, n, 0, key)
    return 0


@kernel
def pack(
    delay: Ints,
    ahead: Ints,
    each: int,
    candidates: Ints,
    server: Ints,
    room: Ints,
    chosen: Ints,
    ends: Floats,
    counts: Ints,
) -> int:
    """Give chunks one by one to the candidate that completes them first, as in `place`.

    A candidate begins after `delay` and `ahead` ticks; `ends` are the chunks' completions. Return the last of them, or
    NONE if some chunk has no place.
    """
    keys = np.empty(len(delay))
    for i in range(len(delay)):
        keys[i] = float(delay[i] + ahead[i] + each)
    if place(keys, each, candidates, server, room, np.inf, chosen, ends, counts) > 0:
        return NONE
    last = 0
    for i in range(len(delay)):
        if counts[i] > 0:
            last = max(last, delay[i] + ahead[i] + counts[i] * each)
    return last
