"""Compilation of kernels: machine code is cached on disk under a name that changes with the sources."""

from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit, typeof

F = TypeVar("F", bound=Callable[..., Any])
NO_WRAPPER: Any = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
COUNTED: Any = {"_nrt": True}
"""Count references to arrays: for a tuple of ten arrays, each call takes ten atomic steps and more."""
UNCOUNTED: Any = {"_nrt": False}
"""Count none. Without the one or the other, a function has the option of its first caller."""


def compile_for(function: Callable[..., Any], *arguments: object) -> None:
    """Compile a kernel for arguments of these types, or load it from disk, without calling it."""
    type_of = cast(Any, typeof)
    cast(Any, function).compile(tuple(type_of(argument) for argument in arguments))


class Compiler:
    """Compiles the kernels of some modules that call each other."""

    def __init__(self, *sources: Path) -> None:
        """Take the digest of `sources`: modules, and packages of which every module counts."""
        digest = sha256()
        for source in sources:
            for path in sorted(source.glob("*.py")) if source.is_dir() else [source]:
                digest.update(path.read_bytes())
        self.stamp = digest.hexdigest()[:12]
        """Part of the name in the cache, because numba itself notices only changes of the caller's own file."""

    def kernel(self, function: F) -> F:
        """Compile a function that Python calls; it runs without the interpreter's lock."""
        function.__qualname__ += f"_{self.stamp}"
        return cast(F, njit(cache=True, nogil=True, **COUNTED)(function))

    def inner(self, function: F) -> F:
        """Compile a function that only kernels call: without a wrapper for Python, which saves a third of the time."""
        function.__qualname__ += f"_{self.stamp}"
        return cast(F, njit(cache=True, nogil=True, **NO_WRAPPER, **COUNTED)(function))

    def borrowing(self, function: F) -> F:
        """Compile a function that only kernels call and that neither makes nor returns arrays.

        It counts no references to the arrays of its callers, which is most of the time of a short function. One that
        makes an array does not compile.
        """
        function.__qualname__ += f"_{self.stamp}"
        return cast(F, njit(cache=True, nogil=True, **NO_WRAPPER, **UNCOUNTED)(function))

    @staticmethod
    def inlined(function: F) -> F:
        """Make a function that one kernel calls, at one place, part of that kernel: compiled alone it takes longer."""
        return cast(F, njit(inline="always", nogil=True, **NO_WRAPPER)(function))
