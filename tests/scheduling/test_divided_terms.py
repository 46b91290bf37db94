"""The dual bound of jobs that may be stopped and moved: against optima found by trying everything, and in examples."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.best_response.divided.terms import DividedTerms
from scheduling.best_response.dual_bound import elastic_terms, rigid_terms
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.model.bid import Architecture, Bid
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Floats
from scheduling.model.utility import Constant, Linear, Step, Utility
from scheduling.offline import OfflineProblem, lagrangian
from scheduling.policies.completions import Completions
from scheduling.policies.simulation import Simulation
from tests.draws import rounds
from tests.scheduling.gpu_cluster import gpu_cluster, job
from tests.scheduling.offline.outcomes import forever
from tests.scheduling.test_completions import HORIZON, STANDING, policy, stream
from tests.scheduling.twins.dual_bound import dual_bound
from tests.scheduling.twins.offline_exact import most_stopped
from tests.scheduling.worlds import SLOTS, World, world

seeds = st.integers(0, 2**32 - 1)


def by_slot(*money: float) -> Floats:
    """Prices of one server with one resource."""
    return np.array(money).reshape(-1, 1, 1)


def test_a_job_runs_in_cheap_slots_and_is_stopped_in_dear_ones() -> None:
    terms = DividedTerms(gpu_cluster(1), by_slot(1, 9, 9, 2, 0), start=0)
    assert terms.term(job("a", 1, 2, weight=20)) == 19
    assert terms.term(job("a", 1, 2, weight=20), end=4) == 17
    assert terms.term(job("a", 1, 2, weight=20), first=1, end=3) == 2
    assert terms.term(job("a", 1, 2, weight=20), first=4) == 0
    # Each slot of waiting costs 6: it is best to pay 10 for the first two.
    assert terms.term(replace(job("a", 1, 2), utility=Linear(30, 6))) == 8


def test_each_slot_has_the_price_of_its_cheapest_server() -> None:
    prices = np.array([[[1.0], [5.0]], [[5.0], [2.0]]])
    assert DividedTerms(gpu_cluster(1, 1), prices, start=0).term(job("a", 1, 2, servers=2, weight=20)) == 17
    assert DividedTerms(gpu_cluster(1, 0), prices, start=0).term(job("a", 1, 2, servers=2, weight=20)) == 14


def test_a_job_that_no_server_can_host_has_a_term_of_zero() -> None:
    assert DividedTerms(gpu_cluster(0), by_slot(0, 0, 0), start=0).term(job("a", 1, 1)) == 0


@settings(max_examples=rounds(25))
@given(seed=seeds, level=st.floats(0, 20))
def test_no_term_is_below_that_of_machines_that_stay_or_change_by_slot(seed: int, level: float) -> None:
    drawn = world(seed, bids=6, kind="apart")
    prices = np.random.default_rng(seed).uniform(0, level, (SLOTS, *drawn.inventory.capacity.shape))
    divided = DividedTerms(drawn.inventory, prices, start=0)
    others = (rigid_terms(drawn.inventory, prices, start=0), elastic_terms(drawn.inventory, prices, start=0))
    for bid in drawn.bids:
        for terms in others:
            assert divided.term(bid, first=1, end=7) >= terms.term(bid, first=1, end=7) * (1 - 1e-6)


def tiny(seed: int) -> World:
    """Three jobs on two servers, of which at most two chunks are processed at a time."""
    drawn = world(seed, bids=3, servers=2, architectures=frozenset(Architecture))
    return replace(drawn, bids=tuple(replace(bid, chunks=min(bid.chunks, 2)) for bid in drawn.bids))


@settings(max_examples=rounds(12))
@given(seed=seeds, level=st.floats(0, 5))
def test_no_bound_is_below_the_optimum_of_jobs_that_are_stopped_and_moved(seed: int, level: float) -> None:
    drawn, slots = tiny(seed), 4
    best = most_stopped(drawn.bids, drawn.inventory, slots=slots) * (1 - 1e-9)
    problem = OfflineProblem(drawn.bids, drawn.inventory, 0, slots, open_end=False)
    assert lagrangian(problem, forever, steps=40).answer.bound >= best
    random = np.random.default_rng(seed).uniform(0, level, (slots, *drawn.inventory.capacity.shape))
    for prices in (random, 0 * random):
        terms = DividedTerms(drawn.inventory, prices, start=0)
        assert dual_bound(drawn.bids, drawn.inventory, prices=prices, terms=terms) >= best


@settings(max_examples=rounds(6, longer=60))
@given(seed=seeds, level=st.floats(0, 20), standing=st.booleans())
def test_no_stream_of_completions_earns_more_than_any_bound(seed: int, level: float, standing: bool) -> None:
    drawn, bids = stream(seed)
    going = Simulation(
        policy({"later": 0.05}), RunningBook(Ledger(drawn.inventory, start=0, slots=HORIZON)), rule=STANDING
    )
    posted: list[Floats] = []
    for bid in bids:
        while going.book.now < bid.arrival:
            posted.append(going.policy.prices(going.book.view())[0])
            going.advance(going.book.now + 1)
        going.arrive(bid)
    posted.extend(going.policy.prices(going.book.view()))
    prices = np.array(posted)
    welfare = sum(decision.value for decision in going.decisions) * (1 - 1e-9)
    random = np.random.default_rng(seed).uniform(0, level, prices.shape)
    for some in (prices, random, 0 * prices):
        terms = going.policy.at_prices(drawn.inventory, some, start=0)
        assert terms is not None
        assert dual_bound(bids, drawn.inventory, prices=some, terms=terms) >= welfare


def test_a_job_may_do_a_part_of_its_work_on_machines_too_slow_for_all_of_it() -> None:
    inventory = Inventory(
        resources=("new", "old"),
        servers=("a",),
        cloud=(False,),
        capacity=np.array([[1, 1]]),
        workers=(MachineType("new", (1, 0), Fraction(100)), MachineType("old", (0, 1), Fraction(100))),
        parameter_servers=(),
    )

    def on(name: str, old: Fraction, utility: Utility, *, work: int, at: int) -> Bid:
        ring = replace(job(name, 1, work, at=at), utility=utility, transfer_time=(Fraction(0),) * 2)
        return replace(ring, worker_time=(Fraction(1), old))

    # Alone on the old machine the first job would take eleven slots. It is stopped after two on the new one.
    bids = (
        on("moved", Fraction(11, 4), Constant(10.0), work=4, at=0),
        on("urgent", Fraction(100), Step(10.0, 6), work=6, at=2),
    )
    going = Simulation(Completions(later=1.0), RunningBook(Ledger(inventory, start=0, slots=10)))
    for bid in bids:
        going.advance(bid.arrival)
        going.arrive(bid)
    assert [decision.value for decision in going.decisions] == [10, 10]
    assert {p.type for p in going.book.jobs["moved"].held} == {0, 1}
    assert max(job.completion or 0 for job in going.book.jobs.values()) == 8
    problem = OfflineProblem(bids, inventory, 0, 8, open_end=False)
    proof = lagrangian(problem, forever)
    assert proof.answer.bound >= 20
    prices = proof.prices[:, np.newaxis, :2]
    assert dual_bound(bids, inventory, prices=prices, terms=DividedTerms(inventory, prices, start=0)) >= 20 * (1 - 1e-9)
