"""SRTF and Tiresias-L: who runs when, and that what they remember changes nothing."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.policies.base import Policy
from scheduling.policies.baselines.srtf import Srtf
from scheduling.policies.baselines.tiresias_l import TiresiasL
from tests.draws import rounds
from tests.scheduling.gpu_cluster import completions, job, run, slots_of
from tests.scheduling.twins.alike import check_alike
from tests.scheduling.twins.whole_gangs_slow import SlowWholeGangs, srtf_key, tiresias_l_key

PAIRS: list[tuple[Policy, Policy]] = [
    (Srtf(), SlowWholeGangs("srtf", srtf_key)),
    (TiresiasL(threshold=3.0), SlowWholeGangs("tiresias_l", tiresias_l_key(3.0))),
]


def test_a_job_runs_on_all_the_workers_it_can_use() -> None:
    # 6 worker-slots: as 3 workers it is complete after 2 slots, as its 3 chunks are all it can use.
    going = run(Srtf(), [job("a", 1, 6, workers=3)], 5)
    assert {p.count for p in going.done["a"].held} == {3}
    assert completions(going) == {"a": 2}


def test_the_least_worker_slots_left_come_first_and_a_stopped_job_loses_nothing() -> None:
    # `wide` has 6 worker-slots left when `short` comes with 4, and goes on where it was when that is complete.
    going = run(Srtf(), [job("wide", 1, 8, workers=2), job("short", 1, 4, at=1)], 2)
    assert completions(going) == {"short": 5, "wide": 8}
    assert slots_of(going, "wide") == [0, 5, 6, 7]


def test_a_job_that_has_had_its_share_gives_way_to_one_that_has_had_none() -> None:
    # Nobody looks before `last` comes: by then `old` has had 3 worker-slots, is in the second queue and stays there.
    going = run(TiresiasL(threshold=2.0), [job("old", 1, 6), job("new", 1, 1, at=1), job("last", 1, 3, at=3)], 1)
    assert completions(going) == {"new": 4, "last": 7, "old": 10}
    # In one queue, who began first goes on.
    going = run(TiresiasL(threshold=9.0), [job("old", 1, 6), job("new", 1, 1, at=1), job("last", 1, 3, at=3)], 1)
    assert completions(going) == {"old": 6, "new": 7, "last": 10}


@pytest.mark.parametrize(("quick", "slow"), PAIRS, ids=lambda policy: policy.name)
@settings(max_examples=rounds(20))
@given(seed=st.integers(0, 2**32 - 1))
def test_what_it_remembers_changes_no_byte(quick: Policy, slow: Policy, seed: int) -> None:
    check_alike(quick, slow, seed)
