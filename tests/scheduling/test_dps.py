import json
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pytest

from scheduling.best_response.base import slots_ahead
from scheduling.book.ledger import Ledger
from scheduling.book.state import HISTORY, Book
from scheduling.model.bid import Bid
from scheduling.model.decision import Reason
from scheduling.model.errors import InvalidField, UnknownPolicy
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Json
from scheduling.model.utility import Constant, Linear, Step, Utility
from scheduling.policies.dps import Dps
from scheduling.pricing.density import density
from scheduling.pricing.pooling import NO_LIMIT
from scheduling.registry import make_policy

INVENTORY = Inventory(
    resources=("gpu", "ps"),
    servers=("edge", "cloud"),
    cloud=(False, True),
    capacity=np.array([[2, 1], [4, 2]], dtype=np.int64),
    workers=(MachineType("gpu", (1, 0), Fraction(100)),),
    parameter_servers=(MachineType("ps", (0, 1), Fraction(400)),),
)


def bid(utility: Utility, *, chunks: int = 2, work: int = 4, delay: tuple[int, int] = (0, 2)) -> Bid:
    """`work` mini-batches of one slot each, in chunks."""
    return Bid("b", 0, 1, chunks, work // chunks, (Fraction(1),), (Fraction(0),), (Fraction(0),), delay, utility)


def book(ledger: Ledger | None = None, *, history: list[list[float]] | None = None) -> Book:
    ledger = Ledger(INVENTORY, start=0, slots=8) if ledger is None else ledger
    past = np.array(history or [], dtype=np.float64).reshape(-1, 2)
    return Book(now=ledger.start, ledger=ledger, history=past[-HISTORY:], decided=len(past))


def held(*, start: int, end: int, server: int, count: int, role: Role = Role.WORKER) -> Schedule:
    return Schedule(start, end, (Placement(start, end, role, server, 0, count),))


def test_two_workers_do_four_slots_of_work_in_two_at_the_printed_price() -> None:
    decision = Dps(price="paper", eta_worker=(16,), eta_ps=(4,)).decide(bid(Constant(10)), book())
    assert (decision.admitted, decision.value, decision.payment) == (True, 10, 0)
    assert decision.schedule == Schedule(
        0, 2, (Placement(0, 2, Role.PS, 0, 0, 1), Placement(0, 2, Role.WORKER, 0, 0, 2))
    )


def test_the_price_of_a_half_full_server_is_the_root_of_eta_less_one() -> None:
    ledger = Ledger(INVENTORY, start=0, slots=8)
    ledger.commit(held(start=0, end=8, server=0, count=1))
    ledger.commit(held(start=0, end=8, server=1, count=4))
    decision = Dps(price="paper", eta_worker=(16,), eta_ps=(4,)).decide(bid(Constant(20)), book(ledger))
    # One worker for four slots, at 16^(1/2) - 1 each.
    assert decision.payment == pytest.approx(4 * 3)


@pytest.mark.parametrize(
    ("offer", "used", "reason"),
    [
        (bid(Constant(10), work=40), 0, Reason.IMPOSSIBLE),
        (bid(Constant(10), delay=(9, 9)), 0, Reason.IMPOSSIBLE),
        (bid(Step(10, 1)), 0, Reason.WORTHLESS),
        (bid(Constant(0)), 0, Reason.WORTHLESS),
        (bid(Constant(10), delay=(0, 9)), 2, Reason.NO_ROOM),
        (bid(Step(10, 3), delay=(0, 2)), 2, Reason.NO_ROOM),
        (bid(Constant(0.01)), 1, Reason.PRICE),
    ],
)
def test_a_rejection_says_why(offer: Bid, used: int, reason: Reason) -> None:
    ledger = Ledger(INVENTORY, start=0, slots=8)
    if used:
        ledger.commit(held(start=0, end=8, server=0, count=used))
        ledger.commit(held(start=0, end=8, server=1, count=1))
    decision = Dps(price="paper", eta_worker=(16,), eta_ps=(4,)).decide(offer, book(ledger))
    assert decision.reason is reason
    assert (decision.value, decision.payment, decision.payoff) == (0, 0, 0)
    assert (decision.counter is not None) == (reason is Reason.PRICE)
    assert decision.explanation.endswith(".")
    said = {
        Reason.IMPOSSIBLE: "Even the empty cluster could not complete it before slot 8",
        Reason.WORTHLESS: "even at its earliest possible completion it is worth nothing",
        Reason.NO_ROOM: "what is still free before slot 8 cannot, at any price",
        Reason.PRICE: "It offered 0.01; anything above",
    }
    assert [why for why, words in said.items() if words in decision.explanation] == [reason]


def test_a_past_density_below_one_sets_the_printed_price_and_none_leaves_the_initial_one() -> None:
    policy = Dps(price="paper", refit_every=1, initial_high=7.0)
    prices = policy.price_function(book(history=[[0.5, 0.0]] * 12))
    full = prices.of(INVENTORY.capacity[None], INVENTORY.capacity, slots_ahead(1))
    assert full[0, 0] == pytest.approx([0.5, 7.0])


def test_the_density_of_a_bid_counts_the_slots_from_its_arrival_on() -> None:
    policy, ledger = Dps(initial_low=2.0, initial_high=2.0), Ledger(INVENTORY, start=3, slots=8)
    late = replace(bid(Constant(100.0), work=2), arrival=3, worker_time=(Fraction(41, 10),))
    # One worker takes nine slots, two take five.
    two, one = (policy.density(late, INVENTORY, horizon=slots) for slots in (8, 14))
    assert two < one
    assert policy.decide(late, book(ledger)).density == two


def test_the_counter_offer_of_a_small_case_is_the_cost_itself() -> None:
    ledger = Ledger(INVENTORY, start=0, slots=8)
    ledger.commit(held(start=0, end=8, server=0, count=1))
    ledger.commit(held(start=0, end=8, server=1, count=4))
    decision = Dps(price="paper", eta_worker=(16,), eta_ps=(4,)).decide(bid(Constant(11.99)), book(ledger))
    assert decision.counter is not None
    # Four slots on the one worker left: it can start in slot 4 at the latest, complete at 8.
    assert decision.counter.least_value == pytest.approx(12)
    assert (decision.counter.latest_start, decision.counter.completion) == (4, 8)


def test_a_bid_that_states_what_it_would_pay_gains_nothing_and_is_rejected() -> None:
    policy = Dps(initial_low=2.0, initial_high=2.0)
    payment = policy.decide(bid(Constant(1000.0)), book()).payment
    assert payment > 0
    rejected = policy.decide(bid(Constant(payment)), book())
    assert (rejected.admitted, rejected.reason) == (False, Reason.PRICE)
    assert policy.decide(bid(Constant(payment + 0.01)), book()).admitted


def test_an_admission_says_how_long_after_its_arrival_a_job_is_complete() -> None:
    late = Book(now=3, ledger=Ledger(INVENTORY, start=3, slots=8), history=np.zeros((0, 2)), decided=0)
    decision = Dps().decide(replace(bid(Constant(10.0)), arrival=3), late)
    assert decision.schedule is not None
    assert decision.schedule.completion == 5
    assert "it starts in slot 3 and is complete at slot 5, 2 slots after arrival" in decision.explanation


def test_value_per_unit_slot_is_the_greatest_over_the_number_of_workers() -> None:
    # Linear 12 - 2 d: one worker 4 slots is worth 4, two workers 2 slots 8; both hold 4 worker-slots.
    assert density(bid(Linear(12, 2)), INVENTORY, horizon=8) == (8 / 4, 8 / 2)
    assert density(bid(Linear(12, 2)), INVENTORY, horizon=8, tail=1) == (8 / 6, 8 / 3)
    assert density(bid(Linear(12, 2), delay=(3, 2)), INVENTORY, horizon=8) == (4 / 4, 4 / 2)
    assert density(bid(Linear(12, 2)), INVENTORY, horizon=1) == (0, 0)


def test_printed_etas_are_one_more_than_the_greatest_offer_of_the_past() -> None:
    past = [bid(Linear(12, 2)), bid(Constant(4))]
    assert Dps().paper_etas(past, INVENTORY, end=8) == ((3.0,), (5.0,))


def test_quantile_prices_look_at_the_past_only_at_every_refit() -> None:
    policy, rows = Dps(refit_every=4), [[float(i + 1), 2.0] for i in range(12)]
    functions = [policy.price_function(book(history=rows[:n])) for n in range(13)]
    assert len({functions[n] for n in range(4)}) == 1
    assert len({functions[n] for n in range(4, 8)}) == 1
    assert functions[3] != functions[4] != functions[8]


def test_quantile_prices_stand_still_between_refits_with_a_full_history() -> None:
    rng = np.random.default_rng(3)
    policy, rows = Dps(refit_every=8), rng.uniform(1, 9, (HISTORY + 24, 2)).tolist()
    between = {policy.price_function(book(history=rows[:n])) for n in range(HISTORY + 8, HISTORY + 16)}
    assert len(between) == 1


def test_without_a_past_prices_are_the_prior() -> None:
    prices = Dps(initial_low=0.5, initial_high=2, near_share=0.0).prices(book())
    assert prices.max() == prices.min() == pytest.approx(0.5)


def test_an_idle_cluster_asks_next_to_nothing_and_a_sold_one_its_share_of_the_median() -> None:
    rows = [[float(x), 3.0] for x in range(1, 17) for _ in range(4)]
    policy = Dps(worker_reserve_factor=0.5, near_share=0.0, sooner=0.0, offer_limit=NO_LIMIT)
    assert policy.prices(book(history=rows)).max() < 1e-3
    ledger = Ledger(INVENTORY, start=0, slots=8)
    ledger.commit(held(start=0, end=2, server=0, count=2))
    ledger.commit(held(start=0, end=2, server=1, count=4))
    prices = policy.prices(book(ledger, history=rows))
    middle = np.log(np.arange(1.0, 17.0)).mean()
    pools = np.exp(middle + 2 * (np.log(np.arange(1.0, 17.0)) - middle))  # each of four who offer the same
    assert prices[4, 0, 0] == pytest.approx(0.5 * np.median(pools))
    assert prices[0, 0, 0] == pytest.approx(np.quantile(pools, 0.95))


@pytest.mark.parametrize("offer", [5e-324, 1e-300, 1e-9, 1e12])
def test_no_past_however_odd_makes_a_price_that_is_not_a_number(offer: float) -> None:
    for rows in ([[offer, offer]] * 64, [[offer, 1e12]] * 32 + [[1e12, offer]] * 32):
        prices = Dps(refit_every=1, worker_reserve_factor=100).prices(book(history=rows))
        assert np.isfinite(prices).all()
        assert (prices > 0).all()


def test_other_peoples_bids_move_quantile_prices_and_ones_own_does_not() -> None:
    policy, rows = Dps(refit_every=1), [[1.0, 1.0]] * 4
    low, high = (policy.decide(bid(Constant(value)), book(history=rows)) for value in (5.0, 500.0))
    assert low.prices == high.prices
    more = [*rows, *[[50.0, 50.0]] * 4]
    assert policy.price_function(book(history=more)) != policy.price_function(book(history=rows))


@pytest.mark.parametrize(
    ("parameters", "field"),
    [
        ({"prize": "quantile"}, "prize"),
        ({"price": "free"}, "price"),
        ({"price": 3}, "price"),
        ({"price": ["quantile"]}, "price"),
        ({"slot_convention": "open"}, "slot_convention"),
        ({"start": None}, "start"),
        ({"refit_every": 0}, "refit_every"),
        ({"refit_every": 1.5}, "refit_every"),
        ({"refit_every": True}, "refit_every"),
        ({"refit_every": HISTORY}, "refit_every"),
        ({"worker_reserve_factor": "much"}, "worker_reserve_factor"),
        ({"worker_reserve_factor": float("nan")}, "worker_reserve_factor"),
        ({"ps_reserve_factor": 0}, "ps_reserve_factor"),
        ({"reserve_quantile": 1.1}, "reserve_quantile"),
        ({"full_quantile": 0.1}, "full_quantile"),
        ({"initial_low": 5, "initial_high": 1}, "initial_high"),
        ({"eta_worker": [2.0]}, "eta_ps"),
        ({"eta_worker": 2.0, "eta_ps": [2.0]}, "eta_worker"),
        ({"eta_worker": [0.5], "eta_ps": [2.0]}, "eta_worker[0]"),
        (["price"], "parameters"),
    ],
)
def test_a_bad_parameter_is_refused_by_its_name(parameters: Json, field: str) -> None:
    with pytest.raises(InvalidField) as caught:
        make_policy("dps", parameters)
    assert caught.value.field == field


def test_etas_for_other_types_than_the_clusters_are_refused() -> None:
    with pytest.raises(InvalidField, match="eta_worker: expected 1 numbers"):
        Dps(price="paper", eta_worker=(2, 2), eta_ps=(2,)).prices(book())


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UnknownPolicy, match=r"known: .*dps"):
        make_policy("dsp", {})


def test_parameters_survive_json_and_explain_themselves() -> None:
    policy = Dps(price="paper", eta_worker=(2,), eta_ps=(3.5,))
    assert make_policy("dps", json.loads(json.dumps(policy.to_json()))) == policy
    assert all(parameter.metadata["help"] for parameter in fields(policy))


def test_a_strict_start_waits_one_slot_more_and_an_inclusive_window_holds_one() -> None:
    decision = Dps(slot_convention="inclusive", start_convention="strict").decide(bid(Constant(10)), book())
    assert decision.schedule is not None
    assert (decision.schedule.start, decision.schedule.completion) == (1, 3)
    assert {p.end for p in decision.schedule.placements} == {4}


def test_deciding_changes_nothing() -> None:
    ledger = Ledger(INVENTORY, start=0, slots=8)
    before = ledger.used.copy()
    Dps().decide(bid(Constant(10)), book(ledger))
    assert (ledger.used == before).all()
    assert ledger.start == 0


def test_a_warm_ledger_that_moved_on_decides_like_a_fresh_one() -> None:
    warm = Ledger(INVENTORY, start=0, slots=8)
    policy = Dps()
    policy.decide(bid(Constant(10)), book(warm))
    warm.commit(held(start=2, end=6, server=0, count=2))
    warm.advance(3)
    cold = Ledger(INVENTORY, start=3, slots=8)
    cold.commit(held(start=3, end=6, server=0, count=2))
    offer = replace(bid(Constant(10)), arrival=3)
    assert policy.decide(offer, book(warm)).to_json() == policy.decide(offer, book(cold)).to_json()
