import numpy as np
import pytest

from scheduling.model.errors import InvalidField
from scheduling.pricing.price_function import LARGEST_LOG, PriceFunction, eta_prices, reserve_prices

CAPACITY = np.array([[4, 0]])


def test_printed_prices_start_at_nothing_and_end_at_eta_less_one() -> None:
    prices = eta_prices([16.0, 16.0]).of(np.array([[[0, 0]], [[2, 0]], [[4, 0]]]), CAPACITY)
    assert prices[:, 0, 0] == pytest.approx([0.0, 3.0, 15.0])


def test_what_has_no_capacity_has_no_price() -> None:
    assert reserve_prices([2.0, 2.0], [8.0, 8.0]).of(np.zeros((3, 1, 2), dtype=np.int64), CAPACITY)[:, 0, 1].max() == 0


def test_reserve_prices_start_at_low_and_end_at_high() -> None:
    prices = reserve_prices([2.0, 2.0], [8.0, 8.0]).of(np.array([[[0, 0]], [[2, 0]], [[4, 0]]]), CAPACITY)
    assert prices[:, 0, 0] == pytest.approx([2.0, 4.0, 8.0])


def test_each_resource_has_the_form_of_its_own_offset() -> None:
    function = PriceFunction(name="x", log_scale=(0.0, 0.0), log_growth=(np.log(9.0),) * 2, offset=(1, 0))
    prices = function.of(np.array([[0, 0], [2, 2], [4, 4]]), np.array([[4, 4]]))
    assert prices == pytest.approx(np.array([[0, 1], [2, 3], [8, 9]]))


def test_a_tiny_eta_keeps_its_digits() -> None:
    prices = eta_prices([1 + 1e-12]).of(np.array([[1]]), np.array([[1]]))
    assert prices[0, 0] == pytest.approx(1e-12, rel=1e-3)


@pytest.mark.parametrize(("scale", "growth", "offset"), [(0.0, -1.0, 0), (0.0, 1e6, 0), (-1.0, 1.0, 1), (0.0, 1.0, 2)])
def test_a_function_that_falls_or_overflows_is_refused(scale: float, growth: float, offset: int) -> None:
    with pytest.raises(InvalidField):
        PriceFunction(name="x", log_scale=(scale,), log_growth=(growth,), offset=(offset,))


def test_the_greatest_price_is_allowed_and_none_above_it() -> None:
    PriceFunction(name="x", log_scale=(LARGEST_LOG,), log_growth=(0.0,), offset=(0,))
    with pytest.raises(InvalidField):
        PriceFunction(name="x", log_scale=(np.nextafter(LARGEST_LOG, np.inf),), log_growth=(0.0,), offset=(0,))
