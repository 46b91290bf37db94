"""Measures of a run, from what was recorded of its jobs."""

import pytest

from studies.testbed.jobs import draw
from studies.testbed.measures import Measures, measured
from studies.testbed.records import Outcome, PolicyRun
from studies.testbed.trainer import SAMPLES
from tests.studies.testbed.made_up import generation, job, outcome


def measures(*outcomes: Outcome) -> Measures:
    return measured(PolicyRun("FIFO", outcomes, 0), slot_s=4, deadline=5)


def test_a_job_that_ends_early_is_late_by_less_than_nothing() -> None:
    found = measures(outcome(4.0), outcome(6.0, job=job(arrival=2.0, weight=30)))
    assert (found.admitted, found.finished, found.starts, found.repeated) == (2, 2, 0, 0)
    assert found.late == 0.0
    assert found.late_p95 == pytest.approx(0.9)
    assert found.overhead_s == pytest.approx(1.0)
    assert found.pause_s is None
    assert found.worker_slots == pytest.approx(2 * (2.0 + 4.0))
    assert found.jct == pytest.approx((3.0 + 4.0) / 2)
    assert found.weighted_completion == pytest.approx(20 * 4.0 + 30 * 6.0)
    assert found.makespan == pytest.approx(5.0)
    assert found.timeliness == pytest.approx(0.5)
    assert found.deviation == pytest.approx(0.5)


def test_the_dps_paper_counts_only_what_is_complete_in_time() -> None:
    found = measures(outcome(5.05), outcome(5.2))
    assert found.on_time == 1
    assert found.welfare == pytest.approx(100 / (1 + 2.718281828 ** (0.02 * 4.05)))


def test_the_oasis_paper_counts_half_at_the_target() -> None:
    assert measures(outcome(4.0)).utility == pytest.approx(10.0)
    assert job(decay=0.0).oasis_utility(1e9) == 10.0
    assert job(decay=6.0).oasis_utility(1e9) == pytest.approx(0.0)


def test_a_job_that_was_stopped_before_it_was_done_counts_as_if_it_had_gone_on_at_its_rate() -> None:
    half = outcome(None, done=30, generations=(generation(2.0, 4.0, done=30, ending="promise over"),))
    assert half.completion == pytest.approx(6.0)
    found = measures(half)
    assert found.finished == 0
    assert found.late == pytest.approx(1.0)


@pytest.mark.parametrize("lost", [{"failed": True}, {"done": 0}, {"generations": ()}])
def test_a_job_without_an_end_leaves_sums_over_all_jobs_open(lost: dict[str, object]) -> None:
    found = measures(outcome(None, **lost), outcome(4.0))
    assert (found.jct, found.weighted_completion) == (None, None)
    assert found.utility == pytest.approx(10.0)


def test_restarts_cost_pauses_and_samples() -> None:
    parts = (
        generation(2.0, 3.0, done=20, ending="changed"),
        generation(3.2, 4.0, resumed=18, done=40, ending="changed"),
        generation(6.0, 7.0, resumed=40),
    )
    found = measures(outcome(7.0, generations=parts))
    assert (found.starts, found.repeated) == (2, 2 * SAMPLES)
    assert found.pause_s == pytest.approx(0.8)  # for two slots it had no machines, which is no pause


def test_the_same_seed_draws_the_same_jobs() -> None:
    first, again, other = (draw(seed, number=20, over=6.0, rate=30.0) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    assert [one.arrival for one in first] == sorted(one.arrival for one in first)
    assert all(0 <= one.arrival < 6 and 30 <= one.steps <= 170 for one in first)
    assert {one.owner for one in first} == {"ada", "ben", "cleo", "dan"}
