"""Sequences nobody plans for: the audit finds nothing after any of them."""

from typing import Any

import pytest
from django.contrib.auth.models import User

from auctions.domain.errors import MarketClosed, WrongState
from auctions.domain.utilities import LEAST_VALUE
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job
from auctions.engine.markets import set_open
from auctions.engine.slots import pass_slots
from auctions.engine.submission import quote
from auctions.history.audit import audit_market
from auctions.models import Bid, BidState, Market
from auctions.readings import certificates
from cluster.guards import ChangeRefused, checked_change
from cluster.models import Capacity, Cluster, MachineType, Server
from tests.auctions.worlds import SLOT_S, add_server, body, make_market, set_time, submit


def check(market: Market) -> None:
    decision_queue.process_pending(market.pk)
    pass_slots(market.pk)
    certificates.renew(market.pk)
    assert {f.check: f.rows for f in audit_market(market) if not f.passed} == {}


@pytest.mark.thorough
@pytest.mark.parametrize("price", ["quantile", "paper"])
@pytest.mark.parametrize("value", [LEAST_VALUE, 0.001, 1e12])
def test_any_amount_of_money_is_decided(alice: User, price: str, value: float) -> None:
    market = make_market(price=price, refit_every=2)
    forms: list[dict[str, Any]] = [
        {"form": "constant"},
        {"form": "step", "deadline_s": 500},
        {"form": "linear", "zero_at_s": 900},
        {"form": "inverse", "zero_at_s": 1e-3},
        {"form": "sigmoid", "steepness_per_s": 1e3, "midpoint_s": 1e9},
    ]
    for utility in forms:
        submit(market, alice, utility={**utility, "value": value})
        submit(market, alice)
    check(market)
    assert not Bid.objects.filter(state=BidState.SUBMITTED).exists()


def test_the_horizon_may_shrink_to_the_last_promise_and_grow_again(market: Market, alice: User) -> None:
    submit(market, alice, epochs=3)
    submit(market, alice, epochs=3)
    decision_queue.process_pending(market.pk, at_most=1)
    with (
        pytest.raises(ChangeRefused, match="must be at least"),
        checked_change(market.cluster),
    ):
        Cluster.objects.update(horizon_slots=1)
    for horizon in (5, 50):
        with checked_change(market.cluster):
            Cluster.objects.update(horizon_slots=horizon)
        submit(market, alice, epochs=horizon // 2)
        check(market)


def test_a_closed_market_decides_what_waits_and_takes_no_more(market: Market, alice: User) -> None:
    bid = submit(market, alice)
    set_open(market, is_open=False)
    check(market)
    bid.refresh_from_db()
    assert bid.state in (BidState.PLANNED, BidState.RUNNING)
    with pytest.raises(MarketClosed):
        submit(market, alice)
    with pytest.raises(MarketClosed):
        quote(market=market, body=body())


@pytest.mark.thorough
def test_servers_and_types_come_go_and_change_names_under_waiting_bids(market: Market, alice: User) -> None:
    cluster = market.cluster
    for _ in range(5):
        submit(market, alice, upload_delay_s={"edge-0": 50, "edge-1": 10}, epochs=2)
    decision_queue.process_pending(market.pk, at_most=1)
    with checked_change(cluster):
        Server.objects.filter(cluster=cluster, name="edge-0").update(name="renamed")
    decision_queue.process_pending(market.pk, at_most=1)
    with checked_change(cluster):
        MachineType.objects.filter(cluster=cluster, name="gpu").update(name="tpu")
    decision_queue.process_pending(market.pk, at_most=1)
    with checked_change(cluster):
        MachineType.objects.filter(cluster=cluster, name="tpu").update(name="gpu")
        add_server(cluster, "late", units=3)
    decision_queue.process_pending(market.pk, at_most=1)
    unused = Server.objects.filter(cluster=cluster, commitments__isnull=True).first()
    assert unused is not None
    with checked_change(cluster):
        Capacity.objects.filter(server=unused).delete()
        unused.delete()
    check(market)
    assert not Bid.objects.filter(state=BidState.SUBMITTED).exists()


def test_a_job_is_cancelled_in_its_first_slot_and_not_at_its_completion(market: Market, alice: User) -> None:
    done, other = submit(market, alice, epochs=4), submit(market, alice, epochs=4, start_after_s=2 * SLOT_S)
    decision_queue.process_pending(market.pk)
    done.refresh_from_db()
    other.refresh_from_db()
    assert other.state == BidState.PLANNED
    set_time(market, float((other.start_slot or 0) * SLOT_S))
    cancel_job(other)
    check(market)
    set_time(market, float((done.completion_slot or 0) * SLOT_S))
    with pytest.raises(WrongState):
        cancel_job(done)
    check(market)
    done.refresh_from_db()
    assert done.state == BidState.COMPLETED


@pytest.mark.thorough
def test_a_clock_set_back_moves_nothing_back(market: Market, alice: User) -> None:
    for seconds in (1050.0, 0.0, 1050.0, 1100.0, 100.0, 1500.0, 1e9, 0.0):
        set_time(market, seconds)
        submit(market, alice, epochs=3)
        check(market)
    market.refresh_from_db()
    assert market.slot == 1e9 // SLOT_S


def test_a_slot_brought_back_by_the_clock_may_grow(market: Market, alice: User) -> None:
    set_time(market, 1.0 * SLOT_S)
    submit(market, alice)
    check(market)
    set_time(market, 1.5 * SLOT_S)
    submit(market, alice, start_after_s=9e8)  # a submission moves the version, not the ledger
    certificates.renew(market.pk)
    set_time(market, 1.0 * SLOT_S)
    with checked_change(market.cluster):
        Capacity.objects.filter(server__cluster=market.cluster).update(amount=9)
    check(market)
