"""How kernels are compiled: machine code is kept on disk, under a name that changes with any file it is made of."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit, typeof

F = TypeVar("F", bound=Callable[..., Any])
NO_DOOR: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def compile_for(function: Callable[..., Any], *arguments: object) -> None:
    """Compile a kernel for arguments of these types, or load it, without calling it."""
    type_of = cast(Any, typeof)
    cast(Any, function).compile(tuple(type_of(argument) for argument in arguments))


class Compiler:
    """Compiles the kernels of some modules that call each other."""

    def __init__(self, *sources: Path) -> None:
        """`sources`: modules, and packages all of whose modules count."""
        digest = sha256()
        for source in sources:
            for path in sorted(source.glob("*.py")) if source.is_dir() else [source]:
                digest.update(path.read_bytes())
        self.stamp = digest.hexdigest()[:12]
        """Part of the name under which machine code is kept: numba itself notices only that the caller's own file
        changed."""

    def kernel(self, function: F) -> F:
        """Compile what Python calls; other threads run meanwhile."""
        function.__qualname__ += f"_{self.stamp}"
        return cast(F, njit(cache=True, nogil=True)(function))

    def inner(self, function: F) -> F:
        """Compile what only kernels call: without the door for Python, which takes a third of the time to build."""
        function.__qualname__ += f"_{self.stamp}"
        return cast(F, njit(cache=True, nogil=True, **NO_DOOR)(function))
