"""A figure keeps every run, judges by what it measured, and refuses NaN and infinity."""

from collections.abc import Callable

import numpy as np
import pytest

from studies.papers.figure import (
    Data,
    Figure,
    Finding,
    Paper,
    Scale,
    Series,
    Task,
    Verdict,
    found,
    reproduce,
)
from studies.papers.inputs import drew


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
    ("direction", "size", "verdict", "missing"),
    [
        (True, True, Verdict.REPRODUCED, ()),
        (True, False, Verdict.DIRECTION, ("by half",)),
        (False, True, Verdict.NOT, ("ahead",)),
        (False, False, Verdict.NOT, ("ahead", "by half")),
    ],
)
def test_a_size_in_the_wrong_direction_counts_for_nothing(
    direction: bool, size: bool, verdict: Verdict, missing: tuple[str, ...]
) -> None:
    finding = found("x", direction={"ahead": direction}, size={"by half": size})
    assert (finding.verdict, finding.missing) == (verdict, missing)


def figure(judge: Callable[[Data], Finding]) -> Figure:
    """One point whose number is the seed."""

    def compute(task: Task) -> Data:
        return task.sweep((1,), lambda x, seed: {"a": drew(float(seed))})

    return Figure("1", "title", x="x", y="y", claim="claim", compute=compute, judge=judge)


def verdict_of(limit: float) -> Callable[[Data], Finding]:
    return lambda data: found("x", direction={"large": data["a"].total > limit}, size={})


PAPER = Paper("key", "title", "section", ())


def test_a_verdict_that_every_seed_supports_is_that_of_all_resamples() -> None:
    done = reproduce(PAPER, figure(verdict_of(0.5)), Task(seeds=(1, 2, 3)))
    assert (done.finding.verdict, done.agreement) == (Verdict.REPRODUCED, 1.0)


def test_a_verdict_that_rests_on_one_seed_is_not() -> None:
    # The mean of 1 to 9 and 100 is 14.5; it is above 10 where 100 was drawn, which it is in 1 - 0.9^10 = 65 %.
    done = reproduce(PAPER, figure(verdict_of(10.0)), Task(seeds=(*range(1, 10), 100)))
    assert done.finding.verdict is Verdict.REPRODUCED
    assert done.agreement == pytest.approx(0.65, abs=0.05)
    again = reproduce(PAPER, figure(verdict_of(10.0)), Task(seeds=(*range(1, 10), 100)))
    assert again.agreement == done.agreement


def test_one_seed_says_nothing_about_others() -> None:
    done = reproduce(PAPER, figure(verdict_of(0.5)), Task(seeds=(1,)))
    assert done.agreement is None
    assert done.to_json()["series"][0]["half_width"] is None


def test_a_document_has_intervals_and_the_hash_of_the_inputs() -> None:
    one, other = (reproduce(PAPER, figure(verdict_of(0.5)), Task(seeds=seeds)) for seeds in ((1, 3), (1, 4)))
    # 12.706 is the 97.5 % quantile with one degree of freedom; the deviation of 1 and 3 over the root of 2 is 1.
    assert one.to_json()["series"][0]["half_width"] == pytest.approx([12.7062], abs=1e-4)
    assert len({one.inputs, other.inputs}) == 2


def test_a_scale_picks_its_own() -> None:
    assert [Task(scale).pick(1, 2, 3) for scale in Scale] == [1, 2, 3]
