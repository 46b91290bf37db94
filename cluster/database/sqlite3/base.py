"""Django's SQLite, whose transactions are watched while they hold the lock."""

from typing import Any

from django.db.backends.sqlite3 import base

from cluster.database import holding, limits
from cluster.database.watched import WatchedConnection


class DatabaseWrapper(WatchedConnection, base.DatabaseWrapper):
    """A connection."""

    transaction_mode: str | None

    def get_connection_params(self) -> dict[str, Any]:
        """Wait for the lock as long as this thread may."""
        found: dict[str, Any] = super().get_connection_params()
        return found | ({"timeout": limits.current().lock} if limits.current().lock else {})

    def set_autocommit(self, autocommit: bool, force_begin_transaction_with_broken_autocommit: bool = False) -> None:
        """Begin a transaction, or go back to one for each statement."""
        super().set_autocommit(autocommit, force_begin_transaction_with_broken_autocommit)
        if not autocommit and self.transaction_mode == "IMMEDIATE":  # others take no lock
            holding.begin(id(self))
