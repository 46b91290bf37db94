"""Tiresias: the least remaining service first, with preemption."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from scheduling.arrays import Ints
from scheduling.baselines.baseline import FixedGangs, Key, newcomer_settles, seed_parameter, start_in_order
from scheduling.baselines.floor import Floor, Task
from scheduling.baselines.gang import Gang
from scheduling.inventory import Inventory
from scheduling.parameters import check_parameters
from scheduling.policy import Cause

Ranked = tuple[Key, Task, Gang]


@dataclass(frozen=True)
class Tiresias(FixedGangs):
    """The jobs with the least remaining slots x N x GPUs run, as fixed gangs (`gang.fixed_gang`), all or nothing.

    The key of a job is the slots (a fraction) its gang would still need on one server, times the gang's GPUs. Where
    not every worker type demands a resource called `gpu`, the gang's dominant share stands for its GPUs: the greatest
    share, over resources, of the cluster's capacity that its N workers demand.

    At every event (an arrival; a completion, cancellation or failure; a change of servers or policy) jobs are taken
    in order of key, equals by arrival and admission. One that runs goes on. One that does not starts where it has a
    place now (`gang.find_place`); where it has none, running jobs with a greater key are stopped, the greatest first,
    until it has one; if all of them would not do it waits and none is stopped. Those stopped for nothing, as the last
    one alone made room, go on. A stopped job comes later in the same pass, and may start elsewhere. When only a slot
    passes jobs are started (an upload is over), none is stopped. Nothing is done in the first slot after a job was
    stopped and resumed.

    References
    ----------
    Weighted completion, Section 7 (iv).
    """

    seed: int = seed_parameter()

    name = "tiresias"
    title = "Tiresias: jobs with the least remaining GPU time first, preempted for shorter ones, nobody pays"
    pause = 1

    def __post_init__(self) -> None:
        check_parameters(self)

    def arrange(self, floor: Floor, cause: Cause | None) -> None:
        """Start jobs in order of key, in place of those with a greater one."""
        gang = self.gang(floor.newcomer.job.bid, floor) if cause is None else None
        if gang is not None and newcomer_settles(floor, gang, lambda task: self._rank(task, floor)):
            return
        tasks = floor.may_start(cause) if cause is Cause.SLOT else floor.in_order
        start_in_order(floor, self._ranked(tasks, floor), preempt=cause is not Cause.SLOT)

    def _rank(self, task: Task, floor: Floor) -> Key | None:
        gang = self.gang(task.job.bid, floor)
        return None if gang is None else (remaining_service(task.left, gang, floor.inventory),)

    def _ranked(self, tasks: Iterable[Task], floor: Floor) -> list[Ranked]:
        rows = ((task, self.gang(task.job.bid, floor)) for task in tasks)
        keyed = (((remaining_service(task.left, gang, floor.inventory),), task, gang) for task, gang in rows if gang)
        return sorted(keyed, key=lambda row: row[0])


def remaining_service(left: Fraction, gang: Gang, inventory: Inventory) -> Fraction:
    """Slots for `left` mini-batches on one server x GPUs of the gang, or its dominant share where there are no GPUs."""
    slots = left * gang.pace(spread=False) / gang.count
    demand: Ints = gang.count * inventory.worker_demand[gang.worker]
    if "gpu" in inventory.resources:
        column = inventory.resources.index("gpu")
        if inventory.worker_demand[:, column].all():
            return slots * int(demand[column])
    total = inventory.capacity.sum(axis=0)
    return slots * max(Fraction(int(d), int(c)) for d, c in zip(demand, total, strict=True) if d)
