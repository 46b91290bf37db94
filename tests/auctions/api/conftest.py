"""Alice owns, Olga operates, Charlie must see nothing."""

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from auctions.models import Market
from tests.auctions.worlds import make_operator
from tests.rest import charlie, client_of, nobody_asked_before

__all__ = ["charlie", "client_of", "nobody_asked_before"]  # fixtures of all who speak REST
BASE = "/api/v1/clusters/lab"
METHODS = ("get", "post", "put", "patch", "delete")


def operations(document: Any) -> list[tuple[str, str, Any]]:
    """Path, method and description of every operation."""
    return [
        (path, method, item[method]) for path, item in document["paths"].items() for method in METHODS if method in item
    ]


@cache
def _served_document() -> Any:
    """As the server writes it: from the code alone, so once for all tests, which leave it as it is."""
    return Client().get("/api/v1/schema", headers={"Accept": "application/vnd.oai.openapi+json"}).json()


@pytest.fixture
def document(db: None) -> Any:
    """The OpenAPI document as it is served."""
    return _served_document()


@pytest.fixture
def api(client_of: Callable[[User], APIClient], alice: User, market: Market) -> APIClient:
    """Alice's client."""
    return client_of(alice)


@pytest.fixture
def olga(client_of: Callable[[User], APIClient], db: None) -> APIClient:
    """The operator's client."""
    return client_of(make_operator())
