"""A market, two bidders and an operator, each with a client that is logged in."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from auctions.models import Market
from auctions.state import book
from tests.auctions.worlds import make_market, make_operator, make_user


@pytest.fixture(autouse=True)
def _empty_memory() -> None:
    book.forget()


@pytest.fixture
def market(db: None) -> Market:
    return make_market()


@pytest.fixture
def alice(db: None) -> User:
    return make_user("alice")


@pytest.fixture
def as_alice(alice: User, client: Client, db: None) -> Client:
    client.force_login(alice)
    return client


@pytest.fixture
def as_bob(db: None) -> Client:
    client = Client()
    client.force_login(make_user("bob"))
    return client


@pytest.fixture
def as_operator(db: None) -> Client:
    client = Client()
    client.force_login(make_operator())
    return client
