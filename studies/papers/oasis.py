"""The figures of the OASiS paper that show simulations (Section V-A).

OASiS as in the paper: prices (22) with bounds from as many jobs of an earlier time. With quantile prices, our default,
it is drawn for comparison. FIFO, DRF and RRH are those of `scheduling/policies/baselines`, but with machines placed on
servers in turn, as the paper has it.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from scheduling.model.bid import Bid
from scheduling.offline import Covers, OfflineProblem
from scheduling.policies.base import Policy
from scheduling.policies.baselines.dorm import Dorm
from scheduling.policies.oasis import Oasis
from scheduling.pricing.paper import Bounds, paper_bounds
from studies.papers.claims import NEAR, lead, rises
from studies.papers.figure import Data, Figure, Finding, Paper, Task, found
from studies.papers.inputs import drew, remembered
from studies.papers.round_robin import DrfInTurn, FifoInTurn, RrhInTurn
from studies.papers.runs import Ran, by_end, listed, run, share_of_best
from studies.workloads.generated.oasis import Setting, draw
from studies.workloads.generated.system import Workload

PAPER_PRICES, QUANTILE = "OASiS", "OASiS, quantile prices"
BASELINES: Mapping[str, Policy] = {"FIFO": FifoInTurn(), "DRF": DrfInTurn(), "RRH": RrhInTurn(), "Dorm": Dorm()}
SENSITIVE, CRITICAL = "time-sensitive", "time-critical"
SHARES = (10, 20, 50, 100, 150, 200)
"""Estimates over what is estimated, percent."""
RATIO, POWER = "U / L", "ln(U / L)"
"""The quantity that is estimated wrongly: U / L as in the paper, or its logarithm, because U / L is huge."""
TOPS = (10, 50, 100)
"""Greatest priorities, in Figure 5."""
RATIOS = (1.1, 1.5)
"""Published ratios of the optimum to OASiS's utility."""
AROUND = 0.05
"""A ratio as far from the published range is still `around` it, as the text has it."""
LONGER = 4
"""Horizons that baselines have to complete what they admitted."""
PLENTY, SCARCE = "few jobs", "many jobs"


@remembered(64)
def _drawn(setting: Setting, seed: int, top: int = TOPS[-1]) -> tuple[Bounds, Workload]:
    """Paper bounds of an earlier time, and a workload whose jobs are worth nothing after the end."""
    rng = np.random.default_rng(seed)
    earlier, workload = draw(setting, rng), draw(setting, rng)
    past, bids = ([_up_to(top, bid) for bid in drawn.bids] for drawn in (earlier, workload))
    bounds = paper_bounds(past, earlier.inventory, start=0, end=setting.slots)
    return bounds, drew(replace(workload, bids=by_end(bids, setting.slots)))


def _up_to(top: int, bid: Bid) -> Bid:
    """The bid with its priority, 1 to 100 as drawn, moved to 1 to `top`."""
    value = bid.utility.value
    return replace(bid, utility=bid.utility.scaled((1 + (value - 1) * (top - 1) / (TOPS[-1] - 1)) / value))


def _printed(bounds: Bounds) -> Oasis:
    return Oasis(price="paper", log_low=bounds.log_low, log_high=bounds.log_high)


def _run(policy: Policy, setting: Setting, seed: int) -> Ran:
    _, work = _drawn(setting, seed)
    return run(policy, work.bids, work.inventory, slots=setting.slots, until=setting.slots)


def _schemes(setting: Setting, seed: int) -> dict[str, Policy]:
    bounds, _ = _drawn(setting, seed)
    return {PAPER_PRICES: _printed(bounds), QUANTILE: Oasis(), **BASELINES}


def _utility(task: Task) -> Data:
    setting = task.pick(Setting(servers=20, slots=30), Setting(servers=12, slots=100), Setting(servers=50, slots=300))
    jobs = task.pick((6, 12, 18), (25, 50, 100), (50, 100, 150, 200, 250, 300))

    def measure(count: int, seed: int) -> dict[str, float]:
        mine = replace(setting, jobs=count)
        return {name: _run(policy, mine, seed).welfare for name, policy in _schemes(mine, seed).items()}

    return task.sweep(jobs, measure)


def _judge_utility(data: Data) -> Finding:
    others = data.names(PAPER_PRICES, QUANTILE)
    mine, best = data[PAPER_PRICES].mean, np.max([data[name].mean for name in others], axis=0)
    ahead = lead(data[PAPER_PRICES], [data[name] for name in others])
    return found(
        f"OASiS over the best other, from fewest to most jobs: {listed(mine / best)} ({ahead}); with quantile prices "
        f"{listed(data[QUANTILE].mean / best)}",
        direction={"the most utility at every number of jobs": ahead.everywhere},
        size={"a lead that grows at every step": rises(mine - best)},
    )


def _timeliness(task: Task) -> Data:
    setting = task.pick(
        Setting(servers=20, slots=30, jobs=10), Setting(servers=12, slots=100, jobs=60), Setting(jobs=200)
    )
    setting = replace(setting, kinds=(0.0, 0.5, 0.5))
    names = list(_schemes(setting, task.seeds[0]))

    def measure(name: str, seed: int) -> dict[str, float]:
        _, work = _drawn(setting, seed)
        # Jobs that other policies admitted may complete after the end.
        policy, longer = _schemes(setting, seed)[name], 1 if name in (PAPER_PRICES, QUANTILE) else LONGER
        slots = longer * setting.slots
        return _lateness(run(policy, work.bids, work.inventory, slots=slots, until=longer * slots), work, slots)

    return task.sweep(names, measure)


def _lateness(ran: Ran, work: Workload, slots: int) -> dict[str, float]:
    """Mean and deviation of completion - target of both kinds, slots, over the jobs that were completed.

    A kind of which none was is as late as the horizon is long.
    """
    late: dict[str, list[float]] = {SENSITIVE: [], CRITICAL: []}
    for bid in work.bids:
        if bid.id in ran.completion:
            shape = bid.utility.to_json()
            kind = SENSITIVE if shape["g2"] <= 1 else CRITICAL
            late[kind].append(ran.completion[bid.id] - bid.arrival - shape["g3"])
    rows = {kind: np.array(values or [float(slots)]) for kind, values in late.items()}
    return {kind: float(row.mean()) for kind, row in rows.items()} | {
        f"{kind}, deviation": float(row.std()) for kind, row in rows.items()
    }


def _judge_timeliness(data: Data) -> Finding:
    names = data[SENSITIVE].x
    others = [i for i, name in enumerate(names) if name not in (PAPER_PRICES, QUANTILE)]
    words, closest, steadiest = [], True, True
    for kind in (SENSITIVE, CRITICAL):
        mean, spread = np.abs(data[kind].mean), data[f"{kind}, deviation"].mean
        mine = names.index(PAPER_PRICES)
        closest = closest and bool(mean[mine] <= mean[others].min())
        steadiest = steadiest and bool(spread[mine] <= spread[others].min())
        signed = data[kind].mean
        words.append(
            f"{kind}: {signed[mine]:+.1f} slots (deviation {spread[mine]:.1f}), the best other "
            f"{min(signed[others], key=abs):+.1f} ({spread[others].min():.1f})"
        )
    return found(
        "; ".join(words),
        direction={"closest to the targets of both kinds": closest},
        size={"the least variance of both kinds": steadiest},
    )


def _optimum(task: Task) -> Data:
    setting = Setting(jobs=10, slots=10)

    def measure(servers: int, seed: int) -> dict[str, float]:
        row = {}
        for top in TOPS:
            bounds, work = _drawn(replace(setting, servers=servers), seed, top)
            runs = [
                run(policy, work.bids, work.inventory, slots=setting.slots, until=setting.slots).welfare
                for policy in (_printed(bounds), Oasis())
            ]
            problem = OfflineProblem(work.bids, work.inventory, 0, setting.slots, covers=Covers.ELASTIC, open_end=False)
            for name, share in zip((PAPER_PRICES, QUANTILE), share_of_best(runs, problem), strict=True):
                row[f"{name}, priorities 1 to {top}"] = share
        return row

    return task.sweep(task.pick((5, 15), (5, 10, 20), (10, 20, 30, 40, 50)), measure)


def _judge_optimum(data: Data) -> Finding:
    mine = np.array([one.mean for one in data.series if one.name.startswith(f"{PAPER_PRICES}, pri")])
    quantile = np.array([one.mean for one in data.series if one.name.startswith(QUANTILE)])
    ratios = 1 / np.maximum(mine, 1e-9)
    mean = 1 / max(float(mine.mean()), 1e-9)
    low, high = RATIOS[0] - AROUND, RATIOS[1] + AROUND
    ends = (ratios[:, [0, -1]], ratios[[0, -1]].T)
    trends = [float((np.abs(np.diff(end)) / end.mean(axis=1, keepdims=True)).max()) for end in ends]
    return found(
        f"bound of the optimum over OASiS's utility: {ratios.min():.2f} to {ratios.max():.2f}, {mean:.2f} in the mean; "
        f"it changes by up to {trends[0]:.0%} from fewest to most servers and {trends[1]:.0%} from lowest to highest "
        f"priorities; with quantile prices {1 / quantile.mean():.2f} in the mean",
        direction={"at most around 1.5 in the mean": mean <= high},
        size={
            "around 1.1 to 1.5 at every point": bool((ratios >= low).all() and (ratios <= high).all()),
            "no trend by servers or priorities": max(trends) <= NEAR,
        },
    )


def _misjudged(task: Task) -> Data:
    setting = task.pick(Setting(servers=20, slots=30), Setting(servers=12, slots=100), Setting(servers=50, slots=300))
    few, many = task.pick((6, 24), (20, 100), (40, 300))

    def measure(percent: int, seed: int) -> dict[str, float]:
        row = {}
        for name, jobs in ((PLENTY, few), (SCARCE, many)):
            mine = replace(setting, jobs=jobs)
            bounds = _drawn(mine, seed)[0]
            for factor, wrong in ((RATIO, {"ratio": percent / 100}), (POWER, {"power": percent / 100})):
                row[f"{name}, {factor}"] = _run(_printed(bounds.misjudged(**wrong)), mine, seed).welfare
        return row

    return task.sweep(SHARES, measure)


def _judge_misjudged(data: Data) -> Finding:
    under, over = [i for i, x in enumerate(SHARES) if x < 100], [i for i, x in enumerate(SHARES) if x > 100]

    def gain(name: str) -> float:
        utility = data[name].mean
        return float(utility[under].mean() / utility[over].mean() - 1)

    words = [
        f"{factor} wrong: underestimates {gain(f'{SCARCE}, {factor}'):+.1%} over overestimates where resources are "
        f"scarce, {gain(f'{PLENTY}, {factor}'):+.1%} where they are not"
        for factor in (RATIO, POWER)
    ]
    scarce = data[f"{SCARCE}, {RATIO}"].mean
    return found(
        "; ".join(words),
        direction={"underestimates have more utility in the mean": gain(f"{SCARCE}, {RATIO}") > 0},
        size={
            "every underestimate has more than every overestimate": bool(scarce[under].min() > scarce[over].max()),
            "by more than where resources are not scarce": gain(f"{SCARCE}, {RATIO}") > gain(f"{PLENTY}, {RATIO}"),
        },
    )


PAPER = Paper(
    key="oasis",
    title="OASiS: online job scheduling in distributed machine learning clusters",
    section="Section V-A",
    figures=(
        Figure(
            "3",
            "Total job utility",
            x="jobs",
            y="total utility, money",
            claim="OASiS has the most utility at every number of jobs, and leads by more the more jobs there are. No "
            "numbers in the text.",
            compute=_utility,
            judge=_judge_utility,
        ),
        Figure(
            "4",
            "Completion timeliness",
            x="scheme",
            y="completion - target, slots",
            claim="OASiS ends closest to the targets, of time-sensitive and of time-critical jobs, and with the least "
            "variance. No numbers in the text.",
            compute=_timeliness,
            judge=_judge_timeliness,
            bars=True,
        ),
        Figure(
            "5",
            "Performance ratio",
            x="servers of each pool",
            y="utility over the bound of the offline optimum",
            claim="The optimum is 1.1 to 1.5 times OASiS's utility, with no trend by servers or priorities.",
            compute=_optimum,
            judge=_judge_optimum,
        ),
        Figure(
            "6",
            "Total job utility under wrong estimates of U / L",
            x="estimate, percent of the actual one",
            y="total utility, money",
            claim="Where resources are scarce an underestimate has more utility than an overestimate. No numbers in "
            "the text.",
            compute=_misjudged,
            judge=_judge_misjudged,
        ),
    ),
)
