"""Markets and queues on bids of the DPS paper. `python -m benchmarks.markets_on_generators [--seeds 10] [--seed 30]`.

Edge servers and a cloud with five kinds of workers and of parameter servers each, synthetic bids by the paper's ranges.
Every policy begins with an idle cluster and no past, with its defaults; where bids may stand, they do. The horizon
rolls, and a run goes on until its last job is complete. A row has the sum of what jobs are worth when they are
complete, over that under DPS on the same bids: the mean over seeds with half its 95 % interval, and the least.
"""

import argparse
from collections.abc import Iterator, Sequence

from benchmarks.arguments import count
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.kernels import warm_up_all
from scheduling.model.types import Json
from scheduling.policies.simulation import Simulation
from scheduling.policies.standing import rule_for
from scheduling.registry import make_policy
from studies.experiments.metrics import interval
from studies.papers.learned_prices.comparing import LEARN_FROM
from studies.papers.learned_prices.settings import SETTINGS, Period, Setting, periods

CONTENDERS: dict[str, tuple[str, Json]] = {
    "dps": ("dps", {}),
    "completions": ("completions", {}),
    "before": ("completions", {"beside": False, "each_kind": False}),
    "competition": ("competition", {}),
    "weighted_completion": ("weighted_completion", {}),
    "srtf": ("srtf", {}),
}
"""Policies by the name of their row; others are compared with the first one. *before*: as `completions` was before."""
LAST_HORIZON = 14
"""Horizons after which a run is ended: a bid stands for ten at most, and no job takes more than one."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.markets_on_generators", description=__doc__)
    parser.add_argument("--seeds", type=count, default=10, help="periods for each setting")
    parser.add_argument("--seed", type=int, default=30, help="the first of them")
    parser.add_argument("--setting", help="only settings of this name")
    options = parser.parse_args()
    warm_up_all()
    settings = [one for one in SETTINGS if one.policy == "dps" and options.setting in (None, one.name)]
    for line in table(settings, range(options.seed, options.seed + options.seeds)):
        print(line, flush=True)


def table(settings: Sequence[Setting], seeds: range) -> Iterator[str]:
    """A line for each setting and policy."""
    yield f"{'setting':12} {'policy':20} {'over dps':>15} {'least':>6} {'admitted':>8}"
    for setting in settings:
        base: list[float] = []
        for name, (policy, parameters) in CONTENDERS.items():
            runs = [run(setting, drawn(setting, seed), policy, parameters) for seed in seeds]
            base = base or [worth for worth, _ in runs]
            ratios = [worth / other for (worth, _), other in zip(runs, base, strict=True)]
            over = interval(ratios)
            if over is None:
                raise ValueError("expected at least one seed")
            half = "" if over.half is None else f" +- {over.half:.3f}"
            admitted = sum(count for _, count in runs) / len(runs) / setting.bids
            yield f"{setting.name:12} {name:20} {over.mean:6.3f}{half:>9} {min(ratios):6.2f} {admitted:8.0%}"


def drawn(setting: Setting, seed: int) -> Period:
    """The judged period of `benchmarks.learned_prices` with this seed."""
    return periods(setting, learned=seed + LEARN_FROM, judged=seed)[1]


def run(setting: Setting, period: Period, name: str, parameters: Json) -> tuple[float, int]:
    """Return what the jobs are worth when they are complete, money, and the number of admitted bids.

    Raises
    ------
    RuntimeError
        If jobs are left after `LAST_HORIZON` horizons.
    """
    policy = make_policy(name, parameters)
    going = Simulation(
        policy, RunningBook(Ledger(period.inventory, start=0, slots=setting.horizon)), rule=rule_for(policy)
    )
    for bid in period.bids:
        going.advance(bid.arrival)
        going.arrive(bid)
    going.advance(setting.period + LAST_HORIZON * setting.horizon)
    if going.book.jobs:
        raise RuntimeError(f"{len(going.book.jobs)} jobs are not complete under {name} in {setting.name}")
    done = [(job.bid, job.completion) for job in going.done.values() if job.completion is not None]
    worth = sum(bid.utility.at(completion - bid.arrival) for bid, completion in done)
    return worth, sum(decision.admitted for decision in going.decisions)


if __name__ == "__main__":
    main()
