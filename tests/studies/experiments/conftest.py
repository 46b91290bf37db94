"""Alice asks, Olga operates, Charlie must see nothing; workloads of a few jobs."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from rest_framework.test import APIClient

from studies.experiments import readings
from studies.experiments.asking import ask
from studies.experiments.wish import TraceFinder, Wish
from studies.models import Experiment, Trace
from studies.traces.upload import keep
from tests import traces
from tests.auctions.worlds import make_user

TINY = {"generator": "dps", "setting": {"servers": 3, "slots": 30, "jobs": 6, "types": 2, "chunks": [2, 6]}}
PHILLY_HEAD = "".join(traces.PHILLY_DAY.read_text().splitlines(keepends=True)[:41])
"""Forty jobs of the shared day."""


def matrix(**more: Any) -> Any:
    """The body of a request: two policies, two seeds and the bounds, six runs."""
    return {"workloads": [TINY], "policies": [{"name": "dps"}, {"name": "fifo"}], "seeds": [1, 2], **more}


def asked(owner: User, body: Any = None) -> Experiment:
    """An experiment that waits."""
    return ask(owner, Wish.from_json(body or matrix(), TraceFinder(readings.visible_traces(owner))))


def uploaded(owner: User, text: str = PHILLY_HEAD) -> Trace:
    """A trace of forty jobs."""
    return keep(owner, text, label="forty jobs", source="philly.csv")[0]


@pytest.fixture(autouse=True)
def _nobody_asked_before() -> Iterator[None]:
    """Requests of one test do not count against the rate of the next."""
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def alice(db: None) -> User:
    """She asks for experiments."""
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
