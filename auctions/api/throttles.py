"""How often one caller may ask: each process counts for itself; settings hold the rates."""

from typing import Any

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle, UserRateThrottle

from cluster.addresses import address_of


class CallerThrottle(UserRateThrottle):
    """Per user, or per address of whoever is not known."""

    scope = "caller"

    def get_ident(self, request: Request) -> str:
        """The address."""
        return str(address_of(request))


class PasswordThrottle(SimpleRateThrottle):
    """Checks of passwords, right ones too, per address: each takes a third of a second of a processor."""

    scope = "password"

    def get_cache_key(self, request: Request | HttpRequest, view: Any) -> str:
        """The address, whoever is signed in."""
        return self.cache_format % {"scope": self.scope, "ident": address_of(request)}
