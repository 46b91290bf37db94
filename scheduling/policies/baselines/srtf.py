"""SRTF: the least remaining service first, with preemption of whole jobs."""

from dataclasses import dataclass

from scheduling.policies.baselines.base import drained_parameter
from scheduling.policies.baselines.gang import Gang
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.priority import Key
from scheduling.policies.baselines.whole_gangs import WholeGangs


@dataclass(frozen=True)
class Srtf(WholeGangs):
    """Jobs with the least remaining worker-slots run, as gangs of all the workers they can use, all or nothing.

    The key of a job is what its whole gang (`whole_gang.whole_gang`) still has to do: mini-batches left x slots of one
    on one server (a fraction), which is slots x workers. At every event (an arrival; a completion, cancellation or
    failure; a change of servers or policy) jobs are taken in order of key, equals by arrival and admission. One that
    runs goes on. One that does not starts where it has a place now; where it has none, running jobs with a greater
    key are stopped, the greatest first, until it has one; if all of them would not do it waits and none is stopped.
    Nothing is lost by stopping and resuming. When only a slot passes jobs are started, none is stopped.

    References
    ----------
    Preemptive edge-cloud paper, Section V (SRTF).
    """

    keep_drained: bool = drained_parameter()

    name = "srtf"
    title = "SRTF: jobs with the least left to do first, whole jobs preempted for shorter ones, nobody pays"

    def key(self, task: PassJob, gang: Gang, floor: PassState) -> Key:
        """Return the worker-slots left, as a double (fast to compare) and exactly."""
        left = task.left * gang.pace(spread=False)
        return (float(left), left)
