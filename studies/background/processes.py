"""Run background work in a separate process: send orders, watch it, store its progress and enforce its end.

A process reads orders from standard input, one line of JSON each. The end of that input asks it to stop, and to return
the best result so far if it can. It writes one line of JSON for each report: `stage`, what it does before it can begin
an order, and `ready`, when it has what it needs.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from subprocess import PIPE, Popen
from threading import Thread
from time import monotonic
from typing import IO, Final, Self, cast

from django.conf import settings
from django.db import DatabaseError, InterfaceError, close_old_connections

from cluster.database.busy import is_busy
from cluster.database.waiting import never_in_transaction
from scheduling.model.types import Json
from studies.background import states
from studies.background.models import Stage
from studies.background.states import Attempt, Row

EVERY_S: Final = 0.2
"""Seconds between two reads of the row, and between two writes of progress."""
BEAT_S: Final = 3.0
"""Seconds between two heartbeats without news."""

Stopping = Callable[[], bool]


class Gone(Exception):
    """Raised when the row is no longer this attempt's: it was deleted, or another worker computes it."""


class NoAnswer(Exception):
    """Raised when the process ended, or had to be killed, without an answer; the message says why."""


class SlowStart(NoAnswer):
    """Raised when the process was not ready in time, as on a busy machine; another attempt may do better."""


@contextmanager
def guarded(attempt: Attempt[Row]) -> Iterator[None]:
    """Turn an error of the computation into the state of its row.

    A job that has no answer has failed, or was cancelled. After a slow start or an unexpected error it is tried again,
    a few times.
    """
    try:
        yield
    except Gone:
        pass
    except SlowStart as error:
        states.begin_again(attempt, str(error))
    except NoAnswer as error:
        states.fail(attempt, str(error))
    except Exception as error:  # after repeated attempts the row shows this error
        states.interrupt(attempt, error)


@dataclass
class JobProgress(ABC):
    """All reports of the work so far. Each kind of work defines how its lines are kept."""

    is_new: bool = False
    """Whether there is something to write; False after it is written."""
    stage: Stage = Stage.BEGUN
    """The preparation that the process does at present."""
    ready_at: float | None = None
    """Time at which the process was ready, by the monotonic clock."""
    result: Json | None = None
    error: str | None = None

    @property
    def over(self) -> bool:
        """Whether no further line is expected."""
        return self.result is not None or self.error is not None

    def take(self, row: Json) -> None:
        """Process one line of output."""
        if "stage" in row:
            self.stage, self.is_new = Stage(row["stage"]), True
            return
        if "ready" in row:
            self.stage, self.is_new, self.ready_at = Stage.BEGUN, True, monotonic()
        self.keep(row)

    @abstractmethod
    def keep(self, row: Json) -> None:
        """Keep the report of one line."""

    @abstractmethod
    def fields(self) -> Json:
        """Return the columns to write to the row."""

    def left(self) -> Json:
        """Return the columns of a row whose process gave no answer."""
        return self.fields()

    def final(self) -> Json:
        """Return the columns of a row with a result."""
        return {**self.fields(), **(self.result or {})}


@dataclass(frozen=True)
class Limits:
    """Seconds that a process may take at most."""

    start: float
    """Seconds until the process is ready."""
    work: float
    """Seconds from then on."""
    cancel: float
    """Seconds after a cancellation."""


@dataclass
class Watch:
    """The running time of a process, checked against its limits."""

    limits: Limits
    stopping: Stopping
    """Whether this worker has to stop."""
    began: float = field(default_factory=monotonic)
    cancelled_at: float | None = None

    def enforce(self, moment: float, ready_at: float | None) -> None:
        """Raise NoAnswer if a limit is exceeded, SlowStart if that of the start is.

        A process that has not begun has no best result to return.
        """
        if self.cancelled_at is not None and (ready_at is None or moment - self.cancelled_at > self.limits.cancel):
            raise NoAnswer("It was cancelled.")
        if ready_at is None and moment - self.began > self.limits.start:
            raise SlowStart(f"Its process was not ready within {self.limits.start:g} s.")
        if ready_at is not None and moment - ready_at > self.limits.work:
            raise NoAnswer(f"It did not end within {self.limits.work:g} s.")


class Process:
    """A process that computes orders one after another. It has ended when the `with` block is left."""

    def __init__(self, command: Sequence[str]) -> None:
        never_in_transaction("A process")
        self._child = Popen(command, cwd=settings.BASE_DIR, stdin=PIPE, stdout=PIPE, text=True)  # noqa: S603
        self._lines: SimpleQueue[Json | None] = SimpleQueue()
        self._reader = Thread(target=_read, args=(self._child.stdout, self._lines), daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()  # kill it before its input is closed: closing would wait until the order is read
        self.want()
        self._reader.join()
        self._child.wait()
        cast(IO[str], self._child.stdout).close()

    def order(self, order: Json) -> None:
        """Send an order without waiting until it is read: a new process takes a while to read its input."""
        Thread(target=_write, args=(cast(IO[str], self._child.stdin), order), daemon=True).start()

    def want(self) -> None:
        """Ask for the best result so far, and send no more orders."""
        with suppress(OSError):  # the process may just have ended
            cast(IO[str], self._child.stdin).close()

    def line(self) -> Json | None:
        """Return the next line, or None after a short wait. Raises NoAnswer if there will be no more lines."""
        try:
            row = self._lines.get(timeout=EVERY_S)
        except Empty:
            return None
        if row is None:
            raise NoAnswer(f"Its process ended without an answer (status {self._child.wait()}).")
        return row


def compute(attempt: Attempt[Row], progress: JobProgress, process: Process, watch: Watch) -> None:
    """Follow an order until it is over, or the worker has to stop.

    Raises
    ------
    Gone
        If the row is no longer this attempt's.
    NoAnswer
        If the process ended without an answer, or took too long.
    """
    looked = beaten = watch.began
    while not progress.over and not watch.stopping():
        row = process.line()
        if row is not None:
            progress.take(row)
        moment = monotonic()
        if moment - looked < EVERY_S:
            continue
        looked = moment
        if watch.cancelled_at is None and is_cancelled(attempt):
            watch.cancelled_at = moment
            watch.enforce(moment, progress.ready_at)
            process.want()
        if progress.is_new or moment - beaten >= BEAT_S:
            if not states.progress(attempt, stage=progress.stage, **progress.fields()):
                raise Gone
            beaten, progress.is_new = moment, False
        watch.enforce(moment, progress.ready_at)


def follow(attempt: Attempt[Row], progress: JobProgress, process: Process, watch: Watch) -> None:
    """Follow an order to its end and store the result. Raises the errors of `compute`."""
    try:
        compute(attempt, progress, process, watch)
    except NoAnswer:
        states.progress(attempt, **progress.left())
        raise
    conclude(attempt, progress)


def conclude(attempt: Attempt[Row], progress: JobProgress) -> None:
    """Store the result; a row without an answer is released for another worker."""
    if progress.result is not None:
        states.finish(attempt, **progress.final())
    elif progress.error is not None:
        states.progress(attempt, **progress.fields())
        states.fail(attempt, progress.error)
    else:
        states.release(attempt)


def is_cancelled(attempt: Attempt[Row]) -> bool:
    """Return whether the row is to be cancelled. While the database is busy it is not: the next look says so.

    Raises
    ------
    Gone
        If the row is no longer this attempt's.
    """
    try:
        row = attempt.row.only("cancel_requested").first()
    except (DatabaseError, InterfaceError) as error:
        if not is_busy(error):
            raise
        close_old_connections()  # a lost connection would fail for ever
        return False
    if row is None:
        raise Gone
    return row.cancel_requested


def _write(sink: IO[str], order: Json) -> None:
    with suppress(OSError, ValueError):  # it died, or its result is not needed
        sink.write(json.dumps(order) + "\n")
        sink.flush()


def _read(source: IO[str], lines: "SimpleQueue[Json | None]") -> None:
    with suppress(ValueError):  # an incomplete line of a process that was killed
        for line in source:
            lines.put(json.loads(line))
    lines.put(None)
