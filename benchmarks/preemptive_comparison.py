"""`python -m benchmarks.preemptive_comparison`: the default rule against the others on the paper's settings.

Twelve settings, each drawn again from several seeds: numbers of jobs, servers and slots of arrival. Mean time from
arrival to completion, slots. The first column is the rule that a market of the preemptive policy has by default.
studies/papers/preemptive_comparison.py says who the others are; those that run whole slots, here an hour of which a
chunk takes 1 to 174, lose little by rounding.
"""

import argparse
import time
from collections.abc import Iterable, Iterator

import numpy as np

from benchmarks.arguments import count
from scheduling.policies.preemptive import Preemptive
from studies.papers.preemptive_comparison import SCHEDULERS
from studies.workloads.generated.preemptive import Setting, draw

SIZES = ((100, 100), (200, 100), (300, 100), (300, 50), (300, 75), (300, 150))
SETTINGS = tuple(Setting(jobs=jobs, servers=servers, span=span) for span in (300, 100) for jobs, servers in SIZES)

JUDGED = Preemptive().cloud
"""The rule that the policy has by default."""


def compared(only: Iterable[str] | None = None) -> list[str]:
    """Return the judged rule, and then the others: all of them, or those that are named."""
    return [JUDGED, *(name for name in SCHEDULERS if name != JUDGED and name in (only or SCHEDULERS))]


def table(seeds: range, names: list[str]) -> Iterator[str]:
    """A line a setting: mean time of jobs under each, slots; then in how many the first is no worse than each."""
    yield f"{'jobs':>5} {'servers':>7} {'span':>5} " + " ".join(f"{name:>10}" for name in names)
    rows = []
    for setting in SETTINGS:
        drawn = [draw(setting, np.random.default_rng(seed)) for seed in seeds]
        rows.append([np.mean([SCHEDULERS[name](work).mean_time(work) for work in drawn]) for name in names])
        cells = " ".join(f"{value:{max(10, len(name))}.1f}" for name, value in zip(names, rows[-1], strict=True))
        yield f"{setting.jobs:>5} {setting.servers:>7} {setting.span:>5} {cells}"
    means = np.array(rows)
    for i, name in enumerate(names[1:], 1):
        better = int((means[:, 0] <= means[:, i] * (1 + 1e-9)).sum())
        worse = [
            f"{setting.jobs} jobs, {setting.servers} servers, span {setting.span}: {row[0] / row[i] - 1:+.1%}"
            for setting, row in zip(SETTINGS, means, strict=True)
            if row[0] > row[i] * (1 + 1e-9)
        ]
        yield "; ".join([f"{names[0]} no worse than {name} in {better} of {len(SETTINGS)}", *worse])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.preemptive_comparison", description=__doc__)
    parser.add_argument("--seeds", type=count, default=2, help="workloads drawn for each setting")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--only", nargs="*", choices=sorted(SCHEDULERS), help="these, beside the default")
    arguments = parser.parse_args()
    began = time.perf_counter()
    for line in table(range(arguments.seed, arguments.seed + arguments.seeds), compared(arguments.only)):
        print(line, flush=True)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
