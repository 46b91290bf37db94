"""Work in a process of its own: told what to do, watched, its progress written, its end enforced.

The process reads its order from standard input as one line of JSON; the end of that input asks for the best so far.
It writes a line of JSON for each thing to tell, the first of them `ready`, when its kernels are loaded.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from subprocess import PIPE, Popen
from threading import Thread
from time import monotonic
from typing import IO, Final, Protocol

from django.conf import settings

from scheduling.arrays import Json
from studies.work import states
from studies.work.states import Attempt, Row

EVERY_S: Final = 0.2
"""Between two looks at the row, and between two writes of progress."""
BEAT_S: Final = 3.0
"""Between two signs of life where nothing is new."""

Stopping = Callable[[], bool]
Lines = SimpleQueue[Json | None]


class Gone(Exception):
    """The row is no longer this attempt's: deleted, or computed by somebody else."""


class NoAnswer(Exception):
    """The process ended, or had to be ended, without an answer; the message says so."""


class Course(Protocol):
    """What was told of the work so far."""

    is_new: bool
    """Whether something is to be written; set to False once it is."""
    ready_at: float | None
    """When the process was ready, by the monotonic clock."""

    @property
    def over(self) -> bool:
        """Whether nothing more is to come."""

    def take(self, row: Json) -> None:
        """One line of the process."""

    def fields(self) -> Json:
        """Columns of the row."""


@dataclass(frozen=True)
class Limits:
    """Seconds that a process may take at most."""

    start: float
    """Until it is ready."""
    work: float
    """From then on."""
    cancel: float
    """Once it was cancelled."""


@dataclass
class Watch:
    """How long a process has taken."""

    limits: Limits
    stopping: Stopping
    """Whether this worker has to end."""
    began: float = field(default_factory=monotonic)
    cancelled_at: float | None = None

    def enforce(self, moment: float, ready_at: float | None) -> None:
        """Raise NoAnswer if it had all the time it may have."""
        if self.cancelled_at is not None and moment - self.cancelled_at > self.limits.cancel:
            raise NoAnswer("It was cancelled.")
        if ready_at is None and moment - self.began > self.limits.start:
            raise NoAnswer(f"Its process was not ready within {self.limits.start:g} s.")
        if ready_at is not None and moment - ready_at > self.limits.work:
            raise NoAnswer(f"It did not end within {self.limits.work:g} s.")


def compute(attempt: Attempt[Row], course: Course, command: Sequence[str], order: Json, watch: Watch) -> None:
    """Until the course is over, or the worker has to end, after which no process is left.

    Raises
    ------
    Gone
        If the row is no longer this attempt's.
    NoAnswer
        If the process ended without an answer, or took too long.
    """
    with _process(command, order) as (child, lines):
        _follow(attempt, course, child, lines, watch)


def _follow(attempt: Attempt[Row], course: Course, child: "Popen[str]", lines: Lines, watch: Watch) -> None:
    looked = beaten = watch.began
    while not course.over and not watch.stopping():
        with suppress(Empty):
            row = lines.get(timeout=EVERY_S)
            if row is None:
                raise NoAnswer(f"Its process ended without an answer (status {child.wait()}).")
            course.take(row)
        moment = monotonic()
        if moment - looked < EVERY_S:
            continue
        looked = moment
        if watch.cancelled_at is None and _is_cancelled(attempt):
            watch.cancelled_at = moment
            _want(child)
        if course.is_new or moment - beaten >= BEAT_S:
            if not states.progress(attempt, **course.fields()):
                raise Gone
            beaten, course.is_new = moment, False
        watch.enforce(moment, course.ready_at)


def _is_cancelled(attempt: Attempt[Row]) -> bool:
    row = attempt.row.only("cancel_asked").first()
    if row is None:
        raise Gone
    return row.cancel_asked


def _want(child: "Popen[str]") -> None:
    """Ask for the best so far."""
    with suppress(OSError):  # it may just have ended
        if child.stdin is not None:
            child.stdin.close()


@contextmanager
def _process(command: Sequence[str], order: Json) -> "Iterator[tuple[Popen[str], Lines]]":
    """A process with its order, and its lines; None after the last. It has ended when the block is left."""
    lines: Lines = SimpleQueue()
    with Popen(command, cwd=settings.BASE_DIR, stdin=PIPE, stdout=PIPE, text=True) as child:  # noqa: S603
        reader = Thread(target=_read, args=(child.stdout, lines), daemon=True)
        reader.start()
        try:
            assert child.stdin is not None  # noqa: S101 (tells mypy what PIPE says)
            with suppress(BrokenPipeError):  # it died at once: its lines end, and that is told
                child.stdin.write(json.dumps(order) + "\n")
                child.stdin.flush()
            yield child, lines
        finally:
            _want(child)
            child.kill()
            reader.join()


def _read(source: IO[str], lines: Lines) -> None:
    with suppress(ValueError):  # half a line of a process that was ended
        for line in source:
            lines.put(json.loads(line))
    lines.put(None)
