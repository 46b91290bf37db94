"""AntMan by its rules, with every job looked at in each of them, at every event."""

from dataclasses import dataclass, replace
from itertools import takewhile

from scheduling.book.state import Cause
from scheduling.policies.baselines.antman import AntMan, halved
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState


@dataclass(frozen=True)
class SlowAntMan(AntMan):
    def arrange(self, floor: PassState, cause: Cause | None) -> None:
        running = [task for task in floor.in_order if task.running and self._late(task)]
        waiting = [task for task in floor.in_order if not task.running]
        for task in waiting:
            gang = None if self._late(task) else self.gang(task.job.bid, floor)
            if gang is not None:
                floor.start_instead(task, gang, [victim for victim in reversed(running) if victim.running])
        for task in floor.in_order:
            if task in running or (task in waiting and self._late(task)):
                self._take_what_is_left(task, floor)

    def _late(self, task: PassJob) -> bool:
        return task.first >= task.job.bid.arrival + self.patience

    def _take_what_is_left(self, task: PassJob, floor: PassState) -> None:
        gang, current = self.gang(task.job.bid, floor), task.workers
        if gang is None:
            return
        before = floor.stop(task)
        more = takewhile(lambda count: count > current, halved(gang.count))
        if not any(floor.start(task, replace(gang, count=count)) for count in more):
            floor.resume(task, before)
