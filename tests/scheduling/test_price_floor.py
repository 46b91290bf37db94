"""The lower bound on costs: it never excludes a bid that its best response would admit, and excludes most others."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from scheduling.best_response.price_floor import PriceFloor
from scheduling.book.ledger import Ledger
from scheduling.book.state import Book
from scheduling.model.example import INVENTORY, job
from scheduling.model.inventory import MachineType
from scheduling.model.utility import Constant
from scheduling.policies.dps import Dps
from scheduling.policies.oasis import Oasis
from scheduling.policies.posted_price import grant
from scheduling.pricing.price_function import reserve_prices
from studies.workloads.generated import dps, oasis
from tests.draws import fresh_seed, rounds
from tests.scheduling.test_dps import held

NAMES = ("dps", "oasis", "chunk")


def excluded_and_rejected(name: str, seed: int) -> tuple[int, int]:
    """Return the numbers of statements excluded and rejected; each one that is excluded would be rejected."""
    rng = np.random.default_rng(seed)
    if name == "dps":
        setting = dps.Setting(servers=4, slots=40)
        inventory = dps.draw_inventory(setting, rng)
        bids = [dps.draw_bid(setting, inventory, rng, name=str(i), arrival=i // 3) for i in range(60)]
        policy: Dps | Oasis = Dps(worker_reserve_factor=20.0)
    else:
        drawn = oasis.draw(oasis.Setting(servers=4, slots=40, jobs=60), rng)
        inventory, bids = drawn.inventory, list(drawn.bids)
        policy = Oasis(worker_reserve_factor=20.0, model="worker" if name == "oasis" else "chunk")
    ledger, excluded, rejected = Ledger(inventory, start=0, slots=40), 0, 0
    history: list[tuple[float, ...]] = []
    for number, bid in enumerate(bids):
        ledger.advance(max(ledger.start, bid.arrival))
        past = np.array(history).reshape(-1, len(inventory.resources))
        posted = policy.priced_ledger(Book(ledger.start, ledger, history=past, decided=number))
        for cheaper in (1.0, 0.3, 0.1, 0.01):
            asked = policy.adjusted(replace(bid, utility=bid.utility.scaled(cheaper)))
            granted = grant(asked, posted)
            may = PriceFloor(ledger, posted.prices).may_pay(asked)
            assert may or granted is None, f"seed {seed}, {asked.id}"
            rejected += granted is None
            excluded += not may
            if granted is not None and granted.schedule is not None and cheaper == 1.0:
                ledger.commit(granted.schedule)
        history.append(policy.density(bid, inventory, horizon=ledger.end - bid.arrival))
    return excluded, rejected


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_no_bid_that_is_admitted_is_excluded(name: str) -> None:
    seed = fresh_seed()
    for case in range(rounds(1)):
        excluded_and_rejected(name, seed + case)


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_many_bids_that_are_not_admitted_are_excluded(name: str) -> None:
    excluded, rejected = excluded_and_rejected(name, 0)
    assert excluded > rejected / 4


def test_a_job_that_is_late_or_has_no_room_is_excluded() -> None:
    ledger, prices = Ledger(INVENTORY, start=0, slots=8), reserve_prices([1.0, 1.0], [4.0, 4.0])
    assert PriceFloor(ledger, prices).may_pay(job(4.0))
    assert not PriceFloor(ledger, prices).may_pay(job(2.0))
    ledger.commit(held(start=0, end=7, server=0, count=2))
    # Only the last slot is free: completion at slot 8 is worth the value less 8.
    assert not PriceFloor(ledger, prices).may_pay(job(8.9))
    assert PriceFloor(ledger, prices).may_pay(job(11.0))
    ledger.commit(held(start=7, end=8, server=0, count=2))
    assert not PriceFloor(ledger, prices).may_pay(job(1000.0))


def test_a_type_that_is_cheap_and_slow_and_one_that_is_dear_and_fast_are_no_type_that_is_cheap_and_fast() -> None:
    slow, fast = INVENTORY.workers[0], MachineType("fast", (0, 1), Fraction(100))
    inventory = replace(INVENTORY, workers=(slow, fast))
    floor = PriceFloor(Ledger(inventory, start=0, slots=8), reserve_prices([1.0, 16.0], [1.0, 16.0]))
    bid = replace(job(), worker_time=(Fraction(2), Fraction(1, 4)), transfer_time=(Fraction(0), Fraction(0)))
    # Eight worker-slots of the one cost 8, one of the other costs 16; one of the one would cost 1.
    assert not floor.may_pay(replace(bid, utility=Constant(7.9)))
    assert floor.may_pay(replace(bid, utility=Constant(8.1)))
