"""Tiresias-L: the least attained service first, in a few queues."""

from dataclasses import dataclass

from scheduling.model.parameters import parameter
from scheduling.policies.baselines.base import drained_parameter
from scheduling.policies.baselines.gang import Gang
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.priority import Key
from scheduling.policies.baselines.whole_gangs import WholeGangs


@dataclass(frozen=True)
class TiresiasL(WholeGangs):
    """Jobs in the first of a few queues run, as gangs of all the workers they can use, all or nothing.

    Attained service is the worker-slots a job has held so far. A job is in queue 0 until it has attained `threshold`,
    in queue 1 until ten times that, then in queue 2; it never comes back. Queues are taken in order; within one, jobs
    that have started in order of their first start, then the others in order of arrival. How jobs start and stop is
    as in SRTF (`srtf.Srtf`): at events, and nothing is lost by it.

    References
    ----------
    Preemptive edge-cloud paper, Section V (Tiresias-L); Gu et al., Tiresias, NSDI 2019 (2D-LAS).
    """

    threshold: float = parameter(100.0, "Worker-slots that a job attains in the first queue.", low=0.0, high=1e9)
    keep_drained: bool = drained_parameter()

    name = "tiresias_l"
    title = "Tiresias-L: jobs that have had the least first, in three queues, whole jobs preempted, nobody pays"

    def key(self, task: PassJob, gang: Gang, floor: PassState) -> Key:
        """Return the queue, then the first start."""
        past = [one for one in task.known.stretches if one.start < floor.now]
        attained = sum(one.workers * (min(one.end, floor.now) - one.start) for one in past)
        queue = sum(attained >= times * self.threshold for times in (1, 10))
        return (queue, 0, past[0].start) if past else (queue, 1, 0)
