"""The figures of the weighted-completion paper (Section 7).

A_online as printed: batches at the ends of doubling intervals, with prices. Rolling, our default use of the same
A_maxweight, is drawn for comparison. Baselines are those of `scheduling/baselines`.
"""

from dataclasses import replace
from functools import partial
from time import process_time

import numpy as np

from scheduling.model.bid import Architecture, Bid
from scheduling.policies.weighted_completion import WeightedCompletion
from studies.papers.claims import lead, rises
from studies.papers.figure import Data, Figure, Finding, Paper, Task, found
from studies.papers.inputs import remembered
from studies.papers.maxweight import FIGURES as MAXWEIGHT
from studies.papers.runs import listed
from studies.papers.weighted_completion_comparison import (
    BASELINES,
    FACTORS,
    completions,
    drawn,
    horizon,
    longest,
    printed,
    printed_horizon,
    setting_of,
    sums,
)
from studies.workloads.generated.system import Workload
from studies.workloads.generated.weighted_completion import Setting

ONLINE, ROLLING = "A_online", "A_online, rolling"
FIFO, DRF, ANTMAN, TIRESIAS = "FIFO", "DRF", "AntMan", "Tiresias"
OTHERS = {FIFO: "fifo", DRF: "drf placed", ANTMAN: "antman", TIRESIAS: "tiresias"}
LESS = 0.30
"""Least share by which A_online should be better than the others, in the paper's claim."""
LONGEST_S = 120.0
"""Upper limit for the time of a run in the paper's claim."""
GREATLY = 0.30
"""Least share by which the total with the worst type exceeds that with the best; the text has no number."""
ANY = "any type"
ALONE = 4
"""Least horizon of the paper's scheduler, as a multiple of the longest job's duration with all its workers."""


def _total(name: str, work: Workload, *, last: int, factor: float = 1.0) -> float:
    """Sum of weight x completion under a scheme; jobs arrive before slot `last`."""
    if name == ONLINE:
        slots = max(printed_horizon(last), ALONE * longest(work))
        return sums(completions(printed(work, slots=last, factor=factor), work, slots), work).completion
    policy = WeightedCompletion(mode="rolling") if name == ROLLING else BASELINES[OTHERS[name]]
    return sums(completions(policy, work, horizon(work)), work).completion


@remembered(512)
def _scheme(name: str, setting: Setting, seed: int) -> float:
    return _total(name, drawn(setting, seed), last=setting.slots)


def _by(task: Task, architecture: Architecture, *, servers: bool) -> Data:
    setting = setting_of(task, architecture)
    jobs = task.pick((3, 6), (10, 20, 30), (50, 100, 150))
    counts = task.pick((3, 6), (25, 50, 100), (50, 100, 150, 200))

    def measure(count: int, seed: int) -> dict[str, float]:
        mine = replace(setting, servers=count) if servers else replace(setting, jobs=count)
        return {name: _scheme(name, mine, seed) for name in (ONLINE, ROLLING, *OTHERS)}

    return task.sweep(counts if servers else jobs, measure)


def _judge_totals(data: Data, *, by_servers: bool, parameter_servers: bool) -> Finding:
    best = np.min([data[name].mean for name in OTHERS], axis=0)
    mine = data[ONLINE].mean / best
    ahead = lead(data[ONLINE], [data[name] for name in OTHERS], lower=True)
    against = ", ".join(f"{name} {listed(data[ROLLING].mean / data[name].mean)}" for name in OTHERS)
    # The text says the one of Figures 2 and 3 only, and the other of 3 and 6.
    slow, fast = ([data[name].mean for name in names] for names in ((ANTMAN, TIRESIAS), (FIFO, DRF)))
    larger = {"AntMan and Tiresias above FIFO and DRF at every point": bool((np.min(slow, 0) > np.max(fast, 0)).all())}
    grows = {"rises with the servers at every step": rises(data[ONLINE].mean)}
    return found(
        f"A_online as printed over the best other: {listed(mine)} ({ahead}); rolling over each: {against}",
        direction={"the least total at every point": ahead.everywhere},
        size={"30 % below all others at every point": bool((mine <= 1 - LESS).all())}
        | (larger if parameter_servers else {})
        | (grows if by_servers else {}),
    )


def _by_bound(task: Task) -> Data:
    setting = setting_of(task)

    def measure(factor: float, seed: int) -> dict[str, float]:
        return {ONLINE: _total(ONLINE, drawn(setting, seed), last=setting.slots, factor=factor)}

    return task.sweep(FACTORS, measure)


def _judge_bound(data: Data) -> Finding:
    totals = data[ONLINE].mean
    grown = float(totals[-1] / totals[0])
    return found(
        f"over the total at the least F: {listed(totals / totals[0], 3)} at F times {', '.join(map(str, FACTORS))}",
        direction={"more with the largest F than with the smallest": grown > 1},
        size={"more at every step": rises(totals)},
    )


def _times(task: Task) -> Data:
    setting = setting_of(task)
    jobs = task.pick((3, 6), (10, 20, 30), (50, 100, 150))

    def measure(count: int, seed: int) -> dict[str, float]:
        row = {}
        for name in (ONLINE, ROLLING):
            for architecture in Architecture:
                mine = replace(setting, jobs=count, architecture=architecture)
                work = drawn(mine, seed)
                began = process_time()
                _total(name, work, last=mine.slots)
                row[f"{name}, {architecture}"] = process_time() - began
        return row

    return task.sweep(jobs, measure)


def _judge_times(data: Data) -> Finding:
    slowest = max(float(one.mean.max()) for one in data.series)
    mine = [one.mean for one in data.series if not one.name.startswith(ROLLING)]
    words = ", ".join(f"{one.name} {one.mean[-1]:.2f} s" for one in data.series)
    return found(
        f"with the most jobs: {words}",
        direction={
            "less than two minutes at every point": slowest < LONGEST_S,
            "longer with the most jobs than with the fewest": all(row[-1] > row[0] for row in mine),
        },
        size={"longer at every step": all(rises(row) for row in mine)},
    )


def _kinds(task: Task) -> Data:
    names = [f"type {m + 1}" for m in range(task.pick(2, 4, 4))]

    def measure(name: str, seed: int) -> dict[str, float]:
        row = {}
        for architecture in Architecture:
            setting = replace(setting_of(task, architecture), jobs=task.pick(4, 30, 100))
            work = drawn(setting, seed)
            mine = work if name == ANY else _only(work, names.index(name))
            for scheme in (ONLINE, ROLLING):
                row[f"{scheme}, {architecture}"] = _total(scheme, mine, last=setting.slots)
        return row

    return task.sweep([*names, ANY], measure)


def _only(work: Workload, kind: int) -> Workload:
    """Return the same jobs with workers of only one type."""
    bids = [
        replace(bid, worker_time=(bid.worker_time[kind],), transfer_time=(bid.transfer_time[kind],))
        for bid in work.bids
    ]
    return Workload(replace(work.inventory, workers=(work.inventory.workers[kind],)), tuple(bids))


def _judge_kinds(data: Data) -> Finding:
    gains = {one.name: 1 - float(one.mean[-1] / one.mean[:-1].min()) for one in data.series}
    mine = [gain for name, gain in gains.items() if not name.startswith(ROLLING)]
    words = ", ".join(f"{name} {gain:+.0%}" for name, gain in gains.items())
    types = [one.mean[:-1] for one in data.series if not one.name.startswith(ROLLING)]
    differ = min(float(row.max() / row.min()) for row in types) - 1
    return found(
        f"total with any type below the best with one: {words}; the worst type has at least {differ:.0%} more than "
        "the best",
        direction={"any type is below every single one": min(mine) > 0},
        size={f"types differ by at least {100 * GREATLY:.0f} %": differ >= GREATLY},
    )


def _counts(task: Task) -> Data:
    most = task.pick((10, 20), (5, 10, 20, 30), (2, 5, 10, 20, 30, 40, 50))

    def measure(count: int, seed: int) -> dict[str, float]:
        row = {}
        for architecture in Architecture:
            setting = replace(setting_of(task, architecture), jobs=task.pick(4, 30, 100))
            work = drawn(setting, seed)
            mine = Workload(work.inventory, tuple(_at_most(bid, count) for bid in work.bids))
            for scheme in (ONLINE, ROLLING):
                row[f"{scheme}, {architecture}"] = _total(scheme, mine, last=setting.slots)
        return row

    return task.sweep(most, measure)


def _at_most(bid: Bid, workers: int) -> Bid:
    """Return the same work for this number of workers at most: a job has no more than chunks."""
    chunks = min(bid.chunks, workers)
    return replace(bid, chunks=chunks, epochs=1, minibatches=max(1, -(-bid.work // chunks)))


def _judge_counts(data: Data) -> Finding:
    falls = {one.name: float(one.mean[-1] / one.mean[0]) for one in data.series}
    mine = [one for one in data.series if not one.name.startswith(ROLLING)]
    words = ", ".join(f"{name} {ratio:.2f}" for name, ratio in falls.items())
    return found(
        f"total with the most workers over that with the fewest: {words}",
        direction={"less with the most workers than with the fewest": all(falls[one.name] < 1 for one in mine)},
        size={"less at every step": all(rises(-one.mean) for one in mine)},
    )


def _totals(number: str, architecture: Architecture, *, servers: bool) -> Figure:
    what = "servers" if servers else "jobs"
    ring = architecture is Architecture.RING
    how = "rings" if ring else "parameter servers"
    larger = "" if ring else " AntMan and Tiresias are far above FIFO and DRF."
    grows = " It rises with the number of servers." if servers else ""
    return Figure(
        number,
        f"Total weighted completion, {how}, by {what}",
        x=what,
        y="sum of weight x completion, slots",
        claim=f"A_online is at least 30 % below all others.{larger}{grows}",
        compute=lambda task: _by(task, architecture, servers=servers),
        judge=partial(_judge_totals, by_servers=servers, parameter_servers=not ring),
    )


PAPER = Paper(
    key="weighted-completion",
    title="Elastic scheduling of synchronous training jobs for weighted completion time",
    section="Section 7",
    figures=(
        _totals("2", Architecture.PS, servers=False),
        _totals("3", Architecture.PS, servers=True),
        Figure(
            "4",
            "Total weighted completion by F",
            x="F over the actual one",
            y="sum of weight x completion, slots",
            claim="The larger F, so lambda, the larger the total. No numbers in the text.",
            compute=_by_bound,
            judge=_judge_bound,
        ),
        _totals("5", Architecture.RING, servers=False),
        _totals("6", Architecture.RING, servers=True),
        Figure(
            "7",
            "Running time of A_online",
            x="jobs",
            y="processor time of a run, s",
            claim="It grows with the jobs and stays below two minutes.",
            compute=_times,
            judge=_judge_times,
            timed=True,
        ),
        *MAXWEIGHT[:1],
        Figure(
            "9",
            "Total weighted completion by worker type",
            x="worker type that all jobs use",
            y="sum of weight x completion, slots",
            claim="Types differ greatly; choosing for each job is best, with parameter servers and as rings. No "
            "numbers in the text; taken as at least 30 %.",
            compute=_kinds,
            judge=_judge_kinds,
            bars=True,
        ),
        Figure(
            "10",
            "Total weighted completion by workers",
            x="workers of a job, at most",
            y="sum of weight x completion, slots",
            claim="The more workers a job can have, the smaller the total.",
            compute=_counts,
            judge=_judge_counts,
        ),
        *MAXWEIGHT[1:],
    ),
)
