"""`python -m benchmarks.split_learning_slots`: what the length of a slot costs and saves (Fig. 6 of the paper).

The same devices and links of scenario 1, their times rounded up to slots of several lengths; plans by ADMM, as in the
paper. The makespan is in seconds, so that lengths compare; longer slots round more up and interrupt less often.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from scheduling.split_learning.admm import Admm
from scheduling.split_learning.method import Step
from studies.split_learning.scenarios import Scenario, draw

LENGTHS_MS = (25, 50, 100, 150, 200, 400, 800)
SIZES = ((10, 2), (30, 5), (50, 10))


def table(model: str, seeds: range, seconds: float) -> Iterator[str]:
    """A line a size and length."""
    yield f"{model:>10} {'slot, ms':>9} {'makespan, s':>12} {'time, ms':>9}"
    for clients, helpers in SIZES:
        for length in LENGTHS_MS:
            scenario = replace(Scenario(1, model, clients, helpers), slot_ms=length)
            makespans, times = [], []
            for seed in seeds:
                began = time.perf_counter()
                step = _last(scenario, seed, seconds)
                times.append(time.perf_counter() - began)
                if step.plan is None:
                    raise RuntimeError(f"no plan for {scenario}")
                makespans.append(step.plan.makespan * length / 1000)
            yield f"{clients:>5} x {helpers:>2} {length:>9} {np.mean(makespans):12.2f} {1000 * np.mean(times):9.0f}"


def _last(scenario: Scenario, seed: int, seconds: float) -> Step:
    ends = time.perf_counter() + seconds
    instance = draw(scenario, np.random.default_rng(seed))
    *_, last = Admm()(instance, left=lambda: ends - time.perf_counter(), rng=np.random.default_rng(seed))
    return last


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.split_learning_slots", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="instances drawn for each size")
    parser.add_argument("--seconds", type=float, default=20.0, help="budget of each plan")
    arguments = parser.parse_args()
    _last(Scenario(1, "vgg19", 3, 2), 0, 1.0)
    for model in ("resnet101", "vgg19"):
        for line in table(model, range(1, 1 + arguments.seeds), arguments.seconds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
