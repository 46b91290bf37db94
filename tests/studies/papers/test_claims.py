"""A lead is counted point by point, and growth step by step."""

import numpy as np
import pytest

from studies.papers.claims import lead, never_falls, rises
from studies.papers.figure import Series


def series(*points: tuple[float, ...]) -> Series:
    """A point for each tuple, a seed for each number in it."""
    return Series("a", tuple(range(len(points))), np.array(points, dtype=np.float64))


def test_a_lead_is_against_all_others_at_each_point() -> None:
    mine = series((5, 5), (5, 5), (5, 5))
    ahead = lead(mine, [series((4, 4), (4, 4), (4, 4)), series((1, 1), (6, 6), (5, 5))])
    assert (ahead.ahead, ahead.points, ahead.everywhere) == (1, 3, False)
    assert lead(mine, [series((4, 4), (4, 4), (4, 4))]).everywhere


def test_less_can_be_better() -> None:
    assert lead(series((1, 2)), [series((3, 4))], lower=True).everywhere
    assert not lead(series((3, 4)), [series((1, 2))], lower=True).everywhere


def test_a_lead_is_clear_if_the_seeds_agree_on_the_difference() -> None:
    # The levels of the two seeds differ far more than the methods do, but the difference is the same.
    agreed = lead(series((1, 100)), [series((0, 99))])
    assert (agreed.ahead, agreed.clear) == (1, 1)
    split = lead(series((1, 100)), [series((2, 90))])
    assert (split.ahead, split.clear) == (1, 0)
    assert "ahead at 1 of 1 points, at 0 beyond" in str(split)


def test_one_seed_makes_no_lead_clear() -> None:
    alone = lead(series((2,)), [series((1,))])
    assert (alone.ahead, alone.clear) == (1, None)
    assert str(alone) == "ahead at 1 of 1 points"


@pytest.mark.parametrize(
    ("numbers", "each", "never"),
    [((1, 2, 3), True, True), ((1, 2, 2), False, True), ((1, 1, 1), False, False), ((1, 3, 2), False, False)],
)
def test_growth_at_every_step(numbers: tuple[float, ...], each: bool, never: bool) -> None:
    assert rises(np.array(numbers)) is each
    assert never_falls(np.array(numbers)) is never
