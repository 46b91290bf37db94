"""Computing plans that wait: a process for each, watched, its progress written, its end enforced."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from subprocess import PIPE, Popen
from threading import Thread
from time import monotonic
from typing import IO, Final

from django.conf import settings

from scheduling.arrays import Json
from studies.plans import states
from studies.plans.states import Attempt

COMMAND: Final = (sys.executable, "-m", "studies.plans.child")
EVERY_S: Final = 0.2
"""Between two looks at the row, and between two writes of progress."""
BEAT_S: Final = 3.0
"""Between two signs of life where nothing is new."""
LONGEST_START_S: Final = 180.0
"""Until kernels are loaded: a minute where they must be compiled."""
LONGEST_ANSWER_S: Final = 30.0
"""Until a process that should have ended has; a step of a large instance takes a while."""
LONGEST_CANCEL_S: Final = 2.0
"""The same once somebody cancelled: without an answer by then, the process is ended and its plan is lost."""
MOST_STEPS: Final = 400
"""That are kept; of more, every other one."""

Stopping = Callable[[], bool]


class Gone(Exception):
    """The row is no longer this attempt's: deleted, or computed by somebody else."""


class NoAnswer(Exception):
    """The process ended, or had to be ended, without an answer; the message says so."""


@dataclass
class Course:
    """What was told of a plan so far."""

    steps: list[list[object]] = field(default_factory=list)
    is_new: bool = False
    result: Json | None = None
    error: str | None = None
    ready_at: float | None = None

    @property
    def over(self) -> bool:
        """Whether nothing more is to come."""
        return self.result is not None or self.error is not None

    def take(self, row: Json) -> None:
        """One line of the process."""
        if "ready" in row:
            self.ready_at = monotonic()
        elif "step" in row:
            self._step(row["step"])
        else:
            self.result, self.error = row.get("plan"), row.get("error")

    def fields(self) -> Json:
        """Columns of the row."""
        if not self.steps:
            return {}
        _, bound, makespan, note = self.steps[-1]
        return {"steps": self.steps, "lower_bound": bound, "makespan": makespan, "note": note}

    def _step(self, step: list[object]) -> None:
        """Keep it; of steps in a row that found nothing new only the first and the latest."""
        same = len(self.steps) > 1 and self.steps[-2][1:3] == self.steps[-1][1:3] == step[1:3]
        self.steps[len(self.steps) - same :] = [step]
        if len(self.steps) > MOST_STEPS:
            self.steps = [self.steps[0], *self.steps[1:-1:2], self.steps[-1]]
        self.is_new = True


@dataclass
class Watch:
    """How long a process may take."""

    seconds: float
    stopping: Stopping
    began: float = field(default_factory=monotonic)
    cancelled_at: float | None = None

    def enforce(self, moment: float, ready_at: float | None) -> None:
        """Raise NoAnswer if it had all the time it may have."""
        if self.cancelled_at is not None and moment - self.cancelled_at > LONGEST_CANCEL_S:
            raise NoAnswer("It was cancelled.")
        if ready_at is None and moment - self.began > LONGEST_START_S:
            raise NoAnswer(f"Its process was not ready within {LONGEST_START_S:g} s.")
        if ready_at is not None and moment - ready_at > self.seconds + LONGEST_ANSWER_S:
            raise NoAnswer(f"Its method did not end within {LONGEST_ANSWER_S:g} s of its budget.")


def compute_next(stopping: Stopping = lambda: False) -> bool:
    """Compute the next plan to its end; False if there was none. `stopping`: whether this worker has to end."""
    attempt = states.claim_next()
    if attempt is None:
        return False
    course = Course()
    try:
        order = _order_of(attempt)
        with _process(order) as (child, lines):
            _watch(attempt, course, child, lines, Watch(order["seconds"], stopping))
    except Gone:
        return True
    except NoAnswer as error:
        states.progress(attempt, **course.fields())
        states.fail(attempt, str(error))
        return True
    if course.result is not None:
        told = {"lower_bound": course.result["lower_bound"], "makespan": course.result["makespan"]}
        states.finish(attempt, course.result, **(course.fields() | told))
    elif course.error is not None:
        states.progress(attempt, **course.fields())
        states.fail(attempt, course.error)
    else:
        states.give_back(attempt)
    return True


def _order_of(attempt: Attempt) -> Json:
    """What a process is told to compute."""
    order = attempt.row.values("instance", "method", "seconds", "seed").first()
    if order is None:
        raise Gone
    return dict(order)


def _watch(
    attempt: Attempt, course: Course, child: "Popen[str]", lines: "SimpleQueue[Json | None]", watch: Watch
) -> None:
    """Until the course is over, or the worker has to end."""
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


def _is_cancelled(attempt: Attempt) -> bool:
    asked = attempt.row.values_list("cancel_asked", flat=True).first()
    if asked is None:
        raise Gone
    return asked


def _want(child: "Popen[str]") -> None:
    """Ask for the best so far."""
    with suppress(OSError):  # it may just have ended
        if child.stdin is not None:
            child.stdin.close()


@contextmanager
def _process(order: Json) -> "Iterator[tuple[Popen[str], SimpleQueue[Json | None]]]":
    """A process that computes the plan, and its lines; None after the last. It has ended when the block is left."""
    lines: SimpleQueue[Json | None] = SimpleQueue()
    with Popen(COMMAND, cwd=settings.BASE_DIR, stdin=PIPE, stdout=PIPE, text=True) as child:  # noqa: S603
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


def _read(source: IO[str], lines: "SimpleQueue[Json | None]") -> None:
    with suppress(ValueError):  # half a line of a process that was ended
        for line in source:
            lines.put(json.loads(line))
    lines.put(None)
