"""Prices learned in one period, judged in the next. `python -m benchmarks.learned_prices [--policy oasis] [--rows]`.

For each setting and seed, a period is drawn to learn from and another, from another seed, to be judged by; all rules
start from the same past on the same idle servers. The table says what each rule earns over paper prices, with the
95 % interval over seeds, and how far below the bound it stays; `*` marks settings that miss their target. `--rows`
prints a line of JSON for each run instead.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence

from benchmarks.arguments import count
from benchmarks.market_on_traces.contenders import BEFORE
from scheduling.kernels import warm_up_all
from scheduling.policies.dps import Dps
from scheduling.policies.oasis import Oasis
from studies.papers.learned_prices.comparing import Summary, rows_of, summaries, verdicts
from studies.papers.learned_prices.judging import RULES, Pricing, Rule
from studies.papers.learned_prices.settings import POLICIES, SETTINGS, Period, Setting


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.learned_prices", description=__doc__)
    parser.add_argument("--seeds", type=count, default=10, help="judged periods for each setting")
    parser.add_argument("--seed", type=int, default=10, help="the first of them")
    parser.add_argument("--policy", choices=POLICIES, help="only this one's settings")
    parser.add_argument("--setting", help="only settings of this name")
    parser.add_argument("--before", action="store_true", help="also quantile prices with former defaults")
    parser.add_argument("--rows", action="store_true", help="a line of JSON for each run")
    options = parser.parse_args()
    warm_up_all()
    chosen = [
        setting
        for setting in SETTINGS
        if options.policy in (None, setting.policy) and options.setting in (None, setting.name)
    ]
    seeds = range(options.seed, options.seed + options.seeds)
    rules = {**RULES, "before": before} if options.before else RULES
    for line in lines(chosen, seeds, rules) if options.rows else table(chosen, seeds, rules):
        print(line, flush=True)


def before(setting: Setting, _: Period) -> Pricing:
    """Quantile prices as they were by default before `benchmarks.market_on_traces`."""
    return (Dps if setting.policy == "dps" else Oasis)(**BEFORE[setting.policy])


def lines(settings: Sequence[Setting], seeds: range, rules: Mapping[str, Rule] = RULES) -> Iterator[str]:
    """Each run as a line of JSON."""
    for setting in settings:
        for row in rows_of(setting, seeds, rules):
            yield json.dumps({"policy": setting.policy, **row.to_json()})


def table(settings: Sequence[Setting], seeds: range, rules: Mapping[str, Rule] = RULES) -> Iterator[str]:
    """A line for each setting and rule, then the targets."""
    yield f"{'policy':6} {'setting':12} {'rule':8} {'admitted':>8} {'over paper':>16} {'least':>6} {'bound / it':>10}"
    found: list[Summary] = []
    for setting in settings:
        for one in summaries(setting, list(rows_of(setting, seeds, rules))):
            found.append(one)
            half = "" if one.over_paper.half is None else f" +- {one.over_paper.half:.2f}"
            yield (
                f"{setting.policy:6} {setting.name:12} {one.rule:8} {one.admitted:8.0%}"
                f" {one.over_paper.mean:8.2f}{half:>8} {one.least:6.2f} {one.bound_ratio:10.2f}"
                f"{' *' if one.missed and one.rule != 'paper' else ''}"
            )
    yield from verdicts(found)


if __name__ == "__main__":
    main()
