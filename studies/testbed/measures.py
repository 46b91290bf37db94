"""Measures of a run: plans against what happened, the cost of restarts, and those of the papers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from studies.testbed.records import Outcome, PolicyRun
from studies.testbed.trainer import SAMPLES

NEAR: Final = 0.1
"""Slots by which a job may miss the deadline of the DPS paper: less than a loop of the executor and a checkpoint."""
AT_ONCE: Final = 0.5
"""A job that starts again within this part of a slot was restarted; one that starts later had no machines."""


@dataclass(frozen=True)
class Measures:
    """The measures of one run; a measure over no job is None."""

    admitted: int
    finished: int
    """Jobs that trained to their last step within what they held."""
    late: float | None
    """Slots from the planned to the actual completion, mean over the admitted jobs."""
    late_p95: float | None
    starts: int
    """Starts beyond the first of each job."""
    overhead_s: float | None
    """Seconds of a start's life in which it trained nothing, mean over all starts."""
    pause_s: float | None
    """Seconds from the end of a job's processes to their next start, if that follows at once, mean."""
    repeated: int
    """Samples that were trained again, since no checkpoint had them."""
    worker_slots: float
    welfare: float
    """Sum of the DPS paper's utilities of jobs complete by the deadline."""
    on_time: int
    """Number of these jobs."""
    utility: float
    """Sum of the OASiS paper's utilities."""
    timeliness: float | None
    """Completion minus target, slots, mean."""
    deviation: float | None
    """Standard deviation of that."""
    weighted_completion: float | None
    """Sum of weights times completions, if all jobs have one."""
    jct: float | None
    """Slots from arrival to completion, mean, if all jobs have one."""
    makespan: float | None
    """Slots from the first arrival to the last completion."""


def measured(run: PolicyRun, *, slot_s: int, deadline: int) -> Measures:
    """Compute the measures of a run."""
    outcomes = run.outcomes
    ended = [(one.job, one.completion) for one in outcomes if one.completion is not None]
    all_ended = len(ended) == len(outcomes)
    late = [one.late for one in outcomes if one.late is not None]
    on_time = [(job, at) for job, at in ended if at <= deadline + NEAR]
    misses = [at - job.arrival - job.target for job, at in ended]
    starts = [start for one in outcomes for start in one.generations]
    pairs = [pair for one in outcomes for pair in pairwise(one.generations)]
    pauses = [after.start - before.end for before, after in pairs if after.start - before.end < AT_ONCE]
    return Measures(
        admitted=sum(one.admitted for one in outcomes),
        finished=sum(one.completed is not None for one in outcomes),
        late=_mean(late),
        late_p95=float(np.percentile(late, 95)) if late else None,
        starts=len(pairs),
        overhead_s=_mean([slot_s * (one.end - one.start - one.training) for one in starts]),
        pause_s=_mean([slot_s * max(0.0, pause) for pause in pauses]),
        repeated=SAMPLES * sum(max(0, before.done - after.resumed) for before, after in pairs),
        worker_slots=sum(one.worker_slots for one in starts),
        welfare=sum(job.dps_utility(at) for job, at in on_time),
        on_time=len(on_time),
        utility=sum(job.oasis_utility(at) for job, at in ended),
        timeliness=_mean(misses),
        deviation=float(np.std(misses)) if misses else None,
        weighted_completion=sum(job.weight * at for job, at in ended) if all_ended else None,
        jct=_mean([at - job.arrival for job, at in ended]) if all_ended else None,
        makespan=_makespan(outcomes),
    )


def _makespan(outcomes: Sequence[Outcome]) -> float | None:
    ends = [one.completion for one in outcomes if one.completion is not None]
    return max(ends) - min(one.job.arrival for one in outcomes) if ends else None


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
