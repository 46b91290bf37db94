import math
from dataclasses import replace

import numpy as np
import pytest

from scheduling.best_response.base import slots_ahead
from scheduling.model.errors import InvalidField
from scheduling.pricing import price_function
from scheduling.pricing.price_function import LARGEST_LOG, LONGEST_DISCOUNT, PriceFunction, eta_prices, reserve_prices
from tests.draws import fresh_seed, rounds
from tests.scheduling.twins.prices_slow import all_prices, random_reserve_prices

CAPACITY = np.array([[4, 0]])


def test_printed_prices_start_at_nothing_and_end_at_eta_less_one() -> None:
    prices = eta_prices([16.0, 16.0]).of(np.array([[[0, 0]], [[2, 0]], [[4, 0]]]), CAPACITY, slots_ahead(3))
    assert prices[:, 0, 0] == pytest.approx([0.0, 3.0, 15.0])


def test_what_has_no_capacity_has_no_price() -> None:
    function = reserve_prices([2.0, 2.0], [8.0, 8.0], discounted_slots=2, per_slot_ahead=[1.0, 1.0])
    assert function.of(np.zeros((3, 1, 2), dtype=np.int64), CAPACITY, slots_ahead(3))[:, 0, 1].max() == 0


def test_reserve_prices_start_at_low_and_end_at_high() -> None:
    function = reserve_prices([2.0, 2.0], [8.0, 8.0])
    prices = function.of(np.array([[[0, 0]], [[2, 0]], [[4, 0]]]), CAPACITY, slots_ahead(3))
    assert prices[:, 0, 0] == pytest.approx([2.0, 4.0, 8.0])


def test_an_idle_slot_is_cheaper_the_nearer_it_is_and_a_full_one_is_not() -> None:
    function = reserve_prices([2.0], [8.0], discounted_slots=4)
    capacity = np.array([[4]])
    idle = function.of(np.zeros((6, 1, 1), np.int64), capacity, slots_ahead(6))
    full = function.of(np.full((6, 1, 1), 4), capacity, slots_ahead(6))
    assert idle[:, 0, 0] == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0, 2.0])
    assert full[:, 0, 0] == pytest.approx([8.0] * 6)


def test_each_slot_ahead_adds_the_same() -> None:
    function = reserve_prices([2.0], [8.0], per_slot_ahead=[0.25])
    prices = function.of(np.zeros((3, 1, 1), np.int64), np.array([[4]]), slots_ahead(3))
    assert prices[:, 0, 0] == pytest.approx([2.0, 2.25, 2.5])


@pytest.mark.parametrize("block", [1, 20, price_function.BLOCK])
def test_prices_equal_those_of_the_formula_unit_by_unit(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(price_function, "BLOCK", block)
    seed = fresh_seed()
    for case in range(rounds(40)):
        rng = np.random.default_rng([seed, case])
        slots, servers, resources = (int(n) for n in rng.integers(1, (16, 4, 4)))
        function = random_reserve_prices(rng, resources, high=float(rng.choice([1.0, 30.0, 1e6])))
        capacity = rng.integers(0, 6, (servers, resources))
        used = rng.integers(0, capacity + 1, (slots, servers, resources))
        slow, where = all_prices(function, used, capacity), f"seed {[seed, case]}"
        prices = function.of(used, capacity, slots_ahead(slots))
        assert prices == pytest.approx(slow, rel=1e-12), where
        # Some cells only, as the kernels ask for them.
        t, s = rng.integers(0, slots, 5), rng.integers(0, servers, 5)
        assert np.array_equal(function.of(used[t, s], capacity[s], t), prices[t, s]), where
        some = np.flatnonzero(rng.random(slots) < 0.5)
        assert np.array_equal(function.of(used[some], capacity, some[:, np.newaxis]), prices[some]), where
        more = np.minimum(used + 1, capacity)
        assert (function.of(more, capacity, slots_ahead(slots)) >= prices * (1 - 1e-12)).all(), where
        same = np.repeat(used[:1], slots, axis=0)
        assert (np.diff(function.of(same, capacity, slots_ahead(slots)), axis=0) >= -1e-12).all(), where


def test_a_receipt_states_the_terms_that_are_in_effect_and_no_others() -> None:
    plain = reserve_prices([2.0], [8.0]).to_json()
    assert sorted(plain) == ["log_growth", "log_scale", "name", "offset"]
    assert reserve_prices([2.0], [8.0], discounted_slots=1, per_slot_ahead=[0.0]).to_json() == plain
    both = reserve_prices([2.0], [8.0], discounted_slots=3, per_slot_ahead=[0.5]).to_json()
    assert both == plain | {"discounted_slots": 3, "per_slot_ahead": [0.5]}


def test_terms_that_would_make_a_price_negative_or_of_the_wrong_length_are_refused() -> None:
    with pytest.raises(InvalidField, match="discounted_slots"):
        PriceFunction("x", (0.0,), (1.0,), (1,), discounted_slots=3)
    with pytest.raises(InvalidField, match="discounted_slots"):
        PriceFunction("x", (0.0,), (1.0,), (0,), discounted_slots=-1)
    with pytest.raises(InvalidField, match="per_slot_ahead"):
        PriceFunction("x", (0.0,), (1.0,), (0,), per_slot_ahead=(1.0, 1.0))
    with pytest.raises(InvalidField, match="per_slot_ahead"):
        PriceFunction("x", (0.0,), (1.0,), (0,), per_slot_ahead=(-1.0,))
    with pytest.raises(InvalidField, match="per_slot_ahead"):
        PriceFunction("x", (0.0,), (1.0,), (0,), per_slot_ahead=(math.inf,))


def test_each_resource_has_the_form_of_its_own_offset() -> None:
    function = PriceFunction(name="x", log_scale=(0.0, 0.0), log_growth=(np.log(9.0),) * 2, offset=(1, 0))
    prices = function.of(np.array([[0, 0], [2, 2], [4, 4]]), np.array([[4, 4]]), np.zeros(3, int))
    assert prices == pytest.approx(np.array([[0, 1], [2, 3], [8, 9]]))


def test_a_tiny_eta_keeps_its_digits() -> None:
    prices = eta_prices([1 + 1e-12]).of(np.array([[1]]), np.array([[1]]), np.zeros(1, int))
    assert prices[0, 0] == pytest.approx(1e-12, rel=1e-3)


@pytest.mark.parametrize(("scale", "growth", "offset"), [(0.0, -1.0, 0), (0.0, 1e6, 0), (-1.0, 1.0, 1), (0.0, 1.0, 2)])
def test_a_function_that_falls_or_overflows_is_refused(scale: float, growth: float, offset: int) -> None:
    with pytest.raises(InvalidField):
        PriceFunction(name="x", log_scale=(scale,), log_growth=(growth,), offset=(offset,))


def test_the_greatest_price_is_allowed_and_none_above_it() -> None:
    PriceFunction(name="x", log_scale=(LARGEST_LOG,), log_growth=(0.0,), offset=(0,))
    with pytest.raises(InvalidField):
        PriceFunction(name="x", log_scale=(np.nextafter(LARGEST_LOG, np.inf),), log_growth=(0.0,), offset=(0,))


def test_the_longest_discount_is_allowed_and_no_longer_one() -> None:
    for function, most in ((reserve_prices([2.0], [8.0]), LONGEST_DISCOUNT), (eta_prices([16.0]), 1)):
        assert replace(function, discounted_slots=most).discounted_slots == most
        with pytest.raises(InvalidField, match=f"discounted_slots: expected 0 to {most}, got {most + 1}"):
            replace(function, discounted_slots=most + 1)


@pytest.mark.parametrize(("slots", "said"), [(0, None), (1, None), (2, 2)])
def test_a_receipt_names_a_discount_that_has_an_effect(slots: int, said: int | None) -> None:
    assert reserve_prices([2.0], [8.0], discounted_slots=slots).to_json().get("discounted_slots") == said
