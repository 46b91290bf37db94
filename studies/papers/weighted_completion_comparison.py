"""Those who are measured against each other on the settings of the weighted-completion paper, by what, and on what.

The paper's scheduler as printed runs batches at the ends of doubling intervals, at prices (11) whose lambda is
2 T H R F + 1, F being the greatest weight for a unit of consumption over the least. Rolling is our default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from scheduling.batch.consumption import least_consumption
from scheduling.batch.intervals import last_interval
from scheduling.batch.planner import plan_alone
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Architecture
from scheduling.policies.base import Policy
from scheduling.policies.baselines.antman import AntMan
from scheduling.policies.baselines.drf import Drf
from scheduling.policies.baselines.fifo import Fifo
from scheduling.policies.baselines.gang import fixed_gang
from scheduling.policies.baselines.tiresias import Tiresias
from scheduling.policies.simulation import simulate
from scheduling.policies.weighted_completion import LARGEST_LAMBDA, WeightedCompletion
from studies.papers.figure import Task
from studies.papers.inputs import drew, remembered
from studies.papers.runs import completions_of
from studies.workloads.generated.system import Workload
from studies.workloads.generated.weighted_completion import Setting, draw

BASELINES: Mapping[str, Policy] = {
    "fifo": Fifo(),
    "tiresias": Tiresias(),
    "antman": AntMan(),
    "drf placed": Drf(),
}
ROUNDS = 4
"""alpha of the paper's scheduler: this suffices in practice; its theorem requires far more."""
FACTORS = (0.01, 1.0, 10_000.0)
"""Values of F, the greatest weight per unit of consumption over the least one."""


@remembered(128)
def drawn(setting: Setting, seed: int) -> Workload:
    """The workload of a seed."""
    return drew(draw(setting, np.random.default_rng(seed)))


def setting_of(task: Task, architecture: Architecture = Architecture.PS) -> Setting:
    """Return the size of the system at the task's scale."""
    small = Setting(jobs=6, servers=6, slots=14, workers=3, parameter_servers=2)
    middle, full = Setting(jobs=30, servers=50, slots=100), Setting(jobs=100, servers=150, slots=300)
    return replace(task.pick(small, middle, full), architecture=architecture)


@dataclass(frozen=True)
class Sums:
    """Sums of weight x completion, and of weight x flow (completion - arrival)."""

    completion: float
    flow: float


def sums(done: Mapping[str, float], work: Workload) -> Sums:
    """Return the sums of a run in which all jobs are complete, by the slots of their completions."""
    weighted = [(bid.utility.value * done[bid.id], bid.utility.value * bid.arrival) for bid in work.bids]
    completion = sum(total for total, _ in weighted)
    return Sums(completion, completion - sum(arrived for _, arrived in weighted))


def horizon(work: Workload) -> int:
    """Slots enough for every job in its fixed gang, and one lost on resuming: nobody is rejected."""
    gangs = (fixed_gang(bid, work.inventory, slots=10**6, seed=0) for bid in work.bids)
    return 1 + max(gang.duration(Fraction(gang.bid.work), spread=True) for gang in gangs if gang is not None)


def longest(work: Workload) -> int:
    """Slots that the longest job takes if it is alone on the cluster."""
    ledger = Ledger(work.inventory, start=0, slots=horizon(work))
    alone = (plan_alone(replace(bid, arrival=0), ledger) for bid in work.bids)
    return max(schedule.completion for schedule in alone if schedule is not None)


def completions(policy: Policy, work: Workload, slots: int) -> dict[str, float]:
    """Return the completion of each job; raises RuntimeError if a job is not complete."""
    run = simulate(policy, work.bids, Ledger(work.inventory, start=0, slots=slots), until=100 * slots)
    return completions_of(run, policy, work.bids)


def printed(work: Workload, *, slots: int, factor: float = 1.0) -> WeightedCompletion:
    """The scheduler as printed; `factor` is what F is multiplied with."""
    return WeightedCompletion(mode="interval", alpha=ROUNDS, lambda_=printed_lambda(work, slots=slots, factor=factor))


def printed_lambda(work: Workload, *, slots: int, factor: float = 1.0) -> float:
    """2 T H R F + 1 (11), with F in units in which the least weight for a unit of consumption is 1."""
    found = [least_consumption(bid, work.inventory).density(bid.utility.value) for bid in work.bids]
    some = [density for density in found if density > 0]
    size = slots * len(work.inventory.servers) * len(work.inventory.resources)
    return min(LARGEST_LAMBDA, 2.0 * size * factor * max(some) / min(some) + 1.0)


def printed_horizon(last: int) -> int:
    """Slots in which no interval that begins by twice slot `last` is capped; the last arrivals come by then.

    The batch of an interval of tau slots ends with slot 2 alpha tau.
    """
    slots = 2 * ROUNDS
    while (interval := last_interval(2 * last + 2, slots=slots, alpha=ROUNDS)) is not None and interval.capped:
        slots *= 2
    return slots
