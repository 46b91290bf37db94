"""`python -m benchmarks.split_learning_table2`: Table II of the split-learning paper, for every method.

Its twelve rows, each drawn again from several seeds (studies/split_learning/scenarios.py). Suboptimality is against the
greatest bound any method proved, so it is an upper bound where the optimum is not proven; T is Section III's horizon.
nan: refused as too large, and left out of the mean. The integer program begins with a plan that is often optimal, so
its time is not that of the paper's solver.
"""

import argparse
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from benchmarks.arguments import count
from scheduling.split_learning.method import Method
from scheduling.split_learning.methods import METHODS
from scheduling.split_learning.warming import warm_up
from studies.split_learning.measured_networks import KILOBIT_OF_KIB, RELEASED_KILOBIT_OF_KIB
from studies.split_learning.scenarios import TABLE_2, Scenario, draw
from studies.split_learning.timed_run import run

ALL: Mapping[str, Method] = {**METHODS}


def table(rows: Sequence[Scenario], seeds: range, seconds: float, names: list[str]) -> Iterator[str]:
    """A line a row of the paper's table, then means."""
    yield f"{'':>23} {'T':>5} {'bound':>6} {'proven':>6}  " + "  ".join(f"{name + ' %, ms':>17}" for name in names)
    above: list[list[float]] = []
    took: list[list[float]] = []
    for row in rows:
        runs, best, bounds, horizons = [], [], [], []
        for seed in seeds:
            instance = draw(row, np.random.default_rng(seed))
            runs.append([run(ALL[name], instance, seconds=seconds, seed=seed) for name in names])
            bounds.append(max(one.bound for one in runs[-1]))
            best.append(min(one.makespan for one in runs[-1] if one.makespan == one.makespan))
            horizons.append(instance.horizon)
        over = np.array([[one.makespan / bound - 1 for one in some] for some, bound in zip(runs, bounds, strict=True)])
        times = np.array([[one.seconds for one in some] for some in runs])
        above.append(over.mean(axis=0).tolist())
        took.append(times.mean(axis=0).tolist())
        proven = sum(b == m for b, m in zip(bounds, best, strict=True))
        size = f"{row.number} {row.model:>9} {row.clients:>3} x {row.helpers:>2}"
        yield f"{size:>23} {np.mean(horizons):5.0f} {np.mean(bounds):6.1f} {proven:>4}/{len(seeds)}  " + _cells(
            above[-1], took[-1]
        )
    yield f"{'mean':>23} {'':>5} {'':>6} {'':>6}  " + _cells(
        np.nanmean(above, axis=0).tolist(), np.mean(took, axis=0).tolist()
    )


def _cells(above: list[float], seconds: list[float]) -> str:
    return "  ".join(f"{100 * a:7.1f} {1000 * s:9.1f}" for a, s in zip(above, seconds, strict=True))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.split_learning_table2", description=__doc__)
    parser.add_argument("--seeds", type=count, default=3, help="instances drawn for each row")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--seconds", type=float, default=20.0, help="budget of each method and instance")
    parser.add_argument("--only", nargs="*", choices=sorted(ALL), help="these methods")
    parser.add_argument("--released", action="store_true", help="links as fast as the code released with the paper")
    arguments = parser.parse_args()
    names = [name for name in ALL if name in (arguments.only or ALL)]
    began = time.perf_counter()
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    warm_up()
    for method in ALL.values():
        run(method, draw(TABLE_2[3], np.random.default_rng(0)), seconds=1.0, seed=0)
    kilobit = RELEASED_KILOBIT_OF_KIB if arguments.released else KILOBIT_OF_KIB
    rows = [replace(row, kilobit_of_kib=kilobit) for row in TABLE_2]
    for line in table(rows, seeds, arguments.seconds, names):
        print(line, flush=True)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
