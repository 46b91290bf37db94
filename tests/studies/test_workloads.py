"""Workloads by the papers' settings: within their ranges, the same for the same seed, and possible for most jobs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np
import pytest

from scheduling.book.ledger import Ledger
from scheduling.book.state import Book
from scheduling.model.bid import Architecture, Bid
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.utility import Inverse, Linear, Sigmoid
from scheduling.policies.base import Policy
from scheduling.policies.dps import Dps
from scheduling.policies.preemptive import Preemptive
from scheduling.policies.weighted_completion import WeightedCompletion
from studies.workloads.generated import dps, oasis, preemptive, weighted_completion
from studies.workloads.generated.generators import read_generator


class Workload(Protocol):
    @property
    def inventory(self) -> Inventory: ...
    @property
    def bids(self) -> tuple[Bid, ...]: ...


DRAWS: dict[str, Callable[[np.random.Generator], Workload]] = {
    "dps": lambda rng: dps.draw(dps.Setting(servers=10, slots=150, jobs=20), rng),
    "oasis": lambda rng: oasis.draw(oasis.Setting(servers=10, slots=60, jobs=20), rng),
    "preemptive": lambda rng: preemptive.draw(preemptive.Setting(servers=10, jobs=20, span=30), rng),
    "weighted": lambda rng: weighted_completion.draw(weighted_completion.Setting(jobs=20, servers=10, slots=30), rng),
    "ring": lambda rng: weighted_completion.draw(
        weighted_completion.Setting(jobs=20, servers=10, slots=30, architecture=Architecture.RING), rng
    ),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_seed_draws_the_same_workload_and_another_another(name: str) -> None:
    first, again, other = (DRAWS[name](np.random.default_rng(seed)) for seed in (7, 7, 8))
    assert first.bids == again.bids != other.bids
    assert first.inventory.capacity.tolist() == again.inventory.capacity.tolist()
    assert first.inventory.workers == again.inventory.workers


@pytest.mark.parametrize("name", DRAWS)
def test_jobs_come_in_order_and_speak_of_every_type_and_server(name: str) -> None:
    workload = DRAWS[name](np.random.default_rng(7))
    inventory, bids = workload.inventory, workload.bids
    assert len(bids) == len({bid.id for bid in bids}) == 20
    assert [bid.arrival for bid in bids] == sorted(bid.arrival for bid in bids)
    for bid in bids:
        assert len(bid.worker_time) == len(bid.transfer_time) == len(inventory.workers)
        assert len(bid.ps_time) == len(inventory.parameter_servers)
        assert len(bid.delay) == len(inventory.servers)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "policy", "slots"),
    [("dps", Dps(), 300), ("weighted", WeightedCompletion(), 10**4), ("preemptive", Preemptive(), 10**4)],
)
def test_every_job_is_possible_on_the_empty_cluster(name: str, policy: Policy, slots: int) -> None:
    workload = DRAWS[name](np.random.default_rng(7))
    for bid in workload.bids:
        ledger = Ledger(workload.inventory, start=bid.arrival, slots=slots)
        book = Book(now=bid.arrival, ledger=ledger, history=np.zeros((0, len(workload.inventory.resources))), decided=0)
        assert policy.decide(replace(bid, utility=any_time()), book).admitted


def any_time() -> Sigmoid:
    """A large constant value: only impossible bids are rejected."""
    return Sigmoid(1e9, 0.0, 0.0)


def test_dps_draws_from_the_papers_ranges() -> None:
    workload = dps.draw(dps.Setting(servers=50, jobs=50), np.random.default_rng(3))
    edge = workload.inventory.capacity[:-1]
    assert 1 <= edge[:, :5].min() <= edge[:, :5].max() <= 5
    assert 1 <= edge[:, 5:].min() <= edge[:, 5:].max() <= 3
    assert workload.inventory.cloud == (*[False] * 50, True)
    for worker in workload.inventory.workers:
        assert 100 <= worker.bandwidth_mbps <= 5120
    for bid in workload.bids:
        assert 20 <= bid.epochs <= 60
        assert 27 <= bid.chunks <= 115
        assert 10 <= bid.minibatches <= 58
        assert all(1 <= 1000 * time <= 50 for time in bid.worker_time)
        assert all(1 <= delay <= 4 for delay in bid.delay[:-1])
        assert 10 <= bid.delay[-1] <= 15
        assert bid.arrival < 75


def test_dps_has_the_papers_three_utilities_and_no_other() -> None:
    forms = {"sigmoid": Sigmoid, "linear": Linear, "inverse": Inverse}
    for name, form in forms.items():
        drawn = dps.draw(dps.Setting(servers=2, jobs=5, utility=dps.UtilityForm(name)), np.random.default_rng(3))
        for bid in drawn.bids:
            assert isinstance(bid.utility, form)
            # Worth something just before the horizon's end, and nothing grows.
            assert bid.utility.at(1) >= bid.utility.at(149) > 0
    assert set(dps.UtilityForm) == set(forms)
    with pytest.raises(InvalidField) as refused:
        read_generator({"generator": "dps", "setting": {"jobs": 0, "utility": "cubic", "chunks": [9, 1]}}, "")
    assert [str(one) for one in refused.value.all_wrong] == [
        "setting.jobs: expected 1 to 5,000, got 0",
        "setting.utility: expected one of sigmoid, linear, inverse, got 'cubic'",
        "setting.chunks: expected low <= high, got 9 and 1",
    ]
