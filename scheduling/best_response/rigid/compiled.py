"""How rigid kernels are compiled, and the heap of servers they share. Private: arrays only, modified in place."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.model.types import Ints
from scheduling.solvers.numba_tools import Compiler

Counts = NDArray[np.int32]
Flags = NDArray[np.bool_]
SAFE = 1 << 62
"""Machine integers stay below this."""
MACHINES = 1 << 24
"""More machines on one server than this are counted as this many."""


_COMPILER = Compiler(Path(__file__).parent)
kernel, inner = _COMPILER.kernel, _COMPILER.inner


@inner
def copy(source: Counts, into: Counts) -> None:
    """Copy a row. Assigning to a slice would also compile the words of an error that cannot happen, for seconds."""
    for i in range(len(source)):
        into[i] = source[i]


@inner
def greatest(numbers: NDArray[Any]) -> int:
    """The greatest of some numbers, 0 if there are none: quicker to compile than numpy's."""
    most = 0
    for number in numbers:
        most = max(most, number)
    return most


@inner
def sift(heap: Counts, size: int, at: int, key: Ints) -> None:
    """Restore the heap order of servers by (key, index) below position `at`."""
    item = heap[at]
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        right = child + 1
        if right < size:
            a, b = heap[right], heap[child]
            if key[a] < key[b] or (key[a] == key[b] and a < b):
                child = right
        other = heap[child]
        if key[item] < key[other] or (key[item] == key[other] and item < other):
            break
        heap[at] = other
        at = child
    heap[at] = item


@inner
def make_heap(heap: Counts, key: Ints, room: Counts) -> int:
    """Collect the servers with room into a heap by (key, index); returns how many."""
    size = 0
    for s in range(len(room)):
        if room[s] > 0:
            heap[size] = s
            size += 1
    for at in range(size // 2 - 1, -1, -1):
        sift(heap, size, at, key)
    return size
