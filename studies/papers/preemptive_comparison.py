"""Those who are measured against each other on the settings of the preemptive edge-cloud paper.

SRTF, Tiresias-L and edge have no cloud, as in the paper. Batches have it: those of the literal interval scheduler of
weighted completion, all weights 1; chained, each as soon as the one before is complete. As +cloud SRTF and Tiresias-L
have it too, with a job's data uploaded everywhere at once, which nobody who sends a chunk to one worker is allowed.
Gangs of both are min(D, workers of the type).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.book.state import Job
from scheduling.model.progress import constellations
from scheduling.model.schedule import CLOUD, Role
from scheduling.model.types import Floats
from scheduling.policies.base import Policy
from scheduling.policies.baselines.srtf import Srtf
from scheduling.policies.baselines.tiresias_l import TiresiasL
from scheduling.policies.simulation import simulate
from scheduling.policies.weighted_completion import WeightedCompletion
from scheduling.preemptive.bounds import Least
from scheduling.preemptive.dispatch import dispatch
from scheduling.preemptive.duals import duals, flow, play
from scheduling.preemptive.queues import Queues
from scheduling.preemptive.record import Ran, Segment
from studies.papers.runs import completions_of
from studies.workloads.generated.system import Workload

HORIZON = 2000


@dataclass(frozen=True)
class Done:
    """The result of a compared scheduler on a workload; all jobs are complete."""

    completion: Mapping[str, float]
    """Slots, by job."""
    preemptions: int
    """Number of times that a whole job was stopped, or a worker left a chunk unfinished."""
    busy: Floats
    """Worker-slots in use at the edge in each slot until the last completion there."""

    def mean_time(self, work: Workload) -> float:
        """Mean time from arrival to completion, slots."""
        return float(np.mean([self.completion[bid.id] - bid.arrival for bid in work.bids]))

    @property
    def makespan(self) -> float:
        """The last completion, slots."""
        return max(self.completion.values())


Scheduler = Callable[[Workload], Done]


def queued(rule: str) -> Scheduler:
    """Chunks in queues under a rule of dispatch, exact times."""

    def run(work: Workload) -> Done:
        queues = Queues(work.inventory, now=0)
        ran: list[Ran] = []
        for bid in work.bids:
            ran.append(queues.advance(bid.arrival))
            sent = dispatch(bid, queues, rule=rule)
            if sent is None:
                raise RuntimeError(f"job {bid.id} has nowhere to go under {rule}")
            sent.send(bid, queues)
        last = max((window.completion for window in queues.windows().values()), default=0)
        ran.append(queues.advance(max(queues.now, -(-last // queues.ticks))))
        done = {name: tick / queues.ticks for one in ran for name, tick in one.completed.items()}
        segments = (segment for one in ran for segment in one.segments if segment.index != CLOUD)
        return Done(done, sum(len(one.preemptions) for one in ran), _busy(segments, queues.ticks))

    return run


def slotted(policy: Policy, *, cloud: bool) -> Scheduler:
    """A policy that books whole slots."""

    def run(work: Workload) -> Done:
        there = work if cloud else work.at_edge()
        over = simulate(policy, there.bids, Ledger(there.inventory, start=0, slots=HORIZON), until=20 * HORIZON)
        done, jobs = completions_of(over, policy, work.bids), over.done.values()
        return Done(done, sum(_stops(job) for job in jobs), _held(jobs, work))

    return run


SCHEDULERS: Mapping[str, Scheduler] = {
    "marginal": queued("marginal"),
    "jobmax": queued("jobmax"),
    "paper": queued("paper"),
    "edge": queued("edge"),
    "cloud": queued("cloud"),
    "srtf": slotted(Srtf(), cloud=False),
    "tiresias-l": slotted(TiresiasL(), cloud=False),
    "batches": slotted(WeightedCompletion(mode="interval"), cloud=True),
    "chained": slotted(WeightedCompletion(mode="interval", batches="chained"), cloud=True),
    "srtf+cloud": slotted(Srtf(), cloud=True),
    "tiresias-l+cloud": slotted(TiresiasL(), cloud=True),
}


def _stops(job: Job) -> int:
    """Return the number of times that it lost all its machines before it was complete."""
    stretches = list(constellations(job.held))
    return sum(before[1] < after[0] for before, after in pairwise(stretches))


def _busy(segments: Iterable[Segment], ticks: int) -> Floats:
    rows = np.array([(one.start, one.end) for one in segments], dtype=np.float64).reshape(-1, 2) / ticks
    edges = np.arange(int(np.ceil(rows.max(initial=0.0))) + 1)
    # Worker-slots done by each slot's beginning: of every segment, what lies before it.
    before = np.array([np.clip(edge - rows[:, 0], 0.0, rows[:, 1] - rows[:, 0]).sum() for edge in edges])
    busy: Floats = np.diff(before)
    return busy


def _held(jobs: Iterable[Job], work: Workload) -> Floats:
    held = [p for job in jobs for p in job.held if p.role is Role.WORKER and not work.inventory.cloud[p.server]]
    busy = np.zeros(max((p.end for p in held), default=0))
    for p in held:
        busy[p.start : p.end] += p.count
    return busy


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
