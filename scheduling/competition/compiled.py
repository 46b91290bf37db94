"""The compiler of this package's kernel."""

from pathlib import Path

from scheduling.solvers.numba_tools import Compiler

_COMPILER = Compiler(Path(__file__).parent)
kernel, borrowing = _COMPILER.kernel, _COMPILER.borrowing
