"""Dorm: its program against every division there is, and what it does as jobs come and go."""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Cause
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision, Reason
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Ints
from scheduling.policies.baselines import dorm_program
from scheduling.policies.baselines.dorm import Dorm, workers_in_time
from scheduling.policies.baselines.dorm_program import Limits, Share, ShareRequest, divide, pss_for
from scheduling.policies.baselines.fifo import Fifo
from scheduling.policies.baselines.gang import Gang, ideal_gang
from scheduling.policies.simulation import Simulation
from scheduling.policies.weighted_completion import WeightedCompletion
from tests.draws import rounds
from tests.scheduling.gpu_cluster import completions, gpu_cluster, job, run
from tests.scheduling.twins.dorm_slow import best, value_of
from tests.scheduling.worlds import finer, world

FREE = Limits(unfairness=9.0, adjustments=9)


def workers(going: Simulation, name: str) -> list[int]:
    """Return the number of workers in each slot in which a job held any."""
    held = [p for p in going.done[name].held if p.role is Role.WORKER]
    slots = sorted({slot for p in held for slot in range(p.start, p.end)})
    return [sum(p.count for p in held if p.start <= slot < p.end) for slot in slots]


@settings(max_examples=rounds(20))
@given(seed=st.integers(0, 2**32 - 1))
def test_no_division_is_better(seed: int) -> None:
    requests, inventory, free, limits = _drawn(seed)
    shares = divide(requests, inventory, free, limits)
    found = value_of(shares, requests, inventory, free, limits)
    assert found is not None
    assert abs(float(found - best(requests, inventory, free, limits))) < 1e-6


@settings(max_examples=rounds(20))
@given(seed=st.integers(0, 2**32 - 1))
def test_no_division_of_a_large_program_is_better_that_adjusts_the_same_jobs(seed: int) -> None:
    requests, inventory, free, limits = _drawn(seed)
    with patch.object(dorm_program, "LARGEST", 0):
        shares = divide(requests, inventory, free, limits)
    found = value_of(shares, requests, inventory, free, limits)
    assert found is not None
    same = [
        replace(request, counts=()) if request.held is not None and share is request.held else request
        for request, share in zip(requests, shares, strict=True)
    ]
    assert abs(float(found - best(same, inventory, free, limits))) < 1e-6


def _drawn(seed: int) -> tuple[list[ShareRequest], Inventory, Ints, Limits]:
    """Requests on two servers, the units that are free to them, and limits."""
    rng = np.random.default_rng(seed)
    drawn = world(seed, bids=int(rng.integers(1, 4)), servers=2, architectures=frozenset(Architecture))
    if rng.random() < 0.5:
        drawn = replace(drawn, inventory=finer(drawn.inventory, rng))
    most = 4 if len(drawn.bids) == 1 else 2
    bids = [replace(bid, chunks=min(most, bid.chunks)) for bid in drawn.bids]
    gangs = [gang for gang in (ideal_gang(bid, drawn.inventory, 1) for bid in bids) if gang is not None]
    left: Ints = drawn.inventory.capacity.copy()
    requests = [_wish(gang, drawn.inventory, left, rng) for gang in gangs]
    free = left + sum((_units(w, drawn.inventory) for w in requests if not w.fixed), np.zeros_like(left))
    return requests, drawn.inventory, free, Limits(float(rng.uniform(0, 1)), int(rng.integers(0, 3)))


def _wish(gang: Gang, inventory: Inventory, left: Ints, rng: np.random.Generator) -> ShareRequest:
    """A job that waits, or holds some of what is left."""
    chunks = gang.bid.chunks
    request = ShareRequest(
        gang,
        counts=_ranges(chunks, rng),
        target=int(rng.integers(1, chunks + 1)),
        usable=rng.random(len(inventory.servers)) < 0.8,
    )
    if rng.random() < 0.5:
        return request
    workers = rng.multinomial(int(rng.integers(1, chunks + 1)), [0.5, 0.5])
    pss = rng.multinomial(pss_for(gang, int(workers.sum()), inventory), [0.5, 0.5])
    held = replace(request, usable=np.ones(2, dtype=np.bool_), held=Share(workers, pss), fixed=bool(rng.random() < 0.3))
    if (_units(held, inventory) > left).any():
        return request
    left -= _units(held, inventory)
    return held


def _ranges(chunks: int, rng: np.random.Generator) -> tuple[range, ...]:
    """Numbers of workers from some on; or fewer, with a gap between two ranges where there is room for one."""
    first = int(rng.integers(1, chunks + 1))
    if rng.random() < 0.5:
        return (range(first, chunks + 1),)
    return (range(1, 2), range(3, chunks + 1)) if chunks > 2 else (range(1, first + 1),)


def _units(request: ShareRequest, inventory: Inventory) -> Ints:
    units = np.zeros_like(inventory.capacity)
    if request.held is not None:
        units += request.held.workers[:, None] * inventory.worker_demand[request.gang.worker]
        if request.gang.ps is not None:
            units += request.held.pss[:, None] * inventory.ps_demand[request.gang.ps]
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


def ring(name: str, *, reduce: int, epochs: int, at: int = 0) -> Bid:
    """A ring of up to 27 workers. Each takes a quarter of a slot for a mini-batch, of which an epoch has 27; with N
    workers `reduce` x (N - 1) / N slots of waiting for one another come to that.
    """
    return replace(
        job(name, 1, 1, workers=27, at=at, servers=6),
        epochs=epochs,
        worker_time=(Fraction(1, 4), *(Fraction(10**6),) * 3),
        reduce_time=Fraction(reduce),
    )


def six_servers(bids: Sequence[Bid], *, slots: int = 40) -> Simulation:
    going = Simulation(Dorm(), RunningBook(Ledger(gpu_cluster(2, 3, 4, 5, 2, 3), start=0, slots=slots)))
    for bid in bids:
        going.advance(bid.arrival)
        going.arrive(bid)
    going.advance(120)
    return going


def test_a_ring_that_only_one_worker_completes_in_time_has_one_though_its_fair_share_is_more() -> None:
    # One worker needs 27 slots for 108 mini-batches, two would need 446.
    going = six_servers([ring("slow", reduce=16, epochs=4)])
    assert workers(going, "slow") == [1] * 27


def test_a_ring_that_one_worker_or_very_many_complete_in_time_has_no_number_between() -> None:
    # 8 slots of waiting: 22 workers or more need 40 slots at most for 108 mini-batches, and 19 are there.
    bid = ring("slow", reduce=8, epochs=4)
    assert workers_in_time(Gang(bid, 0, None, 1), Fraction(108), 40) == (range(1, 2), range(22, 28))
    assert workers(six_servers([bid]), "slow") == [1] * 27


def test_a_job_beside_a_slow_ring_is_decided_and_slots_pass() -> None:
    jobs = [ring("quick", reduce=0, epochs=2), ring("slow", reduce=16, epochs=4, at=1)]
    going = six_servers([*jobs, ring("last", reduce=0, epochs=1, at=3)])
    assert not going.book.jobs
    assert set(completions(going)) == {"quick", "slow", "last"}


def test_a_ring_that_no_number_of_workers_completes_in_time_is_rejected_in_words() -> None:
    decision = six_servers([ring("endless", reduce=60, epochs=100)]).decisions[0]
    assert (decision.admitted, decision.reason) == (False, Reason.IMPOSSIBLE)
    assert "could not complete it in 40 slots" in decision.explanation


@given(
    work=st.fractions(Fraction(1, 9), 500),
    step=st.fractions(Fraction(1, 100), 3),
    wait=st.fractions(0, 30),
    slots=st.integers(0, 60),
    chunks=st.integers(1, 40),
)
def test_workers_in_time_are_all_that_are(
    work: Fraction, step: Fraction, wait: Fraction, slots: int, chunks: int
) -> None:
    bid = replace(ring("a", reduce=0, epochs=1), chunks=chunks, reduce_time=wait)
    gang = Gang(replace(bid, worker_time=(step, *bid.worker_time[1:])), 0, None, 1)
    found = [count for some in workers_in_time(gang, work, slots) for count in some]
    every = [n for n in range(1, chunks + 1) if replace(gang, count=n).duration(work, spread=True) <= slots]
    assert found == every


def test_a_job_that_is_late_on_different_servers_waits_where_another_policy_had_put_it_in_line() -> None:
    # Two workers on one server need 3 slots of the horizon's 5, on two servers 18; one worker needs 6.
    blocker = job("before", 2, 4)
    near = replace(job("near", 1, 1, workers=2), transfer_time=(Fraction(30),) * 4)
    near = replace(near, worker_time=(Fraction(3), *near.worker_time[1:]))
    assert workers_in_time(Gang(near, 0, None, 1), Fraction(near.work), 5) == ()
    going = Simulation(Fifo(), RunningBook(Ledger(gpu_cluster(2), start=0, slots=5)))
    assert all(going.arrive(bid).admitted for bid in (blocker, near))
    going.policy = Dorm()
    going._plan(Cause.CHANGED)
    going.advance(20)
    assert list(going.book.jobs) == ["near"]
    assert going.book.jobs["near"].completion is None


def test_a_job_that_another_policy_gave_another_type_keeps_what_it_holds() -> None:
    # A worker of two GPUs would be faster, but one GPU is taken.
    two = replace(job("two", 2, 4, at=1), worker_time=(Fraction(2), Fraction(1), Fraction(10**6), Fraction(10**6)))
    going = Simulation(WeightedCompletion(), RunningBook(Ledger(gpu_cluster(2), start=0, slots=20)))
    for bid in (job("one", 1, 9), two):
        going.advance(bid.arrival)
        going.arrive(bid)
    going.advance(2)
    going.policy = Dorm(unfairness=0.0, adjustments=1.0)
    going._plan(Cause.CHANGED)
    going.arrive(job("late", 1, 1, at=2))
    assert {name: known.completion for name, known in going.book.jobs.items()} == {"one": 9, "two": 9, "late": None}
    going.advance(20)
    assert completions(going) == {"one": 9, "two": 9, "late": 10}


def test_who_holds_machines_that_a_bound_job_has_later_keeps_them() -> None:
    # "a" and "b" hold all four GPUs up to slot 4, and another policy has promised them from slot 6 on.
    going = Simulation(Fifo(), RunningBook(Ledger(gpu_cluster(4), start=0, slots=20)))
    for bid in (job("a", 2, 4), job("b", 2, 4)):
        going.arrive(bid)
    promised = Schedule(6, 9, (Placement(6, 9, Role.WORKER, 0, 3, 1),))
    admitted = Decision.admit("c", promised, "", slot=0, value=1.0, standalone_value=1.0, density=(0.0,))
    going.book.apply_decision(job("c", 4, 3), admitted, bound=True)
    going.advance(1)
    going.policy = Dorm()
    going.arrive(job("d", 1, 1, at=1))
    assert {name: known.completion for name, known in going.book.jobs.items()} == {"a": 4, "b": 4, "c": 9, "d": None}
    going.advance(20)
    assert completions(going) == {"a": 4, "b": 4, "c": 9, "d": 10}


def test_who_keeps_its_machines_leaves_them_to_nobody_else() -> None:
    # "a" holds 3 of 4 GPUs up to slot 4; 2 are promised from slot 6 on, so "a" could not hold 3 for the whole horizon.
    going = Simulation(Fifo(), RunningBook(Ledger(gpu_cluster(4), start=0, slots=20)))
    going.arrive(job("a", 3, 4))
    promised = Schedule(6, 9, (Placement(6, 9, Role.WORKER, 0, 1, 1),))
    admitted = Decision.admit("c", promised, "", slot=0, value=1.0, standalone_value=1.0, density=(0.0,))
    going.book.apply_decision(job("c", 2, 3), admitted, bound=True)
    going.advance(1)
    going.policy = Dorm()
    going.arrive(job("two", 2, 1, at=1))
    going.arrive(job("one", 1, 1, at=1))
    going.advance(20)
    assert completions(going) == {"a": 4, "c": 9, "two": 5, "one": 2}
