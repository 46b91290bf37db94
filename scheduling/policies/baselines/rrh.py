"""RRH, the risk-reward heuristic: a job is admitted if its gain exceeds the cost of delaying other jobs."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from heapq import heappop, heappush
from math import ceil, trunc
from operator import add, sub
from typing import NamedTuple

from scheduling.model.decision import Reason
from scheduling.model.parameters import parameter
from scheduling.policies.baselines.base import FixedGangs, drained_parameter, seed_parameter
from scheduling.policies.baselines.gang import Gang
from scheduling.policies.baselines.ordering import InTurn
from scheduling.policies.baselines.pass_job import PassJob
from scheduling.policies.baselines.pass_state import PassState
from scheduling.policies.baselines.priority import Priority, Ranked


@dataclass(frozen=True)
class Rrh(FixedGangs, InTurn):
    """Gain against the cost of delay decides who is admitted, and who runs; jobs are fixed gangs (`gang.fixed_gang`).

    A job's *slots* are those its gang needs still, on one server, rounded up; its *share* is the dominant share of all
    servers together that its workers, and PSs for all of them, take (at most 1); its *volume* is slots x share.

    *Order*, at every event and in every forecast: the greatest reward first, equals by arrival and admission, with
    reward = (1 - risk) x gain / volume + risk x decay. `gain` is what the job is worth if it runs without a break from
    now on, `decay` how much less if it is complete a slot later. (What running a job costs is the decay of all others x
    its volume; for each unit of volume that is the decay of all less its own, and jobs differ only by their own.)

    *Forecast*: the cluster as one server. In this order each job takes its share of every resource as soon as that is
    free, none before the one ahead of it. It begins then, or once its upload to the nearest server is over if that is
    later: those behind it may begin meanwhile, but not with its share.

    *Admission*: the newcomer's gain is its value at its forecast completion. If not all admitted jobs and the
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
    keep_drained: bool = drained_parameter()

    name = "rrh"
    title = "RRH: jobs are admitted if they gain more than delaying the others costs, nobody pays"
    ages = True

    def refuse(self, floor: PassState) -> tuple[Reason, str] | None:
        """Weigh the newcomer's gain against the delay it would cause."""
        prospects, total = self.all_in_order(floor), floor.inventory.total.tolist()
        job = floor.newcomer.job
        place = next(number for number, one in enumerate(prospects) if one.job is job)
        new, others = prospects[place], [*prospects[:place], *prospects[place + 1 :]]
        bid, gang = new.job.bid, new.of.gang
        volume = new.of.slots * floor.memory.units(gang, gang.count).share
        server = OneServer(total, floor.now)
        ahead = server.forecast(prospects[:place])
        [completion] = server.copy().forecast([new])
        gain, cost = bid.utility.at(completion - bid.arrival), 0.0
        if not fit_together(prospects, total):
            cost = delay_cost(others, ahead + server.forecast(prospects[place + 1 :]), volume)
        if gain - cost > self.threshold * bid.utility.value:
            return None
        if gain == 0:
            return Reason.WORTHLESS, f"It would be complete at slot {completion}, when it is worth nothing any more."
        return Reason.PRICE, (
            f"Complete at slot {completion} it would gain {gain:.2f}, but delay {len(others)} jobs that were admitted "
            f"by {float(volume):.3g} slots each, which costs {cost:.2f}. The difference has to be more than "
            f"{self.threshold * bid.utility.value:.2f}."
        )

    def rank_of(self, task: PassJob, floor: PassState) -> Priority | None:
        """Return the reward as a key, the fixed gang, and the slots that the job still needs."""
        need = self._need(task, floor)
        if need is None:
            return None
        worth, elapsed = task.job.bid.utility.at, floor.now + need.slots - task.job.bid.arrival
        gain = worth(elapsed)
        reward = (1 - self.risk) * gain / need.volume + self.risk * (gain - worth(elapsed + 1))
        return Priority((-reward,), need.gang, need.slots, need.demand, need.uploaded)

    def _need(self, task: PassJob, floor: PassState) -> "_Need | None":
        if not task.waited:
            return self._need_now(task, floor)
        kept, key = task.known.kept, ("rrh", self.seed)
        need: _Need | None = kept.get(key)
        if need is None:
            need = kept[key] = self._need_now(task, floor)
        return need

    def _need_now(self, task: PassJob, floor: PassState) -> "_Need | None":
        gang, bid = self.gang(task.job.bid, floor), task.job.bid
        if gang is None:
            return None
        slots, units = gang.duration(task.left, spread=False), floor.memory.units(gang, gang.count)
        # As the fraction would be rounded, without making it.
        volume = slots * units.share.numerator / units.share.denominator
        return _Need(gang, slots, volume, units.demand, bid.arrival + min(bid.delay))


class _Need(NamedTuple):
    """Machines and slots that a job needs still: the same as long as it waits."""

    gang: Gang
    slots: int
    volume: float
    """Slots x share of the cluster."""
    demand: Sequence[int]
    uploaded: int
    """Slot from which it can use some server."""


class OneServer:
    """A server with `total` units of each resource, which jobs take in the order of a forecast.

    Each job takes its units when there is room, never before the job ahead, and begins once it is uploaded, too.
    """

    def __init__(self, total: Sequence[int], now: int) -> None:
        self._free, self._now = list(total), now
        self._ends: list[tuple[int, int, Sequence[int]]] = []
        self._jobs = 0

    def copy(self) -> "OneServer":
        """Return an independent server with the same jobs."""
        other = OneServer(self._free, self._now)
        other._ends, other._jobs = list(self._ends), self._jobs
        return other

    def forecast(self, prospects: Sequence[Ranked]) -> list[int]:
        """Let more jobs begin, in this order; return their completions. O(n log n)."""
        free, now, ends = self._free, self._now, self._ends
        completions = []
        for number, one in enumerate(prospects, self._jobs):
            of = one.of
            free = [*map(sub, free, of.demand)]
            while min(free) < 0:
                now, _, back = heappop(ends)
                free = [*map(add, free, back)]
            end = max(now, of.uploaded) + of.slots
            heappush(ends, (end, number, of.demand))
            completions.append(end)
        self._free, self._now, self._jobs = free, now, self._jobs + len(prospects)
        return completions


def fit_together(prospects: Sequence[Ranked], total: list[int]) -> bool:
    """Whether one server with `total` units of each resource could run all jobs at once."""
    left = total
    for one in prospects:
        left = [*map(sub, left, one.of.demand)]
        if min(left) < 0:
            return False
    return True


def delay_cost(prospects: Sequence[Ranked], completions: Sequence[int], delay: Fraction) -> float:
    """Return the total value lost if each job completes `delay` slots later, interpolated linearly between slots."""
    low, high, part = trunc(delay), ceil(delay), float(delay - trunc(delay))
    cost = 0.0
    for one, completion in zip(prospects, completions, strict=True):
        bid = one.job.bid
        worth, elapsed = bid.utility.at, completion - bid.arrival
        now = worth(elapsed)
        early = worth(elapsed + low) if low else now
        late = worth(elapsed + high) if high != low else early
        cost += now - ((1 - part) * early + part * late)
    return cost
