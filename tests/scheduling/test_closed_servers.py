"""A server that takes no new work from a slot on: no policy allocates it, and it does not count as demand."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scheduling.best_response.elastic.kernel import ElasticKernel
from scheduling.best_response.rigid.kernel import RigidKernel
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Cause
from scheduling.model.decision import Move
from scheduling.model.errors import OverCapacity
from scheduling.model.inventory import Inventory
from scheduling.model.progress import work_done
from scheduling.model.schedule import Placement, Schedule
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.policies.simulation import Simulation, simulate
from scheduling.registry import POLICIES, make_policy, recorded_policy
from tests.draws import integers, rounds
from tests.scheduling import gpu_cluster
from tests.scheduling.policy_settings import SETTINGS
from tests.scheduling.test_dps import INVENTORY, held
from tests.scheduling.twins import elastic_cases, elastic_exact, elastic_milp, rigid_cases, rigid_exact, rigid_milp
from tests.scheduling.worlds import SLOTS, world_for

seeds = integers(0, 2**32 - 1)
quick = settings(max_examples=rounds(4, longer=60))
BOOKING = [(name, one) for name, many in SETTINGS.items() for one in many if not POLICIES[name].queues]
each_booking_policy = pytest.mark.parametrize(("name", "parameters"), BOOKING)


def test_what_it_holds_stays_and_nothing_new_is_put_there() -> None:
    ledger = Ledger(INVENTORY, start=0, slots=8, closed=(3, None))
    ledger.commit(held(start=0, end=3, server=0, count=1))
    with pytest.raises(OverCapacity, match="takes no new work from slot 3 on"):
        ledger.commit(held(start=2, end=4, server=0, count=1))
    ledger.restore([held(start=2, end=6, server=0, count=1)])
    assert ledger.held[:, 0, 0].tolist() == [1, 1, 2, 1, 1, 1, 0, 0]
    full = int(INVENTORY.capacity[0, 0])
    assert ledger.used[:, 0, 0].tolist() == [1, 1, 2, *[full] * 5]
    ledger.release(held(start=2, end=6, server=0, count=1), from_slot=2)
    assert ledger.used[:, 0, 0].tolist() == [1, 1, 1, *[full] * 5], "what is given back there is not sold again"


@quick
@given(slots=st.lists(st.integers(0, 5), max_size=6), first=st.integers(0, 12))
def test_it_stays_closed_as_slots_pass_and_in_copies(slots: list[int], first: int) -> None:
    ledger = Ledger(INVENTORY, start=0, slots=8, closed=(None, first))
    for passed in slots:
        ledger.advance(ledger.start + passed)
        for one in (ledger, ledger.copy(), ledger.without(())):
            shut = np.arange(one.start, one.end) >= first
            assert (one.is_closed()[:, 1] == shut).all()
            assert (one.used[:, 1] == np.where(shut[:, np.newaxis], INVENTORY.capacity[1], 0)).all()
            assert not one.used[:, 0].any()
        assert not ledger.opened().used.any()
        assert ledger.last_end >= ledger.end


def test_a_closed_slot_is_neither_sold_nor_for_sale() -> None:
    ledger = Ledger(INVENTORY, start=0, slots=8, closed=(2, None))
    ledger.commit(held(start=0, end=4, server=1, count=1))
    sold, sellable = ledger.sold(2)
    assert sellable.tolist() == (2 * INVENTORY.capacity.sum(axis=0)).tolist(), "it closes later"
    sold, sellable = ledger.sold(4)
    assert sold[0] == 4
    assert sellable.tolist() == (4 * INVENTORY.capacity.sum(axis=0) - 2 * INVENTORY.capacity[0]).tolist()


def closed_at_random(rng: np.random.Generator, inventory: Inventory, *, start: int, slots: int) -> Ledger:
    closed = [int(rng.integers(start, start + slots)) if rng.random() < 0.5 else None for _ in inventory.servers]
    return Ledger(inventory, start=start, slots=slots, closed=closed)


@given(seed=seeds)
@settings(max_examples=rounds(10, longer=60))
def test_rigid_jobs_get_the_best_of_what_is_open(seed: int) -> None:
    """Against every placement there is, and an integer program, which are asked about the open cells alone."""
    rng = np.random.default_rng(seed)
    problem = replace(rigid_cases.random_problem(rng), first_start=None)
    ledger = closed_at_random(rng, problem.inventory, start=problem.start, slots=len(problem.used))
    blocked = np.where(ledger.is_closed()[:, :, np.newaxis], problem.inventory.capacity, 0)
    problem = replace(problem, used=blocked)
    found = rigid_exact.best(problem)
    response = RigidKernel(ledger, problem.prices, problem.tail).best(problem.bid)  # type: ignore[arg-type]
    assert (0.0 if response is None else response.payoff) == pytest.approx(0.0 if found is None else found.payoff)
    assert max(0.0, rigid_milp.best_payoff(problem)) == pytest.approx(0.0 if found is None else found.payoff, abs=1e-6)
    if response is not None:
        ledger.commit(response.schedule)


@given(seed=seeds)
@settings(max_examples=rounds(10, longer=60))
def test_elastic_jobs_get_the_best_of_what_is_open(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = replace(elastic_cases.random_problem(rng), first_start=None)
    ledger = closed_at_random(rng, problem.inventory, start=problem.start, slots=len(problem.used))
    blocked = np.where(ledger.is_closed()[:, :, np.newaxis], problem.inventory.capacity, 0)
    problem = replace(problem, used=blocked)
    best = max(0.0, elastic_milp.best_payoff(problem))
    found = elastic_exact.best(problem)
    response = ElasticKernel(ledger, problem.prices).best(problem.bid)
    for one in (found, response):
        assert (0.0 if one is None else one.payoff) == pytest.approx(best, rel=1e-7, abs=1e-7)
    if response is not None:
        ledger.commit(response.schedule)


@each_booking_policy
@settings(max_examples=rounds(2, longer=120))
@given(seed=seeds)
@example(seed=10)  # a job ends before the server that it holds closes, within the slots that Dorm divides
@example(seed=23)  # a running job that may be stopped holds machines on a server that is closed
def test_no_policy_puts_a_job_on_a_closed_server(name: str, parameters: Json, seed: int) -> None:
    """The ledger raises where one would; servers are closed before the first bid, and others while jobs run."""
    policy = make_policy(name, parameters)
    drawn = world_for(policy, seed)
    rng = np.random.default_rng(seed)
    slots = np.sort(rng.integers(0, 6, len(drawn.bids))).tolist()
    bids = [replace(bid, arrival=slot) for bid, slot in zip(drawn.bids, slots, strict=True)]
    ledger = closed_at_random(rng, drawn.inventory, start=0, slots=SLOTS)
    run = simulate(policy, [bid for bid in bids if bid.arrival < 3], ledger, until=3)
    first = int(rng.integers(3, 6))
    closed = [ledger.closed.get(s) for s in range(len(drawn.inventory.servers))]
    for s in np.flatnonzero(rng.random(len(closed)) < 0.5).tolist():
        closed[s] = min(first, closed[s] or first)
    later = Ledger(drawn.inventory, start=run.book.now, slots=SLOTS, closed=closed)
    before = dict(run.book.jobs)
    later.restore(Schedule(0, 0, job.held) for job in before.values())
    book = RunningBook(later, run.book.history, run.book.decided, dict(before), None, [], run.book.offers)
    run = Simulation(policy, book, done=run.done)
    if not policy.binding:  # as in a live market, jobs that have not started are planned again
        book.apply(Move(name, None) for name, job in before.items() if job.held and not job.started(book.now))
    book.apply(policy.plan(book.view(), Cause.CHANGED))
    for bid in (bid for bid in bids if bid.arrival >= 3):
        run.advance(bid.arrival)
        run.arrive(bid)
    run.advance(60)
    for job in (*run.done.values(), *book.jobs.values()):
        known = before.get(job.bid.id)
        for p in job.held:
            shut = later.closed.get(p.server)
            new = known is None or not any(covers(old, p) for old in known.held)
            assert shut is None or p.end <= shut or not new, f"{job.bid.id} was put on a closed server: {p}"


def covers(old: Placement, p: Placement) -> bool:
    """Whether a placement is a part of one that was granted before."""
    same = (old.role, old.server, old.type, old.count) == (p.role, p.server, p.type, p.count)
    return same and old.start <= p.start and old.end >= p.end


@pytest.mark.parametrize("name", ["dps", "oasis"])
@quick
@given(seed=seeds)
def test_a_promise_is_kept_on_open_servers_by_the_slot_promised(name: str, seed: int) -> None:
    """A job that loses machines is complete as promised, with its whole work, or gets a reason."""
    policy = make_policy(name, {})
    drawn = world_for(policy, seed)
    bids = [replace(bid, arrival=0) for bid in drawn.bids]
    run = simulate(policy, bids, Ledger(drawn.inventory, start=0, slots=SLOTS), until=0)
    run.book.advance(1)
    for job in [job for job in run.book.jobs.values() if job.completion is not None and job.completion > 1]:
        lost = run.book.lose(job.bid.id)
        schedule = policy.keep_promise(replace(lost, completion=job.completion), run.book.view())
        assert schedule is not None, "where it was there is room"
        assert schedule.completion <= (job.completion or 0)
        run.book.keep(Move(job.bid.id, schedule))
        after = run.book.jobs[job.bid.id]
        assert [p for p in after.held if p.start < 1] == list(lost.held)
        assert work_done(job.bid, after.held, until=schedule.completion) == job.bid.work


def test_what_is_released_on_a_closed_server_can_be_sold_before_it_closes_only() -> None:
    ledger = Ledger(INVENTORY, start=0, slots=8, closed=(3, None))
    across, behind = (held(start=start, end=6, server=0, count=1).placements[0] for start in (1, 4))
    elsewhere = held(start=1, end=6, server=1, count=1).placements[0]
    assert list(ledger.sellable([across, behind, elsewhere])) == [across.until(3), elsewhere]


@pytest.mark.parametrize("name", ["srtf", "tiresias", "rrh"])
@pytest.mark.parametrize("make", [make_policy, recorded_policy])
def test_who_runs_on_a_closed_server_is_not_stopped_for_a_job_that_has_no_place_there(
    name: str, make: Callable[[str, Json], Policy]
) -> None:
    inventory = gpu_cluster.gpu_cluster(2, 2)
    jobs = [gpu_cluster.job(one, 2, slots, servers=2) for one, slots in (("long", 20), ("middle", 15))]
    run = simulate(make(name, {}), jobs, Ledger(inventory, start=0, slots=60), until=2)
    later = Ledger(inventory, start=2, slots=60, closed=(2, None))
    later.restore(Schedule(0, 0, one.held) for one in run.book.jobs.values())
    run.book = RunningBook(later, jobs=dict(run.book.jobs))
    run.arrive(gpu_cluster.job("short", 2, 3, at=2, servers=2))
    run.advance(60)
    # A policy that was recorded before it could do so stops the job for nothing.
    assert (run.done["long"].completion == 20) == (make is make_policy)
    assert run.done["short"].completion == 5
