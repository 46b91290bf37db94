"""Limits on failed logins: by user name and address, by address, and by user name (`settings.LOGIN_LIMITS`).

django-axes counts failures in the database, for all processes, and asks here whether a limit is reached. A row holds
the failures of one user name from one address; it is forgotten `settings.AXES_COOLOFF_TIME` after the latest of them.
While a login is locked its password is not checked and nothing is counted, so that the lock ends by itself. A login
that succeeds forgets nothing. Sessions and tokens that exist work on.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.handlers.proxy import AxesProxyHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest

from cluster import clock

Credentials = Mapping[str, Any]


class LimitedLogins(AxesDatabaseHandler):  # type: ignore[misc]
    """Failed logins in the database, with a limit of its own for each set of parameters."""

    def get_failures(self, request: HttpRequest, credentials: Credentials | None = None) -> int:
        """Return the number of reached limits; `settings.AXES_FAILURE_LIMIT` is 1, so one is enough."""
        return len(self.ends(request, credentials))

    def ends(self, request: HttpRequest, credentials: Credentials | None = None) -> list[datetime]:
        """Return the end of each lock that applies to this login."""
        found = zip(self.get_user_attempts(request, credentials), settings.LOGIN_LIMITS, strict=True)
        ends = (_end(attempts, limit) for attempts, (_, limit) in found)
        return [end for end in ends if end is not None]

    def clean_expired_user_attempts(
        self, request: HttpRequest | None = None, credentials: Credentials | None = None
    ) -> int:
        """Delete expired failures. If there are none, no transaction is begun, as it would lock.

        Failures from before the clock was set back count from now on: they would lock until the time of that clock.
        """
        moment = clock.now()
        ahead = AccessAttempt.objects.filter(attempt_time__gt=moment)
        if ahead.exists():
            ahead.update(attempt_time=moment)
        forgotten = AccessAttempt.objects.filter(attempt_time__lte=moment - settings.AXES_COOLOFF_TIME)
        return int(forgotten.delete()[0]) if forgotten.exists() else 0


def lock_ends(request: HttpRequest, credentials: Credentials | None) -> datetime:
    """Return when the last lock of a refused login ends."""
    handler: LimitedLogins = AxesProxyHandler.get_implementation()
    return max(handler.ends(request, credentials), default=clock.now())


def _end(attempts: "QuerySet[Any]", limit: int) -> datetime | None:
    """Return when enough of these failures have expired to be below the limit; None if it is not reached now."""
    failures = 0
    for latest, count in attempts.order_by("-attempt_time").values_list("attempt_time", "failures_since_start"):
        failures += count
        if failures >= limit:
            end: datetime = latest + settings.AXES_COOLOFF_TIME
            return end
    return None
