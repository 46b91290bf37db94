"""DRF, placed and fluid: who has how many workers when."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.analysis.fluid_drf import fluid_drf, fluid_workers
from scheduling.model.bid import Architecture
from scheduling.model.inventory import Inventory, MachineType
from scheduling.policies.baselines.drf import Drf
from scheduling.policies.baselines.gang import Gang, ideal_gang
from scheduling.policies.baselines.shares import demand_of, dominant_share, fair_counts
from scheduling.policies.simulation import Simulation
from tests.draws import rounds
from tests.scheduling.gpu_cluster import completions, gpu_cluster, job, run
from tests.scheduling.twins.alike import check_alike
from tests.scheduling.twins.drf_slow import SlowDrf
from tests.scheduling.worlds import world

EVERY = frozenset(Architecture)
seeds = st.integers(0, 2**32 - 1)


def workers(going: Simulation, name: str) -> list[int]:
    """Workers a job held in each slot from 0 to its end."""
    held = going.done[name].held
    return [sum(p.count for p in held if p.start <= slot < p.end) for slot in range(max(p.end for p in held))]


def test_shares_are_those_of_the_example_of_ghodsi_and_others() -> None:
    # 9 CPUs, 18 GB; A's tasks take 1 and 4, B's 3 and 1: A has 3 tasks and B 2, two thirds of the cluster each.
    types = tuple(MachineType(name, demand, Fraction(1)) for name, demand in (("a", (1, 4)), ("b", (3, 1))))
    capacity = np.array([[9, 18]], dtype=np.int64)
    inventory = Inventory(("cpu", "memory"), ("s",), (False,), capacity, types, ())
    gangs = [Gang(job("a", 1, 1, workers=99), t, None, 1) for t in (0, 1)]
    assert fair_counts(gangs, inventory, capacity.sum(axis=0)) == [3, 2]
    fluid = fluid_workers(np.array([[1.0, 4.0], [3.0, 1.0]]), np.array([99.0, 99.0]), np.array([9.0, 18.0]))
    assert fluid == pytest.approx([3, 2])
    assert fluid_workers(np.array([[1.0, 4.0], [3.0, 1.0]]), np.array([1.0, 99.0]), np.array([9.0, 18.0])) == (
        pytest.approx([1, 8 / 3])
    )


@settings(max_examples=rounds(17))
@given(seed=seeds)
def test_fair_counts_are_those_of_the_literal_rule(seed: int) -> None:
    drawn = world(seed, architectures=EVERY)
    gangs = [gang for bid in drawn.bids if (gang := ideal_gang(bid, drawn.inventory, 1)) is not None]
    capacity = drawn.inventory.capacity.sum(axis=0)
    counts, open_ = [0] * len(gangs), set(range(len(gangs)))
    while open_:
        shares = {j: dominant_share(demand_of(gangs[j], counts[j], drawn.inventory), capacity) for j in sorted(open_)}
        j = min(shares, key=lambda j: (shares[j], j))
        tried = [count + (i == j) for i, count in enumerate(counts)]
        total = sum(demand_of(gang, count, drawn.inventory) for gang, count in zip(gangs, tried, strict=True))
        if tried[j] > gangs[j].bid.chunks or (total > capacity).any():
            open_.remove(j)
        else:
            counts = tried
    assert fair_counts(gangs, drawn.inventory, capacity) == counts


def test_a_job_alone_has_all_the_workers_it_can_use() -> None:
    going = run(Drf(), [job("a", 1, 32, workers=4)], 6)
    assert workers(going, "a") == [4] * 8


def test_a_newcomer_has_half_and_the_other_loses_a_slot_as_it_shrinks_and_as_it_grows() -> None:
    going = run(Drf(), [job("a", 1, 32, workers=4), job("b", 1, 8, workers=4, at=1)], 4)
    assert workers(going, "b") == [0, 2, 2, 2, 2]
    # 4 worker-slots done in slot 0, none in slot 1, 6 in slots 2 to 4; none in slot 5, and the other 22 by 4 workers.
    assert workers(going, "a") == [4] + [2] * 4 + [4] * 7


def test_a_job_does_not_grow_where_the_slot_it_costs_is_not_won_back() -> None:
    for slots, after in ((5, [1, 1]), (6, [1, 1, 1]), (7, [2, 2, 2])):
        going = run(Drf(), [job("a", 1, slots, workers=2), job("b", 1, 3)], 2)
        # When b ends one worker needs 2, 3 or 4 slots more; two need 1, 2 or 2, and one that is lost.
        assert workers(going, "a") == [1, 1, 1, *after]


def test_nobody_shrinks_for_a_job_that_has_room() -> None:
    going = run(Drf(), [job("a", 1, 32, workers=4), job("b", 1, 4, workers=2, at=1)], 6)
    assert workers(going, "a") == [4] * 8
    assert not going.moves


def test_a_job_that_cannot_have_one_worker_waits_and_nobody_shrinks() -> None:
    going = run(Drf(), [job("a", 2, 4), job("b", 2, 3, at=1)], 3)
    assert workers(going, "a") == [1] * 4
    assert completions(going) == {"a": 4, "b": 7}


def test_jobs_whose_fair_share_is_too_small_to_complete_them_in_time_run_one_after_the_other() -> None:
    # 20 worker-slots each, on 4 workers, within a horizon of 6 slots: 2 workers each would need 10.
    going = run(Drf(), [job("a", 1, 20, workers=4), job("b", 1, 20, workers=4)], 4, slots=6)
    assert completions(going) == {"a": 5, "b": 10}
    assert workers(going, "b") == [0] * 5 + [4] * 5


def test_the_slot_that_a_job_loses_as_it_shrinks_counts_against_its_horizon() -> None:
    # In slot 1 "a" has 12 worker-slots left: 2 workers would need a lost slot and 6 more, and the horizon has 6.
    going = run(Drf(), [job("a", 1, 16, workers=4), job("b", 1, 2, workers=4, at=1)], 4, slots=6)
    assert workers(going, "a")[:3] == [4, 3, 3]
    assert workers(going, "b") == [0, 1, 1]


@settings(max_examples=rounds(20))
@given(seed=seeds)
def test_whom_it_does_not_look_at_changes_no_byte(seed: int) -> None:
    check_alike(Drf(), SlowDrf(), seed)


@settings(max_examples=rounds(10))
@given(seed=seeds)
def test_fluid_jobs_all_come_to_their_end_and_no_sooner_than_alone(seed: int) -> None:
    # With parameter servers: a ring of two can be slower than one worker.
    drawn = world(seed)
    hosted = [bid for bid in drawn.bids if ideal_gang(bid, drawn.inventory, 1) is not None]
    bids = [replace(bid, arrival=i) for i, bid in enumerate(hosted)]
    together = fluid_drf(bids, drawn.inventory)
    assert set(together) == {bid.id for bid in bids}
    for bid in bids:
        assert together[bid.id] >= fluid_drf([bid], drawn.inventory)[bid.id] * (1 - 1e-9)


def test_a_fluid_job_shares_with_no_loss() -> None:
    # a has all 4 workers for a slot, both have 2 until b is complete at 5 and 20 of 32 are left, then a has 4.
    done = fluid_drf([job("a", 1, 32, workers=4), job("b", 1, 8, workers=4, at=1)], gpu_cluster(4))
    assert done == pytest.approx({"b": 5, "a": 10})
