"""Alice asks, Olga operates, Charlie must see nothing; instances of two helpers and three clients."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from rest_framework.test import APIClient

from studies.models import Plan
from studies.plans.api.examples import TINY
from studies.plans.asking import ask
from studies.plans.wish import Wish
from tests.auctions.worlds import make_user

URL = "/api/v1/plans"


def large(helpers: int = 20, clients: int = 200) -> Any:
    """The body of a request that the exact method takes far longer for than a test may: nothing is alike."""
    rng = np.random.default_rng(5)
    ranges = {"release": 100, "forward": 30, "gap": 60, "backward": 60, "tail": 100}
    demand = rng.integers(1, 10, clients)
    memory = int(demand.sum() * 1.15 / helpers)
    instance = {
        "helpers": [{"memory_gb": memory} for _ in range(helpers)],
        "clients": [{"demand_gb": amount} for amount in demand.tolist()],
        **{name: rng.integers(1, most, (helpers, clients)).tolist() for name, most in ranges.items()},
    }
    return {"instance": instance, "seconds": 300}


def tiny(**more: Any) -> Any:
    """The body of a request; optimal plans of it take 37 slots."""
    return {"instance": deepcopy(TINY), "seconds": 5, **more}


def asked(owner: User, body: Any = None) -> Plan:
    """A plan that waits."""
    return ask(owner, Wish.from_json(body or tiny()))


@pytest.fixture(autouse=True)
def _nobody_asked_before() -> Iterator[None]:
    """Requests of one test do not count against the rate of the next."""
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def alice(db: None) -> User:
    """She asks for plans."""
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
