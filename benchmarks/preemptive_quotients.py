"""`python -m benchmarks.preemptive_quotients`: both competitive quotients, with and without speed augmentation.

Jobs and servers as in the paper's Fig. 12 and 13, where its problem (4) is small enough to be solved. *Fractional*:
fractional flow time over the least there is (ILP 4 relaxed). *JCT*: time of jobs over the same relaxation and half a
chunk's time for each chunk, which no schedule without migration is below. Last, the share of jobs whose dual variable
alpha is not feasible as printed, so that Lemma 2 is wrong there.
"""

import argparse
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import coo_array

from scheduling.bid import Bid
from scheduling.inventory import Inventory
from scheduling.preemptive.crew import TICKS, Crew
from scheduling.preemptive.duals import duals, flow, play
from studies.workloads.preemptive import Setting, draw

SIZES = ((5, 25), (15, 25), (25, 25), (25, 5), (25, 45))
"""Jobs and servers."""
SPEEDS = (Fraction(1), Fraction(6, 5), Fraction(3, 2))
SPAN, STEP = 30, 0.5


class Least(NamedTuple):
    """Totals that no schedule is below, slots."""

    fractional: float
    jct: float


class _Way(NamedTuple):
    """A place where a job's chunks can be processed: on one of `room` like workers from `first` on, `each` slots."""

    server: int
    first: float
    each: float
    room: int | None


def least(
    bids: Sequence[Bid],
    inventory: Inventory,
    *,
    step: float,
    ticks: int = TICKS,
    whole: bool = False,
    alone: bool = False,
) -> Least:
    """The least fractional flow, and the least time of jobs.

    ILP (4) relaxed: chunks may be split, a job has no more workers than chunks at once, the cloud is as fast as if
    every job were there alone. Work is charged at the beginning of its step. `whole`: all times are whole slots, so
    some best schedule changes only there, and half a slot is added. `alone`: without communication at the edge too,
    as in the paper's Section V.
    """
    crew = Crew(inventory, ticks)
    total = Least(0.0, 0.0)
    types = {task.worker for bid in bids if (task := crew.task(bid)) is not None}
    for kind in sorted(types):
        mine = [(bid, task) for bid in bids if (task := crew.task(bid)) is not None and task.worker == kind]
        ways = [
            _ways(bid, crew, kind, (task.alone if alone else task.each) / ticks, task.alone / ticks)
            for bid, task in mine
        ]
        jobs = [bid for bid, _ in mine]
        found = [_solve(jobs, ways, step=step, late=0.5 * whole, half=half) for half in (0.0, 0.5)]
        total = Least(total.fractional + found[0], total.jct + found[1])
    return total


def _ways(bid: Bid, crew: Crew, kind: int, each: float, alone: float) -> list[_Way]:
    clouds = crew.inventory.cloud
    hosts = np.flatnonzero(crew.count[:, kind]).tolist()
    return [
        _Way(
            s, bid.arrival + bid.delay[s], alone if clouds[s] else each, None if clouds[s] else int(crew.count[s, kind])
        )
        for s in hosts
    ]


def _solve(jobs: Sequence[Bid], ways: Sequence[Sequence[_Way]], *, step: float, late: float, half: float) -> float:
    """A transport problem: which job is processed when and where; all jobs are of one type."""
    end = _horizon(jobs, ways)
    cost: list[float] = []
    limits: dict[tuple[str, int, int], tuple[int, float]] = {}
    at: list[tuple[int, int]] = []
    done: list[tuple[int, int, float]] = []
    for j, (bid, mine) in enumerate(zip(jobs, ways, strict=True)):
        for way in mine:
            for k in range(int(way.first // step), int(end // step) + 1):
                start = max(k * step, way.first)
                n = len(cost)
                cost.append(((start + late - bid.arrival) / way.each + half) / bid.chunks)
                done.append((j, n, 1.0 / way.each))
                at.append((limits.setdefault(("job", j, k), (len(limits), bid.chunks * step))[0], n))
                if way.room is not None:
                    at.append((limits.setdefault(("server", way.server, k), (len(limits), way.room * step))[0], n))
    rows, columns = zip(*at, strict=True)
    within = coo_array((np.ones(len(at)), (rows, columns)), shape=(len(limits), len(cost))).tocsr()
    owners, ways_of, speeds = zip(*done, strict=True)
    all_done = coo_array((speeds, (owners, ways_of)), shape=(len(jobs), len(cost))).tocsr()
    chunks = np.array([bid.chunks for bid in jobs], dtype=np.float64)
    result = milp(
        np.array(cost),
        constraints=[
            LinearConstraint(within, -np.inf, np.array([limit for _, limit in limits.values()])),
            LinearConstraint(all_done, chunks, chunks),
        ],
    )
    if result.status != 0:
        raise ArithmeticError(result.message)
    return float(result.fun)


def _horizon(jobs: Sequence[Bid], ways: Sequence[Sequence[_Way]]) -> float:
    """By then all is done: in the cloud, or by one worker after the last upload."""
    clouds = [[way.first + way.each for way in mine if way.room is None] for mine in ways]
    if all(clouds):
        return max(min(ends) for ends in clouds) + 1
    work = sum(bid.chunks * max(way.each for way in mine) for bid, mine in zip(jobs, ways, strict=True))
    return max(way.first for mine in ways for way in mine) + work + 1


def table(seeds: range, *, rules: Sequence[str]) -> Iterator[str]:
    """A line for each rule, size and speed: means over seeds."""
    yield f"{'rule':>7} {'jobs':>5} {'servers':>8} {'speed':>6} {'fractional':>11} {'JCT':>7} {'Lemma 2 fails':>14}"
    for jobs, servers in SIZES:
        works = [draw(Setting(jobs=jobs, servers=servers, span=SPAN), np.random.default_rng(seed)) for seed in seeds]
        bounds = [least(work.bids, work.inventory, step=STEP) for work in works]
        for rule in rules:
            for speed in SPEEDS:
                rows = []
                for work, bound in zip(works, bounds, strict=True):
                    played = play(work.bids, work.inventory, rule=rule, speed=speed)
                    took, wrong = flow(played), {broken.job for broken in duals(played).broken}
                    quotients = float(took.fractional) / bound.fractional, float(took.jobs) / bound.jct
                    rows.append((*quotients, len(wrong) / jobs))
                fractional, jct, fails = np.mean(rows, axis=0)
                numbers = f"{fractional:11.3f} {jct:7.3f} {fails:14.0%}"
                yield f"{rule:>7} {jobs:>5} {servers:>8} {float(speed):>6.1f} {numbers}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.preemptive_quotients", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="workloads drawn for each size")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    arguments = parser.parse_args()
    for line in table(range(arguments.seed, arguments.seed + arguments.seeds), rules=("jobmax", "paper")):
        print(line, flush=True)


if __name__ == "__main__":
    main()
