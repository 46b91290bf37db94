"""Policies that queue: what workers do is what was dispatched, and forecasts come true."""

from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Cause
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.schedule import CLOUD
from scheduling.model.types import Json
from scheduling.model.utility import Constant
from scheduling.policies.simulation import Simulation
from scheduling.preemptive.queues import Queues
from scheduling.preemptive.workers import TICKS
from scheduling.registry import make_policy
from tests.scheduling.policy_settings import each_queuer
from tests.scheduling.queue_record import joined, place, preemptions, segments
from tests.scheduling.test_every_policy import quick, run, seeds
from tests.scheduling.worlds import World


def cancel_some(going: Simulation, seed: int) -> set[str]:
    """Cancel about every third job that is in the book."""
    rng = np.random.default_rng(seed)
    gone = {name for name in sorted(going.book.jobs) if rng.random() < 0.3}
    for name in sorted(gone):
        going.cancel(name)
    return gone


@each_queuer
@quick
@given(seed=seeds)
def test_every_chunk_is_processed_once_where_it_was_sent(name: str, parameters: Json, seed: int) -> None:
    drawn, bids, going = run(make_policy(name, parameters), seed)
    by_id, queues = {bid.id: bid for bid in bids}, Queues(drawn.inventory, now=0)
    sent: Counter[tuple[str, tuple[int, int, int]]] = Counter()
    for job, slot, chunks in joined(going):
        bid = by_id[job]
        task = queues.task(bid)
        assert task is not None
        assert chunks.type == task.worker
        alone = chunks.index == CLOUD and chunks.count == bid.chunks
        sent[job, place(chunks)] += chunks.count * (task.alone if alone else task.each)
        first = (slot + bid.delay[chunks.server]) * TICKS
        assert all(s.start >= first for s in segments(going) if (s.job, place(s)) == (job, place(chunks)))
    done: Counter[tuple[str, tuple[int, int, int]]] = Counter()
    for s in segments(going):
        done[s.job, place(s)] += (s.end - s.start) * s.count
    assert done == sent
    chunk_counts: Counter[str] = Counter()
    for job, _, chunks in joined(going):
        chunk_counts[job] += chunks.count
    assert chunk_counts == {job: by_id[job].chunks for job in going.done}


@each_queuer
@quick
@given(seed=seeds)
def test_queues_of_an_earlier_slot_catch_up_with_their_book(name: str, parameters: Json, seed: int) -> None:
    _, _, going = run(make_policy(name, parameters), seed, until=3)
    late = going.book.copy()
    going.book.advance(7)
    late.ledger.advance(7)
    late.catch_up_queues()
    assert segments(Simulation(going.policy, late)) == segments(going)
    known = len(going.book.ran)
    going.book.catch_up_queues()
    assert len(going.book.ran) == known, "queues that are up to date run nothing"


@each_queuer
@quick
@given(seed=seeds)
@example(seed=1)  # many chunks for a small cloud, which few of the drawn worlds have
def test_no_worker_does_two_things_at_once(name: str, parameters: Json, seed: int) -> None:
    drawn, _, going = run(make_policy(name, parameters), seed, until=6)
    cancel_some(going, seed)
    going.advance(400)
    at: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
    for s in segments(going):
        at[place(s)].append((s.start, s.end))
    for (server, kind, index), rows in at.items():
        if index != CLOUD:
            assert index < Queues(drawn.inventory, now=0).workers.count[server, kind]
            assert all(end <= start for (_, end), (start, _) in pairwise(sorted(rows)))
    assert_cloud_within_capacity(going, drawn)


def assert_cloud_within_capacity(going: Simulation, drawn: World) -> None:
    steps: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for s in segments(going):
        if s.index == CLOUD:
            steps[s.server, s.type] += [(s.start, s.count), (s.end, -s.count)]
    for (server, kind), rows in steps.items():
        most = Queues(drawn.inventory, now=0).workers.count[server, kind]
        assert np.cumsum([count for _, count in sorted(rows)]).max() <= most


@each_queuer
@quick
@given(seed=seeds)
def test_completions_are_those_that_were_forecast_last(name: str, parameters: Json, seed: int) -> None:
    _, _, going = run(make_policy(name, parameters), seed, until=6)
    gone = cancel_some(going, seed)
    going.advance(400)
    assert not going.book.jobs
    ends: dict[str, int] = {}
    starts: dict[str, int] = {}
    for s in segments(going):
        ends[s.job] = max(ends.get(s.job, 0), s.end)
        starts[s.job] = min(starts.get(s.job, s.start), s.start)
    for job in going.done.values():
        assert job.bid.id not in gone
        assert job.completion == -(-ends[job.bid.id] // TICKS)
        assert job.queued_from == starts[job.bid.id] // TICKS


@each_queuer
@quick
@given(seed=seeds)
def test_only_a_better_rank_preempts(name: str, parameters: Json, seed: int) -> None:
    drawn, bids, going = run(make_policy(name, parameters), seed)
    queues = Queues(drawn.inventory, now=0)

    def rank(bid: Bid) -> int:
        return queues.rank(bid, int(parameters.get("ageing", 0.0) * bid.arrival * TICKS))[0]

    order: dict[str, int] = {}
    by_id = {bid.id: bid for bid in bids}
    for job, _, _ in joined(going):
        order.setdefault(job, len(order))
    for lost in preemptions(going):
        ahead, behind = ((rank(by_id[name]), order[name]) for name in (lost.by, lost.job))
        assert ahead < behind


@each_queuer
@quick
@given(seed=seeds)
def test_chunks_of_workers_that_are_gone_are_sent_elsewhere_with_their_old_rank(
    name: str, parameters: Json, seed: int
) -> None:
    policy = make_policy(name, parameters)
    drawn, _, going = run(policy, seed, until=4)
    queues = going.book.queues
    if queues is None:
        return
    kept = [s for s in range(len(drawn.inventory.servers)) if s != seed % len(drawn.inventory.servers)]
    inventory = replace(
        drawn.inventory,
        servers=tuple(drawn.inventory.servers[s] for s in kept),
        cloud=tuple(drawn.inventory.cloud[s] for s in kept),
        capacity=drawn.inventory.capacity[kept],
    )
    where = [kept.index(s) if s in kept else None for s in range(len(drawn.inventory.servers))]
    bids = {
        job.bid.id: replace(job.bid, delay=tuple(job.bid.delay[s] for s in kept)) for job in going.book.jobs.values()
    }
    types = list(range(len(inventory.workers)))
    new = queues.relaid(inventory, servers=where, types=types, bids=bids)
    for job in queues.jobs:
        assert new.order_of(job) == queues.order_of(job)
        lost = sum(c.count for c in queues.left(job) if c.server not in kept)
        assert new.waiting(bids[job]) == queues.waiting(going.book.jobs[job].bid) + lost
        assert sum(c.count for c in new.left(job)) == sum(c.count for c in queues.left(job)) - lost


def test_what_could_not_be_counted_waits_in_line() -> None:
    """Jobs of 10,000 chunks of 9,999 slots: 23 of them end before the last tick there is a number for."""
    machines = (MachineType("worker", (1, 0), Fraction(1)),), (MachineType("ps", (0, 1), Fraction(1)),)
    inventory = Inventory(("worker", "ps"), ("s",), (False,), np.array([[1, 99]], dtype=np.int64), *machines)
    policy, book = make_policy("preemptive", {}), RunningBook(Ledger(inventory, start=0, slots=10_000))
    admitted = []
    for i in range(25):
        bid = Bid(str(i), 0, 1, 10_000, 1, (Fraction(9999),), (Fraction(0),), (Fraction(0),), (0,), Constant(1.0))
        admitted.append(policy.decide(bid, book.view()))
        book.apply_decision(bid, admitted[-1], bound=False)
    assert [decision.admitted for decision in admitted] == [True] * 25
    assert [decision.schedule is None for decision in admitted] == [False] * 23 + [True] * 2
    book.end("0")
    book.apply(policy.plan(book.view(), Cause.ENDED))
    assert [name for name, job in book.jobs.items() if job.completion is None] == ["24"]


def test_a_cluster_with_too_many_workers_at_the_edge_is_refused() -> None:
    """Two GPUs a worker: half as many workers as units; the cloud's workers are only counted."""
    machines = (MachineType("gpus", (2, 0), Fraction(1)),), (MachineType("ps", (0, 1), Fraction(1)),)
    capacity = np.array([[1_999_998, 1], [2, 1], [10**9, 1]], dtype=np.int64)
    most = Inventory(("gpu", "ps"), ("a", "b", "c"), (False, False, True), capacity, *machines)
    policy = make_policy("preemptive", {})
    policy.check(most)
    more = capacity.copy()
    more[1, 0] = 4
    with pytest.raises(InvalidField, match=r"capacity: expected at most 1,000,000 workers .* got 1,000,001 gpus$"):
        policy.check(replace(most, capacity=more))
