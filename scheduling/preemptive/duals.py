"""Flow of a run of queues, its dual variables alpha and beta, and the bound on every schedule that they prove."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from scheduling.model.bid import Bid
from scheduling.model.errors import SchedulingError
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import CLOUD
from scheduling.preemptive.dispatch import Dispatch, dispatch
from scheduling.preemptive.kernel import GRAIN
from scheduling.preemptive.queues import Queues
from scheduling.preemptive.record import Segment
from scheduling.preemptive.workers import TICKS, Task, Workers

Place = tuple[int, int, int]
"""Server, type and index of a worker; index CLOUD: of the cloud."""
SLACK = 1e-9
"""Largest excess of alpha over its limit, slots: alpha is a double, and D x alpha is rounded to a part of a tick."""


@dataclass(frozen=True)
class Played:
    """A run of queues from the first arrival to the last completion; times in ticks."""

    bids: tuple[Bid, ...]
    """Bids in order of arrival, as they ran."""
    workers: Workers
    tasks: Mapping[str, Task]
    sent: Mapping[str, Dispatch]
    segments: tuple[Segment, ...]
    speed: Fraction
    """Speed of the workers, as a multiple of the speed that the submitted bids state."""


@dataclass(frozen=True)
class Flow:
    """Time from arrival, summed over jobs, slots."""

    fractional: Fraction
    """Fractional flow time: until each part of a job's work is done, mean over the work; the objective of ILP (4)."""
    chunks: Fraction
    """Time until a chunk of a job is complete, mean over its chunks."""
    jobs: Fraction
    """JCT: time until a job is complete."""


@dataclass(frozen=True, order=True)
class Broken:
    """Violation of constraint (6a): at slot `at`, alpha of a job is more than (t - r) / D + p beta of a worker."""

    job: str
    worker: int
    at: Fraction
    alpha: float
    limit: Fraction


@dataclass(frozen=True)
class Duals:
    """The dual variables of Section IV, slots."""

    alpha: Mapping[str, float]
    """Greatest of a job's chunks: the least Q of the one placed last (lines 23 and 24 of Algorithm 2)."""
    broken: tuple[Broken, ...]
    """Constraints that they violate, for which Lemma 2 is wrong."""
    bound: Fraction
    """No schedule has less fractional flow: the dual objective at beta / speed and the largest feasible alpha."""


def play(
    bids: Sequence[Bid],
    inventory: Inventory,
    *,
    rule: str = "jobmax",
    ticks: int = TICKS,
    speed: Fraction = Fraction(1),
) -> Played:
    """Run jobs through queues to the end; with `speed` augmentation workers and parameter servers are that much faster.

    Raises
    ------
    SchedulingError
        If a job has nowhere to go.
    """
    queues = Queues(inventory, now=0, ticks=ticks)
    sent: dict[str, Dispatch] = {}
    tasks: dict[str, Task] = {}
    segments: list[Segment] = []
    ran: list[Bid] = []
    for bid in sorted(bids, key=lambda bid: bid.arrival):
        fast = _faster(bid, speed)
        segments += queues.advance(fast.arrival).segments
        found, task = dispatch(fast, queues, rule=rule), queues.task(fast)
        if found is None or task is None:
            raise SchedulingError(f"job {fast.id} has nowhere to go")
        found.send(fast, queues)
        sent[fast.id], tasks[fast.id] = found, task
        ran.append(fast)
    last = max((window.completion for window in queues.windows().values()), default=0)
    segments += queues.advance(max(queues.now, -(-last // ticks))).segments
    return Played(tuple(ran), queues.workers, tasks, sent, tuple(segments), speed)


def flow(played: Played) -> Flow:
    """Compute the exact flow of a run."""
    complete = completions(played)
    arrival = {bid.id: bid.arrival * played.workers.ticks for bid in played.bids}
    chunks = {bid.id: bid.chunks for bid in played.bids}
    work = Fraction(0)
    for s in played.segments:
        middle = Fraction(s.start + s.end, 2) - arrival[s.job]
        work += s.count * (s.end - s.start) * middle / (_each(played, s.job, s.index) * chunks[s.job])
    each = [(job, end - arrival[job]) for (job, _), ends in complete.items() for end in ends]
    last: dict[str, int] = defaultdict(int)
    for job, took in each:
        last[job] = max(last[job], took)
    mean = sum((Fraction(took, chunks[job]) for job, took in each), Fraction(0))
    ticks = played.workers.ticks
    return Flow(work / ticks, mean / ticks, Fraction(sum(last.values()), ticks))


def completions(played: Played) -> dict[tuple[str, Place], list[int]]:
    """Return the ticks at which the chunks of each job at each place complete."""
    found: dict[tuple[str, Place], list[int]] = defaultdict(list)
    worked: dict[tuple[str, Place], int] = defaultdict(int)
    for s in sorted(played.segments):
        key, each = (s.job, (s.server, s.type, s.index)), _each(played, s.job, s.index)
        before, worked[key] = worked[key], worked[key] + s.end - s.start
        whole = range(before // each + 1, worked[key] // each + 1)
        found[key] += [s.start + k * each - before for k in whole for _ in range(s.count)]
    return found


def duals(played: Played) -> Duals:
    """Compute alpha and beta of a run, the constraints that they violate, and a valid bound.

    Beta of a worker is the sum of 1 / D over the incomplete chunks sent to it, including those in transit. It is
    feasible. Alpha is not, because a later job may pass and delay an earlier one. The largest alpha that (6a) allows
    gives a bound by weak duality: on ILP (4) without (4c) to (4g), so on the fractional flow of every schedule at
    speed 1.

    References
    ----------
    Preemptive edge-cloud paper, problems (6) and (11), Lemma 2.
    """
    ticks, found = played.workers.ticks, completions(played)
    alpha = {name: float(sent.alpha.max()) for name, sent in played.sent.items()}
    broken: list[Broken] = []
    betas = _betas(played, found)
    total = -sum((_area(steps) for steps in betas.values()), Fraction(0)) / ticks / played.speed
    for bid in played.bids:
        task, clouds = played.tasks[bid.id], played.workers.inventory.cloud
        most = [Fraction(delay, bid.chunks) for delay, cloud in zip(bid.delay, clouds, strict=True) if cloud]
        for w in played.workers.of_type[task.worker].tolist():
            first = (bid.arrival + bid.delay[int(played.workers.server[w])]) * ticks
            for at, beta in _since(betas[w], first):
                limit = Fraction(at - bid.arrival * ticks, bid.chunks * ticks) + task.each * beta / ticks
                most.append(limit)
                if alpha[bid.id] > limit + SLACK + GRAIN / ticks:
                    broken.append(Broken(bid.id, w, Fraction(at, ticks), alpha[bid.id], limit))
        total += bid.chunks * min(most)
    return Duals(alpha, tuple(sorted(broken)), total)


Steps = list[tuple[int, Fraction]]
"""Ticks and values of a step function, which is 0 before the first tick."""


def _betas(played: Played, found: Mapping[tuple[str, Place], Sequence[int]]) -> dict[int, Steps]:
    """Return beta of every worker of the edge, by number."""
    arrival = {bid.id: bid.arrival * played.workers.ticks for bid in played.bids}
    weight = {bid.id: Fraction(1, bid.chunks) for bid in played.bids}
    changes: dict[int, dict[int, Fraction]] = {w: defaultdict(Fraction) for w in range(len(played.workers))}
    for (job, (server, kind, index)), ends in found.items():
        if index != CLOUD:
            mine = changes[int(played.workers.first[server, kind]) + index]
            for end in ends:
                mine[arrival[job]] += weight[job]
                mine[end] -= weight[job]
    betas: dict[int, Steps] = {}
    for w, mine in changes.items():
        value, betas[w] = Fraction(0), []
        for at in sorted(mine):
            value += mine[at]
            betas[w].append((at, value))
    return betas


def _since(steps: Steps, first: int) -> Steps:
    """Return the steps from a tick on, with the value at that tick first."""
    at_first = [value for at, value in steps if at <= first]
    return [(first, at_first[-1] if at_first else Fraction(0)), *(step for step in steps if step[0] > first)]


def _area(steps: Steps) -> Fraction:
    return sum(((after - at) * value for (at, value), (after, _) in pairwise(steps)), Fraction(0))


def _each(played: Played, job: str, index: int) -> int:
    """Return the ticks that a chunk of the job takes at a worker or in the cloud."""
    task = played.tasks[job]
    return task.alone if index == CLOUD and played.sent[job].alone else task.each


def _faster(bid: Bid, speed: Fraction) -> Bid:
    return replace(
        bid,
        worker_time=tuple(time / speed for time in bid.worker_time),
        ps_time=tuple(time / speed for time in bid.ps_time),
        transfer_time=tuple(time / speed for time in bid.transfer_time),
    )
