"""A connection that reports the ends of its transactions, and counts those that changed something."""

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from cluster.database import holding


class WatchedConnection(BaseDatabaseWrapper):
    """Common base of the connections of both databases."""

    stored = 0
    """Transactions committed since it was set to 0 that could change something."""

    def commit(self) -> None:
        """End the transaction, and with it any lock."""
        held = False
        try:
            super().commit()
        finally:
            held = self._transaction_ended()
        self.stored += held

    def rollback(self) -> None:
        """End the transaction, and with it any lock."""
        try:
            super().rollback()
        finally:
            self._transaction_ended()

    def close(self) -> None:
        """End the connection, and with it any lock."""
        try:
            super().close()
        finally:
            self._transaction_ended()

    def _transaction_ended(self) -> bool:
        """Whether it held the lock."""
        return holding.end(id(self))


def count_from_now() -> None:
    """Begin to count what this thread stores."""
    connection = connections[DEFAULT_DB_ALIAS]
    if isinstance(connection, WatchedConnection):
        connection.stored = 0


def has_stored() -> bool:
    """Whether this thread has stored anything since."""
    return bool(getattr(connections[DEFAULT_DB_ALIAS], "stored", 0))
