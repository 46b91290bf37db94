"""`benchmarks.overload` measures every policy of its table, those that plan in batches, too."""

import numpy as np
import pytest

from benchmarks import overload
from benchmarks.overload import POLICIES, load, measure
from scheduling.registry import make_policy

WAITING = 60


@pytest.mark.parametrize("name", ["search", "batch_sche"])
def test_each_event_is_measured_as_often_as_there_are_rounds(name: str) -> None:
    policy, parameters = POLICIES[name]
    found = measure(make_policy(policy, parameters), *load(1), WAITING)
    for costs in (found.ended, found.arrived, found.slot):
        assert len(costs) == overload.ROUNDS
        assert np.min(costs) > 0


def test_the_end_of_an_interval_is_measured_with_the_jobs_that_its_batch_places() -> None:
    bids, inventory, slots = load(1)
    assert measure(make_policy("weighted_completion", {}), bids, inventory, slots, WAITING).batch is None
    found = measure(make_policy("batch_sche", {}), bids, inventory, slots, WAITING).batch
    assert found is not None
    cost, placed = found
    assert cost > 0
    assert 0 < placed <= WAITING + overload.ROUNDS
