"""Fluid prices: duals of small problems that can be done by hand, and what moves them."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.optimize import linprog

from scheduling.book.ledger import Ledger
from scheduling.book.state import Book
from scheduling.model.types import Floats
from scheduling.model.utility import Constant
from scheduling.policies.dps import Dps
from scheduling.pricing.fluid import ROUNDS, STRIDE, Flags, solve
from scheduling.pricing.pooling import SMALLEST_OFFER
from tests.scheduling.test_dps import INVENTORY, bid

ONE_EACH = {"workers": np.array([[True, False]]), "pss": np.array([[False, True]])}


def book(
    rows: Sequence[Sequence[float]], *, standalone_value: float = 10.0, slots: Sequence[int] = (), now: int = 0
) -> Book:
    return Book(
        now,
        Ledger(INVENTORY, start=now, slots=8),
        history=np.array(rows, dtype=np.float64).reshape(-1, 2),
        decided=len(rows),
        slots=np.array(slots or [now] * len(rows), dtype=np.int64),
        standalone_values=np.full(len(rows), standalone_value),
    )


def test_the_price_parts_those_who_fit_from_those_who_do_not() -> None:
    # Ten bids of 10 unit-slots each, at 1 to 10 money a unit-slot; 35 unit-slots are enough for three and a half.
    offers = np.arange(1.0, 11.0)
    rows = np.stack([offers, np.full(10, 1e6)], axis=1)
    prices = solve(rows, 10 * offers, np.array([35.0, 1e9]), **ONE_EACH)
    assert prices[0] == pytest.approx(7.0, rel=2e-3)
    assert prices[1] < 0.01


def test_what_suffices_costs_next_to_nothing() -> None:
    rows = np.array([[3.0, 2.0], [5.0, 1.0]])
    prices = solve(rows, np.array([30.0, 50.0]), np.array([30.0, 100.0]), **ONE_EACH)
    assert (prices < 1e-3).all()


@pytest.mark.parametrize("seed", range(5))
def test_prices_prove_nearly_the_optimum_of_the_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, standalone_values = rng.uniform(0.5, 5.0, (60, 3)), rng.uniform(1.0, 9.0, 60)
    capacity = np.array([30.0, 40.0, 20.0])
    kinds = {"workers": np.array([[True, True, False]]), "pss": np.array([[False, False, True]])}
    takes = standalone_values[:, np.newaxis] / rows
    best = linprog(-standalone_values, A_ub=takes.T, b_ub=capacity, bounds=(0, 1))
    prices = solve(rows, standalone_values, capacity, **kinds)
    proved = dual_value(prices, takes, standalone_values, capacity)
    assert best.fun is not None
    assert proved == pytest.approx(-best.fun, rel=2e-3)
    assert proved >= -best.fun * (1 - 1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(5))
def test_the_kernel_agrees_with_its_plain_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    bids, resources = int(rng.integers(1, 10)), 5
    rows = rng.uniform(0.5, 5.0, (bids, resources)) * (rng.random((bids, resources)) < 0.8)
    standalone_values, capacity = rng.uniform(0.0, 9.0, bids), rng.uniform(0.0, 3.0 * bids, resources)
    capacity[seed % resources] = 0.0
    kinds = {
        "workers": np.array([[True, False, False, False, False], [True, True, False, False, False]]),
        "pss": np.array([[False, True, True, False, False], [False, False, False, True, False]]),
    }
    found = solve(rows, standalone_values, capacity, **kinds)
    assert found == pytest.approx(solve_plainly(rows, standalone_values, capacity, **kinds), rel=1e-9)


def solve_plainly(rows: Floats, standalone_values: Floats, capacity: Floats, *, workers: Flags, pss: Flags) -> Floats:
    """`solve` for one bid after another, each kind of machine tried in turn."""
    bids = [
        n for n in range(len(rows)) if standalone_values[n] > 0 and usable(rows[n], workers) and usable(rows[n], pss)
    ]
    solved = np.zeros(rows.shape[1])
    if not bids:
        return solved
    paying = rows[bids]
    typical = np.array([np.median(column[column > 0]) if (column > 0).any() else 0.0 for column in paying.T])
    prices = typical / rows.shape[1]
    for turn in range(1, ROUNDS + 1):
        demand = np.zeros(rows.shape[1])
        for n in bids:
            asked = np.divide(prices, rows[n], out=np.zeros_like(prices), where=rows[n] > 0)
            chosen = [
                min(usable(rows[n], kinds), key=lambda kind: float(asked[kind].sum())) for kinds in (workers, pss)
            ]
            if sum(float(asked[kind].sum()) for kind in chosen) < 1.0:
                for kind in chosen:
                    demand[kind] += standalone_values[n] / rows[n][kind]
        load = np.divide(demand, capacity, out=np.zeros_like(demand), where=capacity > 0)
        prices = prices * np.exp(np.clip(load - 1.0, -1.0, 2.0) * STRIDE / math.sqrt(turn))
        prices = np.maximum(prices, SMALLEST_OFFER * typical)
        if 2 * turn > ROUNDS:
            solved += prices
    return solved / (ROUNDS - ROUNDS // 2)


def usable(row: Floats, kinds: Flags) -> list[Flags]:
    """The kinds of machines that a bid has a density for all of, and for no larger one."""
    able = [kind for kind in kinds if (row[kind] > 0).all()]
    return [kind for kind in able if not any((kind <= other).all() and (kind != other).any() for other in able)]


def dual_value(prices: Floats, takes: Floats, standalone_values: Floats, capacity: Floats) -> float:
    return float(np.maximum(0.0, standalone_values - takes @ prices).sum() + prices @ capacity)


def test_a_bid_uses_the_cheaper_kind_of_machine() -> None:
    # Everybody may use either of two worker types: together they suffice, so neither costs anything.
    rows = np.array([[1.0, 1.0, 1.0]] * 10)
    kinds = {"workers": np.array([[True, False, False], [False, True, False]]), "pss": np.array([[False, False, True]])}
    enough = solve(rows, np.full(10, 1.0), np.array([6.0, 6.0, 100.0]), **kinds)
    assert enough.max() < 1e-3
    short = solve(rows, np.full(10, 1.0), np.array([2.0, 2.0, 100.0]), **kinds)
    assert short[:2] == pytest.approx([1.0, 1.0], rel=0.15)


def test_a_worker_of_a_larger_kind_pays_for_all_it_takes() -> None:
    # GPU and memory, or memory alone: a bid with a density for both is no customer of memory alone.
    kinds = {"workers": np.array([[True, True, False], [False, True, False]]), "pss": np.array([[False, False, True]])}
    rows = np.array([[2.0, 2.0, 2.0]] * 8)
    prices = solve(rows, np.full(8, 2.0), np.array([4.0, 100.0, 100.0]), **kinds)
    assert prices[0] == pytest.approx(2.0, rel=0.01)


def test_those_who_cannot_run_or_pay_teach_nothing() -> None:
    rows = np.array([[0.0, 0.0], [4.0, 0.0], [3.0, 3.0]])
    assert (solve(rows, np.array([0.0, 5.0, 0.0]), np.array([1.0, 1.0]), **ONE_EACH) == 0).all()


def test_prices_follow_the_rate_of_bids() -> None:
    policy, rows = Dps(price="fluid", refit_every=1), [[1.0 + i % 7, 50.0] for i in range(64)]
    crowd = policy.prices(book(rows, slots=[100 - i // 8 for i in range(64)][::-1], now=100))
    lull = policy.prices(book(rows, slots=[100 - 90 + i for i in range(64)], now=100))
    assert crowd[0, 0, 0] > 1.0
    assert lull[0, 0, 0] < 1e-3


def test_prices_stand_still_between_refits_at_the_same_rate() -> None:
    policy, rows = Dps(price="fluid", refit_every=8), [[float(i + 1), 2.0] for i in range(24)]
    functions = [policy.price_function(book(rows[:n])) for n in (16, 17, 18, 24)]
    assert functions[0] == functions[1] == functions[2] != functions[3]


def test_without_a_past_prices_are_the_prior() -> None:
    policy = Dps(price="fluid", initial_low=0.5, initial_high=2)
    assert policy.prices(book([])).max() == pytest.approx(0.5 / np.array(INVENTORY.capacity.sum(axis=0)).min())


@pytest.mark.parametrize("offer", [5e-324, 1e-300, 1e-9, 1e12])
@pytest.mark.parametrize("standalone_value", [5e-324, 1.0, 1e12])
def test_no_past_however_odd_makes_a_price_that_is_not_a_number(offer: float, standalone_value: float) -> None:
    for rows in ([[offer, offer]] * 64, [[offer, 1e12]] * 32 + [[1e12, offer]] * 32):
        prices = Dps(price="fluid", refit_every=1).prices(book(rows, standalone_value=standalone_value))
        assert np.isfinite(prices).all()
        assert (prices > 0).all()


def test_the_past_must_say_when_and_for_how_much() -> None:
    known = Book(0, Ledger(INVENTORY, start=0, slots=8), history=np.ones((40, 2)), decided=40)
    with pytest.raises(ValueError, match="a slot and a standalone value for each of 40"):
        Dps(price="fluid").decide(bid(Constant(1.0)), known)
