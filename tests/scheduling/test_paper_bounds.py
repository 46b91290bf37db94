"""The price bounds that OASiS prints: which bids bound which resource, and by how much."""

import math
from dataclasses import replace
from fractions import Fraction
from typing import Literal

import numpy as np
import pytest

from scheduling.book.ledger import Ledger
from scheduling.book.state import Book
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.utility import Constant, Linear, Sigmoid, Step
from scheduling.policies.dps import Dps
from scheduling.policies.oasis import Oasis
from scheduling.pricing.paper import etas_by_resource, paper_bounds
from tests.scheduling import test_dps
from tests.scheduling.test_oasis import INVENTORY, ONE, bid


def test_the_least_worth_for_a_unit_counts_all_that_a_bid_takes() -> None:
    bids = [bid(Step(9.0, 4.0)), bid(Constant(6.0), epochs=1)]
    bounds = paper_bounds(bids, INVENTORY, start=0, end=4)
    # 6 worker-slots x 1/3 of all GPUs for 9; 3 x 1/3 for 6. The smallest is a quarter of the four slots' GPUs.
    # A PS is half of all vCPUs, and counts with the worker-slots.
    assert bounds.log_low[0] == pytest.approx(math.log(1 / 4 * min(9 / 2, 6 / 1) * (1 / 4) / 3))
    assert bounds.log_low[1] == pytest.approx(math.log(1 / 4 * min(9 / 3, 6 / 1.5) * (1.5 / 4) / 4))
    assert bounds.log_high == pytest.approx((math.log(9.0), math.log(4.5)))


def test_a_resource_is_bounded_by_the_bids_that_can_use_it() -> None:
    kinds = Inventory(
        resources=("old", "new", "vcpu", "spare"),
        servers=("workers", "ps"),
        cloud=(False, False),
        capacity=np.array([[2, 4, 0, 0], [0, 0, 4, 0]], dtype=np.int64),
        workers=(MachineType("old", (1, 0, 0, 0), ONE), MachineType("new", (0, 4, 0, 0), ONE)),
        parameter_servers=(MachineType("ps", (0, 0, 2, 0), ONE),),
    )
    # On old workers its two mini-batches take four slots, on new ones two.
    one = replace(bid(Linear(12.0, 2.0), chunks=1), worker_time=(2 * ONE, ONE), transfer_time=(Fraction(0),) * 2)
    bounds = paper_bounds([replace(one, delay=(0, 0))], kinds, start=0, end=4)
    at_slot_2, at_slot_4 = 12.0 - 4.0, 12.0 - 8.0
    assert np.exp(bounds.log_high[:3]) == pytest.approx([at_slot_4, at_slot_2 / 4, at_slot_2 / 2])
    assert np.isfinite(bounds.log_low).all()
    assert bounds.log_high[3] == bounds.log_low[3], "nobody asks for what nobody has"


def test_the_floor_is_a_millionth_of_what_the_bid_is_worth_at_once() -> None:
    falling = bid(Sigmoid(10.0, 5.0, 3.0), arrival=2)
    bounds = paper_bounds([falling], INVENTORY, start=2, end=200, l_arg="floor")
    at_once = 10.0 / (1 + math.exp(5.0 * (1 - 3.0)))
    volume, everything = 6 / 3, 200 - 2  # in shares of all three GPUs
    floor = at_once * 1e-6 / volume * (volume / everything) / 4 / 3
    assert bounds.log_low[0] == pytest.approx(math.log(floor))


def test_without_a_past_the_priors_are_the_price_of_all_there_is() -> None:
    book = Book(now=0, ledger=Ledger(INVENTORY, start=0, slots=4), history=np.zeros((0, 2)), decided=0)
    new = Oasis(price="paper", initial_low=1.0, initial_high=2.0).price_function(book)
    assert np.exp(new.log_scale) == pytest.approx([1 / 3, 1 / 4])
    assert np.exp(np.add(new.log_scale, new.log_growth)) == pytest.approx([2 / 3, 2 / 4])


def test_the_time_at_which_a_bid_comes_changes_no_bound() -> None:
    later = 5
    at_once = paper_bounds([bid(Step(9.0, 3.0)), bid(Linear(8.0, 1.0))], INVENTORY, start=0, end=6)
    moved = [bid(Step(9.0, 3.0), arrival=later), bid(Linear(8.0, 1.0), arrival=later)]
    assert paper_bounds(moved, INVENTORY, start=later, end=6 + later) == at_once


def test_a_resource_for_which_nobody_offered_has_one_price() -> None:
    two = Inventory(
        resources=("gpu", "memory", "vcpu"),
        servers=("workers", "ps"),
        cloud=(False, False),
        capacity=np.array([[2, 4, 0], [0, 0, 4]], dtype=np.int64),
        workers=(MachineType("worker", (1, 1, 0), ONE),),
        parameter_servers=(MachineType("ps", (0, 0, 2), ONE),),
    )
    offers = np.array([[4.0, 0.0, 2.0]] * 8)
    past = Book(now=0, ledger=Ledger(two, start=0, slots=4), history=offers, decided=len(offers))
    prices = Oasis(price="paper", refit_every=1).price_function(past)
    assert prices.log_growth[0] > 0
    assert prices.log_growth[1] == 0


@pytest.mark.parametrize("demands", [[(1, 1)], [(1, 0), (1, 0)]])
def test_an_eta_for_each_type_needs_a_resource_for_each_type(demands: list[tuple[int, int]]) -> None:
    sharing = Inventory(
        resources=("gpu", "memory"),
        servers=("s",),
        cloud=(False,),
        capacity=np.array([[4, 4]], dtype=np.int64),
        workers=tuple(MachineType(f"w{i}", demand, ONE) for i, demand in enumerate(demands)),
        parameter_servers=(),
    )
    with pytest.raises(InvalidField, match="expected a resource for each machine type with given etas"):
        etas_by_resource((2.0,) * len(demands), (), sharing)


@pytest.mark.parametrize(("chunks", "u_arg", "elapsed"), [(1, "slots", 1), (1, "duration", 2)])
def test_a_job_of_less_than_a_slot_takes_one(chunks: int, u_arg: Literal["slots", "duration"], elapsed: int) -> None:
    short = replace(bid(Linear(12.0, 2.0), chunks=chunks, epochs=1), worker_time=(ONE / 8,), minibatches=1)
    bounds = paper_bounds([short], INVENTORY, start=0, end=4, u_arg=u_arg)
    assert math.exp(bounds.log_high[0]) == pytest.approx(12.0 - 2.0 * elapsed)


def test_a_single_unit_is_priced_by_the_offers_for_it() -> None:
    one = Inventory(
        resources=("gpu", "vcpu"),
        servers=("s",),
        cloud=(False,),
        capacity=np.array([[1, 4]], dtype=np.int64),
        workers=(MachineType("worker", (1, 0), ONE),),
        parameter_servers=(MachineType("ps", (0, 2), ONE),),
    )
    past = Book(now=0, ledger=Ledger(one, start=0, slots=4), history=np.array([[4.0, 2.0]] * 8), decided=8)
    prices = Oasis(price="paper", refit_every=1).price_function(past)
    # A quarter of the smallest offer for all of it, up to the greatest offer.
    assert np.exp(prices.log_scale[0]) == pytest.approx(4.0 / 4)
    assert np.exp(prices.log_scale[0] + prices.log_growth[0]) == pytest.approx(4.0)


def test_etas_of_dps_are_one_above_the_greatest_offers_and_without_one_above_the_prior() -> None:
    past = test_dps.book(history=[[3.0, 0.0]] * 8)
    prices = Dps(price="paper", refit_every=1, initial_high=7.0).price_function(past)
    assert np.exp(prices.log_growth) == pytest.approx([3.0 + 1.0, 7.0 + 1.0])
