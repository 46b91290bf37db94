"""A_maxweight alone: the weight complete by a deadline (Figures 8, 11 and 12 of the weighted-completion paper)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from scheduling.batch.consumption import consumption_price, consumptions
from scheduling.batch.maxweight import pack
from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.policies.baselines.jain import pack_right_to_left
from studies.papers.claims import lead, rises
from studies.papers.figure import Data, Figure, Finding, Task, found
from studies.papers.runs import listed
from studies.papers.weighted_completion_comparison import FACTORS, drawn, printed_lambda, setting_of
from studies.workloads.generated.weighted_completion import Setting

MAXWEIGHT, UNPRICED, JAIN = "A_maxweight", "A_maxweight, no price", "Jain et al."
MORE = 0.30
"""Much more, where the paper has no number."""
DEADLINE = 60
"""Slots."""


def _weights(setting: Setting, seed: int, *, factor: float = 1.0) -> dict[str, float]:
    """Weight placed by a deadline common to all, who are there from the start."""
    work = drawn(setting, seed)
    bids = [replace(bid, arrival=0) for bid in work.bids]
    ledger = Ledger(work.inventory, start=0, slots=DEADLINE)
    known = consumptions(bids, ledger)
    ordered = sorted(bids, key=lambda bid: -known[bid.id].density(bid.utility.value))
    lambdas = {MAXWEIGHT: printed_lambda(work, slots=DEADLINE, factor=factor), UNPRICED: 1.0}
    rows = [(bid.utility.value, known[bid.id]) for bid in bids]
    prices = {name: consumption_price(base, rows, work.inventory) for name, base in lambdas.items()}
    placed = {name: set(pack(ordered, ledger, price, [(0, DEADLINE)])) for name, price in prices.items()}
    placed[JAIN] = set(pack_right_to_left(bids, ledger, [(0, DEADLINE)]))
    return {name: _weight(bids, ids) for name, ids in placed.items()}


def _weight(bids: Sequence[Bid], ids: set[str]) -> float:
    return float(sum(bid.utility.value for bid in bids if bid.id in ids))


def _many(task: Task) -> tuple[int, ...]:
    return task.pick((6, 12, 18), (20, 40, 60), (50, 100, 150))


def _by_jobs(task: Task) -> Data:
    setting = setting_of(task)
    return task.sweep(_many(task), lambda jobs, seed: _weights(replace(setting, jobs=jobs), seed))


def _judge_jobs(data: Data) -> Finding:
    over = data[MAXWEIGHT].mean / data[JAIN].mean
    ahead = lead(data[MAXWEIGHT], [data[JAIN]])
    return found(
        f"A_maxweight over Jain et al.: {listed(over)} ({ahead}); without a price "
        f"{listed(data[UNPRICED].mean / data[JAIN].mean)}",
        direction={"more at every number of jobs": ahead.everywhere},
        size={"30 % more at every number of jobs": bool((over >= 1 + MORE).all())},
    )


def _by_weight_bound(task: Task) -> Data:
    setting = setting_of(task)

    def measure(factor: float, seed: int) -> dict[str, float]:
        mine = {jobs: replace(setting, jobs=jobs) for jobs in _many(task)[1:]}
        rows = {jobs: _weights(one, seed, factor=factor) for jobs, one in mine.items()}
        return {f"{jobs} jobs": row[MAXWEIGHT] for jobs, row in rows.items()}

    return task.sweep(FACTORS, measure)


def _judge_weight_bound(data: Data) -> Finding:
    ratios = [float(one.mean[-1] / one.mean[0]) for one in data.series]
    return found(
        f"weight at F times {FACTORS[-1]:g} over that at {FACTORS[0]:g}: {listed(ratios)}",
        direction={"less with the largest F than with the smallest": all(ratio < 1 for ratio in ratios)},
        size={"less at every step": all(rises(-one.mean) for one in data.series)},
    )


def _by_fragments(task: Task) -> Data:
    setting = setting_of(task)
    counts = task.pick((4, 8, 16), (25, 50, 100), (50, 100, 150, 200))

    def measure(servers: int, seed: int) -> dict[str, float]:
        rows = {jobs: _weights(replace(setting, jobs=jobs, servers=servers), seed) for jobs in _many(task)}
        return {f"{jobs} jobs": row[MAXWEIGHT] for jobs, row in rows.items()}

    return task.sweep(counts, measure)


def _judge_fragments(data: Data) -> Finding:
    ratios = [float(one.mean[-1] / one.mean[0]) for one in data.series]
    more = bool((np.diff([one.mean for one in data.series], axis=0) > 0).all())
    return found(
        f"weight with the most servers over that with the fewest: {listed(ratios)}; it "
        f"{'grows' if more else 'does not always grow'} with the jobs",
        direction={
            "less with the most servers than with the fewest, at each number of jobs": all(r < 1 for r in ratios),
            "more weight with more jobs, at each number of servers": more,
        },
        size={"less at every step": all(rises(-one.mean) for one in data.series)},
    )


FIGURES = (
    Figure(
        "8",
        "Total weight of A_maxweight and of the greedy of Jain et al.",
        x="jobs",
        y="weight complete by the deadline",
        claim="A_maxweight has much more. No numbers in the text; taken as at least 30 %.",
        compute=_by_jobs,
        judge=_judge_jobs,
    ),
    Figure(
        "11",
        "Total weight of A_maxweight by F",
        x="F over the actual one",
        y="weight complete by the deadline",
        claim="The smaller F, the more weight. No numbers in the text.",
        compute=_by_weight_bound,
        judge=_judge_weight_bound,
    ),
    Figure(
        "12",
        "Total weight of A_maxweight by servers",
        x="servers that share the same capacity",
        y="weight complete by the deadline",
        claim="More servers for the same capacity, less weight; more jobs, more weight. No numbers in the text.",
        compute=_by_fragments,
        judge=_judge_fragments,
    ),
)
