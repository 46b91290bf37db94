"""How rigid kernels are compiled, and the heap of servers they share. Private: arrays only, modified in place."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from scheduling.arrays import Ints

Counts = NDArray[np.int32]
Flags = NDArray[np.bool_]
F = TypeVar("F", bound=Callable[..., Any])
SAFE = 1 << 62
"""Machine integers stay below this."""
MACHINES = 1 << 24
"""More machines on one server than this are counted as this many."""


def _stamp() -> str:
    digest = sha256()
    for path in sorted(Path(__file__).parent.glob("rigid_*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


STAMP = _stamp()
"""Part of the name under which machine code is kept: numba itself notices only that the caller's own file changed."""


NO_DOOR: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def kernel(function: F) -> F:
    """Compile what Python calls; the machine code is kept on disk, and other threads run meanwhile."""
    function.__qualname__ += f"_{STAMP}"
    return cast(F, njit(cache=True, nogil=True)(function))


def inner(function: F) -> F:
    """Compile what only kernels call: without the door for Python, which takes a third of the time to build."""
    function.__qualname__ += f"_{STAMP}"
    return cast(F, njit(cache=True, nogil=True, **NO_DOOR)(function))


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
