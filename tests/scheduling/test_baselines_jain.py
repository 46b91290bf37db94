"""The greedy of Jain et al. in batches, and BatchSche."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.book.ledger import Ledger
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.model.schedule import Role, Schedule
from scheduling.policies.baselines.batch_sche import BatchSche
from scheduling.policies.baselines.jain import pack_right_to_left
from scheduling.policies.weighted_completion import WeightedCompletion
from scheduling.registry import make_policy
from tests.draws import rounds
from tests.scheduling.gpu_cluster import completions, gpu_cluster, job, run
from tests.scheduling.twins.jain_slow import Placed, jain


def pack(bids: list[Bid], *gpus: int, windows: list[tuple[int, int]]) -> Placed:
    return spans(pack_right_to_left(bids, Ledger(gpu_cluster(*gpus), start=0, slots=50), windows))


def spans(placed: dict[str, Schedule]) -> Placed:
    return {
        name: (one.start, one.completion, sum(p.count for p in one.placements if p.role is Role.WORKER))
        for name, one in placed.items()
    }


def test_a_job_is_as_late_as_its_deadline_allows() -> None:
    assert pack([job("a", 1, 3)], 2, windows=[(0, 10)]) == {"a": (7, 10, 1)}


def test_the_most_weight_for_its_gpu_slots_comes_first() -> None:
    # 6 / (2 x 2) before 5 / (1 x 4) before 4 / (2 x 2).
    jobs = [job("c", 2, 2, weight=4), job("b", 1, 4, weight=5), job("a", 2, 2, weight=6)]
    assert pack(jobs, 2, windows=[(0, 6)]) == {"a": (4, 6, 1), "b": (0, 4, 1)}


def test_a_job_has_all_the_workers_it_can_use_and_half_as_many_where_they_have_no_room() -> None:
    assert pack([job("a", 1, 8, workers=4)], 9, windows=[(0, 10)]) == {"a": (8, 10, 4)}
    both = [job("first", 3, 10, weight=99), job("a", 1, 8, workers=4)]
    assert pack(both, 5, windows=[(0, 10)])["a"] == (6, 10, 2)


def test_what_a_window_leaves_over_is_placed_in_the_next() -> None:
    jobs = [job("a", 1, 4, weight=2), job("b", 1, 4)]
    assert pack(jobs, 1, windows=[(0, 5), (5, 9)]) == {"a": (1, 5, 1), "b": (5, 9, 1)}


def test_what_others_hold_stays_and_what_is_freed_can_be_used() -> None:
    ledger = Ledger(gpu_cluster(1), start=0, slots=50)
    held = pack_right_to_left([job("a", 1, 4)], ledger, [(0, 10)])["a"]
    ledger.commit(held)
    assert spans(pack_right_to_left([job("b", 1, 4)], ledger, [(0, 10)])) == {"b": (2, 6, 1)}
    freed = pack_right_to_left([job("b", 1, 4)], ledger, [(0, 10)], freed=held.placements)
    assert spans(freed) == {"b": (6, 10, 1)}
    assert ledger.used[6:10].all()


@settings(max_examples=rounds(27))
@given(seed=st.integers(0, 2**32 - 1))
def test_it_is_the_greedy_that_its_docstring_describes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    gpus = int(rng.integers(1, 9))
    bids = [
        replace(
            job(f"j{i}", *rng.integers(1, (min(gpus, 4) + 1, 9)).tolist(), workers=int(rng.integers(1, 5))),
            utility=job("", 1, 1, weight=float(rng.integers(1, 20))).utility,
            delay=(int(rng.integers(0, 5)),),
        )
        for i in range(int(rng.integers(1, 12)))
    ]
    cut = int(rng.integers(3, 15))
    windows = [(0, cut), (cut, cut + int(rng.integers(2, 20)))]
    assert pack(bids, gpus, windows=windows) == jain(bids, gpus, windows)


def test_it_packs_the_batches_of_the_interval_scheduler() -> None:
    # One interval, slots 0 to 1; the batch of all three runs in rounds from slot 4 on, each as late as it can be.
    jobs = [job(name, 1, 1, weight=weight) for name, weight in (("a", 1.0), ("b", 3.0), ("c", 2.0))]
    policy = WeightedCompletion(mode="interval", selection="jain", alpha=2)
    done = completions(run(policy, jobs, 1))
    assert done["b"] < done["c"] < done["a"]


def test_a_job_that_its_ideal_machines_cannot_complete_in_time_is_rejected() -> None:
    going = run(WeightedCompletion(mode="interval", selection="jain"), [job("endless", 1, 51), job("fine", 1, 3)], 1)
    assert [d.admitted for d in going.decisions] == [False, True]


@pytest.mark.parametrize(("field", "value"), [("mode", "rolling"), ("order", "weight"), ("lambda", 2.0)])
def test_what_would_not_be_used_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidField) as error:
        make_policy("weighted_completion", {"mode": "interval", "selection": "jain", field: value})
    assert error.value.field == field


def test_batch_sche_takes_the_smallest_first_whatever_they_weigh() -> None:
    jobs = [job("large", 1, 4, weight=100.0), job("small", 1, 1)]
    first = list(completions(run(BatchSche(batches="chained"), jobs, 1)))
    assert first == ["small", "large"]
    assert make_policy("batch_sche", {}).to_json()["mode"] == "interval"
    with pytest.raises(InvalidField):
        make_policy("batch_sche", {"mode": "rolling"})
