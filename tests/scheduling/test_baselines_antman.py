"""AntMan: who runs when, and who is evicted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.policies.baselines.antman import AntMan, halved
from scheduling.policies.baselines.gang import fixed_gang
from tests.draws import rounds
from tests.scheduling.gpu_cluster import completions, gpu_cluster, job, run, slots_of
from tests.scheduling.twins.alike import check_alike
from tests.scheduling.twins.antman_slow import SlowAntMan


def test_guaranteed_jobs_run_in_order_of_arrival_with_backfill_and_are_never_stopped() -> None:
    jobs = [job("first", 2, 4), job("large", 4, 3, at=1), job("small", 1, 1, at=2), job("wide", 4, 1, at=3)]
    assert completions(run(AntMan(), jobs, 4)) == {"first": 4, "small": 3, "large": 7, "wide": 8}


def test_a_job_that_waited_ten_slots_is_opportunistic_and_is_evicted_for_a_guaranteed_one() -> None:
    jobs = [job("holds", 2, 12), job("waits", 2, 6, at=1), job("new", 2, 2, at=14)]
    going = run(AntMan(), jobs, 2)
    assert completions(going) == {"holds": 12, "new": 16, "waits": 20}
    assert slots_of(going, "waits") == [12, 13, 16, 17, 18, 19]


def test_one_that_started_in_time_is_not_evicted() -> None:
    jobs = [job("holds", 2, 10), job("waits", 2, 6, at=1), job("new", 2, 2, at=14)]
    assert completions(run(AntMan(), jobs, 2)) == {"holds": 10, "waits": 16, "new": 18}


def test_patience_can_be_chosen() -> None:
    jobs = [job("holds", 2, 10), job("waits", 2, 6, at=1), job("new", 2, 2, at=14)]
    assert completions(run(AntMan(patience=9), jobs, 2)) == {"holds": 10, "new": 16, "waits": 18}


def test_an_opportunistic_job_comes_after_a_guaranteed_one_that_came_later() -> None:
    jobs = [job("holds", 2, 12), job("waits", 2, 1, at=1), job("later", 2, 3, at=5)]
    assert completions(run(AntMan(), jobs, 2)) == {"holds": 12, "later": 15, "waits": 16}


def test_an_opportunistic_job_runs_with_fewer_workers_and_grows_when_there_is_room() -> None:
    bid = job("waits", 1, 24, at=1, workers=4)
    gang = fixed_gang(bid, gpu_cluster(5), slots=50, seed=0)
    assert gang is not None
    assert gang.count == 4
    jobs = [job("holds", 4, 14), job("other", 1, 11), bid]
    going = run(AntMan(), jobs, 5)
    # One worker in slots 11 to 13 does 12 of 24 x 4 mini-batches, four from slot 14 on 16 a slot.
    counts = {slot: sum(p.count for p in going.done["waits"].held if p.start <= slot < p.end) for slot in (11, 13, 14)}
    assert counts == {11: 1, 13: 1, 14: 4}
    assert completions(going) == {"other": 11, "holds": 14, "waits": 20}


def test_halving_rounds_down_to_one() -> None:
    assert list(halved(11)) == [11, 5, 2, 1]


@pytest.mark.parametrize("patience", [1, 3])
@settings(max_examples=rounds(10))
@given(seed=st.integers(0, 2**32 - 1))
def test_whom_it_does_not_look_at_changes_no_byte(patience: int, seed: int) -> None:
    check_alike(AntMan(patience=patience), SlowAntMan(patience=patience), seed)
