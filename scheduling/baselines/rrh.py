"""RRH, the risk-reward heuristic: a job is admitted if its gain is more than what delaying others for it costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil, trunc
from typing import NamedTuple

import numpy as np

from scheduling.arrays import Ints
from scheduling.baselines.baseline import FixedGangs, seed_parameter
from scheduling.baselines.drf import demand_of, dominant_share
from scheduling.baselines.floor import Floor, Task
from scheduling.baselines.gang import Gang
from scheduling.baselines.preempting import start_in_order
from scheduling.decision import Reason
from scheduling.parameters import check_parameters, parameter
from scheduling.policy import Cause


class Prospect(NamedTuple):
    """What there is to win with a job, as of now."""

    key: tuple[float]
    """Minus its reward: the least is first."""
    task: Task
    gang: Gang
    slots: int
    """It has to run still, on one server."""
    volume: Fraction
    """These slots x the gang's dominant share of the cluster: how long it would keep the whole cluster busy."""


@dataclass(frozen=True)
class Rrh(FixedGangs):
    """Gain against the cost of delay decides who is admitted, and who runs; jobs are fixed gangs (`gang.fixed_gang`).

    A job's *slots* are those its gang needs still, on one server, rounded up; its *share* is the dominant share of all
    servers together that its workers, and PSs for all of them, take (at most 1); its *volume* is slots x share.

    *Order*, at every event and in every forecast: the greatest reward first, equals by arrival and admission, with
    reward = (1 - risk) x gain / volume + risk x decay. `gain` is what the job is worth if it runs without a break from
    now on, `decay` how much less if it is complete a slot later. (What running a job costs is the decay of all others x
    its volume; for each unit of volume that is the decay of all less its own, and only its own tells jobs apart.)

    *Forecast*: the cluster as one server. In this order each job begins as soon as its share of every resource is
    free, none before the one ahead of it, or once its upload to the nearest server is over if that is later.

    *Admission*: the newcomer's gain is what it is worth at its forecast completion. If not all admitted jobs and the
    newcomer fit the one server together, its cost is the sum, over all admitted jobs, of what each is worth at its
    forecast completion without the newcomer less what it is worth later by the newcomer's volume (between whole slots
    on a straight line); else nothing. It is admitted if gain - cost > threshold x its amplitude.

    *Events* (an arrival; a completion, cancellation or failure; a change of servers or policy): jobs are taken in order
    and started and stopped as in Tiresias (`tiresias.Tiresias`), with this order as key, but pausing loses nothing. A
    job always has the same number of workers. When only a slot passes jobs are started, none is stopped.

    Notes
    -----
    Where bids state a weight, which does not fall with time, nothing decays: all are admitted, in order of weight over
    volume. The cost does not depend on the value that the newcomer states, so a higher one never gets it rejected.

    References
    ----------
    OASiS, Section V.A (iii); Irwin, Grit, Chase, Balancing risk and reward in a market-based task service, HPDC 2004
    (FirstReward, with a discount rate of 0). That paper has one unit of machines for each task: shares are ours.
    """

    threshold: float = parameter(0.0, "Share of its amplitude that gain less cost has to exceed.", low=0.0, high=1.0)
    risk: float = parameter(0.5, "How much the decay of a job counts beside its gain, 0 to 1.", low=0.0, high=1.0)
    seed: int = seed_parameter()

    name = "rrh"
    title = "RRH: jobs are admitted if they gain more than delaying the others costs, nobody pays"

    def __post_init__(self) -> None:
        check_parameters(self)

    def arrange(self, floor: Floor, cause: Cause | None) -> None:
        """Start jobs in order of reward, in place of those with less."""
        ranked = [(one.key, one.task, one.gang) for one in self._prospects(floor)]
        start_in_order(floor, ranked, preempt=cause is not Cause.SLOT)

    def refuse(self, floor: Floor) -> tuple[Reason, str] | None:
        """Weigh the newcomer's gain against the delay it would cause."""
        bid, prospects = floor.newcomer.job.bid, self._prospects(floor)
        new = next(one for one in prospects if one.task is floor.newcomer)
        others = [one for one in prospects if one is not new]
        completion = forecast(prospects, floor)[prospects.index(new)]
        gain = bid.utility.at(completion - bid.arrival)
        cost = 0.0 if fit_together(prospects, floor) else delay_cost(others, forecast(others, floor), new.volume)
        if gain - cost > self.threshold * bid.utility.value:
            return None
        if gain == 0:
            return Reason.WORTHLESS, f"It would be complete at slot {completion}, when it is worth nothing any more."
        return Reason.PRICE, (
            f"Complete at slot {completion} it would gain {gain:.2f}, but delay {len(others)} jobs that were admitted "
            f"by {float(new.volume):.3g} slots each, which costs {cost:.2f}. The difference has to be more than "
            f"{self.threshold * bid.utility.value:.2f}."
        )

    def _prospects(self, floor: Floor) -> list[Prospect]:
        """Of all jobs that are not impossible, in order."""
        total = _total(floor)
        rows = ((task, self.gang(task.job.bid, floor)) for task in floor.in_order)
        return sorted(
            (self._prospect(task, gang, floor, total) for task, gang in rows if gang), key=lambda one: one.key
        )

    def _prospect(self, task: Task, gang: Gang, floor: Floor, total: Ints) -> Prospect:
        slots = gang.duration(task.left, spread=False)
        share = dominant_share(np.minimum(demand_of(gang, gang.count, floor.inventory), total), total)
        volume = slots * share
        elapsed, utility = floor.now + slots - task.job.bid.arrival, task.job.bid.utility
        gain = utility.at(elapsed)
        reward = (1 - self.risk) * gain / float(volume) + self.risk * (gain - utility.at(elapsed + 1))
        return Prospect((-reward,), task, gang, slots, volume)


def forecast(prospects: Sequence[Prospect], floor: Floor) -> list[int]:
    """Completions, as slots, if jobs began in this order on one server as large as all: O(n log n)."""
    total = _total(floor)
    free, now = total.copy(), floor.now
    ends: list[tuple[int, int, Ints]] = []
    completions = []
    for number, one in enumerate(prospects):
        demand = np.minimum(demand_of(one.gang, one.gang.count, floor.inventory), total)
        while (demand > free).any():
            now, _, back = heappop(ends)
            free += back
        bid = one.task.job.bid
        end = max(now, bid.arrival + min(bid.delay)) + one.slots
        free -= demand
        heappush(ends, (end, number, demand))
        completions.append(end)
    return completions


def fit_together(prospects: Sequence[Prospect], floor: Floor) -> bool:
    """Whether one server as large as all could run all at once."""
    total = _total(floor)
    wanted = sum((demand_of(one.gang, one.gang.count, floor.inventory) for one in prospects), np.zeros_like(total))
    return bool((wanted <= total).all())


def delay_cost(prospects: Sequence[Prospect], completions: Sequence[int], delay: Fraction) -> float:
    """What jobs lose, all together, if each is complete `delay` slots later; between slots on a straight line."""
    low, part = trunc(delay), float(delay - trunc(delay))
    cost = 0.0
    for one, completion in zip(prospects, completions, strict=True):
        utility, elapsed = one.task.job.bid.utility, completion - one.task.job.bid.arrival
        later = (1 - part) * utility.at(elapsed + low) + part * utility.at(elapsed + ceil(delay))
        cost += utility.at(elapsed) - later
    return cost


def _total(floor: Floor) -> Ints:
    """What all servers have together, R numbers."""
    total: Ints = floor.inventory.capacity.sum(axis=0)
    return total
