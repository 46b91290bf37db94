"""`manage.py execute`: run the jobs of all clusters that execute."""

import os
import select
import signal
import socket
from contextlib import closing
from time import time
from typing import Any
from uuid import uuid4

from django.core.management.base import BaseCommand, CommandParser
from django.db import DatabaseError, InterfaceError, connection

from auctions.kernels.warming import Warming
from cluster.database import limits
from execution.executor import Executor, engine_of

EVERY_S = 1.0


class Command(BaseCommand):
    """Execute until SIGINT or SIGTERM. Jobs that run then run on, and the next executor finds them."""

    help = "Run admitted jobs on machines; of several such processes one is active."

    def add_arguments(self, parser: CommandParser) -> None:
        """Add the time between two loops."""
        parser.add_argument("--quiet", action="store_true", help="do not say which executor is active")
        parser.add_argument("--every", type=float, default=EVERY_S, metavar="S", help="seconds between two loops")

    def handle(self, *args: Any, **options: Any) -> None:
        """Call the executor again and again."""
        # A handler must not set an Event: the thread that it interrupts may hold the event's lock.
        stopped, stop = os.pipe()
        os.set_blocking(stop, False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: os.write(stop, b"."))
        limits.use("worker")
        executor = Executor(f"{socket.gethostname()} {os.getpid()} {uuid4().hex[:8]}", engine_of)
        # A process of its own waits for kernels or compiles them: clusters whose kernels are here do not wait.
        with closing(Warming(follows=True)):
            self._loop(executor, stopped, options)
        executor.close()

    def _loop(self, executor: Executor, stopped: int, options: dict[str, Any]) -> None:
        active, pause = None, 0.0
        while not select.select([stopped], [], [], pause)[0]:
            began = time()
            try:
                now_active = executor.once()
            except (DatabaseError, InterfaceError) as error:  # the second one: the connection had ended before
                self.stderr.write(f"The database could not be used: {error}")
                connection.close()
                now_active = False
            if now_active != active and not options["quiet"]:
                self.stdout.write("This executor is active." if now_active else "Another executor is active.")
                active = now_active
            pause = max(0.05, options["every"] - (time() - began))
