"""Tiresias-L: the least attained service first, in a few queues."""

from dataclasses import dataclass
from fractions import Fraction

from scheduling.baselines.floor import Floor, Task
from scheduling.baselines.gang import Gang
from scheduling.baselines.whole_gang import WholeGangs
from scheduling.parameters import check_parameters, parameter
from scheduling.schedule import Role


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

    name = "tiresias_l"
    title = "Tiresias-L: jobs that have had the least first, in three queues, whole jobs preempted, nobody pays"

    def __post_init__(self) -> None:
        check_parameters(self)

    def key(self, task: Task, gang: Gang, floor: Floor) -> tuple[Fraction, ...]:
        """Queue, then first start."""
        attained = sum(p.count * (p.end - p.start) for p in task.past if p.role is Role.WORKER)
        queue = sum(attained >= times * self.threshold for times in (1, 10))
        began = min((p.start for p in task.past), default=None)
        return (Fraction(queue), Fraction(began is None), Fraction(0 if began is None else began))
