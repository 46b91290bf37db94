"""How long a statement may wait or run on a connection, by what its thread does; set when the connection is opened.

Requests are given up soon: the client is told to come again, and one that has left holds nothing. Workers may take
longer. Commands, such as a migration or an audit, are not limited.
"""

from dataclasses import dataclass
from threading import local
from typing import Final

from django.conf import settings


@dataclass(frozen=True)
class Limits:
    """Seconds; 0 is no limit."""

    lock: float = 0.0
    """That a statement waits for a lock."""
    statement: float = 0.0
    """That a statement takes, the wait included."""
    idle: float = 0.0
    """That a transaction is open without a statement."""

    def options(self) -> str:
        """As parameters of a PostgreSQL session."""
        values = {
            "lock_timeout": self.lock,
            "statement_timeout": self.statement,
            "idle_in_transaction_session_timeout": self.idle,
        }
        return " ".join(f"-c {name}={round(1000 * seconds)}" for name, seconds in values.items() if seconds)


NO_LIMITS: Final = Limits()
_thread = local()


def use(name: str) -> None:
    """Connections that this thread opens from now on have these limits of `settings.DATABASE_LIMITS`."""
    _thread.limits = Limits(**settings.DATABASE_LIMITS[name])


def current() -> Limits:
    """Those of connections that this thread opens."""
    limits: Limits = getattr(_thread, "limits", NO_LIMITS)
    return limits
