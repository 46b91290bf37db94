"""What holds for every registered policy, as bids arrive and slots pass, at every parameter that changes decisions."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Job
from scheduling.model.bid import Architecture, Bid
from scheduling.model.decision import Decision, Move, canonical, parse
from scheduling.model.inventory import Inventory
from scheduling.model.progress import constellations, work_done
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Ints, Json
from scheduling.model.utility import Inverse, Linear
from scheduling.policies.base import Objective, Policy
from scheduling.policies.simulation import Simulation, simulate
from scheduling.registry import POLICIES, make_policy
from tests.draws import integers, rounds
from tests.scheduling.policy_settings import SETTINGS, each_planner, each_policy
from tests.scheduling.queue_record import queues_from_record
from tests.scheduling.worlds import SLOTS, World, rings, world_for

UNTIL = 400
"""Slots after which every job must be complete, whatever the policy."""
seeds = integers(0, 2**32 - 1)
quick = settings(max_examples=rounds(1, longer=120))


def arriving(drawn: World, seed: int) -> list[Bid]:
    """The world's bids, arriving over the first slots."""
    slots = np.sort(np.random.default_rng(seed).integers(0, 6, len(drawn.bids)))
    return [replace(bid, arrival=int(slot)) for bid, slot in zip(drawn.bids, slots, strict=True)]


def run(policy: Policy, seed: int, *, until: int = UNTIL) -> tuple[World, list[Bid], Simulation]:
    drawn = world_for(policy, seed)
    bids = arriving(drawn, seed)
    return drawn, bids, simulate(policy, bids, Ledger(drawn.inventory, start=0, slots=SLOTS), until=until)


RINGS = [
    (name, one) for name, many in SETTINGS.items() if Architecture.RING in POLICIES[name].architectures for one in many
]


@pytest.mark.parametrize(("name", "parameters"), RINGS)
@quick
@given(seed=seeds)
def test_a_ring_whose_workers_wait_for_one_another_is_scheduled_within_the_horizon(
    name: str, parameters: Json, seed: int
) -> None:
    drawn = rings(seed)
    policy, bids = make_policy(name, parameters), arriving(drawn, seed)
    going = simulate(policy, bids, Ledger(drawn.inventory, start=0, slots=SLOTS), until=UNTIL)
    granted = [(d.slot, d.schedule) for d in going.decisions] + [(slot, move.schedule) for slot, move in going.moves]
    assert all(schedule.completion <= slot + SLOTS for slot, schedule in granted if schedule is not None)
    rejected = [d.bid_id for d in going.decisions if not d.admitted]
    assert sorted([*rejected, *going.done]) == sorted(bid.id for bid in bids)
    for job in going.done.values():
        assert_kept(job, drawn.inventory, pause=policy.pause)


@each_policy
@quick
@given(seed=seeds)
def test_no_completion_is_worth_more_than_the_bound_in_the_receipt(name: str, parameters: Json, seed: int) -> None:
    """Also for a bid that stated a utility under an earlier policy, where now bids state weights."""
    policy = make_policy(name, parameters)
    drawn = world_for(policy, seed)
    book = RunningBook(Ledger(drawn.inventory, start=0, slots=SLOTS)).view()
    for bid in drawn.bids:
        for utility in (Inverse(a=1.0, work=30.0, T=12.0), Linear(20.0, 1.0)):
            decision = policy.decide(replace(bid, utility=utility, arrival=0), book)
            assert decision.value <= decision.standalone_value * (1 + 1e-12)


def held_by(jobs: Iterable[Job], inventory: Inventory) -> Ints:
    placements = [p for job in jobs for p in job.held]
    used = np.zeros((max((p.end for p in placements), default=0), *inventory.capacity.shape), dtype=np.int64)
    for p in placements:
        used[p.start : p.end, p.server] += p.count * np.array(p.machine(inventory).demand)
    return used


def test_every_registered_policy_is_tried_here() -> None:
    assert set(SETTINGS) == set(POLICIES)


@each_policy
@quick
@given(seed=seeds)
def test_runs_stay_within_capacity_lose_no_job_say_why_and_give_the_same_bytes_again(
    name: str, parameters: Json, seed: int
) -> None:
    policy = make_policy(name, parameters)
    drawn, bids, first = run(policy, seed)
    assert_within_capacity(first, drawn.inventory)
    assert_all_complete(first, bids)
    assert_decisions_say_why(first, policy, drawn.inventory)
    assert_same_bytes(first, run(make_policy(name, parameters), seed)[2])


def assert_within_capacity(going: Simulation, inventory: Inventory) -> None:
    used = held_by([*going.done.values(), *going.book.jobs.values()], inventory)
    assert (used <= inventory.capacity).all()


def assert_all_complete(going: Simulation, bids: list[Bid]) -> None:
    """Every job is complete in the end, and none is lost."""
    rejected = [d.bid_id for d in going.decisions if not d.admitted]
    assert [d.bid_id for d in going.decisions] == [bid.id for bid in bids]
    assert not going.book.jobs
    assert sorted([*rejected, *going.done]) == sorted(bid.id for bid in bids)


@each_policy
@quick
@given(seed=seeds, until=integers(0, 12))
def test_a_job_runs_after_its_upload_within_its_limits_and_gets_its_whole_work(
    name: str, parameters: Json, seed: int, until: int
) -> None:
    policy = make_policy(name, parameters)
    drawn, _, going = run(policy, seed, until=until)
    for job in [*going.done.values(), *going.book.jobs.values()]:
        assert_kept(job, drawn.inventory, pause=policy.pause)


def assert_kept(job: Job, inventory: Inventory, *, pause: int) -> None:
    bid = job.bid
    if job.queued_from is not None:  # see test_preemptive_policy.py
        assert not job.held
        return
    assert all(p.start >= bid.arrival + bid.delay[p.server] for p in job.held)
    if job.completion is not None:
        assert max(p.end for p in job.held) >= job.completion
        assert work_done(bid, job.held, until=job.completion, pause=pause) == bid.work
    for _, _, machines in constellations(job.held):
        workers = [p for p in machines if p.role is Role.WORKER]
        pss = [p for p in machines if p.role is Role.PS]
        assert 1 <= sum(p.count for p in workers) <= bid.chunks
        assert len({p.type for p in workers}) == 1
        if bid.architecture is Architecture.RING:
            assert not pss
        else:
            assert_served(workers, pss, inventory)


def assert_served(workers: list[Placement], pss: list[Placement], inventory: Inventory) -> None:
    """Parameter servers for the bandwidth of every worker that is not beside them."""
    assert len({p.type for p in pss}) == 1
    hosts = {p.server for p in pss}
    remote = sum(p.count for p in workers if p.server not in hosts)
    rate = inventory.workers[workers[0].type].bandwidth_mbps
    assert remote * rate <= sum(p.count for p in pss) * inventory.parameter_servers[pss[0].type].bandwidth_mbps


def assert_decisions_say_why(going: Simulation, policy: Policy, inventory: Inventory) -> None:
    """No decision costs its owner more than its value."""
    for decision in going.decisions:
        assert decision.explanation
        assert len(decision.density) == len(inventory.resources)
        assert (decision.reason is None) == decision.admitted
        assert 0 <= decision.payment <= decision.value
        assert decision.payoff == decision.value - decision.payment
        if policy.objective is not Objective.WELFARE:
            assert decision.payment == 0
        if policy.binding:
            assert (decision.schedule is not None) == decision.admitted
            assert not decision.moves


def assert_same_bytes(first: Simulation, second: Simulation) -> None:
    assert receipts(first) == receipts(second)
    assert [canonical(Decision.from_json(parse(text)).to_json()) for text in receipts(first)] == receipts(first)
    assert moves(first) == moves(second)
    assert [(slot, canonical(Move.from_json(parse(text)).to_json())) for slot, text in moves(first)] == moves(first)


def receipts(going: Simulation) -> list[str]:
    return [canonical(decision.to_json()) for decision in going.decisions]


def moves(going: Simulation) -> list[tuple[int, str]]:
    return [(slot, canonical(move.to_json())) for slot, move in going.moves]


@each_policy
@quick
@given(seed=seeds, until=integers(0, 8))
def test_a_book_rebuilt_from_its_rows_goes_on_in_the_same_way(
    name: str, parameters: Json, seed: int, until: int
) -> None:
    policy = make_policy(name, parameters)
    drawn, bids, going = run(policy, seed, until=until)
    book = going.book
    ledger = Ledger(drawn.inventory, start=book.now, slots=SLOTS)
    for job in book.jobs.values():
        ledger.restore([Schedule(start=0, completion=0, placements=job.held)])
    known, queues = dict(book.jobs), queues_from_record(going, drawn.inventory)
    kept = RunningBook(ledger, book.history.copy(), book.decided, known, queues, offers=book.offers.copy())
    again = Simulation(policy, kept)
    rest = [bid for bid in bids if bid.arrival > until] or [replace(bids[-1], id="late", arrival=until)]
    done, made = len(going.decisions), len(going.moves)
    for side in (going, again):
        for bid in rest:
            side.advance(bid.arrival)
            side.arrive(bid)
        side.advance(12)
    assert receipts(going)[done:] == receipts(again)
    assert moves(going)[made:] == moves(again)


@each_policy
@quick
@given(seed=seeds, factor=integers(15, 500).map(lambda tenths: tenths / 10))
def test_the_payment_does_not_depend_on_the_value_stated_given_the_schedule(
    name: str, parameters: Json, seed: int, factor: float
) -> None:
    policy = make_policy(name, parameters)
    _, bids, going = run(policy, seed, until=3)
    bid = replace(bids[-1], id="last", arrival=going.book.now)
    modest = policy.decide(bid, going.book.view())
    boasting = policy.decide(replace(bid, utility=bid.utility.scaled(factor)), going.book.view())
    if modest.admitted:
        assert boasting.admitted
        # A bid under completions buys a promised slot: two of them may have the same schedule for now.
        if (modest.schedule, modest.due) == (boasting.schedule, boasting.due):
            assert modest.payment == boasting.payment


@each_policy
@quick
@given(seed=seeds)
def test_prices_are_finite_and_never_negative(name: str, parameters: Json, seed: int) -> None:
    policy = make_policy(name, parameters)
    drawn, _, going = run(policy, seed, until=5)
    prices = policy.prices(going.book.view())
    assert prices.shape == (SLOTS, *drawn.inventory.capacity.shape)
    assert np.isfinite(prices).all()
    assert (prices >= 0).all()


@each_policy
@quick
@given(seed=seeds)
def test_it_goes_on_when_jobs_are_cancelled(name: str, parameters: Json, seed: int) -> None:
    policy = make_policy(name, parameters)
    drawn, _, going = run(policy, seed, until=4)
    cancelled, rng = [], np.random.default_rng(seed)
    for _ in range(int(rng.integers(len(going.book.jobs) + 1))):
        job = going.cancel(str(rng.choice(sorted(going.book.jobs))))
        cancelled.append(replace(job, held=tuple(p.until(4) for p in job.held if p.start < 4), completion=None))
    going.advance(UNTIL)
    assert not going.book.jobs
    everyone = [*going.done.values(), *cancelled]
    assert (held_by(everyone, drawn.inventory) <= drawn.inventory.capacity).all()
    for job in everyone:
        assert_kept(job, drawn.inventory, pause=policy.pause)


@each_policy
@quick
@given(seed=seeds)
def test_renaming_servers_changes_no_completion(name: str, parameters: Json, seed: int) -> None:
    policy = make_policy(name, parameters)
    drawn = world_for(policy, seed)
    order = np.random.default_rng(seed).permutation(len(drawn.inventory.servers))
    renamed = replace(
        drawn.inventory,
        servers=tuple(drawn.inventory.servers[s] for s in order),
        cloud=tuple(drawn.inventory.cloud[s] for s in order),
        capacity=drawn.inventory.capacity[order],
    )
    # The first bid only: where two servers are alike the first is taken, which later bids may feel.
    here, there = (
        policy.decide(bid, RunningBook(Ledger(inventory, start=0, slots=SLOTS)).view())
        for inventory, bid in (
            (drawn.inventory, drawn.bids[0]),
            (renamed, replace(drawn.bids[0], delay=tuple(drawn.bids[0].delay[s] for s in order))),
        )
    )
    assert (here.admitted, here.reason) == (there.admitted, there.reason)
    assert there.payoff == pytest.approx(here.payoff, rel=1e-9, abs=1e-9)
    if here.schedule is not None and there.schedule is not None:
        assert here.schedule.completion == there.schedule.completion


@each_planner
@quick
@given(seed=seeds, factor=integers(0, 2).map((0.25, 2.0, 1024.0).__getitem__))
def test_where_nobody_pays_only_the_ratio_of_weights_matters(
    name: str, parameters: Json, seed: int, factor: float
) -> None:
    policy = make_policy(name, parameters)
    drawn = world_for(policy, seed)
    heavier = replace(drawn, bids=tuple(replace(b, utility=b.utility.scaled(factor)) for b in drawn.bids))
    here, there = (
        simulate(policy, arriving(one, seed), Ledger(one.inventory, start=0, slots=SLOTS), until=UNTIL)
        for one in (drawn, heavier)
    )
    assert {key: job.held for key, job in here.done.items()} == {key: job.held for key, job in there.done.items()}
