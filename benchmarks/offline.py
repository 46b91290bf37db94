"""Bounds and optima: `python -m benchmarks.offline [--quick] [--seconds N] [--day FILE]`.

Small instances of 10 jobs and 10 slots by the papers' ranges, jobs that could be complete alone; mid-size ones of 100
jobs and 100 slots; and a day like one of Philly (`benchmarks/philly.py`) with the objective values of policies. Times
are processor times.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks.arguments import count, trace_of_jobs
from benchmarks.philly import DAY, SLOT_S, jobs_of, source_of
from scheduling.book.ledger import Ledger
from scheduling.instances.preemptive import read_preemptive
from scheduling.kernels import warm_up_all
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.offline import Covers, Kind, OfflineProblem, best_bound, lagrangian
from scheduling.policies.base import Objective
from scheduling.policies.simulation import simulate
from scheduling.registry import make_policy
from studies.workloads.generated import dps, oasis, weighted_completion
from studies.workloads.generated.system import Workload
from studies.workloads.traces.machines import gpu_cluster
from studies.workloads.traces.mapping import Rules, to_bids

JOBS = SLOTS = 10
SMALL_OASIS = oasis.Setting(servers=10, slots=SLOTS, jobs=60, arrivals=0.5)
SMALL_DPS = dps.Setting(servers=3, slots=SLOTS, jobs=60, types=2, chunks=(2, 6), epochs=(10, 20), minibatches=(10, 40))
NEAR = 0.15
"""Largest mean distance of the bound of divided jobs from the optimum of small instances, relative."""


@dataclass(frozen=True)
class Measurement:
    """The result for one instance."""

    kind: Kind
    gap: float | None
    divided: float | None
    """Bound of divided jobs over the best schedule, less 1."""
    seconds: float
    divided_seconds: float


def measure(problem: OfflineProblem, *, seconds: float) -> Measurement:
    """Compute the bound of divided jobs, then the best bound within this wall-clock time."""
    began = process_time()
    divided = lagrangian(problem, lambda: seconds).answer.bound if problem.covers is not Covers.QUEUED else None
    between = process_time()
    until = perf_counter() + seconds
    answer = best_bound(problem, _left(until))
    spent = process_time() - between
    best = answer.incumbent
    if divided is None or not best:
        return Measurement(answer.kind, answer.gap, None, spent, between - began)
    ratio = divided / best if problem.most else best / divided
    return Measurement(answer.kind, answer.gap, ratio - 1.0, spent, between - began)


def _left(until: float) -> Callable[[], float]:
    return lambda: until - perf_counter()


def chosen(bids: Sequence[Bid], inventory: Inventory, covers: Covers) -> OfflineProblem | None:
    """The first of those that could be complete in time alone; None if there are too few."""
    whole = OfflineProblem(tuple(bids), inventory, 0, SLOTS, covers=covers, open_end=False)
    able = (bid for bid in bids if lagrangian(replace(whole, bids=(bid,)), lambda: 0.0).answer.bound > 0.0)
    first = tuple(islice(able, JOBS))
    return replace(whole, bids=first) if len(first) == JOBS else None


def small_oasis(rng: np.random.Generator) -> OfflineProblem | None:
    """Ten servers of each pool; jobs arrive in the first half."""
    drawn = oasis.draw(SMALL_OASIS, rng)
    return chosen(drawn.bids, drawn.inventory, Covers.ELASTIC)


def small_dps(rng: np.random.Generator) -> OfflineProblem | None:
    """Three servers; the cloud is too far for ten slots."""
    drawn = dps.draw(SMALL_DPS, rng)
    return chosen(drawn.bids, drawn.inventory, Covers.RIGID)


def small_weighted(rng: np.random.Generator) -> OfflineProblem | None:
    """Three servers for 150, two types of each machine for 8 and 10, 1 to 3 chunks for 5 to 50, 2 to 5 epochs for 50 to
    100; else as the paper draws them. None if the rolling policy takes more than ten slots for the ten jobs.
    """
    setting = weighted_completion.Setting(
        jobs=JOBS, servers=3, slots=SLOTS // 2, workers=2, parameter_servers=2, epochs=(2, 5), chunks=(1, 3)
    )
    problem = _rolled(weighted_completion.draw(setting, rng), Covers.RIGID)
    return replace(problem, end=SLOTS, open_end=False) if problem.end <= SLOTS else None


def small_queued(rng: np.random.Generator) -> OfflineProblem:
    """One to four chunks of one to four whole slots, on four small servers and a cloud: complete in about ten slots."""
    instance = read_preemptive(draw_ten(rng))
    return OfflineProblem(instance.bids, instance.inventory, 0, 4 * SLOTS, Objective.COMPLETION, Covers.QUEUED)


def draw_ten(rng: np.random.Generator) -> dict[str, Any]:
    """Draw as `preemptive_quality.draw_near` does, with more and shorter jobs on one more server."""
    servers = [{"workers": rng.integers(0, 2, rng.integers(1, 3)).tolist(), "pss": [0]} for _ in range(4)]
    jobs = []
    for i, arrival in enumerate(sorted(rng.integers(0, SLOTS // 2, JOBS).tolist())):
        fast = int(rng.integers(1, 4))
        jobs.append(
            {
                "id": i,
                "r": arrival,
                "D": int(rng.integers(1, 5)),
                "worker_type": int(rng.integers(2)),
                "p0": fast + int(rng.integers(0, 2)),
                "p1": fast,
                "delta": rng.integers(0, 3, len(servers)).tolist(),
                "delta_cloud": int(rng.integers(4, 7)),
            }
        )
    return {"servers": servers, "cloud": True, "jobs": jobs}


def mid_oasis(rng: np.random.Generator) -> OfflineProblem:
    """100 jobs, 100 slots, 20 servers of each pool."""
    drawn = oasis.draw(oasis.Setting(servers=20, slots=100, jobs=100), rng)
    return OfflineProblem(drawn.bids, drawn.inventory, 0, 100, covers=Covers.ELASTIC, open_end=False)


def mid_dps(rng: np.random.Generator) -> OfflineProblem:
    """100 jobs, 100 slots, 20 servers and the cloud."""
    drawn = dps.draw(dps.Setting(servers=20, slots=100, jobs=100), rng)
    return OfflineProblem(drawn.bids, drawn.inventory, 0, 100, covers=Covers.RIGID, open_end=False)


def mid_weighted(rng: np.random.Generator) -> OfflineProblem:
    """100 jobs, 30 servers; the rolling policy is the schedule that is known."""
    drawn = weighted_completion.draw(weighted_completion.Setting(servers=30, slots=100, jobs=100), rng)
    return _rolled(drawn, Covers.ANY)


def _rolled(drawn: Workload, covers: Covers) -> OfflineProblem:
    """Return the problem up to the rolling policy's last completion, with its schedule as the known one."""
    policy = make_policy("weighted_completion", {"mode": "rolling"})
    done = simulate(policy, drawn.bids, Ledger(drawn.inventory, start=0, slots=400), until=4000).done
    bids = tuple(job.bid for job in done.values())
    known = sum(job.bid.utility.value * (job.completion or 0) for job in done.values())
    end = max(job.completion or 0 for job in done.values())
    return OfflineProblem(bids, drawn.inventory, 0, end, Objective.WEIGHTED_COMPLETION, covers, known=known)


Draw = Callable[[np.random.Generator], OfflineProblem | None]
SMALL: dict[str, Draw] = {
    "welfare, elastic": small_oasis,
    "welfare, rigid": small_dps,
    "weighted, rigid": small_weighted,
    "total time": small_queued,
}
MID: dict[str, Draw] = {"welfare, elastic": mid_oasis, "welfare, rigid": mid_dps, "weighted, any": mid_weighted}


def table(draws: dict[str, Draw], *, instances: int, seconds: float, seed: int) -> Iterator[str]:
    """One line a setting."""
    yield (
        f"{'':>17} {'proven':>7} {'gap, mean':>10} {'worst':>7} {'CPU-s':>7} {'worst':>7}"
        f"   divided jobs: {'above':>6} {'worst':>7} {'CPU-s':>6}"
    )
    for name, draw in draws.items():
        rng = np.random.default_rng(seed)
        rows: list[Measurement] = []
        while len(rows) < instances:
            problem = draw(rng)
            if problem is not None:
                rows.append(measure(problem, seconds=seconds))
        gaps = [row.gap for row in rows if row.gap is not None]
        spent = [row.seconds for row in rows]
        proven = sum(row.kind is Kind.MILP_OPTIMAL or row.gap == 0 for row in rows)
        worst = f"{np.mean(gaps):10.1%} {max(gaps):7.1%}" if gaps else f"{'-':>10} {'-':>7}"
        line = f"{name:>17} {f'{proven}/{len(rows)}':>7} {worst}"
        line += f" {np.mean(spent):7.2f} {max(spent):7.2f}"
        above = [row.divided for row in rows if row.divided is not None]
        if above:
            cost = np.mean([row.divided_seconds for row in rows])
            line += f"   {'':>13} {np.mean(above):6.1%} {max(above):7.1%} {cost:6.2f}"
        yield line


def tables(*, quick: bool, seed: int) -> Iterator[str]:
    """Yield the lines of `make bench`: a few instances of 10 jobs and 10 slots, solved to the optimum."""
    instances, seconds = (1, 10.0) if quick else (3, 60.0)
    yield f"offline optimum, {seconds:g} seconds at most: {JOBS} jobs, {SLOTS} slots"
    yield from table(SMALL, instances=instances, seconds=seconds, seed=seed)


def philly(*, day: Path | None, seed: int, seconds: float, policies: Sequence[str]) -> Iterator[str]:
    """Bounds of a day, and the objective values of policies."""
    inventory = gpu_cluster(DAY.gpus)
    bids = to_bids(jobs_of(DAY, day), inventory, Rules(slot_s=SLOT_S), np.random.default_rng(seed)).bids
    yield source_of(DAY, day)
    yield f"{len(bids):,} jobs, {DAY.gpus} GPUs, slots of 10 minutes"
    yield f"{'policy':>20} {'objective':>20} {'came to':>14} {'bound':>14} {'gap':>7} {'CPU-s':>6}"
    for name in policies:
        policy = make_policy(name, {})
        done = simulate(policy, bids, Ledger(inventory, start=0, slots=3600), until=40_000).done.values()
        served = tuple(job.bid for job in done)
        ends = [(job.bid, job.completion or 0) for job in done]
        totals = {
            Objective.WELFARE: (bids, sum(bid.utility.at(end - bid.arrival) for bid, end in ends)),
            Objective.COMPLETION: (served, float(sum(end - bid.arrival for bid, end in ends))),
        }
        for objective, (about, total) in totals.items():
            problem = OfflineProblem(tuple(about), inventory, 0, 600, objective, known=total)
            began, until = process_time(), perf_counter() + seconds
            answer = best_bound(problem, _left(until))
            gap = "-" if answer.gap is None else f"{answer.gap:.1%}"
            spent = process_time() - began
            yield f"{name:>20} {objective:>20} {total:14,.0f} {answer.bound:14,.0f} {gap:>7} {spent:6.1f}"


def main() -> None:
    """Print three tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.offline", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few instances, no day")
    parser.add_argument("--seconds", type=float, default=60.0, help="on the wall, for each instance")
    parser.add_argument("--instances", type=count, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--day", type=trace_of_jobs, metavar="FILE", help="a trace of jobs instead of a drawn day")
    arguments = parser.parse_args()
    warm_up_all()
    instances, seconds = (2, 10.0) if arguments.quick else (arguments.instances, arguments.seconds)
    print(f"{JOBS} jobs, {SLOTS} slots")
    for line in table(SMALL, instances=instances, seconds=seconds, seed=arguments.seed):
        print(line, flush=True)
    print("\n100 jobs, 100 slots")
    for line in table(MID, instances=1 if arguments.quick else 3, seconds=seconds, seed=arguments.seed):
        print(line, flush=True)
    if not arguments.quick:
        print()
        policies = ("fifo", "drf", "tiresias", "dps")
        for line in philly(day=arguments.day, seed=arguments.seed, seconds=seconds, policies=policies):
            print(line, flush=True)


if __name__ == "__main__":
    main()
