"""The policies of the comparison and the size of a run."""

from dataclasses import dataclass
from typing import Final

from studies.testbed.runs import Setting

SETTINGS: Final = (
    Setting("DPS", "dps", utility="dps"),
    Setting("OASiS", "oasis"),
    Setting("FIFO", "fifo"),
    Setting("DRF", "drf"),
    Setting("RRH", "rrh"),
    Setting("Dorm", "dorm"),
    Setting("Preemptive", "preemptive"),
    Setting("SRTF", "srtf"),
    Setting("Tiresias-L", "tiresias_l"),
    Setting("BatchSche", "batch_sche"),
    Setting("Weighted completion", "weighted_completion"),
    Setting("Weighted completion, ring", "weighted_completion", ring=True),
    Setting("AntMan", "antman"),
    Setting("Tiresias", "tiresias"),
    Setting("Completions", "completions"),
)


@dataclass(frozen=True)
class Size:
    """The size of a run."""

    jobs: int
    over: float
    """Slots over which the jobs arrive."""
    slot_s: int
    deadline: int
    """Slot by which a job has to be complete to count for the DPS paper."""
    settings: tuple[Setting, ...]
    numbers: tuple[int, ...]
    """Numbers of workers that are measured before."""


STANDARD: Final = Size(jobs=12, over=6.0, slot_s=6, deadline=10, settings=SETTINGS, numbers=(1, 2, 3))
SMALL: Final = Size(jobs=3, over=1.0, slot_s=4, deadline=8, settings=(SETTINGS[0], SETTINGS[2]), numbers=(1, 2))
"""A minute, to see that everything works; its figures say nothing."""
ALLOWANCE: Final = 1.6
"""Factor on the measured time of a worker: slots are so short that starts and checkpoints take a part of them."""
STEP_S: Final = 0.2
"""Seconds of a step from which targets of jobs follow: jobs have to be drawn before anything is measured."""
