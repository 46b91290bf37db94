"""How often one caller may ask: each process counts for itself; settings hold the rates."""

from rest_framework.throttling import ScopedRateThrottle, UserRateThrottle


class CallerThrottle(UserRateThrottle):
    """Per user, or per address of whoever is not known."""

    scope = "caller"


class TokenThrottle(ScopedRateThrottle):
    """Slows the guessing of passwords."""
