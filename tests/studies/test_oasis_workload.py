import math
from dataclasses import asdict
from hashlib import sha256

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.model.decision import canonical
from scheduling.policies.oasis import Oasis
from studies.workloads.generated.generators import read_generator
from studies.workloads.generated.oasis import Setting, draw
from tests.draws import rounds

SMALL = Setting(servers=3, slots=40, jobs=6)
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=rounds(10))
@given(seed=seeds)
def test_jobs_are_drawn_from_the_papers_ranges_and_can_meet_their_own_target(seed: int) -> None:
    workload = draw(SMALL, np.random.default_rng(seed))
    Oasis().check(workload.inventory)
    assert [bid.arrival for bid in workload.bids] == sorted(bid.arrival for bid in workload.bids)
    for i, bid in enumerate(workload.bids):
        step, worker, ps = bid.worker_time[i], workload.inventory.workers[i], workload.inventory.parameter_servers[i]
        assert 50 <= bid.epochs <= 200
        assert 5 <= bid.chunks <= 100
        assert 10 <= bid.minibatches <= 100
        assert 100 <= worker.bandwidth_mbps <= 5000 <= ps.bandwidth_mbps <= 20_000
        assert worker.demand[4] == worker.bandwidth_mbps
        assert 1 <= math.ceil(bid.epochs * bid.minibatches * step) <= 15
        assert 1 <= bid.utility.value <= 100
        assert [j for j, time in enumerate(bid.worker_time) if time <= SMALL.slots] == [i]


def test_the_same_seed_draws_the_same_workload() -> None:
    first, second = (draw(SMALL, np.random.default_rng(7)) for _ in range(2))
    assert first.bids == second.bids
    assert first.inventory.capacity.tolist() == second.inventory.capacity.tolist()


def test_the_hash_is_that_of_the_whole_document_though_it_is_never_in_memory() -> None:
    workload = read_generator({"generator": "oasis", "setting": {"jobs": 3, "servers": 2, "slots": 20}}, "").draw(1)
    jobs = workload.jobs
    document = {
        "bids": [bid.to_json() for bid in jobs.bids],
        "inventory": workload.inventory.to_json(),
        "plan": asdict(workload.plan),
        **{name: dict(getattr(jobs, name)) for name in ("submitted_s", "tenants", "runs_s", "targets_s")},
    }
    assert workload.sha256 == sha256(canonical(document).encode()).hexdigest()
