"""AntMan: guaranteed jobs, and opportunistic ones on what they leave."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scheduling.baselines.baseline import FixedGangs, seed_parameter
from scheduling.baselines.floor import Floor, Task
from scheduling.baselines.gang import Gang
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
        tasks = [(task, self.gang(task.job.bid, floor)) for task in floor.in_order]
        opportunistic = dict.fromkeys(task for task, _ in tasks if self.is_opportunistic(task))
        for task, gang in tasks:
            if gang is not None and not task.running and task not in opportunistic:
                floor.start_instead(task, gang, (other for other in reversed(opportunistic) if other.running))
        for task, gang in tasks:
            if gang is not None and task in opportunistic:
                _take_what_is_left(floor, task, gang)

    def is_opportunistic(self, task: Task) -> bool:
        """Whether it held nothing in its first `patience` slots."""
        first = min((p.start for p in task.past), default=task.now)
        return first >= task.job.bid.arrival + self.patience


def _take_what_is_left(floor: Floor, task: Task, gang: Gang) -> None:
    current = task.workers
    before = floor.stop(task)
    for count in halved(gang.count):
        if count <= current:
            break
        if floor.start(task, replace(gang, count=count)):
            return
    if current:
        floor.resume(task, before)


def halved(count: int) -> Iterator[int]:
    """count, count / 2, ... rounded down, to 1."""
    while count:
        yield count
        count //= 2
