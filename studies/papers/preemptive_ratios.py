"""Both competitive ratios of a run, with and without speed augmentation."""

from dataclasses import dataclass
from fractions import Fraction

from scheduling.preemptive.bounds import Least
from scheduling.preemptive.duals import duals, flow, play
from studies.workloads.generated.preemptive import Workload


@dataclass(frozen=True)
class CompetitiveRatios:
    """Total times divided by lower bounds for any schedule at speed 1."""

    fractional: float
    """Fractional flow over ILP (4) relaxed."""
    jct: float
    """Time of jobs over the same and half a chunk's time for each chunk."""
    infeasible: float
    """Share of jobs whose dual variable alpha is not feasible as printed: Lemma 2 is wrong there."""


def competitive_ratios(work: Workload, bound: Least, *, rule: str, speed: Fraction) -> CompetitiveRatios:
    """Play a workload to its end under a rule, with workers that much faster."""
    played = play(work.bids, work.inventory, rule=rule, speed=speed)
    took, wrong = flow(played), {broken.job for broken in duals(played).broken}
    return CompetitiveRatios(
        fractional=float(took.fractional) / bound.fractional,
        jct=float(took.jobs) / bound.jct,
        infeasible=len(wrong) / len(work.bids),
    )
