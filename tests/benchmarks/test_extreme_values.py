"""Markets of `benchmarks.extreme_values`: the limit of offers protects the others, and costs nothing without need."""

from functools import cache

import pytest

from benchmarks import extreme_values
from benchmarks.extreme_values import SPLIT, Attack, welfare
from scheduling.model.types import Json
from scheduling.model.utility import Linear, Utility
from scheduling.pricing.pooling import NO_LIMIT

LIMITED: Json = {"price": "fluid"}
FREE: Json = {"price": "fluid", "offer_limit": NO_LIMIT}


LEARNED, SLOTS = 60, 160
"""The market learns prices for some slots, as in the benchmark, and then runs for fewer."""


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extreme_values, "COUNTED_FROM", LEARNED)
    monkeypatch.setattr(extreme_values, "SLOTS", SLOTS)


@cache
def without_attack(*, two_kinds: bool, is_limited: bool) -> float:
    return welfare("dps", LIMITED if is_limited else FREE, 11, two_kinds=two_kinds)


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
    attack = Attack(utility, first_slot=LEARNED)
    usual = without_attack(two_kinds=two_kinds, is_limited=True)
    assert welfare("dps", LIMITED, 11, attack, two_kinds=two_kinds) > limited * usual
    assert welfare("dps", FREE, 11, attack, two_kinds=two_kinds) < unlimited * usual
    assert without_attack(two_kinds=two_kinds, is_limited=False) < 1.05 * usual
