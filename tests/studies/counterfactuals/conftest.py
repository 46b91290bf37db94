"""A market with five bids that were rejected for their value, and its users."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from rest_framework.test import APIClient

from auctions.engine import decision_queue
from auctions.models import Market
from auctions.state import book
from tests.auctions.worlds import make_market, make_operator, make_user, submit

URL = "/api/v1/clusters/lab/counterfactuals"


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    book.forget()
    cache.clear()
    yield
    book.forget()
    cache.clear()


@pytest.fixture
def olga(db: None) -> User:
    """An operator."""
    return make_operator()


@pytest.fixture
def market(db: None) -> Market:
    """Five decisions."""
    market, alice = make_market(), make_user("alice")
    for i in range(5):
        submit(market, alice, 0.0001, label=f"job {i}")
    decision_queue.process_pending(market.pk)
    return market


@pytest.fixture
def api(olga: User) -> APIClient:
    """She asks."""
    client = APIClient()
    client.force_authenticate(olga)
    return client
