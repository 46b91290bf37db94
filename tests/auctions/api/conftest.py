"""Alice owns, Olga operates, Charlie must see nothing."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from rest_framework.test import APIClient

from auctions.models import Market
from tests.auctions.worlds import make_user

BASE = "/api/v1/clusters/lab"
Caller = Callable[..., Any]
METHODS = ("get", "post", "put", "patch", "delete")


def operations(document: Any) -> list[tuple[str, str, Any]]:
    """Path, method and description of every operation."""
    return [
        (path, method, item[method]) for path, item in document["paths"].items() for method in METHODS if method in item
    ]


@pytest.fixture(autouse=True)
def _nobody_asked_before() -> Iterator[None]:
    """Requests of one test do not count against the rate of the next."""
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def document(db: None) -> Any:
    """The OpenAPI document as it is served."""
    return json.loads(Client().get("/api/v1/schema", headers={"Accept": "application/vnd.oai.openapi+json"}).content)


@pytest.fixture
def client_of() -> Callable[[User], APIClient]:
    """A client that speaks as a user."""

    def make(user: User) -> APIClient:
        client = APIClient()
        client.force_authenticate(user)
        return client

    return make


@pytest.fixture
def api(client_of: Callable[[User], APIClient], alice: User, market: Market) -> APIClient:
    """Alice's client."""
    return client_of(alice)


@pytest.fixture
def olga(client_of: Callable[[User], APIClient], db: None) -> APIClient:
    """The operator's client."""
    return client_of(make_user("olga", is_staff=True))


@pytest.fixture
def charlie(client_of: Callable[[User], APIClient], db: None) -> APIClient:
    """A stranger's client."""
    return client_of(make_user("charlie"))
