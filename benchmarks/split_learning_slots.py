"""`python -m benchmarks.split_learning_slots`: what the length of a slot costs and saves (Fig. 6 of the paper).

The same devices and links of scenario 1, their times rounded up to slots of several lengths; plans by ADMM, as in the
paper, and by the exact method. Makespans are in seconds, so that lengths compare; longer slots round more up and
interrupt less often.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from benchmarks.arguments import count
from scheduling.split_learning.admm import Admm
from scheduling.split_learning.exact import exact
from scheduling.split_learning.method import Method
from studies.split_learning.scenarios import Scenario, draw
from studies.split_learning.timed_run import run

LENGTHS_MS = (25, 50, 100, 150, 200, 400, 800)
METHODS: tuple[Method, ...] = (Admm(), exact)
SIZES = ((10, 2), (30, 5), (50, 10))


def table(model: str, seeds: range, seconds: float) -> Iterator[str]:
    """A line a size and length."""
    yield f"{model:>10} {'slot, ms':>9} {'admm, s':>9} {'its ms':>7} {'exact, s':>9} {'its ms':>7}"
    for clients, helpers in SIZES:
        for length in LENGTHS_MS:
            scenario = replace(Scenario(1, model, clients, helpers), slot_ms=length)
            rows = [[_measured(scenario, method, seed, seconds) for method in METHODS] for seed in seeds]
            (admm, its), (exactly, own) = np.mean(rows, axis=0).tolist()
            line = f"{clients:>5} x {helpers:>2} {length:>9} {admm:9.2f} {1000 * its:7.0f}"
            yield f"{line} {exactly:9.2f} {1000 * own:7.0f}"


def _measured(scenario: Scenario, method: Method, seed: int, seconds: float) -> tuple[float, float]:
    """Makespan and the time it took to find, seconds."""
    instance = draw(scenario, np.random.default_rng(seed))
    found = run(method, instance, seconds=seconds, seed=seed)
    return found.makespan * instance.slot_ms / 1000, found.seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.split_learning_slots", description=__doc__)
    parser.add_argument("--seeds", type=count, default=5, help="instances drawn for each size")
    parser.add_argument("--seconds", type=float, default=20.0, help="budget of each plan")
    arguments = parser.parse_args()
    # The first call compiles.
    for method in METHODS:
        _measured(Scenario(1, "vgg19", 3, 2), method, 0, 1.0)
    for model in ("resnet101", "vgg19"):
        for line in table(model, range(1, 1 + arguments.seeds), arguments.seconds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
