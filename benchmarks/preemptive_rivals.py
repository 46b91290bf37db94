"""`python -m benchmarks.preemptive_rivals`: jobmax against the others on the paper's simulation settings.

Twelve settings, each drawn anew from several seeds: numbers of jobs, servers and slots of arrival. Mean time from
arrival to completion, slots. SRTF, Tiresias-L and edge have no cloud, as in the paper. Batches have it: those of the
literal interval scheduler of weighted completion, all weights 1; chained, each as soon as the one before is complete.
As +cloud SRTF and Tiresias-L have it too, with a job's data uploaded everywhere at once, which nobody who sends a chunk
to one worker is allowed. Gangs of both are min(D, workers of the type); they run whole slots, here an hour of which a
chunk takes 1 to 174, so that rounding costs them little.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping

import numpy as np

from scheduling.baselines.srtf import Srtf
from scheduling.baselines.tiresias_l import TiresiasL
from scheduling.ledger import Ledger
from scheduling.policy import Policy
from scheduling.preemptive.dispatch import dispatch
from scheduling.preemptive.queues import Queues
from scheduling.simulation import simulate
from scheduling.weighted_completion import WeightedCompletion
from studies.workloads.preemptive import Setting, Workload, draw

SIZES = ((100, 100), (200, 100), (300, 100), (300, 50), (300, 75), (300, 150))
SETTINGS = tuple(Setting(jobs=jobs, servers=servers, span=span) for span in (300, 100) for jobs, servers in SIZES)
HORIZON = 2000


def queued(rule: str) -> Callable[[Workload], dict[str, float]]:
    """When each job is complete under a rule of dispatch, exact."""

    def run(work: Workload) -> dict[str, float]:
        queues = Queues(work.inventory, now=0)
        done: dict[str, float] = {}
        for bid in work.bids:
            done |= queues.advance(bid.arrival).completed
            sent = dispatch(bid, queues, rule=rule)
            if sent is None:
                raise RuntimeError(f"job {bid.id} has nowhere to go under {rule}")
            sent.send(bid, queues)
        windows = queues.windows()
        done |= {name: window.completion for name, window in windows.items()}
        return {name: tick / queues.ticks for name, tick in done.items()}

    return run


def slotted(policy: Policy, *, cloud: bool) -> Callable[[Workload], dict[str, float]]:
    """When each job is complete under a policy that books slots."""

    def run(work: Workload) -> dict[str, float]:
        there = work if cloud else work.at_edge()
        over = simulate(policy, there.bids, Ledger(there.inventory, start=0, slots=HORIZON), until=20 * HORIZON)
        done = {name: float(job.completion) for name, job in over.done.items() if job.completion is not None}
        if len(done) != len(work.bids):
            raise RuntimeError(f"{policy.name} completed {len(done)} of {len(work.bids)} jobs")
        return done

    return run


RIVALS: Mapping[str, Callable[[Workload], dict[str, float]]] = {
    "jobmax": queued("jobmax"),
    "paper": queued("paper"),
    "edge": queued("edge"),
    "cloud": queued("cloud"),
    "srtf": slotted(Srtf(), cloud=False),
    "tiresias-l": slotted(TiresiasL(), cloud=False),
    "batches": slotted(WeightedCompletion(mode="interval"), cloud=True),
    "chained": slotted(WeightedCompletion(mode="interval", batches="chained"), cloud=True),
    "srtf+cloud": slotted(Srtf(), cloud=True),
    "tiresias-l+cloud": slotted(TiresiasL(), cloud=True),
}


def table(seeds: range, names: list[str]) -> Iterator[str]:
    """A line a setting: mean time of jobs under each, slots; then in how many jobmax is no worse than each."""
    yield f"{'jobs':>5} {'servers':>7} {'span':>5} " + " ".join(f"{name:>10}" for name in names)
    rows = []
    for setting in SETTINGS:
        drawn = [draw(setting, np.random.default_rng(seed)) for seed in seeds]
        rows.append([np.mean([_mean(RIVALS[name](work), work) for work in drawn]) for name in names])
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


def _mean(done: Mapping[str, float], work: Workload) -> float:
    return float(np.mean([done[bid.id] - bid.arrival for bid in work.bids]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.preemptive_rivals", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2, help="workloads drawn for each setting")
    parser.add_argument("--seed", type=int, default=1, help="the first of them")
    parser.add_argument("--only", nargs="*", choices=sorted(RIVALS), help="these, beside jobmax")
    arguments = parser.parse_args()
    names = ["jobmax", *(name for name in RIVALS if name != "jobmax" and name in (arguments.only or RIVALS))]
    began = time.perf_counter()
    for line in table(range(arguments.seed, arguments.seed + arguments.seeds), names):
        print(line, flush=True)
    print(f"{time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
