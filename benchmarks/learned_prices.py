"""Welfare under learned prices over welfare under printed prices. `python -m benchmarks.learned_prices`.

Jobs by the DPS paper's settings arrive evenly while the horizon rolls. Printed etas come from 100 bids of an earlier
time, at the most each offered; learned prices from the bids that came before in the same run, starting with none.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from scheduling.dps import Dps
from scheduling.ledger import Ledger
from scheduling.policy import HISTORY, Book
from scheduling.posted_price import Posted, profitable, worth
from scheduling.rigid import RigidMarket, warm_up
from studies.workloads.dps import Setting, draw_bid, draw_inventory

PAST = 100
"""Bids from which the printed etas come."""


@dataclass(frozen=True)
class Load:
    """A market and the bids it gets."""

    setting: Setting
    per_slot: float
    bids: int


SMALL = Setting(servers=20, slots=100)
LOADS = (
    Load(SMALL, 0.2, 100),
    Load(SMALL, 0.6, 150),
    Load(SMALL, 1.5, 250),
    Load(SMALL, 4.0, 400),
    Load(Setting(servers=50, slots=150), 4.0, 500),
)


@dataclass(frozen=True)
class Outcome:
    """What one run came to."""

    welfare: float
    admitted: float
    """Share of the bids."""


def run(load: Load, seed: int, policy: Dps | None) -> Outcome:
    """Decide every bid as `Dps.decide` does, without receipts; no policy means printed prices from earlier bids."""
    rng = np.random.default_rng(seed)
    setting = load.setting
    inventory = draw_inventory(setting, rng)
    earlier = [draw_bid(setting, inventory, rng, name=str(i), arrival=0) for i in range(PAST)]
    if policy is None:
        eta_worker, eta_ps = Dps().printed_etas(earlier, inventory, end=setting.slots)
        policy = Dps(price="printed", eta_worker=eta_worker, eta_ps=eta_ps)
    ledger = Ledger(inventory, start=0, slots=setting.slots)
    history: list[tuple[float, ...]] = []
    welfare, admitted = 0.0, 0
    for i in range(load.bids):
        now = int(i / load.per_slot)
        ledger.advance(now)
        bid = draw_bid(setting, inventory, rng, name=str(i), arrival=now)
        past = np.array(history[-HISTORY:]).reshape(-1, len(inventory.resources))
        prices = policy.price_function(Book(now=now, ledger=ledger, history=past, decided=i))
        kernel = RigidMarket(ledger, prices, policy.tail)
        schedule = profitable(bid, Posted(ledger, prices, kernel, empty=kernel))
        if schedule is not None:
            ledger.commit(schedule)
            welfare += worth(bid, schedule)
            admitted += 1
        history.append(policy.density(bid, inventory, horizon=setting.slots))
    return Outcome(welfare, admitted / load.bids)


def main() -> None:
    """Print one row for each load: welfare ratios over the seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="seeds 10, 11, ...")
    options = parser.parse_args()
    warm_up()
    print("servers  slots  bids/slot   bids  admitted printed learned   welfare learned / printed: mean (least, most)")
    for load in LOADS:
        pairs = [(run(load, 10 + k, None), run(load, 10 + k, Dps())) for k in range(options.seeds)]
        ratios = [learned.welfare / printed.welfare for printed, learned in pairs]
        shares = [float(np.mean([pair[side].admitted for pair in pairs])) for side in (0, 1)]
        print(
            f"{load.setting.servers:7d} {load.setting.slots:6d} {load.per_slot:10.1f} {load.bids:6d}"
            f"{shares[0]:17.0%} {shares[1]:7.0%}   {np.mean(ratios):.2f} ({min(ratios):.2f}, {max(ratios):.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
