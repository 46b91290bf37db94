"""A market that changes its price rule within a trace. `python -m benchmarks.market_on_traces.experts [--traces DIR]`.

Experts are DPS with quantile and with fluid prices. Each of them decides all bids on a shadow book of its own, as if it
were the market. The market itself decides each bid, and each turn of standing bids, by the rule whose shadow book has
more welfare so far; before a switch the other rule has to be ahead by a share `margin` of that welfare. Welfare so far
is the sum of the values of completions that were granted, so the market knows it. A shadow book sees the same bids as
the market, and no bid moves what it pays: the choice depends on earlier bids only.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final

from benchmarks.arguments import count
from benchmarks.market_on_traces.workloads import FAMILIES, Source, Workload, make_workload, own_sources, sources
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.kernels import warm_up_all
from scheduling.policies.base import Policy
from scheduling.policies.dps import Dps
from scheduling.policies.simulation import Simulation
from scheduling.policies.standing import StandingRule

RULES: Final = ("quantile", "fluid")
MARGINS: Final = (0.0, 0.1)
LOADS: Final = (1.0, 2.0, 4.0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.market_on_traces.experts", description=__doc__)
    parser.add_argument("--traces", type=Path, metavar="FOLDER", help="traces to judge by instead of the own samples")
    parser.add_argument("--jobs", type=count, default=50, help="largest number of jobs of a workload")
    options = parser.parse_args()
    warm_up_all()
    found = own_sources() if options.traces is None else sources(options.traces)
    for line in table(found, jobs=options.jobs):
        print(line, flush=True)


def table(found: Sequence[Source], *, jobs: int) -> Iterator[str]:
    """Yield a row for each family and load: welfare over that of quantile prices, mean (worst, best)."""
    followers = [f"following, margin {margin:g}" for margin in MARGINS]
    yield f"| values | load | workloads | fluid | better one | {' | '.join(followers)} | switches |"
    yield "|" + " --- |" * (6 + len(MARGINS))
    for family in FAMILIES:
        for load in LOADS:
            rows = [compared(make_workload(source, load, family, 0, seeds=1, jobs=jobs)) for source in found]
            columns = {name: [row[name] for row in rows] for name in rows[0]}
            switches = fmean(columns.pop("switches"))
            texts = (f"{fmean(one):.3f} ({min(one):.3f}, {max(one):.3f})" for one in columns.values())
            yield f"| {family} | {load:g} | {len(rows)} | {' | '.join(texts)} | {switches:.1f} |"


def compared(work: Workload) -> Mapping[str, float]:
    """Return the welfare of other rules over that of quantile prices, and the switches at the first margin."""
    alone = {rule: welfare(followed(work, (rule,), margin=0.0)[0]) for rule in RULES}
    following = [followed(work, RULES, margin=margin) for margin in MARGINS]
    base = max(alone["quantile"], 1e-9)
    return {
        "fluid": alone["fluid"] / base,
        "better": max(alone.values()) / base,
        **{f"{margin:g}": welfare(run) / base for margin, (run, _) in zip(MARGINS, following, strict=True)},
        "switches": float(following[0][1]),
    }


def followed(work: Workload, rules: Sequence[str], *, margin: float) -> tuple[Simulation, int]:
    """Run the market that follows the best of these rules so far; return it with its number of switches.

    With one rule this is the market with that rule.
    """
    market = _market(work, Dps(price=rules[0]))
    shadows = [_market(work, Dps(price=rule)) for rule in rules] if len(rules) > 1 else []
    leader, switches = 0, 0
    for bid in work.traced.bids:
        for run in (*shadows, market):
            run.advance(bid.arrival)
        for run in (*shadows, market):
            run.arrive(bid)
        sums = [welfare(run) for run in shadows]
        if sums and max(sums) > (1.0 + margin) * sums[leader]:
            leader, switches = sums.index(max(sums)), switches + 1
            market.policy = Dps(price=rules[leader])
    market.advance(work.end)
    return market, switches


def welfare(run: Simulation) -> float:
    """Return the values of the completions that were granted so far, money."""
    return sum(decision.value for decision in run.decisions if decision.admitted)


def _market(work: Workload, policy: Policy) -> Simulation:
    ledger = Ledger(work.inventory, start=0, slots=work.plan.horizon)
    return Simulation(policy, RunningBook(ledger), rule=StandingRule())


if __name__ == "__main__":
    main()
