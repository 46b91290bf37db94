"""How elastic kernels are compiled."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Counts = NDArray[np.int32]
Flags = NDArray[np.bool_]
F = TypeVar("F", bound=Callable[..., Any])


def _stamp() -> str:
    digest = sha256()
    for path in sorted(Path(__file__).parent.glob("elastic_*.py")):
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
    """Compile what only kernels call, without the door for Python."""
    function.__qualname__ += f"_{STAMP}"
    return cast(F, njit(cache=True, nogil=True, **NO_DOOR)(function))


@inner
def sort_by(key: NDArray[Any], items: NDArray[Any]) -> None:
    """Sort whole numbers by (key[item], item), in place: Shell's method, quick to compile."""
    gap = len(items) // 2
    while gap > 0:
        for i in range(gap, len(items)):
            item, at = items[i], i
            while at >= gap:
                other = items[at - gap]
                if key[other] < key[item] or (key[other] == key[item] and other < item):
                    break
                items[at] = other
                at -= gap
            items[at] = item
        gap //= 2


@inner
def copy(source: NDArray[Any], into: NDArray[Any]) -> None:
    """Copy a row. Assigning to a slice would also compile the words of an error that cannot happen, for seconds."""
    for i in range(len(source)):
        into[i] = source[i]
