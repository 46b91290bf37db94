"""Time limits of statements on a connection, by the type of its thread; set when the connection is opened.

Requests have short limits: the client has to retry, and a request whose client has left holds nothing. Workers may
take longer. Commands, such as a migration or an audit, have no limits.
"""

from dataclasses import dataclass
from threading import local
from typing import Final

from django.conf import settings


@dataclass(frozen=True)
class Limits:
    """Limits in seconds; 0 means no limit."""

    lock: float = 0.0
    """Longest time that a statement waits for a lock."""
    statement: float = 0.0
    """Longest time that a statement takes, the wait included."""
    idle: float = 0.0
    """Longest time that a transaction is open without a statement."""

    def options(self) -> str:
        """Return the limits as parameters of a PostgreSQL session."""
        values = {
            "lock_timeout": self.lock,
            "statement_timeout": self.statement,
            "idle_in_transaction_session_timeout": self.idle,
        }
        return " ".join(f"-c {name}={round(1000 * seconds)}" for name, seconds in values.items() if seconds)


NO_LIMITS: Final = Limits()
_thread = local()


def use(name: str) -> None:
    """Use these limits of `settings.DATABASE_LIMITS` for connections that this thread opens from now on."""
    _thread.limits = Limits(**settings.DATABASE_LIMITS[name])


def current() -> Limits:
    """Return the limits of connections that this thread opens."""
    limits: Limits = getattr(_thread, "limits", NO_LIMITS)
    return limits
