"""Comparison of DPS and other policies with the offline optimum (Figures 10 and 11)."""

from dataclasses import replace

import numpy as np

from scheduling.offline import Covers, OfflineProblem
from studies.papers.dps_cases import DRF, FIFO, PAPER_PRICES, SCHEMES, Case, drawn, ran
from studies.papers.figure import Data, Figure, Finding, Task, found
from studies.papers.inputs import remembered
from studies.papers.runs import share_of_best
from studies.workloads.generated.dps import Setting

RATIO = 1.6
"""Largest published ratio of the optimum to DPS's welfare."""
SPREAD = 0.2
"""Largest variation of shares that counts as constant."""
TINY = Setting(servers=4, slots=10, jobs=10, types=1, chunks=(2, 6), epochs=(2, 6), minibatches=(5, 20))


def _tiny(task: Task) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Jobs and servers of the comparisons with the optimum: T = 10, one type of each machine."""
    return task.pick((4, 8), (2, 5, 10), (2, 4, 6, 8, 10)), task.pick((1, 2), (1, 2, 4), (1, 2, 4, 8))


@remembered(256)
def _shares(servers: int, jobs: int, seed: int) -> tuple[float, ...]:
    """Return the share of the optimum of each of SCHEMES."""
    # The paper varies the workload of jobs; those of its simulations would not be complete in ten slots.
    whole = replace(TINY, servers=max(servers, TINY.servers))
    case = Case(whole, servers, jobs)
    _, work = drawn(case, seed)
    welfare = [ran(name, case, seed).welfare for name in SCHEMES]
    problem = OfflineProblem(work.bids, work.inventory, 0, whole.slots, covers=Covers.RIGID, open_end=False)
    return share_of_best(welfare, problem)


def _ratios(task: Task) -> Data:
    jobs, servers = _tiny(task)

    def measure(count: int, seed: int) -> dict[str, float]:
        return {f"{there} servers": _shares(there, count, seed)[SCHEMES.index(PAPER_PRICES)] for there in servers}

    return task.sweep(jobs, measure)


def _judge_ratios(data: Data) -> Finding:
    shares = np.array([one.mean for one in data.series])
    most, mean = 1 / max(float(shares.min()), 1e-9), 1 / max(float(shares.mean()), 1e-9)
    return found(
        f"bound of the optimum over DPS's welfare: {1 / shares.max():.2f} to {most:.2f}, {mean:.2f} in the mean",
        direction={"at most 1.6 in the mean": mean <= RATIO},
        size={"at most 1.6 at every point": most <= RATIO},
    )


def _all_ratios(task: Task) -> Data:
    jobs, servers = _tiny(task)
    cases = {f"{count} jobs, {there} servers": (there, count) for count in jobs for there in servers}
    return task.sweep(list(cases), lambda name, seed: dict(zip(SCHEMES, _shares(*cases[name], seed), strict=True)))


def _judge_all_ratios(data: Data) -> Finding:
    mine = data[PAPER_PRICES].mean
    words = ", ".join(f"{name} {data[name].total:.2f}" for name in SCHEMES)
    before = all(data[PAPER_PRICES].total > data[name].total for name in (FIFO, DRF))
    # Nobody can lead where others have the optimum, too.
    everywhere = all((mine >= data[name].mean - 1e-9).all() for name in (FIFO, DRF))
    return found(
        f"share of the optimum's bound in the mean: {words}; DPS varies by {np.ptp(mine):.2f}",
        direction={
            "closer to the optimum than the others in the mean": before,
            "no further from it than the others at any point": everywhere,
        },
        size={f"varies by at most {SPREAD}": float(np.ptp(mine)) <= SPREAD},
    )


FIGURES = (
    Figure(
        "10",
        "Performance ratio of DPS",
        x="jobs",
        y="welfare over the bound of the offline optimum",
        claim="The optimum is 1 to 1.6 times DPS's welfare.",
        compute=_ratios,
        judge=_judge_ratios,
    ),
    Figure(
        "11",
        "Performance ratio of all schemes by jobs and servers",
        x="jobs and servers",
        y="welfare over the bound of the offline optimum",
        claim="DPS is closer to the optimum than the others, and hardly touched by jobs and servers.",
        compute=_all_ratios,
        judge=_judge_all_ratios,
        bars=True,
    ),
)
