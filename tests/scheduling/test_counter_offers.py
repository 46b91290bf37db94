"""Counter-offers are promises: each is tried against the same book."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.arrays import Json
from scheduling.bid import Bid
from scheduling.decision import Reason
from scheduling.dps import Dps
from scheduling.posted_price import CENT, with_value
from tests.draws import rounds
from tests.scheduling.worlds import Run, world

each_price = pytest.mark.parametrize(
    "parameters",
    [
        {"price": "printed", "prior_high": 30.0},
        {"refit_every": 2, "worker_share": 1.0, "ps_share": 1.0},
        {"window": "inclusive", "start": "strict", "prior_low": 3.0, "prior_high": 30.0},
    ],
)


@each_price
@settings(max_examples=rounds(50), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.01, 1.0))
def test_what_a_rejection_says_would_be_admitted_is(parameters: Json, seed: int, share: float) -> None:
    drawn = world(seed)
    going = Run(drawn.ledger(), Dps(**parameters), [])
    for bid in drawn.bids:
        offered = replace(bid, utility=bid.utility.scaled(share))
        book = going.book()
        decision = going.policy.decide(offered, book)
        if decision.counter is not None:
            assert_promise_kept(going, offered)
        going.decide(bid)


def assert_promise_kept(going: Run, bid: Bid) -> None:
    book = going.book()
    counter = going.policy.decide(bid, book).counter
    assert counter is not None
    assert going.policy.decide(with_value(bid, counter.least_value + CENT), book).admitted
    if counter.least_value > CENT:
        assert not going.policy.decide(with_value(bid, counter.least_value - CENT), book).admitted

    def no_start_before(slot: int) -> Bid:
        wait = going.policy.to_json()["start"] == "strict"
        delay = tuple(max(delay, slot - bid.arrival - wait) for delay in bid.delay)
        return with_value(replace(bid, delay=delay), counter.least_value + CENT)

    last = going.policy.decide(no_start_before(counter.latest_start), book)
    assert last.admitted
    assert last.schedule is not None
    assert last.schedule.start == counter.latest_start
    assert last.schedule.completion == counter.completion
    assert not going.policy.decide(no_start_before(counter.latest_start + 1), book).admitted


@each_price
@settings(max_examples=rounds(17), deadline=None)
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
