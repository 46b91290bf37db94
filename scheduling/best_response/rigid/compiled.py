"""The compiler of the rigid kernels, and their heap of servers. Private: arrays only, modified in place.

The heap is written here because that of the standard library, which numba supports, takes 1.5 to 5 times as long.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.best_response import base
from scheduling.model.types import Ints
from scheduling.solvers.numba_tools import Compiler

Counts = NDArray[np.int32]
Flags = NDArray[np.bool_]
SAFE = 1 << 62
"""Machine integers stay below this."""
MACHINES = 1 << 24
"""Largest number of machines counted on one server."""


_COMPILER = Compiler(Path(__file__).parent, Path(base.__file__))
kernel, borrowing, inlined = _COMPILER.kernel, _COMPILER.borrowing, _COMPILER.inlined


@borrowing
def copy(source: Counts, into: Counts) -> None:
    """Copy a row; assigning to a slice would take seconds longer to compile."""
    for i in range(len(source)):
        into[i] = source[i]


@borrowing
def greatest(numbers: NDArray[Any]) -> int:
    """Return the greatest of some numbers, 0 if there are none; numpy's function takes longer to compile."""
    most = 0
    for number in numbers:
        most = max(most, number)
    return most


@borrowing
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


@borrowing
def make_heap(heap: Counts, key: Ints, room: Counts) -> int:
    """Collect the servers with room into a heap by (key, index); return their number."""
    size = 0
    for s in range(len(room)):
        if room[s] > 0:
            heap[size] = s
            size += 1
    for at in range(size // 2 - 1, -1, -1):
        sift(heap, size, at, key)
    return size
