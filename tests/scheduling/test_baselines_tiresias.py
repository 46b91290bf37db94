"""Tiresias: who runs when, and who is preempted."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.model.inventory import Inventory
from scheduling.policies.baselines.gang import Gang
from scheduling.policies.baselines.tiresias import Tiresias, remaining_service
from tests.draws import rounds
from tests.scheduling.gpu_cluster import completions, gpu_cluster, job, run, slots_of
from tests.scheduling.twins.tiresias_slow import tiresias


def test_a_shorter_job_preempts_a_longer_one_which_loses_a_slot_when_it_resumes() -> None:
    going = run(Tiresias(), [job("long", 2, 6), job("short", 2, 2, at=1)], 2)
    # long: slot 0; short: 1 and 2; long resumes in 3, does nothing there, and has 5 slots left.
    assert completions(going) == {"short": 3, "long": 9}
    assert slots_of(going, "long") == [0, 3, 4, 5, 6, 7, 8]
    assert [(slot, move.job, move.schedule is None) for slot, move in going.moves] == [
        (1, "long", True),
        (3, "long", False),
    ]


def test_it_is_remaining_service_that_counts_not_the_whole() -> None:
    # At slot 4 long has 2 slots left: no more than the newcomer, which therefore waits.
    assert completions(run(Tiresias(), [job("long", 2, 6), job("new", 2, 2, at=4)], 2)) == {"long": 6, "new": 8}


def test_slots_count_by_the_gpus_they_take() -> None:
    # 3 slots x 1 GPU come before 2 slots x 2 GPUs.
    going = run(Tiresias(), [job("runs", 2, 1), job("wide", 2, 2), job("slim", 1, 3)], 2)
    assert completions(going) == {"runs": 1, "slim": 4, "wide": 6}


def test_the_longest_are_stopped_first_and_only_as_many_as_it_takes() -> None:
    jobs = [job("a", 1, 5), job("b", 1, 9), job("c", 1, 7), job("new", 2, 1, at=1)]
    going = run(Tiresias(), jobs, 3)
    assert [move.job for slot, move in going.moves if slot == 1] == ["b", "c"]
    assert completions(going) == {"new": 2, "a": 5, "c": 9, "b": 11}


def test_one_stopped_for_nothing_goes_on() -> None:
    # On server 1 the longest alone makes no room for 2 GPUs; stopping `mid` on server 0 does, and `longest` goes on.
    jobs = [
        job("mid", 2, 5, servers=2),
        job("longest", 1, 11, servers=2),
        job("new", 2, 1, at=1, servers=2),
    ]
    going = run(Tiresias(), jobs, 2, 1)
    assert [move.job for slot, move in going.moves if slot == 1] == ["mid"]
    assert slots_of(going, "longest") == list(range(11))


def test_nothing_is_stopped_when_that_would_not_make_room_and_a_stopped_job_may_start_elsewhere() -> None:
    jobs = [job("a", 1, 9, servers=2), job("new", 3, 1, at=1, servers=2)]
    going = run(Tiresias(), jobs, 3, 1)
    # `a` sits on the small server, so the new job has the large one.
    assert completions(going) == {"new": 2, "a": 9}
    jobs = [job("b", 2, 9, servers=2), job("new", 3, 1, at=1, servers=2)]
    moved = run(Tiresias(), jobs, 3, 2)
    assert completions(moved) == {"new": 2, "b": 9}
    jobs = [job("low", 2, 1, servers=2), job("c", 2, 9, servers=2), job("new", 3, 1, at=1, servers=2)]
    elsewhere = run(Tiresias(), jobs, 3, 2)
    # `c` is on the large server, is stopped, and goes on beside it a slot later than it would have been complete.
    assert completions(elsewhere) == {"low": 1, "new": 2, "c": 10}


def test_nobody_is_stopped_when_only_a_slot_passes() -> None:
    late = replace(job("short", 2, 1, at=1), delay=(2,))
    assert completions(run(Tiresias(), [job("long", 2, 6), late], 2)) == {"long": 6, "short": 7}


def test_where_there_are_no_gpus_the_dominant_share_stands_for_them() -> None:
    named = gpu_cluster(8)
    gang = Gang(job("a", 2, 6), worker=1, ps=None, count=2)
    assert remaining_service(Fraction(3), gang, named) == Fraction(3, 2) * 4
    other = Inventory(
        ("cpu", "memory"),
        ("s",),
        (False,),
        np.array([[16, 10]], dtype=np.int64),
        tuple(replace(w, demand=(1, 2)) for w in named.workers),
        (),
    )
    assert remaining_service(Fraction(3), gang, other) == Fraction(3, 2) * Fraction(4, 10)


@settings(max_examples=rounds(33))
@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4), st.integers(1, 9)), min_size=1, max_size=9),
    st.integers(4, 7),
)
def test_on_one_server_it_is_the_least_remaining_gpu_time_first(rows: list[tuple[int, int, int]], gpus: int) -> None:
    jobs = [job(str(i), wide, slots, at=at) for i, (at, wide, slots) in enumerate(sorted(rows))]
    assert completions(run(Tiresias(), jobs, gpus)) == tiresias(jobs, gpus)
