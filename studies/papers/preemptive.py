"""The figures of the preemptive edge-cloud paper that show simulations (Section V-C).

A_online dispatches by the paper's Eq. (5) to event-driven queues; under our rule jobmax it is drawn as jobmax.
A_online-E, SRTF and Tiresias-L have no cloud, BatchSche has (studies/papers/preemptive_comparison.py).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from scheduling.model.types import Floats
from scheduling.preemptive.bounds import Least, least
from studies.papers.claims import NEAR, lead, rises
from studies.papers.figure import Data, Figure, Finding, Paper, Series, Task, found
from studies.papers.inputs import drew, remembered
from studies.papers.preemptive_comparison import SCHEDULERS, Done, competitive_ratios
from studies.papers.runs import listed
from studies.workloads.generated.preemptive import Setting, draw
from studies.workloads.generated.system import Workload

ONLINE, JOBMAX, EDGE, SRTF, TIRESIAS, BATCHES = (
    "A_online",
    "A_online, jobmax",
    "A_online-E",
    "SRTF",
    "Tiresias-L",
    "BatchSche",
)
SCHEMES = {
    ONLINE: "paper",
    JOBMAX: "jobmax",
    EDGE: "edge",
    SRTF: "srtf",
    TIRESIAS: "tiresias-l",
    BATCHES: "batches",
}
PREEMPTIVE = (ONLINE, EDGE, SRTF, TIRESIAS)
SPEEDS = (Fraction(1), Fraction(6, 5), Fraction(3, 2))
LESS = 0.30
"""Largest share by which the mean time is less than that of the others, in the paper's claim."""
MAKESPANS = (0.76, 0.74)
"""Makespans of A_online over those of SRTF and of Tiresias-L."""
MOST, CLOSE = 1.7, 1.1
"""The ratio is said to stay below; to be close to 1 at the highest speed is taken as at most."""
ALL = 0.995
"""Least share of workers in use, in the mean of a slot, that counts as all."""
STEPS = 50
"""Number of time steps in Figure 11."""
TRENDS = {
    "jobs": "The more jobs, the larger the gaps to A_online-E, SRTF and Tiresias-L.",
    "servers": "With more servers A_online and BatchSche rise, A_online-E and Tiresias-L fall.",
}
"""The paper's claims of growth in Figures 7 and 8."""


@remembered(64)
def _drawn(setting: Setting, seed: int) -> Workload:
    return drew(draw(setting, np.random.default_rng(seed)))


@remembered(512)
def _done(name: str, setting: Setting, seed: int) -> Done:
    return SCHEDULERS[SCHEMES[name]](_drawn(setting, seed))


@remembered(64)
def _least(setting: Setting, seed: int, step: float) -> Least:
    work = _drawn(setting, seed)
    return least(work.bids, work.inventory, step=step)


def _setting(task: Task) -> Setting:
    small = Setting(jobs=8, servers=10, span=30, types=(2, 2))
    return task.pick(small, Setting(jobs=60, servers=40, span=150), Setting())


def _by(task: Task, what: str, measure: Callable[[Setting, int], dict[str, float]]) -> Data:
    """Measure over numbers of jobs or of servers."""
    jobs = task.pick((4, 8, 12), (20, 40, 60), (100, 150, 200, 250, 300))
    servers = task.pick((5, 10, 15), (20, 40, 60), (50, 75, 100, 125, 150))
    counts = servers if what == "servers" else jobs

    def measured(count: int, seed: int) -> dict[str, float]:
        setting = _setting(task)
        mine = replace(setting, servers=count) if what == "servers" else replace(setting, jobs=count)
        return measure(mine, seed)

    return task.sweep(counts, measured)


def _rates(setting: Setting, seed: int) -> dict[str, float]:
    work = _drawn(setting, seed)
    srtf = _done(SRTF, setting, seed).mean_time(work)
    return {name: _done(name, setting, seed).mean_time(work) / srtf for name in SCHEMES}


def _judge_rates_by_jobs(data: Data) -> Finding:
    mine = data[ONLINE].mean
    gaps = {name: bool(rises(data[name].mean - mine)) for name in (EDGE, SRTF, TIRESIAS)}
    return _judged_rates(data, {f"by more over {name} at every step": grows for name, grows in gaps.items()})


def _judge_rates_by_servers(data: Data) -> Finding:
    trends = {f"{name} rises with the servers": rises(data[name].mean) for name in (ONLINE, BATCHES)}
    falls = {f"{name} falls with the servers": rises(-data[name].mean) for name in (EDGE, TIRESIAS)}
    return _judged_rates(data, trends | falls)


def _judged_rates(data: Data, trends: Mapping[str, bool]) -> Finding:
    mine = data[ONLINE].mean
    less = 1 - mine / np.min([data[name].mean for name in (SRTF, TIRESIAS, BATCHES)], axis=0)
    ahead = lead(data[ONLINE], [data[name] for name in (EDGE, SRTF, TIRESIAS, BATCHES)], lower=True)
    edge = lead(data[EDGE], [data[name] for name in (SRTF, TIRESIAS)], lower=True)
    words = ", ".join(f"{name} {listed(data[name].mean)}" for name in (JOBMAX, TIRESIAS, BATCHES))
    return found(
        f"of the time under SRTF: A_online {listed(mine)} ({ahead}), without a cloud {listed(data[EDGE].mean)} "
        f"({edge}), {words}; A_online is {less.min():.0%} to {less.max():.0%} below the best other",
        direction={
            "A_online below all others at every point": ahead.everywhere,
            "without a cloud below SRTF and Tiresias-L at every point": edge.everywhere,
        },
        size={f"{100 * LESS:.0f} % below the best other at some point": bool(less.max() >= LESS)} | dict(trends),
    )


def _stops(setting: Setting, seed: int) -> dict[str, float]:
    return {name: float(_done(name, setting, seed).preemptions) for name in PREEMPTIVE}


def _judge_stops(data: Data) -> Finding:
    mine, edge, srtf = (data[name].mean for name in (ONLINE, EDGE, SRTF))
    words = ", ".join(f"{name} {listed(data[name].mean, 1)}" for name in PREEMPTIVE)
    # With few jobs nobody need be stopped.
    fewer = bool((mine <= edge).all() and mine.sum() < edge.sum())
    return found(
        f"preemptions: {words}",
        direction={"fewer than without a cloud, at no point more": fewer},
        size={"more than SRTF at every point": bool((mine > srtf).all())},
    )


def _course(task: Task) -> Data:
    """Shares of workers in use and of jobs complete, in steps until the last scheduler has completed all jobs."""
    setting = _setting(task)
    runs: dict[str, list[Done]] = {name: [] for name in PREEMPTIVE}
    for i, name in enumerate(PREEMPTIVE):
        for seed in task.seeds:
            runs[name].append(_done(name, setting, seed))
            task.progress(i * len(task.seeds) + len(runs[name]), len(PREEMPTIVE) * len(task.seeds))
    end = max(run.makespan for some in runs.values() for run in some)
    edges = np.linspace(0.0, end, STEPS + 1)
    x = tuple(float(edge) for edge in edges[1:])
    works = [_drawn(setting, seed) for seed in task.seeds]
    arrived = [_share([bid.arrival for bid in work.bids], edges) for work in works]
    series = [Series("jobs submitted", x, np.transpose(arrived))]
    for name, some in runs.items():
        busy = [_in_use(run, work, edges) for run, work in zip(some, works, strict=True)]
        complete = [_share(list(run.completion.values()), edges) for run in some]
        series.append(Series(f"{name}, workers in use", x, np.transpose(busy)))
        series.append(Series(f"{name}, jobs complete", x, np.transpose(complete)))
    return Data(tuple(series))


def _share(times: Sequence[float], edges: Floats) -> Floats:
    """Share of times no later than the end of each step."""
    share: Floats = np.searchsorted(np.sort(times), edges[1:] + 1e-9, side="right") / len(times)
    return share


def _in_use(run: Done, work: Workload, edges: Floats) -> Floats:
    """Share of all workers at the edge in use, in the busiest slot of each step."""
    edge = work.at_edge().inventory
    workers = int(edge.capacity[:, : len(edge.workers)].sum())
    slots = np.zeros(int(np.ceil(edges[-1])) + 1)
    slots[: len(run.busy)] = run.busy / workers
    steps = pairwise(edges.tolist())
    busy: Floats = np.array([slots[int(begin) : max(int(begin) + 1, int(np.ceil(end)))].max() for begin, end in steps])
    return busy


def _judge_course(data: Data) -> Finding:
    ends = {name: float(_ends(data[f"{name}, jobs complete"]).mean()) for name in PREEMPTIVE}
    most = {name: float(data[f"{name}, workers in use"].samples.max(axis=0).mean()) for name in PREEMPTIVE}
    ratios = [ends[ONLINE] / ends[name] for name in (SRTF, TIRESIAS)]
    words = ", ".join(f"{name} {share:.1%}" for name, share in most.items())
    return found(
        f"workers in use at most: {words}; makespan of A_online over SRTF's {ratios[0]:.2f}, over Tiresias-L's "
        f"{ratios[1]:.2f}",
        direction={
            "all workers in use at some time, with and without a cloud": min(most[ONLINE], most[EDGE]) >= ALL,
            "never all under SRTF and Tiresias-L": max(most[SRTF], most[TIRESIAS]) < ALL,
            "a shorter makespan than under both": max(ratios) < 1,
        },
        size={
            "makespans within 0.15 of 0.76 and 0.74 times": all(
                abs(ratio - said) <= NEAR for ratio, said in zip(ratios, MAKESPANS, strict=True)
            )
        },
    )


def _ends(complete: Series) -> Floats:
    """The first step of each seed by which all of its jobs are complete."""
    ends: Floats = np.array(complete.x, dtype=np.float64)[np.argmax(complete.samples >= 1.0, axis=0)]
    return ends


def _ratios(task: Task, *, servers: bool) -> Data:
    step = task.pick(2.0, 1.0, 0.5)
    jobs, many = task.pick((3, 5, 7), (5, 10, 15), (5, 10, 15, 20, 25)), task.pick(5, 15, 25)
    counts, there = task.pick((3, 6, 9), (5, 15, 25), (5, 15, 25, 35, 45)), task.pick(6, 15, 25)
    types = task.pick((2, 2), (8, 10), (8, 10))

    def measure(x: int, seed: int) -> dict[str, float]:
        setting = Setting(jobs=many if servers else x, servers=x if servers else there, span=30, types=types)
        work, bound = _drawn(setting, seed), _least(setting, seed, step)
        rows = {speed: competitive_ratios(work, bound, rule="paper", speed=speed) for speed in SPEEDS}
        return {f"epsilon = {float(speed - 1):g}": one.fractional for speed, one in rows.items()} | {
            f"epsilon = {float(speed - 1):g}, time of jobs": one.jct for speed, one in rows.items()
        }

    return task.sweep(counts if servers else jobs, measure)


def _judge_ratios(data: Data) -> Finding:
    means = np.array([one.mean for one in data.series[: len(SPEEDS)]])
    spread = np.ptp(means, axis=1) / means.mean(axis=1)
    jct = data.series[len(SPEEDS)].mean
    return found(
        f"fractional flow over its bound, at most {listed(means.max(axis=1))} at epsilon = 0, 0.2 and 0.5, where it "
        f"varies by {', '.join(f'{share:.0%}' for share in spread)}; time of jobs over its bound at most "
        f"{jct.max():.2f}",
        direction={
            "the smaller the faster the workers, at every point": bool((np.diff(means, axis=0) < 0).all()),
            "varies by at most 15 % at each speed": bool((spread <= NEAR).all()),
        },
        size={
            f"below {MOST} at every point": bool(means.max() < MOST),
            f"at most {CLOSE} at epsilon = 0.5": bool(means[-1].max() <= CLOSE),
        },
    )


def _figure_by(what: str, *, number: str, stops: bool) -> Figure:
    if stops:
        return Figure(
            number,
            f"Preemptions by {what}",
            x=what,
            y="preemptions",
            claim="A_online preempts less than without a cloud, and more than SRTF. No numbers in the text.",
            compute=lambda task: _by(task, what, _stops),
            judge=_judge_stops,
        )
    return Figure(
        number,
        f"Time of jobs over that under SRTF, by {what}",
        x=what,
        y="mean time from arrival to completion, over SRTF's",
        claim="A_online is below all others everywhere, and without a cloud below SRTF and Tiresias-L; by up to 30 % "
        f"(abstract). {TRENDS[what]}",
        compute=lambda task: _by(task, what, _rates),
        judge=_judge_rates_by_jobs if what == "jobs" else _judge_rates_by_servers,
        log=True,
    )


def _ratio_figure(number: str, *, servers: bool) -> Figure:
    what = "servers" if servers else "jobs"
    return Figure(
        number,
        f"Competitive ratio by {what} and speed",
        x=what,
        y="over the bound",
        claim=f"Below 1.7, hardly touched by the number of {what}, the smaller the faster workers are, and close to 1 "
        "at epsilon = 0.5.",
        compute=lambda task: _ratios(task, servers=servers),
        judge=_judge_ratios,
    )


PAPER = Paper(
    key="preemptive",
    title="Preemptive scheduling of distributed machine-learning jobs in edge-cloud networks",
    section="Section V-C",
    figures=(
        _figure_by("jobs", number="7", stops=False),
        _figure_by("servers", number="8", stops=False),
        _figure_by("jobs", number="9", stops=True),
        _figure_by("servers", number="10", stops=True),
        Figure(
            "11",
            "Submissions and workers in use over time",
            x="end of a step, slot (workers in use: the busiest slot of the step)",
            y="share of workers at the edge, of jobs",
            claim="A_online and A_online-E use all workers at times, SRTF and Tiresias-L never; the makespan of "
            "A_online is 0.76 and 0.74 times theirs.",
            compute=_course,
            judge=_judge_course,
        ),
        _ratio_figure("12", servers=False),
        _ratio_figure("13", servers=True),
    ),
)
