"""`python -m benchmarks.split_learning [--quick]`: how many batches are planned optimally, how soon, on one core.

Instances of the paper's shapes (10 to 100 clients, 2 to 25 helpers, both models and scenarios) are drawn again, stress
instances have times of all sizes and little memory, and the largest have 1,000 clients and 50 helpers. Seconds of one
core; `--cases DIR` measures a folder of instance files instead.
"""

import argparse
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from scheduling.instances.fields import parse_document
from scheduling.split_learning.check import violations
from scheduling.split_learning.document import read_split_learning
from scheduling.split_learning.exact import exact
from scheduling.split_learning.instance import TIMES, Instance
from scheduling.split_learning.method import Step
from scheduling.split_learning.warming import warm_up
from studies.split_learning.scenarios import Scenario, draw

SIZES = ((10, 2), (10, 5), (15, 5), (30, 5), (50, 5), (50, 10), (70, 10), (100, 10), (100, 25))
STRESS = ((10, 2), (20, 4), (30, 5), (50, 10), (100, 10), (200, 20))
LARGEST = ((1, "resnet101"), (1, "vgg19"), (2, "resnet101"), (2, "vgg19"))
"""Scenario and model of 1,000 clients and 50 helpers."""
SOON, BUDGET, LONG = 1.0, 10.0, 60.0
"""Seconds."""
PROVEN_SOON, STRESS_MEAN, STRESS_WORST, LARGE = 0.95, 0.015, 0.04, 0.02


def solve(instance: Instance, seconds: float) -> tuple[Step, float]:
    """The last step and the seconds of the processor it took; a plan that breaks a constraint raises RuntimeError."""
    began = time.process_time()
    steps = list(exact(instance, left=lambda: began + seconds - time.process_time(), rng=np.random.default_rng(0)))
    last = steps[-1]
    took = time.process_time() - began
    if last.plan is None:
        raise RuntimeError("no plan")
    if violations(last.plan):
        raise RuntimeError("; ".join(violations(last.plan)))
    return last, took


def stress(clients: int, helpers: int, *, tight: bool, rng: np.random.Generator) -> Instance:
    """Draw times of all sizes, separately for each client and helper; nearly all memory is needed if `tight`."""
    shape = (helpers, clients)
    sizes = {"release": 40, "forward": 12, "gap": 60, "backward": 18, "tail": 40}
    demand = rng.integers(1, 10, clients)
    room = int(demand.sum() / helpers * (1.08 if tight else 2.0)) + 9
    return Instance(
        **{name: rng.integers(1, sizes[name] + 1, shape) for name in TIMES},
        demand=demand,
        capacity=np.full(helpers, room, dtype=np.int64),
        switch=np.zeros(helpers, dtype=np.int64),
        helpers=tuple(f"helper-{i + 1}" for i in range(helpers)),
        clients=tuple(f"client-{j + 1}" for j in range(clients)),
        slot_ms=1,
    )


def rows(name: str, instances: Sequence[Instance], seconds: float) -> tuple[str, list[float], list[float]]:
    """A line, the gaps and the seconds."""
    solved = [solve(instance, seconds) for instance in instances]
    gaps = [step.gap or 0.0 for step, _ in solved]
    took = [spent for _, spent in solved]
    proven = sum(step.optimal for step, _ in solved)
    line = (
        f"{name:>28} {len(solved):4d} {proven:7d} {np.median(took):8.3f} {max(took):8.2f} {np.mean(gaps):8.2%}"
        f" {max(gaps):8.2%}"
    )
    return line, gaps, took


def tables(*, quick: bool, seed: int, cases: Path | None = None) -> Iterator[str]:
    """The paper's shapes, stress, the largest; each with its limits."""
    warm_up()
    yield "parallel split learning, exact method: seconds of one core"
    yield f"{'':>28} {'n':>4} {'proven':>7} {'median':>8} {'max':>8} {'gap':>8} {'worst':>8}"
    if cases is not None:
        files = sorted(cases.glob("*.json"))
        for kind in (False, True):
            chosen = [path for path in files if path.stem.startswith("stress") == kind]
            read = [read_split_learning(parse_document(path.read_text())) for path in chosen]
            if read:
                line, gaps, took = rows("stress files" if kind else "files", read, BUDGET)
                yield line + verdict(gaps, took, stressed=kind)
        return
    rng = np.random.default_rng(seed)
    sizes = SIZES[::3] if quick else SIZES
    drawn = [draw(Scenario(n, m, j, i), rng) for n in (1, 2) for m in ("resnet101", "vgg19") for j, i in sizes]
    line, gaps, took = rows("the paper's shapes", drawn, BUDGET)
    yield line + verdict(gaps, took, stressed=False)
    hard = [stress(j, i, tight=tight, rng=rng) for tight in (False, True) for j, i in STRESS[: 2 if quick else None]]
    line, gaps, took = rows("stress", hard, BUDGET)
    yield line + verdict(gaps, took, stressed=True)
    for number, model in (
        ((1, "resnet101"),) if quick else ((1, "resnet101"), (1, "vgg19"), (2, "resnet101"), (2, "vgg19"))
    ):
        large = draw(Scenario(number, model, 1000, 50), rng)
        line, gaps, _ = rows(f"1,000 x 50, {model} {number}", [large], BUDGET if quick else LONG)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        kept = "kept" if gaps[0] <= LARGE and memory < 2 else "BROKEN"
        yield f"{line}  gap <= {LARGE:.0%}, {memory:.2f} GB < 2: {kept}"


def verdict(gaps: list[float], took: list[float], *, stressed: bool) -> str:
    """Whether limits were kept."""
    if stressed:
        kept = np.mean(gaps) <= STRESS_MEAN and max(gaps) <= STRESS_WORST
        return f"  gap <= {STRESS_MEAN:.1%} in the mean, {STRESS_WORST:.0%} worst: {'kept' if kept else 'BROKEN'}"
    soon = float(np.mean([gap <= 0 and spent <= SOON for gap, spent in zip(gaps, took, strict=True)]))
    kept = soon >= PROVEN_SOON and max(gaps) <= 0
    return (
        f"  proven in {SOON:g} s: {soon:.1%} >= {PROVEN_SOON:.0%}, all in {BUDGET:g} s: {'kept' if kept else 'BROKEN'}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.split_learning", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=Path, metavar="DIR", help="instance files to measure instead")
    arguments = parser.parse_args()
    for line in tables(quick=arguments.quick, seed=arguments.seed, cases=arguments.cases):
        print(line, flush=True)


if __name__ == "__main__":
    main()
