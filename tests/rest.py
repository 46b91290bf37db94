"""Fixtures of everybody who speaks REST: conftest modules take from here what theirs need."""

from collections.abc import Callable, Iterator

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from rest_framework.test import APIClient

from accounts.tokens import NewToken, issue
from tests.auctions.worlds import make_user


def user_token(user: User) -> str:
    """The text of a token of a user, for all that the user may do."""
    return issue(user, NewToken("test")).text


@pytest.fixture(autouse=True)
def nobody_asked_before() -> Iterator[None]:
    """Requests of one test do not count against the rate of the next."""
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def alice(db: None) -> User:
    """She asks."""
    return make_user("alice")


@pytest.fixture
def client_of() -> Callable[[User], APIClient]:
    """A client that speaks as a user."""

    def make(user: User) -> APIClient:
        client = APIClient()
        client.force_authenticate(user)
        return client

    return make


@pytest.fixture
def api(client_of: Callable[[User], APIClient], alice: User) -> APIClient:
    """Alice's client."""
    return client_of(alice)


@pytest.fixture
def charlie(client_of: Callable[[User], APIClient], db: None) -> APIClient:
    """A stranger's client."""
    return client_of(make_user("charlie"))
