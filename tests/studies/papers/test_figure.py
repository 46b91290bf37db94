"""A figure keeps every run, judges by what it measured, and refuses NaN and infinity."""

import numpy as np
import pytest

from studies.papers.figure import Data, Scale, Series, Task, Verdict, found


def test_a_sweep_keeps_every_run_of_every_point_and_seed() -> None:
    reported: list[tuple[int, int]] = []
    task = Task(seeds=(3, 5), progress=lambda done, total: reported.append((done, total)))
    data = task.sweep((10, 20), lambda x, seed: {"sum": x + seed, "product": x * seed})
    assert data["sum"].x == (10, 20)
    assert data["sum"].samples.tolist() == [[13, 15], [23, 25]]
    assert data["product"].mean.tolist() == [40, 80]
    assert data["product"].total == 60
    assert reported == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_refused(wrong: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Task().sweep((1,), lambda x, seed: {"a": wrong})


def test_series_that_differ_from_run_to_run_are_refused() -> None:
    with pytest.raises(ValueError, match="series"):
        Task().sweep((1, 2), lambda x, seed: {str(x): 1.0})


def test_an_unknown_series_lists_the_known_ones() -> None:
    data = Data((Series("a", (1,), np.ones((1, 1))), Series("b", (1,), np.ones((1, 1)))))
    with pytest.raises(KeyError, match="a, b"):
        data["c"]
    assert data.names("a") == ["b"]


@pytest.mark.parametrize(
    ("direction", "size", "verdict"),
    [(True, True, Verdict.REPRODUCED), (True, False, Verdict.DIRECTION), (False, True, Verdict.NOT)],
)
def test_a_size_in_the_wrong_direction_counts_for_nothing(direction: bool, size: bool, verdict: Verdict) -> None:
    assert found("x", direction=direction, size=size).verdict is verdict


def test_a_scale_picks_its_own() -> None:
    assert [Task(scale).pick(1, 2, 3) for scale in Scale] == [1, 2, 3]
