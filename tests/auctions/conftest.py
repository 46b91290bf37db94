"""A market, its users, and a memory that starts empty."""

from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User

from auctions.models import Market
from auctions.state import book
from tests.auctions.worlds import make_market, make_user


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    book.forget()
    yield
    book.forget()


@pytest.fixture
def alice(db: None) -> User:
    """A bidder."""
    return make_user("alice")


@pytest.fixture
def bob(db: None) -> User:
    """Another bidder."""
    return make_user("bob")


@pytest.fixture
def market(db: None) -> Market:
    """An open market of two edge servers and a cloud."""
    return make_market()
