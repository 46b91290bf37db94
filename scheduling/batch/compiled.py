"""The compiler of this package's kernels, which call those of the rigid best response."""

from pathlib import Path

from scheduling.best_response import rigid
from scheduling.solvers.numba_tools import Compiler

_COMPILER = Compiler(Path(__file__).parent, *map(Path, rigid.__path__))
kernel, borrowing, inlined = _COMPILER.kernel, _COMPILER.borrowing, _COMPILER.inlined
