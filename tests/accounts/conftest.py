"""A market, its users, and clients that speak REST."""

import pytest

from auctions.models import Market
from tests.auctions.worlds import make_market
from tests.rest import alice, charlie, client_of, nobody_asked_before

__all__ = ["alice", "charlie", "client_of", "nobody_asked_before"]


@pytest.fixture
def market(db: None) -> Market:
    """An open market of the cluster lab."""
    return make_market()
