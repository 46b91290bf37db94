"""Counter-offers are promises: each is tried against the same book."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.best_response.base import Kernel, Response
from scheduling.book.ledger import Ledger
from scheduling.book.state import Book
from scheduling.model.bid import Bid
from scheduling.model.decision import CounterOffer, Reason
from scheduling.model.schedule import Schedule
from scheduling.model.types import Json
from scheduling.model.utility import Constant
from scheduling.policies.dps import Dps
from scheduling.policies.oasis import Oasis
from scheduling.policies.posted_price import CENT, ROUNDS, SMALLEST_MONEY, PricedLedger, counter_offer, with_value
from scheduling.pricing.price_function import reserve_prices
from studies.workloads.generated import oasis
from tests.draws import fresh_seed, rounds
from tests.scheduling import test_dps
from tests.scheduling.test_dps import INVENTORY, held
from tests.scheduling.worlds import Run, world

each_price = pytest.mark.parametrize(
    "parameters",
    [
        {"price": "paper", "initial_high": 30.0},
        {"refit_every": 2, "worker_reserve_factor": 1.0, "ps_reserve_factor": 1.0},
        {"slot_convention": "inclusive", "start_convention": "strict", "initial_low": 3.0, "initial_high": 30.0},
    ],
)


@each_price
@settings(max_examples=rounds(25, longer=60))
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.01, 1.0))
def test_what_a_rejection_says_would_be_admitted_is(parameters: Json, seed: int, share: float) -> None:
    drawn = world(seed)
    going = Run(drawn.ledger(), Dps(**parameters), [])
    for bid in drawn.bids:
        offered = replace(bid, utility=bid.utility.scaled(share))
        book = going.book()
        decision = going.policy.decide(offered, book)
        if decision.counter is not None:
            assert_promise_kept(going, offered, decision.counter)
        going.decide(bid)


def assert_promise_kept(going: Run, bid: Bid, counter: CounterOffer) -> None:
    book = going.book()
    assert going.policy.decide(with_value(bid, counter.least_value + CENT), book).admitted
    if counter.least_value > CENT:
        assert not going.policy.decide(with_value(bid, counter.least_value - CENT), book).admitted

    def no_start_before(slot: int) -> Bid:
        wait = going.policy.to_json()["start_convention"] == "strict"
        delay = tuple(max(delay, slot - bid.arrival - wait) for delay in bid.delay)
        return with_value(replace(bid, delay=delay), counter.least_value + CENT)

    last = going.policy.decide(no_start_before(counter.latest_start), book)
    assert last.admitted
    assert last.schedule is not None
    assert last.schedule.start == counter.latest_start
    assert last.schedule.completion == counter.completion
    assert not going.policy.decide(no_start_before(counter.latest_start + 1), book).admitted


@each_price
@settings(max_examples=rounds(17))
@given(seed=st.integers(0, 2**32 - 1))
def test_no_value_helps_where_there_is_no_counter_offer(parameters: Json, seed: int) -> None:
    drawn = world(seed, bids=14)
    going = Run(drawn.ledger(), Dps(**parameters), [])
    for bid in drawn.bids:
        decision = going.policy.decide(bid, going.book())
        if not decision.admitted and decision.counter is None:
            assert decision.reason is not Reason.PRICE
            for value in (1e3, 1e6, 1e11):
                assert not going.policy.decide(with_value(bid, value), going.book()).admitted
        going.decide(bid)


@dataclass(frozen=True)
class Searching:
    """A kernel whose last start is only found after a schedule of positive payoff."""

    kernel: Kernel

    def best(self, bid: Bid, *, above: float = 0.0, first_start: int | None = None) -> Response | None:
        return self.kernel.best(bid, above=above, first_start=first_start)

    def min_cost_per_value(self, bid: Bid) -> Response | None:
        return self.kernel.min_cost_per_value(bid)

    def latest(self, bid: Bid) -> Response | None:
        return self.kernel.latest(bid)


def test_the_last_start_is_the_same_where_the_search_begins_with_the_cheapest_schedule() -> None:
    rng, policy, compared = np.random.default_rng(fresh_seed()), Oasis(worker_reserve_factor=20.0), 0
    for _ in range(rounds(3)):
        drawn = oasis.draw(oasis.Setting(servers=4, slots=40, jobs=60), rng)
        ledger, history = Ledger(drawn.inventory, start=0, slots=40), list[tuple[float, ...]]()
        for number, bid in enumerate(drawn.bids):
            ledger.advance(max(ledger.start, bid.arrival))
            past = np.array(history).reshape(-1, len(drawn.inventory.resources))
            book = Book(ledger.start, ledger, history=past, decided=number)
            posted, decision = policy.priced_ledger(book), policy.decide(bid, book)
            history.append(decision.density)
            if decision.schedule is not None:
                ledger.commit(decision.schedule)
            elif (cheapest := posted.kernel.min_cost_per_value(bid)) is not None:
                other = replace(posted, kernel=Searching(posted.kernel))
                assert counter_offer(bid, other, cheapest.schedule) == decision.counter
                compared += 1
    assert compared > 0


def found(start: int) -> Response:
    """One worker for one slot."""
    return Response(held(start=start, end=start + 1, server=0, count=1), value=1.0, cost=0.0)


@dataclass(frozen=True)
class Rounding:
    """A kernel that finds every schedule, but not always the last one when it is asked for that."""

    last: int
    found_last: int | None
    above: float = 0.0
    """It finds nothing for a bid of this value or less."""

    def best(self, bid: Bid, *, above: float = 0.0, first_start: int | None = None) -> Response | None:
        start = first_start or 0
        return found(start) if start <= self.last and bid.utility.value > self.above else None

    def min_cost_per_value(self, bid: Bid) -> Response:
        return found(0)

    def latest(self, bid: Bid) -> Response | None:
        return None if self.found_last is None else found(self.found_last)


@pytest.mark.parametrize(("last", "found_last"), [(3, None), (3, 0), (3, 2), (3, 3), (2, None), (1, None), (1, 0)])
def test_the_last_start_is_tried_where_a_kernel_finds_an_earlier_one(last: int, found_last: int | None) -> None:
    ledger, prices = Ledger(INVENTORY, start=0, slots=8), reserve_prices([1.0, 1.0], [1.0, 1.0])
    kernel = Rounding(last=last, found_last=found_last)
    offer = counter_offer(test_dps.bid(Constant(0.5)), PricedLedger(ledger, prices, kernel, kernel), found(0).schedule)
    assert offer is not None
    assert (offer.least_value, offer.latest_start, offer.completion) == (1.0, last, last + 1)


def test_a_schedule_without_machines_costs_nothing() -> None:
    kernel = Rounding(last=3, found_last=None)
    posted = PricedLedger(Ledger(INVENTORY, start=0, slots=8), reserve_prices([1.0, 1.0], [1.0, 1.0]), kernel, kernel)
    nothing = Schedule(start=0, completion=0, placements=())
    assert posted.bill(nothing) == (posted.cost(nothing), ()) == (0.0, ())


def test_costs_are_reported_by_slot_from_the_start_of_the_schedule() -> None:
    kernel = Rounding(last=3, found_last=None)
    ledger = Ledger(INVENTORY, start=5, slots=8)
    ledger.commit(held(start=8, end=10, server=0, count=1))
    posted = PricedLedger(ledger, reserve_prices([1.0, 1.0], [4.0, 4.0]), kernel, kernel)
    asked = held(start=7, end=10, server=0, count=1)
    # Half of the two GPUs is sold in slots 8 and 9.
    cost, by_slot = posted.bill(asked)
    assert by_slot == pytest.approx((1.0, 2.0, 2.0))
    assert cost == posted.cost(asked) == pytest.approx(5.0)


def test_the_least_value_is_the_cost_rounded_up_to_a_whole_cent() -> None:
    kernel = Rounding(last=3, found_last=3)
    posted = PricedLedger(
        Ledger(INVENTORY, start=0, slots=8), reserve_prices([1.234, 1.0], [1.234, 1.0]), kernel, kernel
    )
    offer = counter_offer(test_dps.bid(Constant(0.5)), posted, found(0).schedule)
    assert offer is not None
    assert offer.least_value == 1.24


@pytest.mark.parametrize("price", [1.0, 5e11])
def test_more_is_tried_cent_by_cent_where_rounding_keeps_the_least_value_from_admission(price: float) -> None:
    for cents in (1, 3, ROUNDS - 1, ROUNDS):
        kernel = Rounding(last=3, found_last=3, above=price + cents * CENT + CENT / 2)
        posted = PricedLedger(
            Ledger(INVENTORY, start=0, slots=8), reserve_prices([price] * 2, [price] * 2), kernel, kernel
        )
        offer = counter_offer(test_dps.bid(Constant(0.5)), posted, found(0).schedule)
        if cents == ROUNDS:
            assert offer is None
        else:
            assert offer is not None
            assert offer.least_value == round(price + cents * CENT, 2)


def test_the_smallest_value_that_can_be_scaled_up_gets_a_counter_offer() -> None:
    kernel = Rounding(last=3, found_last=3)
    posted = PricedLedger(Ledger(INVENTORY, start=0, slots=8), reserve_prices([1.0, 1.0], [1.0, 1.0]), kernel, kernel)
    offer = counter_offer(test_dps.bid(Constant(SMALLEST_MONEY)), posted, found(0).schedule)
    assert offer is not None
    assert offer.least_value == 1.0
    assert counter_offer(test_dps.bid(Constant(SMALLEST_MONEY / 2)), posted, found(0).schedule) is None
