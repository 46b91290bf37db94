"""Sums over all bids that follow the events: they are those of the rows, and no bid that is over is read again."""

from typing import Any

import numpy as np
import pytest
from django.db import connection, transaction
from django.test import TestCase
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, settings
from hypothesis.stateful import invariant, run_state_machine_as_test

from auctions.domain.totals import figures_of, sums_by_state
from auctions.engine import decision_queue
from auctions.engine.jobs import cancel_job, withdraw_bid
from auctions.engine.slots import pass_slots
from auctions.history.sealing import Before, archive
from auctions.models import Bid, BidState, Event, Market
from auctions.readings import sums
from auctions.state import followed
from auctions.state.market_snapshot import market_snapshot, one_version
from tests.auctions.faulty import register
from tests.auctions.test_market_machine import MarketMachine
from tests.auctions.worlds import SLOT_S, make_market, make_user, set_time, submit
from tests.draws import rounds

READ = (sums._read_ended, sums._read_decisions, sums._read_completions, sums._read_admissions)
FOLLOWED = (sums._ended, sums._decisions, sums._completions, sums._admissions)


@pytest.fixture(autouse=True)
def _nothing_known() -> None:
    sums.forget()


def assert_sums_are_those_of_all_rows(market: Market) -> None:
    """Read the sums as a process does that has read them before, and compare them with those of all rows."""
    with TestCase.captureOnCommitCallbacks(execute=True), one_version():
        market = market_snapshot(market).market
        found = sums.present_figures(market)
        expected = figures_of(sums_by_state(Bid.objects.filter(market=market)))
        assert [name for name in expected if expected[name] is None] == [name for name in found if found[name] is None]
        known = {name: figure for name, figure in expected.items() if figure is not None}
        assert {name: found[name] for name in known} == pytest.approx(known, rel=1e-9, abs=1e-9)
        assert sums.last_admissions_of_standing(market) == sums._read_admissions(market)
        np.testing.assert_array_equal(sums.decisions(market), sums._read_decisions(market))
        np.testing.assert_array_equal(sums.completions(market), sums._read_completions(market))


class Reader(MarketMachine):
    """After everything that people do, a process reads the sums."""

    @invariant()
    def read(self) -> None:
        """What was read before and followed is what is read now."""
        if hasattr(self, "market"):
            assert_sums_are_those_of_all_rows(self.market)

    def teardown(self) -> None:
        """The audit is what other tests ask."""


@pytest.mark.thorough
@pytest.mark.django_db
def test_sums_follow_whatever_people_do(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)
    run_state_machine_as_test(
        Reader,
        settings=settings(
            max_examples=rounds(6),
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is read in full."""
    found = list[str]()

    def counted(one: Any) -> Any:
        def read(market: Market) -> Any:
            found.append(one.__name__)
            return one(market)

        return read

    for value, one in zip(FOLLOWED, READ, strict=True):
        monkeypatch.setattr(value, "_read", counted(one))
    return found


def lived(market: Market, slots: int) -> None:
    """Let bids come, and slots begin, in which jobs complete."""
    owners = [make_user(f"owner-{market.slot}-{i}") for i in range(3)]
    for _ in range(slots):
        for i, owner in enumerate(owners):
            submit(market, owner, 2.0 if i == 2 else 50.0, epochs=1 + i, standing=i == 2)
        decision_queue.process_pending(market.pk)
        market.refresh_from_db()
        set_time(market, (market.slot + 1) * SLOT_S)
        pass_slots(market.pk)
    market.refresh_from_db()


@pytest.mark.django_db
def test_what_is_over_is_read_once(market: Market, reads: list[str]) -> None:
    lived(market, 3)
    reads.clear()
    assert_sums_are_those_of_all_rows(market)
    assert sorted(reads) == sorted(one.__name__ for one in READ)
    for _ in range(3):
        lived(market, 2)
        cancel_job(Bid.objects.filter(state__in=(BidState.PLANNED, BidState.RUNNING)).latest("sequence"))
        withdraw_bid(submit(market, make_user(f"gone-{market.slot}")))
        assert_sums_are_those_of_all_rows(market)
    assert len(reads) == len(READ)
    assert {BidState.COMPLETED, BidState.CANCELLED, BidState.WITHDRAWN} <= set(
        Bid.objects.values_list("state", flat=True)
    )


@pytest.mark.django_db
def test_a_reading_takes_as_many_queries_in_a_larger_market(market: Market) -> None:
    taken = []
    for slots in (2, 12):
        lived(market, slots)
        assert_sums_are_those_of_all_rows(market)
        lived(market, 1)
        with one_version(), CaptureQueriesContext(connection) as queries:
            sums.present_figures(market_snapshot(market).market)
        taken.append(len(queries))
    assert taken[0] == taken[1] <= 4


@pytest.mark.django_db
def test_everything_is_read_again_after_very_many_events_or_if_they_are_archived(
    market: Market, reads: list[str], monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Any
) -> None:
    lived(market, 3)
    assert_sums_are_those_of_all_rows(market)
    monkeypatch.setattr(followed, "MOST_EVENTS", 2)
    lived(market, 1)
    reads.clear()
    assert_sums_are_those_of_all_rows(market)
    assert len(reads) == len(READ)
    monkeypatch.setattr(followed, "MOST_EVENTS", 2_000)
    lived(market, 9)
    settings.ARCHIVE_DIR = tmp_path / "archives"
    before = Event.objects.count()
    archive(market, Before(slot=market.slot - 1))
    assert Event.objects.count() < before
    reads.clear()
    assert_sums_are_those_of_all_rows(market)
    assert len(reads) == len(READ)


@pytest.mark.django_db
def test_an_earlier_version_is_read_beside_a_later_one(market: Market) -> None:
    lived(market, 2)
    assert_sums_are_those_of_all_rows(market)
    with one_version():
        seen = market_snapshot(market).market
        ended = sums._ended.at(seen)
        sums._ended._keep(seen.token, seen.version + 1, {})
        assert sums._ended.at(seen) == ended


@pytest.mark.django_db
def test_what_a_transaction_undoes_is_not_remembered_and_what_a_reader_finds_is_at_once() -> None:
    market = make_market()
    lived(market, 2)

    def read_and_fail() -> None:
        with TestCase.captureOnCommitCallbacks(execute=True), transaction.atomic():
            sums.present_figures(market)
            raise RuntimeError("undone")

    with pytest.raises(RuntimeError, match="undone"):
        read_and_fail()
    assert not sums._ended._known
    with one_version():
        sums.present_figures(market_snapshot(market).market)
        assert sums._ended._known
