"""Return freed memory to the system, and exclude long-lived objects from garbage collection."""

import ctypes
import gc
import sys
from threading import Thread
from time import sleep
from typing import Any, Final

ARENAS: Final = 2
"""Number of pools (arenas) of the C library, which by default keeps eight for each core.

A thread allocates memory from its own pool, and freed memory stays there: a server of a dozen threads grew by half in
its first minutes.
"""
M_ARENA_MAX: Final = -8
"""M_ARENA_MAX of malloc.h."""
EVERY_S: Final = 10.0
"""Between two times at which free memory is given back to the system. That takes 2 ms."""


def share_between_threads() -> None:
    """Let all threads take memory from few arenas; before they are started. Only the GNU C library has them."""
    mallopt = _of_c_library("mallopt")
    if mallopt is not None:
        mallopt(M_ARENA_MAX, ARENAS)


def give_back() -> None:
    """Give the system all whole pages of free memory. Only the GNU C library has this.

    By itself it gives back the end of an arena alone, and what stays for long lies between what was free soon: a server
    of 350 MB held 60 MB more than it used.
    """
    malloc_trim = _of_c_library("malloc_trim")
    if malloc_trim is not None:
        malloc_trim(0)


def give_back_now_and_then() -> None:
    """Do the same every `EVERY_S` seconds, in a thread that ends with the process."""

    def go_on() -> None:
        while True:
            sleep(EVERY_S)
            give_back()

    Thread(target=go_on, name="memory", daemon=True).start()


def _of_c_library(name: str) -> Any:
    """A function of it; None if it has none of that name."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None


def begin_to_load() -> None:
    """Disable the garbage collector while a process imports its modules, which stay in memory.

    It examined them repeatedly, and once more at the end of the process, which took a quarter of the start time.
    """
    gc.disable()


def end_to_load() -> None:
    """Exclude what was imported from garbage collection, and enable the collector again."""
    gc.freeze()
    gc.enable()


def pass_over_what_is_loaded() -> None:
    """Exclude all present objects from garbage collection.

    Modules and kernels are 200,000 objects that stay in memory. Every few seconds the collector examined all of them,
    and blocked the interpreter for 0.15 s.
    """
    gc.collect()
    gc.freeze()
