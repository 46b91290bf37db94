"""Quotes go on with the tables that kernels made for the last quote, and say the same as without."""

import pytest
from django.contrib.auth.models import User

from auctions.engine import decision_queue
from auctions.engine.submission import quote
from auctions.models import Market
from auctions.state import book
from auctions.state.book import SharedBook
from auctions.state.market_snapshot import market_snapshot, one_version
from tests.auctions.worlds import SLOT_S, body, make_cluster, make_market, make_user, set_time, submit

INDEX = "RigidIndex"


@pytest.fixture
def market(db: None) -> Market:
    return make_market(make_cluster(), refit_every=2)


@pytest.fixture
def alice(db: None) -> User:
    return make_user()


def shared(market: Market) -> SharedBook:
    with one_version():
        return market_snapshot(market).book


def test_a_quote_is_the_same_with_tables_and_without(market: Market, alice: User) -> None:
    for step, value in enumerate((100.0, 3.0, 400.0, 90.0, 1e6)):
        offered = quote(market=market, body=body(value)).decision
        with shared(market).trial() as trial:
            assert INDEX in trial.ledger.tables, "those of the quote"
        book.forget()
        assert quote(market=market, body=body(value)).decision == offered
        submit(market, alice, value)
        decision_queue.process_pending(market.pk)
        set_time(market, step * SLOT_S)


def test_one_trial_at_a_time_has_the_tables_and_none_after_an_error_or_for_other_servers(market: Market) -> None:
    quote(market=market, body=body())
    known = shared(market)
    with known.trial() as first, known.trial() as second:
        assert INDEX in first.ledger.tables
        assert not second.ledger.tables
        quote(market=market, body=body())
    with pytest.raises(ZeroDivisionError), known.trial():
        raise ZeroDivisionError
    with known.trial() as after:
        assert not after.ledger.tables
    quote(market=market, body=body())
    servers = shared(make_market(make_cluster("other"))).snapshot.inventory
    known._tables[0] = (servers, known._tables[0][1])
    with known.trial() as other:
        assert not other.ledger.tables
