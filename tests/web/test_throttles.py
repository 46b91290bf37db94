"""Limits of requests count each caller, however many there are."""

from typing import Any

import pytest
from django.core.cache import cache
from django.test import RequestFactory

from web.throttles import PasswordThrottle

OTHERS = 3_000
"""Ten times as many as Django's cache remembers by default."""


def lets(address: str) -> bool:
    """Whether a check of a password for this address is made."""
    view: Any = None
    request: Any = RequestFactory(REMOTE_ADDR=address).post("/login/")
    return PasswordThrottle().allow_request(request, view)


def test_an_address_is_counted_on_while_thousands_of_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PasswordThrottle, "THROTTLE_RATES", {"password": "1/hour"})
    cache.clear()
    assert lets("192.0.2.1")
    assert all(lets(f"10.0.{i // 256}.{i % 256}") for i in range(OTHERS))
    assert not lets("192.0.2.1")
    cache.clear()
