"""Other parameters of a market on traces. `python -m benchmarks.market_on_traces.variants --set NAME=VALUE`.

Welfare under a policy with other parameters (`--set`) or another rule of standing bids (`--standing`), over that of the
same policy with its defaults, or with the parameters of `--base`, on the same jobs. A row for each family of values and
load has the mean over traces and seeds with half its 95 % interval, the least, the greatest, the number of workloads
that lose over 2 %, and processor time over that of the base. Values are synthetic. Without `--traces` these are the
samples on which defaults are tuned.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from benchmarks.arguments import count
from benchmarks.market_on_traces.cells import placed
from benchmarks.market_on_traces.contenders import Contender
from benchmarks.market_on_traces.workloads import FAMILIES, Source, Workload, make_workload, own_sources, sources
from scheduling.kernels import warm_up_all
from scheduling.model.errors import SchedulingError
from scheduling.model.parameters import read_pairs
from scheduling.policies.standing import rule_for
from scheduling.registry import POLICIES, make_policy
from studies.experiments.metrics import interval
from studies.workloads.simulation.outcome import outcome_of
from studies.workloads.simulation.replay import run_trace

LOADS: Final = (1.0, 2.0, 4.0)
LOSES: Final = 0.98
"""Ratio below which a workload counts as one that loses."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.market_on_traces.variants", description=__doc__)
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="traces to judge by instead of the own samples")
    parser.add_argument("--policy", default="completions", choices=sorted(POLICIES))
    parser.add_argument("--base", nargs="*", default=[], metavar="NAME=VALUE", help="parameters of both sides")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="parameters of the variant alone")
    parser.add_argument("--standing", nargs="*", default=[], metavar="NAME=VALUE", help="its rule of standing bids")
    parser.add_argument("--loads", nargs="*", type=float, default=LOADS)
    parser.add_argument("--jobs", type=count, default=100, help="largest number of jobs of a workload")
    parser.add_argument("--seeds", type=count, default=3, help="windows of each trace, and draws of values")
    options = parser.parse_args()
    warm_up_all()
    try:
        base = contender(options.policy, options.base)
        other = contender(options.policy, options.base, options.set, options.standing)
    except (SchedulingError, TypeError) as error:
        parser.error(str(error))
    found = own_sources() if options.traces is None else sources(options.traces)
    for line in table(found, base, other, loads=options.loads, seeds=options.seeds, jobs=options.jobs):
        print(line, flush=True)


def contender(policy: str, base: Sequence[str], changed: Sequence[str] = (), rule: Sequence[str] = ()) -> Contender:
    """Return a policy with the defaults of standing bids, and what is changed of both."""
    parameters = {**read_pairs("--base", base), **read_pairs("--set", changed)}
    standing = replace(rule_for(make_policy(policy, parameters)), **read_pairs("--standing", rule))
    return Contender(policy, policy, parameters, standing)


def table(
    found: Sequence[Source], base: Contender, other: Contender, *, loads: Sequence[float], seeds: int, jobs: int
) -> Iterator[str]:
    """Yield the rows of a table in Markdown."""
    yield "| values | load | workloads | welfare over the base | least | greatest | lose over 2 % | time |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for family in FAMILIES:
        for load in loads:
            works = [
                make_workload(source, load, family, seed, seeds=seeds, jobs=jobs)
                for source in found
                for seed in range(seeds)
            ]
            rows = [compared(work, base, other) for work in works]
            ratios = [ratio for ratio, _, _ in rows]
            over = interval(ratios)
            if over is None:
                raise ValueError("expected at least one trace and one seed")
            half = "" if over.half is None else f" ± {over.half:.3f}"
            took = sum(second for _, _, second in rows) / sum(first for _, first, _ in rows)
            lose = sum(ratio < LOSES for ratio in ratios)
            yield (
                f"| {family} | {load:g} | {over.n} | {over.mean:.3f}{half} | {min(ratios):.3f} | {max(ratios):.3f} "
                f"| {lose} | {took:.2f} |"
            )


def compared(work: Workload, base: Contender, other: Contender) -> tuple[float, float, float]:
    """Return welfare of the other one over that of the base, and the processor time of both, seconds."""
    (first, first_s), (second, second_s) = (measured(work, one) for one in (base, other))
    return (second / first if first > 0 else 1.0), first_s, second_s


def measured(work: Workload, contender: Contender) -> tuple[float, float]:
    """Return the welfare of one replay and its processor time, seconds."""
    traced, inventory = placed(work, contender)
    began = time.process_time()
    run, _ = run_trace(traced, contender.make(), inventory, work.plan, standing=contender.standing)
    took = time.process_time() - began
    return outcome_of(run, traced, slot_s=work.plan.slot_s).welfare, took


if __name__ == "__main__":
    main()
