"""Welfare of OASiS under quantile and under paper prices. `python -m benchmarks.oasis_prices [--sensitivity]`.

Jobs and servers by the paper's settings. Paper bounds come from as many jobs of an earlier time (the paper: past
experience); quantile prices from the bids that came before in the same run, starting with none. The horizon is the
paper's, the same end for all; or, as in a live market, it rolls with the arrivals.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.arguments import count
from scheduling.best_response.elastic.kernel import warm_up
from scheduling.book.ledger import Ledger
from scheduling.book.state import HISTORY, Book
from scheduling.model.decision import counted_offer
from scheduling.model.schedule import Schedule
from scheduling.policies.oasis import Oasis
from scheduling.policies.posted_price import PricedLedger, profitable, value_of
from scheduling.pricing.density import elastic_density
from scheduling.pricing.paper import Bounds, paper_bounds
from studies.workloads.generated.oasis import Setting, draw
from studies.workloads.generated.system import Workload


@dataclass(frozen=True)
class Load:
    """A system, and whether its horizon rolls."""

    setting: Setting
    rolls: bool = False


LOADS = tuple(
    Load(Setting(servers=servers, slots=slots, jobs=jobs), rolls)
    for servers, slots, jobs, rolls in (
        (100, 300, 40, False),
        (50, 300, 40, False),
        (50, 300, 100, False),
        (50, 100, 100, False),
        (50, 100, 200, False),
        (20, 100, 200, False),
        (10, 100, 200, False),
        (100, 100, 40, True),
        (50, 100, 200, True),
        (20, 100, 200, True),
    )
)
SENSITIVITY = (Load(Setting(servers=50, slots=300, jobs=40)), Load(Setting(servers=50, slots=300, jobs=300)))
RATIOS = (0.1, 0.5, 2.0, 10.0)
POWERS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.5)
MakePolicy = Callable[[Bounds], Oasis]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one run."""

    welfare: float
    admitted: int


def paper(bounds: Bounds) -> Oasis:
    """Paper prices with these bounds."""
    return Oasis(price="paper", log_low=bounds.log_low, log_high=bounds.log_high)


def quantile(_: Bounds) -> Oasis:
    """The default policy."""
    return Oasis()


def run(load: Load, seed: int, make: MakePolicy) -> Outcome:
    """Decide every bid as `Oasis.decide` does, without receipts."""
    rng = np.random.default_rng(seed)
    setting, earlier, workload = load.setting, draw(load.setting, rng), draw(load.setting, rng)
    inventory = workload.inventory
    bounds = paper_bounds(earlier.bids, earlier.inventory, start=0, end=setting.slots)
    policy = make(bounds)
    ledger = Ledger(inventory, start=0, slots=setting.slots)
    history: list[tuple[float, ...]] = []
    schedules: list[Schedule] = []
    welfare = 0.0
    for i, bid in enumerate(workload.bids):
        if bid.arrival > ledger.start:
            ledger = _advanced(load, workload, ledger, schedules, bid.arrival)
        past = np.array(history[-HISTORY:]).reshape(-1, len(inventory.resources))
        book = Book(now=bid.arrival, ledger=ledger, history=past, decided=i)
        prices = policy.price_function(book)
        kernel = policy.kernel(ledger, prices)
        schedule = profitable(bid, PricedLedger(ledger, prices, kernel, empty=kernel))
        if schedule is not None:
            ledger.commit(schedule)
            schedules.append(schedule)
            welfare += value_of(bid, schedule)
        offered = elastic_density(bid, inventory, horizon=ledger.end - bid.arrival)
        history.append(counted_offer(offered, 0.0, policy.learning.factors(offered, book))[0])
    return Outcome(welfare, len(schedules))


def _advanced(load: Load, workload: Workload, ledger: Ledger, schedules: list[Schedule], now: int) -> Ledger:
    if load.rolls:
        ledger.advance(now)
        return ledger
    shorter = Ledger(workload.inventory, start=now, slots=load.setting.slots - now)
    shorter.restore(schedules)
    return shorter


def compare(seeds: range) -> None:
    """Print one row for each load: what is admitted, and welfare ratios over the seeds."""
    print("servers  slots  jobs  horizon  admitted   paper quantile  welfare quantile / paper: mean (least, most)")
    for load in LOADS:
        pairs = [(run(load, seed, paper), run(load, seed, quantile)) for seed in seeds]
        ratios = [new.welfare / old.welfare for old, new in pairs]
        shares = [np.mean([pair[side].admitted for pair in pairs]) / load.setting.jobs for side in (0, 1)]
        setting = load.setting
        print(
            f"2 x {setting.servers:3d} {setting.slots:6d} {setting.jobs:5d} {'rolls' if load.rolls else 'ends':>8}"
            f"{shares[0]:17.0%} {shares[1]:7.0%}   {np.mean(ratios):.2f} ({min(ratios):.2f}, {max(ratios):.2f})",
            flush=True,
        )


def sensitivity(seeds: range) -> None:
    """Print welfare with U / L estimated wrongly over that with the paper bounds, as the paper's Fig. 6 does.

    The paper does not say which of the two is wrong: here U is right and L is not.
    """
    sizes = "  ".join(f"{load.setting.jobs} jobs" for load in SENSITIVITY)
    print(f"welfare over that at the estimates themselves, 2 x 50 servers, T = 300: {sizes}")
    right = {(load, seed): run(load, seed, paper).welfare for load in SENSITIVITY for seed in seeds}
    rows = [(f"U / L times {x:g}", _misjudged(ratio=x)) for x in RATIOS]
    rows += [(f"ln(U / L) times {x:g}", _misjudged(power=x)) for x in POWERS]
    rows.append(("quantile prices", quantile))
    for title, make in rows:
        means = [np.mean([run(load, seed, make).welfare / right[load, seed] for seed in seeds]) for load in SENSITIVITY]
        print(f"{title:>20}  " + "  ".join(f"{mean:7.2f}" for mean in means), flush=True)


def _misjudged(*, ratio: float = 1.0, power: float = 1.0) -> MakePolicy:
    return lambda bounds: paper(bounds.misjudged(ratio=ratio, power=power))


def main() -> None:
    """Print one of the two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=count, default=3, help="seeds 10, 11, ...")
    parser.add_argument("--sensitivity", action="store_true", help="wrong estimates of U / L, as in Fig. 6")
    options = parser.parse_args()
    warm_up()
    (sensitivity if options.sensitivity else compare)(range(10, 10 + options.seeds))


if __name__ == "__main__":
    main()
