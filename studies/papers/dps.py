"""The figures of the DPS paper that show simulations (Section 6.2.2).

DPS as in the paper: prices eta^(share in use) - 1 with etas from as many jobs of an earlier time. DPS with quantile
prices, our default, is drawn for comparison. FIFO gives a job as many workers as it has chunks, as in the paper; the
number is halved until they fit the empty network. DRF is that of `scheduling/baselines`, which is stronger than the
paper's.
"""

from dataclasses import replace

import numpy as np

from studies.papers.claims import lead, never_falls
from studies.papers.dps_cases import DRF, FIFO, PAPER_PRICES, QUANTILE, SCHEMES, Case, ran
from studies.papers.dps_optimum import FIGURES as OPTIMUM
from studies.papers.figure import Data, Figure, Finding, Paper, Series, Task, found
from studies.papers.runs import listed
from studies.workloads.generated.dps import Setting, UtilityForm

LINEAR, INVERSE, SIGMOID = "linear", "inverse", "sigmoid"
VALUE, PAYMENT = "value", "payment"
MORE = {DRF: 0.95, FIFO: 2.59}
"""Shares by which DPS's welfare is more than theirs in the abstract, which does not say where: 0.95 is 95 % more."""
SLOWEST_S = 2.0
"""Upper limit for the time of a decision in the paper's claim."""


def _case(task: Task, utility: str = SIGMOID) -> Case:
    small = Setting(servers=8, slots=40, jobs=24, types=2, chunks=(8, 30))
    whole = task.pick(small, Setting(servers=40, slots=100, jobs=100), Setting(servers=300, slots=150, jobs=250))
    servers, jobs = task.pick((4, 16), (20, 50), (100, 100))
    return Case(replace(whole, utility=UtilityForm(utility)), servers, jobs, cloud=task.pick(5, 3, 1))


def _jobs(task: Task) -> tuple[int, ...]:
    return task.pick((8, 16, 24), (25, 50, 100), (50, 100, 150, 200, 250))


def _servers(task: Task) -> tuple[int, ...]:
    return task.pick((2, 4, 8), (10, 20, 40), (50, 100, 150, 200, 250, 300))


def _by(task: Task, utility: str, *, servers: bool) -> Data:
    case = _case(task, utility)

    def measure(count: int, seed: int) -> dict[str, float]:
        mine = replace(case, servers=count) if servers else replace(case, jobs=count)
        return {name: ran(name, mine, seed).welfare for name in SCHEMES}

    return task.sweep(_servers(task) if servers else _jobs(task), measure)


def _judge_lead(data: Data) -> Finding:
    return _judged(data, grows=False)


def _judge_growing_lead(data: Data) -> Finding:
    return _judged(data, grows=True)


def _judged(data: Data, *, grows: bool) -> Finding:
    mine = data[PAPER_PRICES]
    ahead = lead(mine, [data[FIFO], data[DRF]])
    over = {name: mine.mean / data[name].mean for name in (FIFO, DRF)}
    quantile = data[QUANTILE].total / data[PAPER_PRICES].total
    growth = {"welfare falls at no step": never_falls(mine.mean)} if grows else {}
    reached = {name: bool((mine.mean >= (1 + share) * data[name].mean).any()) for name, share in MORE.items()}
    return found(
        f"DPS over FIFO {listed(over[FIFO])}, over DRF {listed(over[DRF])} ({ahead}); its welfare is "
        f"{listed(mine.mean, 0)}; with quantile prices {quantile:.2f} times that",
        direction={"the most welfare at every point": ahead.everywhere} | growth,
        size={f"{100 * share:.0f} % more than {name} at some point": reached[name] for name, share in MORE.items()},
    )


def _three(task: Task) -> Data:
    def measure(jobs: int, seed: int) -> dict[str, float]:
        runs = {name: ran(PAPER_PRICES, replace(_case(task, name), jobs=jobs), seed) for name in UtilityForm}
        return {name: one.welfare / one.standalone_value for name, one in runs.items()}

    return task.sweep(_jobs(task), measure)


def _judge_three(data: Data) -> Finding:
    grown = {one.name: float(one.mean[-1] / one.mean[0]) for one in data.series}
    ahead = lead(data[INVERSE], [data[LINEAR], data[SIGMOID]])
    words = ", ".join(f"{name} {growth:.2f} times (mean {data[name].total:.1f})" for name, growth in grown.items())
    return found(
        f"over the most that a job of the draw could be worth, from fewest to most jobs: {words}; the inverse utility "
        f"is {ahead}",
        direction={
            "welfare falls at no step under any utility": all(never_falls(one.mean) for one in data.series),
            "the inverse utility grows most": grown[INVERSE] > max(grown[LINEAR], grown[SIGMOID]),
        },
        size={"the inverse utility has the most at every point": ahead.everywhere},
    )


def _payments(task: Task) -> Data:
    """The k-th winner of each seed, for as many as every seed has."""
    runs = []
    for seed in task.seeds:
        runs.append(ran(PAPER_PRICES, _case(task), seed))
        task.progress(len(runs), len(task.seeds))
    count = min(len(one.value) for one in runs)
    x = tuple(range(1, count + 1))
    value, payment = (
        np.array([list(numbers.values())[:count] for numbers in of]).T
        for of in ([one.value for one in runs], [one.payment for one in runs])
    )
    return Data((Series(VALUE, x, value), Series(PAYMENT, x, payment)))


def _judge_payments(data: Data) -> Finding:
    value, payment = data[VALUE].samples, data[PAYMENT].samples
    kept = bool((payment <= value).all())
    return found(
        f"{value.size} winners pay {payment.sum() / value.sum():.1%} of their value in all, "
        f"{(payment / value).max():.1%} at most",
        direction={"no winner pays more than its value": kept},
        size={},
    )


def _times(task: Task) -> Data:
    case = _case(task)
    servers = task.pick((2, 4, 8), (10, 20, 40), (50, 100, 300))

    def measure(jobs: int, seed: int) -> dict[str, float]:
        return {
            f"{count} servers": ran(PAPER_PRICES, replace(case, jobs=jobs, servers=count), seed).decision_s
            for count in servers
        }

    return task.sweep(_jobs(task), measure)


def _judge_times(data: Data) -> Finding:
    slowest = max(float(one.mean.max()) for one in data.series)
    return found(
        f"at most {1000 * slowest:.1f} ms a decision in the mean, its receipt included",
        direction={"less than 2 s in the mean at every point": slowest < SLOWEST_S},
        size={},
    )


def _welfare(number: str, utility: str, *, servers: bool) -> Figure:
    what = "servers" if servers else "jobs"
    # The text says that it grows of Figures 8 and 9 only.
    grows = utility == SIGMOID
    return Figure(
        number,
        f"Social welfare, {utility} utility, by {what}",
        x=what,
        y="social welfare, money",
        claim=f"DPS has the most welfare at every number of {what}{'; it grows with them' if grows else ''}. By 95 % "
        "over DRF and 259 % over FIFO (abstract), up to 200 % over others (Fig. 8).",
        compute=lambda task: _by(task, utility, servers=servers),
        judge=_judge_growing_lead if grows else _judge_lead,
    )


PAPER = Paper(
    key="dps",
    title="DPS: dynamic pricing and scheduling of machine-learning jobs in edge-cloud networks",
    section="Section 6.2.2",
    figures=(
        _welfare("8", SIGMOID, servers=False),
        _welfare("9", SIGMOID, servers=True),
        *OPTIMUM,
        _welfare("12", LINEAR, servers=False),
        _welfare("13", LINEAR, servers=True),
        _welfare("14", INVERSE, servers=False),
        _welfare("15", INVERSE, servers=True),
        Figure(
            "16",
            "Social welfare of DPS under three utilities",
            x="jobs",
            y="welfare over the most a job could be worth",
            claim="Normalised welfare grows with the jobs; the inverse utility, which counts a job's work too, does "
            "best and keeps growing where the others are saturated. No numbers in the text.",
            compute=_three,
            judge=_judge_three,
        ),
        Figure(
            "17",
            "Value and payment of winning bids",
            x="winner, in order of admission",
            y="money",
            claim="No winner pays more than its value.",
            compute=_payments,
            judge=_judge_payments,
            bars=True,
        ),
        Figure(
            "18",
            "Time of a decision",
            x="jobs",
            y="processor time of a decision, s",
            claim="Less than 2 s in the mean.",
            compute=_times,
            judge=_judge_times,
            timed=True,
        ),
    ),
)
