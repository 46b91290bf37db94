"""The next steps of a job, as a pure function."""

import pytest

from execution.engines.base import Phase
from execution.steps import Hold, Job, Live, Machines, Observed, Step, Wanted, steps_of

HELD = (Machines("worker", 1, 1, 1),)


@pytest.mark.parametrize(
    ("until", "expected"),
    [(1_800_000_100.0000002, []), (1_800_000_100.2, [Hold(1_800_000_100.2)]), (float("inf"), [Hold(float("inf"))])],
)
def test_a_new_end_of_what_is_held_is_passed_on_unless_only_its_rounding_is_new(
    until: float, expected: list[Step]
) -> None:
    worker = Observed("one", "worker", Phase.RUNNING)
    live = Live(allocation=HELD, state="running", until=1_800_000_100.0, processes=(worker,), ending="", stopped=0.0)
    job = Job(name=1, wanted=Wanted(HELD, until, last=True), live=live)
    assert steps_of(job, now=1_800_000_000.0, grace_s=1.0) == expected
