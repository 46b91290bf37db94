"""How rigid kernels are compiled, and the heap of servers they share. Private: arrays only, modified in place."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from scheduling.arrays import Ints

Counts = NDArray[np.int32]
Flags = NDArray[np.bool_]
F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile, keep the machine code on disk, and let other threads run meanwhile.

    numba notices on its own only that the caller's file changed: after editing one of the rigid modules, delete
    `scheduling/__pycache__`.
    """
    return cast(F, njit(cache=True, nogil=True)(function))


@kernel
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


@kernel
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
