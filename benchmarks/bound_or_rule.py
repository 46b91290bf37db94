"""The shares of bound and rule in the ratio of bound to welfare. `python -m benchmarks.bound_or_rule`.

Ten jobs by the ranges of the DPS and OASiS papers compete for few servers in ten slots, so that the optimum can be
proven. Prices learn from another draw of sixty jobs on the same servers, as in `benchmarks.learned_prices`, and nothing
is worth anything after the last slot. *bound / optimum* is what is lost by the Lagrangian bound, *optimum / welfare*
what is lost by a rule; their product is the ratio that larger settings show.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from time import perf_counter

import numpy as np

from benchmarks.arguments import count
from benchmarks.offline import SLOTS, SMALL_DPS, SMALL_OASIS, small_dps, small_oasis
from scheduling.kernels import warm_up_all
from scheduling.offline import Kind, best_bound, lagrangian
from studies.papers.learned_prices.judging import RULES, judge, lessons
from studies.papers.learned_prices.settings import POLICIES, Period, Setting
from studies.papers.runs import by_end
from studies.workloads.generated import dps, oasis

SECONDS = 60.0


def main() -> None:
    """Print a row for each paper."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bound_or_rule", description=__doc__)
    parser.add_argument("--instances", type=count, default=10, help="instances with a proven optimum, for each paper")
    parser.add_argument("--seed", type=int, default=10, help="of the first instance")
    options = parser.parse_args()
    warm_up_all()
    for line in table(options.instances, options.seed):
        print(line, flush=True)


def table(instances: int, seed: int) -> Iterator[str]:
    """Yield the rows of a table in Markdown: means over instances, and the worst."""
    names = list(RULES)
    yield f"| jobs of | instances | bound / optimum | {' | '.join(f'optimum / {name}' for name in names)} |"
    yield f"| --- | --- | --- |{' --- |' * len(names)}"
    for policy in POLICIES:
        rows: list[tuple[float, ...]] = []
        while len(rows) < instances:
            found = ratios(policy, seed)
            seed += 1
            if found is not None:
                rows.append(found)
        means = (f"{np.mean(column):.2f} ({max(column):.2f})" for column in zip(*rows, strict=True))
        yield f"| {policy} | {len(rows)} | {' | '.join(means)} |"


def ratios(policy: str, seed: int) -> tuple[float, ...] | None:
    """Return bound / optimum, then optimum / welfare of each rule; None if the optimum was not proven, or is 0."""
    rng = np.random.default_rng(seed)
    problem = small_dps(rng) if policy == "dps" else small_oasis(rng)
    if problem is None:
        return None
    until = perf_counter() + SECONDS
    answer = best_bound(problem, lambda: until - perf_counter())
    if answer.kind is not Kind.MILP_OPTIMAL or not answer.incumbent:
        return None
    optimum = answer.incumbent
    setting = Setting("small", policy, 1, horizon=SLOTS, period=SLOTS, bids=len(problem.bids), contended=True)
    now = Period(problem.inventory, by_end(problem.bids, SLOTS))
    past = dps.draw(SMALL_DPS, rng) if policy == "dps" else oasis.draw(SMALL_OASIS, rng)
    # The servers of the judged jobs; in OASiS each job brings machine types of its own.
    before = Period(replace(past.inventory, capacity=problem.inventory.capacity), past.bids)
    bound = lagrangian(problem, lambda: SECONDS).answer.bound
    welfares = []
    for rule in RULES.values():
        pricing = rule(setting, before)
        known = lessons(pricing, before, now, horizon=SLOTS, gap=SLOTS)
        welfares.append(judge(pricing, now, known, horizon=SLOTS).welfare)
    return (bound / optimum, *(optimum / max(welfare, 1e-9) for welfare in welfares))


if __name__ == "__main__":
    main()
