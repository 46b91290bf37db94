"""The compiler of the elastic kernels."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scheduling.best_response import base
from scheduling.solvers.numba_tools import Compiler

Counts = NDArray[np.int32]
Flags = NDArray[np.bool_]


_COMPILER = Compiler(Path(__file__).parent, Path(base.__file__))
kernel, inner, inlined = _COMPILER.kernel, _COMPILER.inner, _COMPILER.inlined
borrowing = _COMPILER.borrowing


@borrowing
def sort_by(key: NDArray[Any], items: NDArray[Any]) -> None:
    """Sort whole numbers by (key[item], item) in place by Shell's method, which compiles quickly."""
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


@borrowing
def copy(source: NDArray[Any], into: NDArray[Any]) -> None:
    """Copy a row; assigning to a slice would take seconds longer to compile."""
    for i in range(len(source)):
        into[i] = source[i]
