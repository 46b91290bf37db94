"""Dorm: its programme against every division there is, and what it does as jobs come and go."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.arrays import Ints
from scheduling.baselines.dorm import Dorm
from scheduling.baselines.dorm_programme import Limits, Share, Wish, divide, pss_for
from scheduling.baselines.gang import Gang, ideal_gang
from scheduling.bid import Architecture
from scheduling.inventory import Inventory
from scheduling.schedule import Role
from scheduling.simulation import Simulation
from tests.scheduling.gpu_cluster import completions, gpu_cluster, job, run
from tests.scheduling.twins.dorm_slow import best, worth
from tests.scheduling.worlds import finer, world

FREE = Limits(unfairness=9.0, adjustments=9)


def workers(going: Simulation, name: str) -> list[int]:
    """Of each slot in which a job held any."""
    held = [p for p in going.done[name].held if p.role is Role.WORKER]
    slots = sorted({slot for p in held for slot in range(p.start, p.end)})
    return [sum(p.count for p in held if p.start <= slot < p.end) for slot in slots]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_no_division_is_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = world(seed, bids=int(rng.integers(1, 4)), servers=2, architectures=frozenset(Architecture))
    if rng.random() < 0.5:
        drawn = replace(drawn, inventory=finer(drawn.inventory, rng))
    bids = [replace(bid, chunks=min(2, bid.chunks)) for bid in drawn.bids]
    gangs = [gang for gang in (ideal_gang(bid, drawn.inventory, 1) for bid in bids) if gang is not None]
    left: Ints = drawn.inventory.capacity.copy()
    wishes = [_wish(gang, drawn.inventory, left, rng) for gang in gangs]
    free = left + sum((_units(w, drawn.inventory) for w in wishes if not w.fixed), np.zeros_like(left))
    limits = Limits(float(rng.uniform(0, 1)), int(rng.integers(0, 3)))
    shares = divide(wishes, drawn.inventory, free, limits)
    found = worth(shares, wishes, drawn.inventory, free, limits)
    assert found is not None
    assert abs(float(found - best(wishes, drawn.inventory, free, limits))) < 1e-6


def _wish(gang: Gang, inventory: Inventory, left: Ints, rng: np.random.Generator) -> Wish:
    """A job that waits, or holds some of what is left."""
    chunks = gang.bid.chunks
    wish = Wish(
        gang,
        least=int(rng.integers(1, chunks + 1)),
        target=int(rng.integers(1, chunks + 1)),
        usable=rng.random(len(inventory.servers)) < 0.8,
    )
    if rng.random() < 0.5:
        return wish
    workers = rng.multinomial(int(rng.integers(1, chunks + 1)), [0.5, 0.5])
    pss = rng.multinomial(pss_for(gang, int(workers.sum()), inventory), [0.5, 0.5])
    held = replace(wish, usable=np.ones(2, dtype=np.bool_), held=Share(workers, pss), fixed=bool(rng.random() < 0.3))
    if (_units(held, inventory) > left).any():
        return wish
    left -= _units(held, inventory)
    return held


def _units(wish: Wish, inventory: Inventory) -> Ints:
    units = np.zeros_like(inventory.capacity)
    if wish.held is not None:
        units += wish.held.workers[:, None] * inventory.worker_demand[wish.gang.worker]
        if wish.gang.ps is not None:
            units += wish.held.pss[:, None] * inventory.ps_demand[wish.gang.ps]
    return units


def test_a_job_alone_has_all_it_can_use() -> None:
    going = run(Dorm(), [job("a", 1, 12, workers=4)], 6)
    assert completions(going) == {"a": 3}
    assert workers(going, "a") == [4, 4, 4]


def test_who_has_more_than_its_share_gives_some_up_for_a_newcomer_and_loses_a_slot() -> None:
    jobs = [job("old", 1, 16, workers=4), job("new", 1, 4, workers=4, at=1)]
    going = run(Dorm(unfairness=0.0, adjustments=1.0), jobs, 4)
    # Of 16 worker-slots 4 are done in slot 0 and 2 in slot 2; slots 1 and 3 are lost, in 4 to 6 it has 4 workers again.
    assert workers(going, "old") == [4, 2, 2, 4, 4, 4, 4]
    assert workers(going, "new") == [2, 2]
    assert completions(going) == {"new": 3, "old": 7}


def test_where_unfairness_is_no_matter_nobody_is_adjusted_for_nothing() -> None:
    jobs = [job("old", 1, 16, workers=4), job("new", 1, 4, workers=4, at=1)]
    assert completions(run(Dorm(unfairness=1.0), jobs, 4)) == {"old": 4, "new": 5}


def test_only_so_many_are_adjusted() -> None:
    # 3, 3 and 2 workers would be fair.
    old = [job(f"old{i}", 1, 400, workers=4) for i in range(2)]
    for share, adjusted in ((0.0, 0), (0.5, 1), (1.0, 2)):
        going = run(Dorm(unfairness=0.0, adjustments=share), [*old, job("new", 1, 4, workers=4, at=1)], 8, slots=200)
        moved = {move.job for slot, move in going.moves if slot == 1 and move.job != "new"}
        assert len(moved) == adjusted


def test_jobs_in_line_beyond_those_considered_wait() -> None:
    jobs = [job("first", 1, 2), job("wide", 4, 1), job("slim", 1, 1)]
    assert completions(run(Dorm(considered=1), jobs, 4)) == {"first": 2, "wide": 3, "slim": 4}
    assert completions(run(Dorm(considered=2), jobs, 4)) == {"first": 2, "slim": 1, "wide": 3}


def test_a_job_starts_when_its_upload_is_over_and_nobody_is_adjusted_for_it() -> None:
    late = replace(job("late", 1, 2, workers=2), delay=(3,))
    going = run(Dorm(unfairness=0.0, adjustments=1.0), [job("old", 1, 40, workers=4), late], 5)
    assert going.moves[0] == (3, going.moves[0][1])
    assert workers(going, "late") == [1, 1]
    assert set(workers(going, "old")[:5]) == {4}


def test_what_cannot_be_complete_within_the_horizon_is_rejected() -> None:
    going = run(Dorm(), [job("endless", 1, 101, workers=2), job("fits", 1, 100, workers=2)], 3)
    assert [d.admitted for d in going.decisions] == [False, True]
    assert completions(going) == {"fits": 50}


def test_the_division_of_an_empty_line_is_empty() -> None:
    assert divide([], gpu_cluster(2), np.array([[2]]), FREE) == []
