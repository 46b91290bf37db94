"""Gangs of ideal types, and the places they find."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.book.ledger import Ledger
from scheduling.model.bid import Architecture
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.policies.baselines.allocation import Allocation
from scheduling.policies.baselines.capacity import FreeCapacity
from scheduling.policies.baselines.gang import Gang, find_place, fixed_gang, ideal_gang
from tests.draws import rounds
from tests.scheduling.gpu_cluster import NEVER, gpu_cluster, job
from tests.scheduling.twins.gang_slow import fits, most_beside
from tests.scheduling.worlds import world

EVERY = frozenset(Architecture)


def test_the_ideal_type_is_the_fastest_that_a_server_can_hold() -> None:
    bid = replace(
        job("a", 1, 4),
        worker_time=(Fraction(3), Fraction(1), Fraction(2), Fraction(0)),
        transfer_time=(Fraction(0), Fraction(2), Fraction(0), Fraction(0)),
    )
    assert ideal_gang(bid, gpu_cluster(3), 1) == Gang(bid, worker=2, ps=None, count=1)
    assert ideal_gang(bid, gpu_cluster(2), 1) == Gang(bid, worker=0, ps=None, count=1)
    assert ideal_gang(bid, gpu_cluster(0), 1) is None


def test_a_fixed_gang_has_at_most_a_worker_a_chunk_and_depends_on_seed_and_id_alone() -> None:
    draws = {
        (seed, name): fixed_gang(job(name, 1, 60, workers=60), gpu_cluster(100), slots=99, seed=seed)
        for seed in range(4)
        for name in "abcdefghij"
    }
    counts = [gang.count for gang in draws.values() if gang is not None]
    assert len(counts) == len(draws)
    assert 1 <= min(counts) < max(counts) <= 30
    for (seed, name), gang in draws.items():
        heavy = replace(job(name, 1, 60, workers=60, weight=9), arrival=7)
        again = fixed_gang(heavy, gpu_cluster(100), slots=99, seed=seed)
        few = fixed_gang(job(name, 1, 60, workers=2), gpu_cluster(100), slots=99, seed=seed)
        assert gang is not None
        assert again == replace(gang, bid=heavy)
        assert few is not None
        assert few.count == min(2, gang.count)


def test_a_gang_too_large_for_the_empty_cluster_is_halved_and_one_that_never_fits_is_none() -> None:
    bid = job("a", 4, 60, workers=60)
    whole, halved = (fixed_gang(bid, gpu_cluster(gpus), slots=99, seed=0) for gpus in (120, 4))
    assert whole is not None
    assert halved is not None
    assert whole.count > halved.count == 1
    assert fixed_gang(bid, gpu_cluster(3), slots=99, seed=0) is None
    assert fixed_gang(job("a", 1, 10), gpu_cluster(4), slots=9, seed=0) is None
    assert fixed_gang(replace(job("a", 1, 1), worker_time=(NEVER,) * 4), gpu_cluster(4), slots=9, seed=0) is None


def test_a_gang_goes_to_the_fullest_server_with_room_for_all_else_to_as_few_as_possible() -> None:
    everywhere = np.ones(3, dtype=np.bool_)
    room = FreeCapacity(gpu_cluster(4, 2, 3), now=5, slots=9)
    places = {
        count: find_place(Gang(job("a", 1, 1, servers=3), 0, None, count), room, Fraction(1), usable=everywhere)
        for count in (2, 3, 4, 6, 10)
    }
    worker = Role.WORKER
    assert places == {
        2: ((worker, 1, 0, 2),),
        3: ((worker, 2, 0, 3),),
        4: ((worker, 0, 0, 4),),
        6: ((worker, 0, 0, 4), (worker, 2, 0, 2)),
        10: None,
    }


@settings(max_examples=rounds(50))
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 5))
def test_a_place_is_found_exactly_where_there_is_one(seed: int, count: int) -> None:
    drawn = world(seed, bids=1, architectures=EVERY)
    gang = ideal_gang(drawn.bids[0], drawn.inventory, count)
    if gang is None:
        return
    free = drawn.inventory.capacity
    found = find_place(
        gang,
        FreeCapacity(drawn.inventory, now=0, slots=10**6),
        Fraction(gang.bid.work),
        usable=np.ones(len(free), dtype=np.bool_),
    )
    most = most_beside(gang, drawn.inventory, free)
    assert (found is None) == (most is None)
    if found is None:
        return
    counts = [sum(n for role, s, _, n in found if role is Role.WORKER and s == server) for server in range(len(free))]
    hosts = [(s, n) for role, s, _, n in found if role is Role.PS]
    host, pss = hosts[0] if hosts else (-1, 0)
    assert sum(counts) == count
    assert len(hosts) == (gang.ps is not None)
    assert fits(gang, drawn.inventory, free, tuple(counts), host, pss)
    assert (counts[host] if hosts else max(counts)) == most


@settings(max_examples=rounds(17))
@given(seed=st.integers(0, 2**32 - 1))
def test_room_is_what_a_ledger_has_free_in_every_slot_of_a_window(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ledger = Ledger(gpu_cluster(50, 50), start=3, slots=8)
    held: list[Placement] = []

    def drawn() -> Placement:
        start, length = int(rng.integers(3, 11)), int(rng.integers(1, 9))
        return Placement(start, min(11, start + length), Role.WORKER, int(rng.integers(2)), int(rng.integers(4)), 1)

    for _ in range(4):
        ledger.commit(Schedule(3, 11, (drawn(),)))
    room = FreeCapacity.of(ledger)
    for _ in range(6):
        if held and rng.random() < 0.4:
            gone = held.pop()
            room.give(Allocation((gone,)))
            ledger.release(Schedule(3, 11, (gone,)), from_slot=3)
        else:
            held.append(drawn())
            room.take(Allocation((held[-1],)))
            ledger.commit(Schedule(3, 11, tuple(held[-1:])))
        for slots in range(1, 9):
            assert (room.free(slots) == ledger.inventory.capacity - ledger.used[:slots].max(axis=0)).all()
