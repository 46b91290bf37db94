"""The words in which an owner reads how a training ended."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from auctions.models import Bid, BidState
from execution.ends import LAST_BYTES, LAST_LINES, last_lines, shortened, words_of_end
from execution.engines.base import Engine, EngineError
from execution.models import Process, ProcessState, Training


class Outputs:
    """An engine that knows what processes have written."""

    def __init__(self, **outputs: bytes) -> None:
        self.outputs = outputs

    def log_size(self, key: str) -> tuple[int, int]:
        if key not in self.outputs:
            raise EngineError("no such process")
        return 0, len(self.outputs[key])

    def log(self, key: str, offset: int, size: int) -> bytes:
        return self.outputs[key][offset : offset + size]


def said(*processes: Process, unasked: bool = False, **outputs: bytes) -> str:
    return last_lines(cast(Engine, Outputs(**outputs)), processes, unasked=unasked)


def ended(key: str, code: int | None, **more: Any) -> Process:
    return Process(**{"key": key, "code": code, "role": "worker", "rank": 3, "state": ProcessState.EXITED, **more})


@pytest.mark.parametrize("code", [None, 0, 143])
def test_what_ended_as_it_should_is_no_reason(code: int | None) -> None:
    assert said(ended("a", code), a=b"text") == ""
    assert said(ended("a", code), ended("b", 144), a=b"text", b=b"bad\n") == "Worker 3 exited with code 144.\nbad"


def test_143_is_a_reason_if_nobody_had_asked() -> None:
    first, second = ended("a", 143, reason="stopped"), ended("b", 137)
    first.ended_at, second.ended_at = (datetime(2030, 1, 1, second=second, tzinfo=UTC) for second in (1, 2))
    assert said(second, first, unasked=True, a=b"bye\n", b=b"") == "Worker 3 exited with code 143. stopped\nbye"
    assert said(second, first, a=b"bye\n", b=b"") == "Worker 3 exited with code 137."
    assert said(ended("a", 0), ended("b", None), unasked=True) == ""


def test_a_reason_that_is_too_long_keeps_its_first_line_and_the_end_of_the_output() -> None:
    lines = [f"line {number}" for number in range(20)]
    reason = "\n".join(["Worker 0 exited with code 1.", *lines, "ValueError: no data"])
    found = shortened(reason, 100)
    assert len(found) == 100
    assert found.startswith("Worker 0 exited with code 1.\n... ")
    assert found.endswith("\nline 19\nValueError: no data")
    assert shortened(reason, len(reason)) == reason
    assert shortened("x" * 101, 100) == "x" * 100
    assert len(shortened("x" * 101 + "\n" + "y" * 101, 100)) == 100


def test_the_reason_is_what_the_first_one_that_failed_wrote_last() -> None:
    lines = [f"line {number}" for number in range(50)]
    first, second = ended("a", 1, reason="Out of memory."), ended("b", 2)
    found = said(first, second, a="\n".join(lines).encode(), b=b"other")
    assert found.splitlines() == ["Worker 3 exited with code 1. Out of memory.", *lines[-LAST_LINES:]]
    assert said(first, a=b"z" * (LAST_BYTES + 9)).count("z") == LAST_BYTES
    assert said(ended("a", None, state=ProcessState.LOST), a=b"") == "Worker 3 was lost."
    assert said(first).endswith("Its output could not be read: no such process")


@pytest.mark.parametrize(
    ("steps", "step", "words"),
    [
        (None, 4, "Its promise is over at step 4."),
        (8, 4, "50% done: step 4 of 8."),
        (8, 16, "100% done: step 16 of 8."),
        (2000, 1999, "99% done: step 1999 of 2000."),
    ],
)
def test_the_end_says_how_far_a_training_came(steps: int | None, step: int, words: str) -> None:
    bid = Bid(state=BidState.COMPLETED)
    assert words_of_end(Training(bid=bid, steps=steps, step=step)) == words
    bid.state, bid.end_reason = BidState.FAILED, "a disk broke"
    assert words_of_end(Training(bid=bid, steps=steps, step=step)) == "a disk broke"
