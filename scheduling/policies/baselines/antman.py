"""AntMan: guaranteed jobs, and opportunistic jobs on the remaining capacity."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from scheduling.book.state import Cause, Job
from scheduling.model.parameters import parameter
from scheduling.policies.baselines.base import FixedGangs, drained_parameter, seed_parameter
from scheduling.policies.baselines.gang import Gang
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState


@dataclass(frozen=True)
class AntMan(FixedGangs):
    """Guaranteed jobs are never stopped; a job that waited too long runs on the remaining capacity and may be evicted.

    Every job arrives guaranteed, with a fixed gang (`gang.fixed_gang`) of N workers. One that holds nothing in the
    first `patience` slots from its arrival is opportunistic ever after. At every event, and in every slot while a job
    waits:

    1. Guaranteed jobs that wait start in order of arrival if they have a place now (`gang.find_place`); one that has
       none is passed over (backfill). To make one, opportunistic jobs are evicted, the last to arrive first; those
       evicted for nothing, as the last one alone made room, go on.
    2. Opportunistic jobs, in order of arrival, take what is left: one that waits starts with N workers, N halved
       (rounded down) until it has a place and can be complete within the horizon; one that runs with fewer than N
       moves to the first of N, N/2, ... above its own for which there is a place.

    Evicting, resuming and moving have no cost except for the waiting time: AntMan scales jobs in seconds.

    References
    ----------
    Weighted completion, Section 7 (iii).
    """

    patience: int = parameter(10, "Slots a job waits before it becomes opportunistic.", low=1, high=10**6)
    seed: int = seed_parameter()
    keep_drained: bool = drained_parameter()

    name = "antman"
    title = "AntMan: guaranteed jobs first, those that waited long use what is left, nobody pays"

    def arrange(self, floor: PassState, cause: Cause | None) -> None:
        """Start guaranteed jobs first, then the others on the remaining capacity."""
        running = floor.running_now(job for job in floor.ran if self.is_opportunistic(job, floor.now))
        if not running and floor.is_full():
            return
        late = [job for job in floor.line if self.is_opportunistic(job, floor.now)]
        began = {task.job.bid.id for task in running}
        self._start_guaranteed(floor, {job.bid.id for job in late}, running[::-1])
        for job in floor.by_arrival([*late, *(task.job for task in running)]):
            if job.bid.id not in began and floor.is_full():
                continue  # every waiting job takes at least one worker
            gang = self.gang(job.bid, floor)
            if gang is not None and (job.bid.id in began or floor.may_fit(gang, count=1)):
                _take_what_is_left(floor, floor.meet(job), gang)

    def _start_guaranteed(self, floor: PassState, late: Collection[str], victims: Sequence[PassJob]) -> None:
        evictable = floor.held_by(victims)
        for job in floor.line:
            if job.bid.id in late:
                continue
            gang = self.gang(job.bid, floor)
            if gang is not None and floor.may_fit(gang, evictable):
                floor.start_instead(floor.meet(job), gang, (victim for victim in victims if victim.running))
                evictable = floor.held_by(victim for victim in victims if victim.running)

    def is_opportunistic(self, job: Job, now: int) -> bool:
        """Whether the job held nothing in its first `patience` slots."""
        first = min(job.held[0].start, now) if job.held else now
        return first >= job.bid.arrival + self.patience


def _take_what_is_left(floor: PassState, task: PassJob, gang: Gang) -> None:
    current = task.workers
    more = [*takewhile(lambda count: count > current, halved(gang.count))]
    if not more or not floor.may_fit(gang, floor.total(task), count=more[-1]):
        return
    before = floor.stop(task)
    if not any(floor.start(task, replace(gang, count=count)) for count in more) and current:
        floor.resume(task, before)


def halved(count: int) -> Iterator[int]:
    """Yield count, count / 2, ..., rounded down, until 1."""
    while count:
        yield count
        count //= 2
