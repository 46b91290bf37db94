"""The readings of a market, and the number of queries that they take."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

from auctions.domain.totals import figures_of, sums_by_state
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job
from auctions.engine.markets import set_open
from auctions.engine.slots import pass_slots
from auctions.models import Bid, BidState, Certificate, Market
from auctions.readings import certificates, market_readings, publications
from tests.auctions.worlds import make_operator, make_user, set_time, submit

BEGIN_AND_END = 4
"""Statements that begin and end the transaction of a reading."""


@pytest.fixture
def busy(market: Market, alice: User) -> Market:
    """Some history and some future."""
    for i in range(30):
        submit(market, alice, 30.0 * (1 + i % 4), epochs=1 + i % 6)
        if i % 10 == 9:
            decision_queue.process_pending(market.pk)
            set_time(market, 90.0 * i)
            pass_slots(market.pk)
    cancel_job(Bid.objects.filter(state__in=[BidState.PLANNED, BidState.RUNNING]).latest("sequence"))
    submit(market, alice)
    return market


@pytest.mark.thorough
def test_the_summary_adds_up(busy: Market) -> None:
    s = market_readings.summary(busy)
    assert s.submitted == 31 == s.admitted + s.rejected + s.undecided + s.withdrawn
    assert s.admitted == s.planned + s.running + s.completed + s.cancelled + s.failed
    assert s.payoff is not None
    assert s.revenue is not None
    assert s.welfare == pytest.approx(s.payoff + s.revenue)
    assert 0 <= s.utilisation <= 1
    assert s.price > 0


def test_all_figures_of_a_market_are_read_in_one_query(busy: Market) -> None:
    with CaptureQueriesContext(connection) as asked:
        found = figures_of(sums_by_state(Bid.objects.filter(market=busy)))
    assert len(asked) == 1
    bids = list(Bid.objects.filter(market=busy))
    done = [bid for bid in bids if bid.state == BidState.COMPLETED]
    begun = [bid for bid in bids if bid.state == BidState.RUNNING] + done
    took = {bid.pk: cast(int, bid.completion_slot) - bid.arrival_slot for bid in done}
    assert found["mean_wait_slots"] == pytest.approx(np.mean([cast(int, b.start_slot) - b.arrival_slot for b in begun]))
    assert found["mean_jct_slots"] == pytest.approx(np.mean(list(took.values())))
    weights = [bid.value or 0.0 for bid in done]
    assert found["weighted_jct_slots"] == pytest.approx(np.average(list(took.values()), weights=weights))
    assert found["revenue"] == pytest.approx(sum((bid.payment or 0.0) - bid.refund for bid in bids))
    assert found["in_line"] == 0


@pytest.mark.thorough
def test_prices_join_what_was_kept_and_what_is_posted(busy: Market) -> None:
    read = market_readings.prices(busy, start=-100, end=1000)
    assert read.start == 0
    assert read.price.shape == (len(read.known), 3, 2)
    assert not read.known[0], "slot 0 had begun when the market opened"
    assert read.known[1:].all()
    assert (read.price >= 0).all()


@pytest.mark.thorough
def test_utilisation_counts_commitments(busy: Market) -> None:
    read = market_readings.utilisation(busy, start=0, end=1000)
    assert (read.used <= read.capacity).all()
    assert read.used.sum() == sum(c.count * (c.end - c.start) for b in Bid.objects.all() for c in b.commitments.all())
    assert read.share.shape == (len(read.used), 2)


@pytest.mark.thorough
def test_the_welfare_series_ends_where_the_summary_stands(busy: Market) -> None:
    series, s = market_readings.welfare(busy), market_readings.summary(busy)
    assert series.sequence is not None
    assert series.zero_price_bound is not None
    assert len(series.sequence) == s.admitted + s.rejected == series.decided[-1]
    assert series.welfare[-1] == pytest.approx(s.welfare)
    assert series.revenue is not None
    assert series.revenue[-1] == pytest.approx(s.revenue)
    assert (np.diff(series.zero_price_bound) >= 0).all()


def held_in_each_slot(bars: Iterable[market_readings.Bar]) -> Counter[tuple[str, str, int]]:
    """Machines in use by server, type and slot."""
    held: Counter[tuple[str, str, int]] = Counter()
    for bar in bars:
        for slot in range(int(bar.start), int(bar.end)):
            held[bar.server, bar.machine_type, slot] += bar.count
    return held


def test_bars_name_only_the_viewers_own_jobs(busy: Market, alice: User) -> None:
    mine = market_readings.bars(busy, start=0, end=1000, viewer=alice)
    others = market_readings.bars(busy, start=0, end=1000, viewer=make_user("charlie"))
    operator = market_readings.bars(busy, start=0, end=1000, viewer=make_operator())
    assert len(mine) == len(operator) > 0
    # Of others' jobs only sums: the same machines in the same slots, not which of them belong together.
    assert held_in_each_slot(others) == held_in_each_slot(mine) == held_in_each_slot(operator)
    assert all(bar.mine and bar.sequence is not None for bar in mine)
    assert all(not bar.mine and bar.sequence is None and bar.label == "" for bar in others)
    assert all(not bar.mine and bar.sequence is not None for bar in operator)


def test_readings_take_few_queries_whatever_the_number_of_bids(
    busy: Market, django_assert_max_num_queries: Any
) -> None:
    market_readings.summary(busy)
    with django_assert_max_num_queries(BEGIN_AND_END + 11):
        market_readings.summary(busy)
    for reading in (market_readings.prices, market_readings.utilisation):
        with django_assert_max_num_queries(BEGIN_AND_END + 5):
            reading(busy, start=0, end=100)
    with django_assert_max_num_queries(BEGIN_AND_END + 4):
        market_readings.welfare(busy)
    with django_assert_max_num_queries(BEGIN_AND_END + 2):
        market_readings.bars(busy, start=0, end=100, viewer=None)


def test_a_summary_is_computed_once_for_all_readers_of_a_version(
    busy: Market, alice: User, django_assert_max_num_queries: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator, computed = make_operator(), list[int]()
    compute = market_readings.summary

    def counted(market: Market, **options: Any) -> market_readings.Summary:
        computed.append(market.pk)
        return compute(market, **options)

    monkeypatch.setattr(market_readings, "summary", counted)
    first = publications.summary(busy, operator)
    with django_assert_max_num_queries(BEGIN_AND_END + 5):
        assert replace(publications.summary(busy, operator), read_at=first.read_at) == first
    assert len(computed) == 1
    set_open(busy, False)
    certificates.renew(busy.pk)
    later = publications.summary(busy, operator)
    assert (later.is_open, later.bound is None, first.bound) == (False, False, None)
    assert later.read_at > first.read_at
    assert len(computed) == 1
    publications.summary(busy, make_user("someone"))
    assert len(computed) == 2, "others see published figures"
    set_open(busy, True)
    submit(busy, alice)
    assert publications.summary(busy, operator).undecided == first.undecided + 1
    assert len(computed) == 3


def test_the_certificate_bounds_welfare_and_is_renewed_only_when_something_happened(busy: Market) -> None:
    row = certificates.renew(busy.pk, budget_s=60.0)
    assert row is not None
    assert row.welfare <= row.value == min(row.zero_price, row.posted_price)
    assert row.loose == 0
    took = row.duration_ms
    again = certificates.renew(busy.pk)
    assert again is not None
    assert again.duration_ms == took


@pytest.mark.thorough
def test_settled_sums_give_the_bound_that_starting_again_gives(busy: Market, alice: User) -> None:
    for i in range(12):
        certificates.renew(busy.pk)
        set_time(busy, 3000.0 + 300.0 * i)
        pass_slots(busy.pk)
        submit(busy, alice, 40.0, epochs=1 + i % 5)
        decision_queue.process_pending(busy.pk)
    kept = certificates.renew(busy.pk)
    assert kept is not None
    assert kept.settled_bids > 0
    Certificate.objects.all().delete()
    again = certificates.renew(busy.pk, budget_s=60.0)
    assert again is not None
    assert again.zero_price == pytest.approx(kept.zero_price)
    assert again.posted_price == pytest.approx(kept.posted_price)


def test_without_time_standalone_values_replace_terms(busy: Market) -> None:
    row = certificates.renew(busy.pk, budget_s=0.0)
    assert row is not None
    assert row.loose == row.decided
    assert row.value == row.zero_price
