"""Tiresias: the least remaining service first, with preemption."""

from dataclasses import dataclass
from fractions import Fraction

from scheduling.model.inventory import Inventory
from scheduling.policies.baselines.base import FixedGangs, drained_parameter, seed_parameter
from scheduling.policies.baselines.gang import Gang
from scheduling.policies.baselines.ordering import InTurn
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.priority import Priority


@dataclass(frozen=True)
class Tiresias(FixedGangs, InTurn):
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
    keep_drained: bool = drained_parameter()

    name = "tiresias"
    title = "Tiresias: jobs with the least remaining GPU time first, preempted for shorter ones, nobody pays"
    pause = 1

    def rank_of(self, task: PassJob, floor: PassState) -> Priority | None:
        """Return the remaining service as a key, and the fixed gang."""
        gang = self.gang(task.job.bid, floor)
        if gang is None:
            return None
        service = remaining_service(task.left, gang, floor.inventory)
        return Priority((float(service), service), gang)  # a double is quick to compare


def remaining_service(left: Fraction, gang: Gang, inventory: Inventory) -> Fraction:
    """Return slots for `left` mini-batches on one server x GPUs of the gang (or its dominant share without GPUs)."""
    slots = left * gang.pace(spread=False) / gang.count
    demand: list[int] = (gang.count * inventory.worker_demand[gang.worker]).tolist()
    if "gpu" in inventory.resources:
        column = inventory.resources.index("gpu")
        if inventory.worker_demand[:, column].all():
            return slots * demand[column]
    return slots * max(Fraction(d, c) for d, c in zip(demand, inventory.total.tolist(), strict=True) if d)
