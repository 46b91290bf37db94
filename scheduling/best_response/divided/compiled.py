"""The compiler of this package's kernels."""

from pathlib import Path

from scheduling.solvers.numba_tools import Compiler

_COMPILER = Compiler(Path(__file__).parent / "kernel.py")
kernel, inner = _COMPILER.kernel, _COMPILER.inner
