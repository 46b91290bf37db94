"""Reasons of the ends of generations and trainings, in words for their owner."""

from collections.abc import Sequence
from typing import Final

from auctions.models import BidState
from cluster import clock
from execution.dead_processes import FAILURES
from execution.defects import OUTSIDE
from execution.engines.base import Engine
from execution.logs import shown
from execution.models import Ending, Process, ProcessState, Training

LAST_LINES: Final = 20
"""Lines of output that are the reason of a failure."""
LAST_BYTES: Final = 4_000
STOPPED: Final = 143
"""Code of a process that was asked to stop and wrote a checkpoint."""


def last_lines(engine: Engine, processes: Sequence[Process], *, unasked: bool = False) -> str:
    """Return how the process that failed first ended, with its last lines of output; empty if none failed.

    Others fail later because it is gone.

    Parameters
    ----------
    engine
        Where they ran.
    processes
        Those of a generation, of which nothing is left.
    unasked
        Whether the first one ended before any of them was asked to stop: then 143 is a failure, too.
    """
    well = (None, 0) if unasked else (None, 0, STOPPED)
    failed = [one for one in processes if one.state == ProcessState.LOST or one.code not in well]
    if not failed:
        return ""
    one = min(failed, key=lambda one: one.ended_at or clock.now())
    how = "was lost" if one.state == ProcessState.LOST else f"exited with code {one.code}"
    try:
        _, end = engine.log_size(one.key)
        output = shown(engine.log(one.key, max(0, end - LAST_BYTES), LAST_BYTES))
    except OUTSIDE as error:  # what it wrote is for people: it ends without
        output = f"Its output could not be read: {error}"
    lines = "\n".join(output.splitlines()[-LAST_LINES:])
    said = f" {one.reason}" if one.reason else ""
    return f"{one.get_role_display()} {one.rank} {how}.{said}\n{lines}".rstrip()


def percent_of(training: Training) -> int | None:
    """Return the share of its steps that is done, rounded down, so that 100 is all; None if there is no number."""
    return min(100, 100 * training.step // training.steps) if training.steps else None


def shortened(reason: str, most: int) -> str:
    """Return a reason with at most this many characters: its first line, and the end of its last lines of output.

    The last line of an output says most.
    """
    if len(reason) <= most:
        return reason
    first, _, rest = reason.partition("\n")
    begin = f"{first[: most // 2]}\n... "
    return begin + rest[-(most - len(begin)) :] if rest else reason[:most]


def words_of_end(training: Training) -> str:
    """Return how far a training came, and how a process failed if that kept it from running to its last slot."""
    if training.bid.state == BidState.FAILED:
        return training.bid.end_reason
    if training.steps:
        words = f"{percent_of(training)}% done: step {training.step} of {training.steps}."
    else:
        words = f"Its promise is over at step {training.step}."
    if not (training.retries or training.reason):
        return words
    ending = Ending(training.generations.latest("number").ending)
    if ending in FAILURES:
        return f"{words} It had failed and was not started again in time. {training.reason}"
    return f"{words} {training.reason}" if training.reason.startswith(f"{Ending.PROMISE_OVER.label}. ") else words
