"""The two processes of `manage.py serve` without a broker: pages and REST in one, the market's worker in the other.

The process of the command starts both and has no thread, so that it can fork at any time. It passes on signals, starts
the worker again if it dies, and ends with the web process. The kernel kills both if it dies itself. The web process
wakes the worker through a socket, which is closed when the web process has ended.
"""

import ctypes
import json
import logging
import multiprocessing
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from time import monotonic
from types import FrameType
from typing import Any, Final, NoReturn

from cluster import memory

PAUSE_S: Final = 1.0
"""Between the end of a worker and the start of the next one, if the first one did not live longer."""
PULSE_S: Final = 1.0
"""Longest time between two pulses of a worker."""
SILENT_S: Final = 20.0
"""A worker without a pulse for so long is reported by the health check; starting one takes two seconds of a core."""
LONGEST_STOP_S: Final = 30.0
"""Time for the worker to end once the web process has ended. Its decision under way takes no more than 20 s."""
LARGEST: Final = 4096
"""Bytes of a wake-up."""
PR_SET_PDEATHSIG: Final = 1

log = logging.getLogger(__name__)
_fork = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Link:
    """The socket, the pipe and the memory that the web process and the worker share."""

    web: socket.socket
    worker: socket.socket
    opened: Connection
    """The web process sends True when the worker may begin."""
    opening: Connection
    pulse: Any = field(default_factory=lambda: _fork.RawValue("d", monotonic()))
    """Time of the worker's last pulse, by the monotonic clock, which all processes share."""

    @classmethod
    def make(cls) -> "Link":
        """Make the link; each message through the socket is a wake-up."""
        return cls(*socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET), *_fork.Pipe(duplex=False))

    def open(self) -> None:
        """Let the worker begin: the database has tables."""
        self.beat()
        self.opening.send(True)

    def is_open(self) -> bool:
        """Return, once, whether the web process has let the worker begin. Its end does not count."""
        with suppress(EOFError):
            return self.opened.poll() and bool(self.opened.recv())
        return False

    def beat(self) -> None:
        """Give a sign of life."""
        self.pulse.value = monotonic()

    def read(self) -> tuple[str, list[object], dict[str, Any]] | None:
        """Return the next wake-up: a task, its arguments and options. None if the web process has ended."""
        row = self.worker.recv(LARGEST)
        if not row:
            return None
        task, args, options = json.loads(row)
        return task, args, options

    def wake(self, task: str, args: tuple[object, ...], options: dict[str, Any]) -> None:
        """Let the worker run a task. If it has not read earlier wake-ups for long, its sweep finds the work instead."""
        with suppress(BlockingIOError):
            self.web.send(json.dumps([task, args, options]).encode(), socket.MSG_DONTWAIT)

    def is_silent(self) -> bool:
        """Whether the worker has given no sign of life for long."""
        return bool(monotonic() - self.pulse.value > SILENT_S)


def run(serve: Callable[[Link], None], work: Callable[[Link], None]) -> None:
    """Run both functions, each in a process of its own, until `serve` has returned; exit with its status.

    `work` begins once `serve` has opened the link. It is started again if it ends before `serve`.
    """
    memory.pass_over_what_is_loaded()  # else the collector would write to all pages that the processes share
    link = Link.make()
    web = _fork.Process(target=_serve, args=(serve, link, os.getpid()), name="web")
    web.start()

    def stop(_number: int, _frame: FrameType | None) -> None:
        web.terminate()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    link.web.close()  # the worker is to see its end
    link.opening.close()
    worker = _supervise(web, work, link)
    web.join()
    if worker is not None:
        worker.join(LONGEST_STOP_S)
        worker.kill()
        worker.join()
    if web.exitcode:
        _exit_as(web.exitcode)


def _supervise(web: ForkProcess, work: Callable[[Link], None], link: Link) -> ForkProcess | None:
    """Keep a worker running until the web process has ended; return the last one."""
    wait([web.sentinel, link.opened])
    if not link.is_open() or web.exitcode is not None:
        return None
    while True:
        began = monotonic()
        worker = _fork.Process(target=_work, args=(work, link, os.getpid()), name="worker")
        worker.start()
        if web.sentinel in wait([web.sentinel, worker.sentinel]):
            return worker
        worker.join()
        log.error("the worker ended with status %s; another one is started", worker.exitcode)
        if wait([web.sentinel], max(0.0, began + PAUSE_S - monotonic())):
            return None


def _serve(serve: Callable[[Link], None], link: Link, parent: int) -> None:
    """Be the web process."""
    _end_with(parent)
    # Ctrl-C in a terminal reaches all processes: the parent passes it on as SIGTERM.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    link.worker.close()
    link.opened.close()
    serve(link)


def _work(work: Callable[[Link], None], link: Link, parent: int) -> None:
    """Be the worker."""
    _end_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    link.opened.close()
    work(link)


def _end_with(parent: int) -> None:
    """Let the kernel kill this process when its parent has died. Only Linux can do this."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it has died already
            sys.exit(1)


def _exit_as(status: int) -> NoReturn:
    """End as the web process ended."""
    if status < 0:
        log.error("the web process was ended by signal %d", -status)
    sys.exit(status if status > 0 else 1)
