"""People, and what is the same in every world."""

from copy import copy
from functools import cache
from typing import Any

import pytest
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from cluster.operators import is_operator
from tests.auctions.worlds import make_user
from tests.frontend.sealed_bids.worlds import PEOPLE


@pytest.fixture
def people(db: None) -> dict[str, User]:
    return {name: make_user(name) for name in PEOPLE}


@pytest.fixture
def alice(people: dict[str, User]) -> User:
    return people["alice"]


@pytest.fixture(autouse=True)
def _same_in_every_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """What differs between two runs of the same world: the wall clock, how long work takes, and keys of forms."""
    instant = timezone.now()
    monkeypatch.setattr(timezone, "now", lambda: instant)
    monkeypatch.setattr("auctions.engine.decide.perf_counter", lambda: 0.0)
    monkeypatch.setattr("frontend.views.submit.uuid4", lambda: type("Key", (), {"hex": "0" * 32}))


@pytest.fixture(autouse=True)
def _logins_in_memory(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of requests of one login: session, user and rights are not read from rows for each."""
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.cache"

    read = ModelBackend().get_user

    @cache
    def known(key: int) -> AbstractBaseUser | None:
        user = read(key)
        if user is not None:
            is_operator(user)  # the object of a user remembers the answer
        return user

    monkeypatch.setattr(ModelBackend, "get_user", lambda _backend, key: copy(known(key)))


@pytest.fixture
def client(alice: User, client: Client) -> Client:
    client.force_login(alice)
    return client
