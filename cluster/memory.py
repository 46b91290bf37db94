"""Where a process keeps memory that was given back to it, and what its collector of garbage passes over."""

import ctypes
import gc
import sys
from typing import Final

ARENAS: Final = 2
"""By default the C library keeps eight for each core. A thread takes memory from its own, and what it frees waits there
for it: a server of a dozen threads grew by half in its first minutes.
"""
M_ARENA_MAX: Final = -8
"""Of malloc.h."""


def share_between_threads() -> None:
    """Let all threads take memory from few arenas; before they are started. Only the GNU C library has them."""
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:
            mallopt(M_ARENA_MAX, ARENAS)


def pass_over_what_is_loaded() -> None:
    """Let the collector of garbage never look again at what is here by now.

    Modules and kernels are 200,000 objects and stay for ever. Every few seconds the collector looked at all of
    them, and kept the interpreter for 0.15 s meanwhile.
    """
    gc.collect()
    gc.freeze()
