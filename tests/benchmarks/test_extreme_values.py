"""Markets of `benchmarks.extreme_values`: the limit of offers protects the others, and costs nothing without need."""

import pytest

from benchmarks.extreme_values import SPLIT, Attack, welfare
from scheduling.model.utility import Linear, Utility
from scheduling.pricing.pooling import NO_LIMIT


@pytest.mark.parametrize(
    ("utility", "two_kinds", "limited", "unlimited"),
    [
        (Linear(1e12, 1e10), False, 0.7, 0.2),
        (Linear(1e-7, 1e-9), False, 0.9, 0.5),
        (SPLIT, True, 0.9, 0.5),
    ],
)
def test_one_owner_with_extreme_values_takes_little_from_others(
    utility: Utility, two_kinds: bool, limited: float, unlimited: float
) -> None:
    attack, free = Attack(utility, first_slot=100), {"price": "fluid", "offer_limit": NO_LIMIT}
    usual = welfare("dps", {"price": "fluid"}, 11, two_kinds=two_kinds)
    assert welfare("dps", {"price": "fluid"}, 11, attack, two_kinds=two_kinds) > limited * usual
    assert welfare("dps", free, 11, attack, two_kinds=two_kinds) < unlimited * usual
    assert welfare("dps", free, 11, two_kinds=two_kinds) < 1.05 * usual
