"""AntMan: guaranteed jobs, and opportunistic ones on what they leave."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from scheduling.baselines.baseline import FixedGangs, seed_parameter
from scheduling.baselines.floor import Floor
from scheduling.baselines.gang import Gang
from scheduling.baselines.task import Task
from scheduling.parameters import check_parameters, parameter
from scheduling.policy import Cause


@dataclass(frozen=True)
class AntMan(FixedGangs):
    """Guaranteed jobs are never stopped; one that had to wait too long runs on what they leave, and is evicted.

    Every job arrives guaranteed, with a fixed gang (`gang.fixed_gang`) of N workers. One that holds nothing in the
    first `patience` slots from its arrival is opportunistic ever after. At every event, and in every slot while a job
    waits:

    1. Guaranteed jobs that wait start in order of arrival if they have a place now (`gang.find_place`); one that has
       none is passed over (backfill). To make one, opportunistic jobs are evicted, the last to arrive first; those
       evicted for nothing, as the last one alone made room, go on.
    2. Opportunistic jobs, in order of arrival, take what is left: one that waits starts with N workers, N halved
       (rounded down) until it has a place and can be complete within the horizon; one that runs with fewer than N
       moves to the first of N, N/2, ... above its own for which there is a place.

    Evicting, resuming and moving cost nothing but the time spent waiting: AntMan scales jobs in seconds.

    References
    ----------
    Weighted completion, Section 7 (iii).
    """

    patience: int = parameter(10, "Slots a job waits before it becomes opportunistic.", low=1, high=10**6)
    seed: int = seed_parameter()

    name = "antman"
    title = "AntMan: guaranteed jobs first, those that waited long use what is left, nobody pays"

    def __post_init__(self) -> None:
        check_parameters(self)

    def arrange(self, floor: Floor, cause: Cause | None) -> None:
        """Guaranteed jobs first, then the others on what is left."""
        running = [task for task in floor.running_now() if self.is_opportunistic(task)]
        if not running and floor.full:
            return
        waiting = [*floor.in_line()]
        self._start_guaranteed(floor, waiting, running[::-1])
        for task in floor.merged(filter(self.is_opportunistic, waiting), running):
            gang = self.gang(task.job.bid, floor)
            if gang is not None:
                _take_what_is_left(floor, task, gang)

    def _start_guaranteed(self, floor: Floor, waiting: Iterable[Task], victims: Sequence[Task]) -> None:
        evictable = floor.held_by(victims)
        for task in waiting:
            gang = None if self.is_opportunistic(task) else self.gang(task.job.bid, floor)
            if gang is not None and floor.may_fit(gang, evictable):
                floor.start_instead(task, gang, (victim for victim in victims if victim.running))
                evictable = floor.held_by(victim for victim in victims if victim.running)

    def is_opportunistic(self, task: Task) -> bool:
        """Whether it held nothing in its first `patience` slots."""
        return task.first >= task.job.bid.arrival + self.patience


def _take_what_is_left(floor: Floor, task: Task, gang: Gang) -> None:
    current = task.workers
    more = [*takewhile(lambda count: count > current, halved(gang.count))]
    if not more or not floor.may_fit(gang, floor.total(task), count=more[-1]):
        return
    before = floor.stop(task)
    if not any(floor.start(task, replace(gang, count=count)) for count in more) and current:
        floor.resume(task, before)


def halved(count: int) -> Iterator[int]:
    """count, count / 2, ... rounded down, to 1."""
    while count:
        yield count
        count //= 2
