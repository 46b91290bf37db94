"""`python -m benchmarks.preemptive_open`: how much of what is open between jobmax and a lower bound marginal closes.

Mean time from arrival to completion on settings of the paper, slots, drawn from several seeds. *bound*:
scheduling/offline/job_bounds.py; no schedule without migration is below it. *closed*: (jobmax - marginal) /
(jobmax - bound), sums over seeds, with a 95 % interval (bootstrap over seeds). Tiresias-L with a cloud migrates.
"""

import argparse
from collections.abc import Iterator

import numpy as np

from benchmarks.arguments import count
from benchmarks.preemptive_comparison import SETTINGS
from scheduling.model.types import Floats
from scheduling.offline.job_bounds import least_jct
from studies.papers.preemptive_comparison import SCHEDULERS
from studies.workloads.generated.preemptive import draw

NAMES = ("jobmax", "marginal")
MIGRATES = "tiresias-l+cloud"
DRAWS = 10_000


def table(settings: list[int], seeds: range, *, migrating: bool) -> Iterator[str]:
    """A line for each setting, then all of them."""
    names = (*NAMES, *([MIGRATES] if migrating else []))
    yield f"{'jobs':>4} {'servers':>7} {'span':>4} {'bound':>7} " + " ".join(f"{n:>8}" for n in names) + "  closed"
    every = []
    for i in settings:
        rows = []
        for seed in seeds:
            work = draw(SETTINGS[i], np.random.default_rng(seed))
            bound = least_jct(work.bids, work.inventory) / len(work.bids)
            rows.append([bound, *(SCHEDULERS[name](work).mean_time(work) for name in names)])
        times = np.array(rows)
        every.append(times)
        cells = " ".join(
            f"{mean:{max(8, len(name))}.3f}" for name, mean in zip(names, times.mean(axis=0)[1:], strict=True)
        )
        setting = SETTINGS[i]
        where = f"{setting.jobs:>4} {setting.servers:>7} {setting.span:>4}"
        yield f"{where} {times[:, 0].mean():7.3f} {cells}  {closed(times)}"
    if len(every) > 1:
        yield f"all of these: {closed(np.mean(every, axis=0))} closed"


def closed(times: Floats) -> str:
    """The share that is closed, with its interval; rows are seeds, columns bound, jobmax and marginal."""
    rng = np.random.default_rng(0)
    drawn = times[rng.integers(0, len(times), (DRAWS, len(times)))].sum(axis=1)
    shares = [
        (all_of[:, 1] - all_of[:, 2]) / (all_of[:, 1] - all_of[:, 0]) for all_of in (times.sum(axis=0)[None], drawn)
    ]
    low, high = np.quantile(shares[1], (0.025, 0.975))
    return f"{shares[0][0]:.0%} [{low:.0%}, {high:.0%}]"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.preemptive_open", description=__doc__)
    parser.add_argument("--seeds", type=count, default=10, help="workloads drawn for each setting")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--settings", type=int, nargs="*", default=range(len(SETTINGS)), help="numbers, from 0; all")
    parser.add_argument("--migrating", action="store_true", help="Tiresias-L with a cloud too, which takes longer")
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    for line in table(list(arguments.settings), seeds, migrating=arguments.migrating):
        print(line, flush=True)


if __name__ == "__main__":
    main()
