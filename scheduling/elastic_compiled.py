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
