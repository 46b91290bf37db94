"""Compiling the kernels while a server already answers; until that is done, quotes are put off in words.

A process of its own compiles, since compiling here would hold up every page; this one then loads what that one kept.
"""

import subprocess
import sys
from threading import Event, Thread

from django.conf import settings

from auctions.errors import NotReady
from cluster.database.waiting import never_in_transaction
from scheduling import kernels

_ready = Event()
_ready.set()


class Warming:
    """A warm-up that has begun, to be closed when the server stops."""

    def __init__(self) -> None:
        _ready.clear()
        command = [sys.executable, "-c", "from scheduling import kernels; kernels.warm_up()"]
        self._child = subprocess.Popen(command, cwd=settings.BASE_DIR)  # noqa: S603
        self._closed = False
        Thread(target=self._load, name="warming", daemon=True).start()

    def _load(self) -> None:
        try:
            self._child.wait()
            if not self._closed:
                kernels.warm_up()  # compiles here after all if nothing could be kept on disk
        finally:
            _ready.set()

    def close(self) -> None:
        """End the compiling process, if it is not done."""
        self._closed = True
        self._child.terminate()
        self._child.wait()


def is_under_way() -> bool:
    """Whether whoever needs a kernel now would have to wait for it to be compiled."""
    return not _ready.is_set()


def check() -> None:
    """Raise NotReady while that is so."""
    if is_under_way():
        raise NotReady("The server has just started and still compiles the algorithm; ask again in a few seconds.")


def wait() -> None:
    """Return when kernels are compiled, or when nobody is compiling any."""
    never_in_transaction("The compiling of kernels")
    _ready.wait()
