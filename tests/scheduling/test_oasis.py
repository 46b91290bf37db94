import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.best_response.chunked import ChunkKernel
from scheduling.best_response.elastic.kernel import ElasticKernel
from scheduling.best_response.elastic.type_pairs import type_pairs
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.book.state import Book
from scheduling.model.bid import Bid
from scheduling.model.decision import Reason
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.schedule import Role
from scheduling.model.types import Json
from scheduling.model.utility import Constant, Sigmoid, Step, Utility
from scheduling.policies.oasis import Oasis
from scheduling.pricing.density import elastic_density
from scheduling.pricing.paper import Bounds, paper_bounds
from scheduling.pricing.price_function import reserve_prices
from tests.draws import rounds
from tests.scheduling.twins.dual_bound import dual_bound
from tests.scheduling.twins.oasis_paper import paper_payoff
from tests.scheduling.worlds import SLOTS, Run, world

seeds = st.integers(0, 2**32 - 1)
ONE = Fraction(1)
INVENTORY = Inventory(
    resources=("gpu", "vcpu"),
    servers=("left", "right", "ps"),
    cloud=(False, False, False),
    capacity=np.array([[2, 0], [1, 0], [0, 4]], dtype=np.int64),
    workers=(MachineType("worker", (1, 0), Fraction(1000)),),
    parameter_servers=(MachineType("ps", (0, 2), Fraction(2000)),),
)


def bid(utility: Utility, *, epochs: int = 2, chunks: int = 3, step: Fraction = ONE, arrival: int = 0) -> Bid:
    """Six worker-slots unless said otherwise, at most three at once."""
    return Bid("a", arrival, epochs, chunks, 1, (step,), (Fraction(0),), (Fraction(0),), (0, 0, 0), utility)


def book_of(inventory: Inventory = INVENTORY, *, slots: int = 4) -> RunningBook:
    return RunningBook(Ledger(inventory, start=0, slots=slots))


def priced(*prices: float) -> Oasis:
    logs = tuple(math.log(price) for price in prices)
    return Oasis(price="paper", log_low=logs, log_high=logs)


def test_it_runs_as_many_workers_as_the_servers_hold_while_time_is_worth_more() -> None:
    decision = priced(1.0, 0.5).decide(bid(Step(20.0, 2.0)), book_of().view())
    # Three workers and the two PSs they need, for two slots: 6 GPU-slots and 8 vCPU-slots.
    assert decision.admitted
    assert decision.schedule is not None
    assert decision.schedule.completion == 2
    assert decision.payment == pytest.approx(6 + 4)
    assert decision.payoff == pytest.approx(10)


def test_it_takes_its_time_where_a_parameter_server_would_serve_half_a_worker() -> None:
    decision = priced(1.0, 0.5).decide(bid(Constant(20.0)), book_of().view())
    # Two workers and one PS for three slots cost a PS less than three and two for two.
    assert decision.schedule is not None
    assert decision.schedule.completion == 3
    assert decision.payment == pytest.approx(6 + 3)


def test_a_counter_offer_is_the_cost_of_the_cheapest_schedule() -> None:
    decision = priced(1.0, 0.5).decide(bid(Constant(8.0)), book_of().view())
    assert decision.reason is Reason.PRICE
    assert decision.counter is not None
    assert decision.counter.least_value == pytest.approx(9.0)
    # Two, two and one; the first worker may come a slot later, with three at once for it.
    assert decision.counter.latest_start == 1


def test_a_bid_offers_its_value_for_the_unit_slots_it_always_takes() -> None:
    # Six worker-slots; three workers and two PSs, twice, at the earliest completion.
    assert elastic_density(bid(Step(12.0, 2.0)), INVENTORY, horizon=4) == (12 / 6, 12 / 4 / 2)
    assert elastic_density(bid(Step(12.0, 1.0)), INVENTORY, horizon=4) == (0.0, 0.0)
    assert elastic_density(bid(Constant(12.0)), INVENTORY, horizon=1) == (0.0, 0.0)


def test_workers_with_more_bandwidth_than_their_parameter_servers_have_no_way_to_run() -> None:
    narrow = replace(
        INVENTORY, parameter_servers=(replace(INVENTORY.parameter_servers[0], bandwidth_mbps=Fraction(999)),)
    )
    assert not list(type_pairs(bid(Constant(1.0)), narrow, slots=4))
    assert priced(1.0, 1.0).decide(bid(Constant(99.0)), book_of(narrow).view()).reason is Reason.IMPOSSIBLE


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"price": "free"}, "price"),
        ({"model": "rigid"}, "model"),
        ({"log_low": [0.0]}, "log_high"),
        ({"log_low": [1.0], "log_high": [0.5]}, "log_high[0]"),
        ({"log_low": [0.0], "log_high": [99.0]}, "log_high[0]"),
        ({"initial_low": 2.0}, "initial_high"),
        ({"full_quantile": 0.1}, "full_quantile"),
        ({"refit_every": 0}, "refit_every"),
    ],
)
def test_wrong_parameters_are_refused_by_name(parameters: Json, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        Oasis(**parameters)
    assert refused.value.field == field


def test_it_refuses_servers_on_which_workers_and_parameter_servers_meet() -> None:
    Oasis().check(INVENTORY)
    together = replace(INVENTORY, capacity=np.array([[2, 0], [1, 2], [0, 4]], dtype=np.int64))
    with pytest.raises(InvalidField, match="got right, which has room for both"):
        Oasis().check(together)
    sharing = replace(INVENTORY, parameter_servers=(MachineType("ps", (1, 2), ONE),))
    with pytest.raises(InvalidField, match="got gpu, which both use"):
        Oasis().check(sharing)
    with pytest.raises(InvalidField, match="expected 2 numbers"):
        Oasis(price="paper", log_low=(0.0,), log_high=(0.0,)).check(INVENTORY)
    with pytest.raises(InvalidField) as refused:
        Oasis(price="paper", log_low=(0.0,), log_high=(0.0,)).check(replace(sharing, capacity=together.capacity))
    assert [one.field for one in refused.value.all_wrong] == ["resources", "servers", "log_low"]


def test_the_printed_bounds_are_those_of_the_paper_in_shares_of_the_cluster() -> None:
    bids = [bid(Step(12.0, 4.0)), bid(Constant(6.0), epochs=1)]
    bounds = paper_bounds(bids, INVENTORY, start=0, end=4)
    # 6 worker-slots x 1/3 of all GPUs for 12; 3 x 1/3 for 6. The smallest is a twelfth of the four slots' GPUs.
    # A PS is half of all vCPUs, and counts with the worker-slots in (26) as in the paper.
    assert bounds.log_low[0] == pytest.approx(math.log(1 / 4 * min(12 / 2, 6 / 1) * (1 / 4) / 3))
    assert bounds.log_low[1] == pytest.approx(math.log(1 / 4 * min(12 / 3, 6 / 1.5) * (1.5 / 4) / 4))
    assert bounds.log_high == pytest.approx((math.log(12.0), math.log(6.0)))


def test_a_sigmoid_that_is_worth_nothing_moves_no_printed_bound() -> None:
    bids = [bid(Step(12.0, 4.0)), bid(Sigmoid(0.0, 1.0, 2.0))]
    assert paper_bounds(bids, INVENTORY, start=0, end=4) == paper_bounds(bids[:1], INVENTORY, start=0, end=4)


def test_readings_of_the_printed_bounds_differ_where_they_should() -> None:
    falling = [bid(Sigmoid(10.0, 5.0, 3.0), arrival=2)]

    def logs(*, u_arg: str = "slots", l_arg: str = "horizon") -> Bounds:
        return paper_bounds(falling, INVENTORY, start=0, end=200, u_arg=u_arg, l_arg=l_arg)

    usual = logs()
    assert logs(u_arg="duration").log_high[0] < usual.log_high[0] < logs(u_arg="paper").log_high[0]
    assert usual.log_low[0] < -900
    assert logs(l_arg="floor").log_low[0] > -30
    with pytest.raises(InvalidField, match="to derive prices from, got none"):
        paper_bounds([bid(Step(1.0, 2.0))], INVENTORY, start=0, end=9)


def test_without_bounds_the_printed_price_goes_from_a_quarter_of_the_least_offer_to_the_most() -> None:
    offers = np.array([[2.0, 1.0], [4.0, 0.0]] * 4)
    book = Book(now=0, ledger=Ledger(INVENTORY, start=0, slots=4), history=offers, decided=8)
    function = Oasis(price="paper", refit_every=1).price_function(book)
    full = np.exp(np.add(function.log_scale, function.log_growth))
    # Two pools, moved away from their mean twice as far as they are.
    assert np.exp(function.log_scale) == pytest.approx([math.sqrt(2.0) / 4, 1.0 / 4])
    assert full == pytest.approx([4.0 * math.sqrt(2.0), 1.0])
    # Nothing is known yet: the priors are the price of all there is.
    new = Oasis(price="paper", refit_every=16, initial_low=1.0, initial_high=2.0).price_function(book)
    assert np.exp(new.log_scale) == pytest.approx([1 / 3, 1 / 4])


def test_wrong_estimates_change_the_growth_and_never_turn_it_round() -> None:
    bounds = Bounds((-5.0, 0.0), (1.0, 0.5))
    assert bounds.misjudged(ratio=math.e).log_low == pytest.approx((-6.0, -1.0))
    assert bounds.misjudged(power=0.5).log_low == pytest.approx((-2.0, 0.25))
    assert bounds.misjudged(ratio=1e-9).log_low == bounds.log_high


@settings(max_examples=rounds(20))
@given(seed=seeds, epochs=st.integers(1, 3), above=st.floats(0.01, 3.0))
def test_whole_chunks_earn_what_the_literal_recursion_earns_and_no_more_than_worker_slots(
    seed: int, epochs: int, above: float
) -> None:
    drawn = world(seed, bids=3, kind="apart")
    ledger, count = drawn.ledger(), len(drawn.inventory.resources)
    prices = reserve_prices([0.01] * count, [above + 0.01] * count)
    for drawn_bid in drawn.bids:
        one = replace(drawn_bid, epochs=epochs)
        pairs = [(way.worker_type, way.ps_type) for way in type_pairs(one, drawn.inventory, slots=SLOTS)]
        printed = max((paper_payoff(one, ledger, prices, *pair) for pair in pairs), default=0.0)
        answer = ChunkKernel(ledger, prices).best(one)
        assert (0.0 if answer is None else answer.payoff) == pytest.approx(printed, abs=1e-9)
        exact = ElasticKernel(ledger, prices).best(one)
        assert printed <= (0.0 if exact is None else exact.payoff) + 1e-9
        if answer is not None:
            ledger.commit(answer.schedule)


@settings(max_examples=rounds(10))
@given(seed=seeds)
def test_the_last_start_of_whole_chunks_is_the_last(seed: int) -> None:
    drawn = world(seed, bids=4, kind="apart")
    count = len(drawn.inventory.resources)
    market = ChunkKernel(drawn.ledger(), reserve_prices([0.1] * count, [5.0] * count))
    for one in drawn.bids:
        latest = market.latest(one)
        every = [market.best(one, first_start=t) for t in range(SLOTS)]
        starts = [answer.schedule.start for answer in every if answer is not None]
        assert (None if latest is None else latest.schedule.start) == max(starts, default=None)
        cheapest = market.min_cost_per_value(one)
        if latest is not None:
            assert cheapest is not None
            assert cheapest.cost / cheapest.value <= latest.cost / latest.value + 1e-12


@settings(max_examples=rounds(10))
@given(seed=seeds, model=st.sampled_from(["worker", "chunk"]), level=st.floats(0, 20))
def test_no_run_earns_more_than_any_bound(seed: int, model: str, level: float) -> None:
    drawn = world(seed, bids=8, kind="apart")
    going = Run(drawn.ledger(), Oasis(model=model, refit_every=2), [])
    decisions = [going.decide(one) for one in drawn.bids]
    welfare = sum(decision.value for decision in decisions)
    free = Oasis().at_prices(drawn.inventory, np.zeros(going.ledger.used.shape), start=0)
    assert sum(free.term(one) for one in drawn.bids) >= welfare * (1 - 1e-9)
    random = np.random.default_rng(seed).uniform(0, level, going.ledger.used.shape)
    for prices in (going.policy.prices(going.book()), random):
        terms = going.policy.at_prices(drawn.inventory, prices, start=0)
        assert terms is not None
        assert dual_bound(drawn.bids, drawn.inventory, prices=prices, terms=terms) >= welfare * (1 - 1e-9)


def test_a_scarce_resource_has_a_reserve_price_and_an_idle_one_next_to_none() -> None:
    policy, book = Oasis(refit_every=1), book_of(slots=8)
    for name in "abcd":
        sent = replace(bid(Constant(60.0), epochs=1), id=name)
        book.apply_decision(sent, policy.decide(sent, book.view()), bound=True)
    empty = policy.prices(replace(book.view(), ledger=Ledger(INVENTORY, start=0, slots=8)))[0]
    sold = policy.prices(book.view())[1]
    assert sold[0, 0] > 1e3 * empty[0, 0]
    assert all(p.role is Role.PS for p in book.jobs["a"].held if p.server == 2)
