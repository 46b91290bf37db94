"""The compiler of this package's kernels."""

from pathlib import Path

from scheduling.compiled import Compiler

_COMPILER = Compiler(Path(__file__).parent, "fluid_*.py")
kernel, inner = _COMPILER.kernel, _COMPILER.inner
