"""Prices that depend on how far ahead a slot is: one unit at a time, by the formula as it is written down."""

import numpy as np

from scheduling.model.types import Floats, Ints
from scheduling.pricing.price_function import PriceFunction, reserve_prices


def unit_price(
    low: float, high: float, used: int, capacity: int, ahead: int, *, discounted_slots: int, per_slot_ahead: float
) -> float:
    """The price of one unit in the slot `ahead` slots ahead: `L(l) (U / L(l))^(q/C)`, and what each slot ahead adds."""
    if capacity == 0:
        return 0.0
    idle = low * (ahead + 1) / discounted_slots if ahead + 1 < discounted_slots else low
    return float(idle * (high / idle) ** (used / capacity)) + ahead * per_slot_ahead


def all_prices(function: PriceFunction, used: Ints, capacity: Ints) -> Floats:
    """Prices of a reserve price function, T x S x R."""
    low = np.exp(function.log_scale)
    high = np.exp(np.add(function.log_scale, function.log_growth))
    out = np.zeros(used.shape)
    for t, s, r in np.ndindex(*used.shape):
        out[t, s, r] = unit_price(
            float(low[r]),
            float(high[r]),
            int(used[t, s, r]),
            int(capacity[s, r]),
            t,
            discounted_slots=function.discounted_slots,
            per_slot_ahead=function.per_slot_ahead[r] if function.per_slot_ahead else 0.0,
        )
    return out


def random_reserve_prices(rng: np.random.Generator, resources: int, *, high: float) -> PriceFunction:
    """L of 0.01 to 0.11 and U of `high` times that, with both terms, one of them or none."""
    low = [0.01 + 0.1 * float(x) for x in rng.random(resources)]
    terms = int(rng.integers(4))
    return reserve_prices(
        low,
        [high * x for x in low],
        discounted_slots=int(rng.integers(2, 14)) if terms & 1 else 0,
        per_slot_ahead=[0.02 * float(x) for x in rng.random(resources)] if terms & 2 else (),
    )
