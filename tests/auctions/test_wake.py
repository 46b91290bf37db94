"""Waking workers: a broker that is gone costs a submission little and loses nothing."""

import time
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from kombu.exceptions import OperationalError

from auctions import tasks
from auctions.domain import waking
from auctions.engine import decision_queue, slots
from auctions.models import Bid, BidState, Market
from auctions.runtime import stay
from tests.auctions.worlds import make_cluster, make_market, submit
from tests.conftest import Tables
from tests.faults import crowd
from tests.processes import free_port, python_env

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def _rested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waking, "_resting_until", 0.0)
    monkeypatch.setattr(waking, "_woken", {})


def test_a_worker_is_woken_after_the_commit(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    woken: list[tuple[Any, ...]] = []

    def woke(args: Any, kwargs: Any, **options: Any) -> None:
        woken.append((*args, options["retry"]))

    monkeypatch.setattr(tasks.decide_market, "apply_async", woke)
    with django_capture_on_commit_callbacks(execute=True):
        submit(market, alice)
        assert woken == []
    assert woken == [(market.pk, False)], "nobody waits while it is tried once more"


def test_no_further_wake_up_is_sent_while_bids_keep_coming(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    other, woken, now = make_market(make_cluster("other")), list[tuple[float, int]](), [1000.0]
    monkeypatch.setattr(waking, "monotonic", lambda: now[0])
    monkeypatch.setattr(
        tasks.decide_market, "apply_async", lambda args, kwargs, **options: woken.append((now[0], *args))
    )
    often = [(0.2 * i, market) for i in range(10)]
    for at, one in sorted([*often, (0.1, other), (0.3, other), (1.0, other), (2.0, market)], key=lambda bid: bid[0]):
        now[0] = 1000.0 + at
        with django_capture_on_commit_callbacks(execute=True):
            submit(one, alice)
    again = 1000.0 + waking.AGAIN_S
    assert woken == [(1000.0, market.pk), (1000.1, other.pk), (1001.0, other.pk), (again, market.pk)]
    assert waking.STILL_AWAKE_S < stay.LINGER_S


def test_a_wake_up_that_failed_is_sent_again_for_the_next_bid(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    sent = iter((False, True))
    monkeypatch.setattr(waking, "publish", lambda task, market_id: next(sent))
    for _ in range(3):
        with django_capture_on_commit_callbacks(execute=True):
            submit(market, alice)
    assert next(sent, None) is None


def test_workers_are_woken_for_every_market_that_has_bids_to_decide(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    woken: list[int] = []
    done, busy = make_market(make_cluster("done")), make_market(make_cluster("busy"))
    for one in (market, busy, busy, done):
        submit(one, alice)
    decision_queue.process_pending(done.pk)
    monkeypatch.setattr(tasks.decide_market, "apply_async", lambda args, kwargs, **options: woken.extend(args))
    with django_capture_on_commit_callbacks(execute=True):
        decision_queue.wake_all()
    assert sorted(woken) == sorted([market.pk, busy.pk])


def test_without_a_broker_the_bid_stands_and_the_sweep_finds_it(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    tried: list[int] = []

    def fail(args: Any, kwargs: Any, **options: Any) -> None:
        tried.append(1)
        raise OperationalError("nobody is there")

    monkeypatch.setattr(tasks.decide_market, "apply_async", fail)
    for _ in range(3):
        with django_capture_on_commit_callbacks(execute=True):
            submit(market, alice)
    assert tried == [1], "after one failure the broker is left alone for a while"
    assert Bid.objects.filter(state=BidState.SUBMITTED).count() == 3
    for _ in range(3):  # on a busy machine the time of one sweep is over after one bid
        tasks.sweep()
    assert not Bid.objects.filter(state=BidState.SUBMITTED).exists()


def test_a_broker_that_failed_is_tried_again_after_its_rest(market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    readings: list[float] = []
    tried: list[float] = []

    def fail(args: Any, kwargs: Any, **options: Any) -> None:
        tried.append(readings[-1])
        raise OperationalError("nobody is there")

    monkeypatch.setattr(tasks.decide_market, "apply_async", fail)
    monkeypatch.setattr(waking, "never_in_transaction", lambda what: None)
    monkeypatch.setattr(waking, "monotonic", lambda: readings[-1])
    for reading in (1000.0, 1000.0 + waking.BROKER_REST_S - 0.5, 1000.0 + waking.BROKER_REST_S):
        readings.append(reading)
        waking.publish("auctions.tasks.decide_market", market.pk)
    assert tried == [1000.0, 1000.0 + waking.BROKER_REST_S]


def test_one_market_in_trouble_does_not_stop_the_sweep(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(market_id: int) -> bool:
        raise ValueError("trouble")

    monkeypatch.setattr(slots, "pass_slots", fail)
    tasks.sweep()
    assert "sweep of market" in caplog.text


@pytest.mark.slow
def test_a_dead_redis_delays_a_submission_by_a_second_at_most(tmp_path: Path, make_tables: Tables) -> None:
    env = python_env(tmp_path)
    make_tables(env)
    crowd.call("prepare", "dps", env=env)
    dead = {**env, "SHADOWPRICE_SECRET_KEY": "test", "REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"}
    assert crowd.call("waiting", env=dead) == crowd.call("waiting", env=env) == 0  # both have imported all there is
    began = time.monotonic()
    assert crowd.call("submit", "0", "3", env=dead) == [1, 2, 3]
    with_dead_broker = time.monotonic() - began
    began = time.monotonic()
    crowd.call("submit", "0", "3", env=env)
    assert with_dead_broker - (time.monotonic() - began) < 2.0
    assert crowd.call("waiting", env=env) == 6
