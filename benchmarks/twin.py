"""The exact kernel against the paper's Algorithms 2 to 4 as printed, on markets small enough for the latter."""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from scheduling.best_response.base import slots_ahead
from scheduling.best_response.rigid.kernel import RigidKernel
from scheduling.book.ledger import Ledger
from scheduling.pricing.price_function import eta_prices
from studies.workloads.generated.dps import SMALL, Setting, draw_bid, draw_inventory
from tests.scheduling.twins import dps_paper

SIZES = (SMALL, replace(SMALL, servers=12, slots=60, chunks=(4, 12), epochs=(4, 12)))


def compare(*, decisions: int, seed: int) -> Iterator[str]:
    """One line a size: milliseconds of both, their ratio, and how often the printed algorithms earn less."""
    yield "best response against the paper's Algorithms 2 to 4 as printed (plain Python), same ledgers and prices"
    yield f"{'T':>5} {'S':>5} {'kernel ms':>10} {'printed ms':>11} {'ratio':>8} {'printed earns less':>19}"
    for setting in SIZES:
        ours, theirs, worse = _race(setting, decisions=decisions, seed=seed)
        size = f"{setting.slots:5d} {setting.servers + 1:5d}"
        yield f"{size} {ours:10.2f} {theirs:11.1f} {theirs / ours:7.0f}x {worse:>13d} of {decisions}"


def _race(setting: Setting, *, decisions: int, seed: int) -> tuple[float, float, int]:
    rng = np.random.default_rng(seed)
    inventory = draw_inventory(setting, rng)
    ledger = Ledger(inventory, start=0, slots=setting.slots)
    prices = eta_prices([20.0] * len(inventory.resources))
    market = RigidKernel(ledger, prices)
    ours, theirs, worse = [], [], 0
    for i in range(decisions):
        bid = draw_bid(setting, inventory, rng, name=str(i), arrival=i * setting.slots // (2 * decisions))
        posted = prices.of(ledger.used, inventory.capacity, slots_ahead(len(ledger.used)))
        began = time.thread_time()
        response = market.best(bid)
        between = time.thread_time()
        printed = dps_paper.best_schedule(bid, inventory, start=0, used=ledger.used, prices=posted)
        theirs.append(1e3 * (time.thread_time() - between))
        ours.append(1e3 * (between - began))
        earned = printed.true if printed is not None else 0.0
        if response is not None:
            worse += earned < response.payoff - 1e-9 * response.value
            ledger.commit(response.schedule)
    return float(np.median(ours)), float(np.median(theirs)), worse
