"""Django's SQLite, whose transactions wait in line for the lock, and are watched while they hold it."""

from typing import Any

from django.db.backends.sqlite3 import base

from cluster.database import holding, limits
from cluster.database.sqlite3.line import Turn
from cluster.database.watched import WatchedConnection


class DatabaseWrapper(WatchedConnection, base.DatabaseWrapper):
    """A connection."""

    transaction_mode: str | None
    _turn: Turn | None = None

    def get_connection_params(self) -> dict[str, Any]:
        """Wait for the lock as long as this thread may."""
        found: dict[str, Any] = super().get_connection_params()
        return found | ({"timeout": limits.current().lock} if limits.current().lock else {})

    def set_autocommit(self, autocommit: bool, force_begin_transaction_with_broken_autocommit: bool = False) -> None:
        """Begin a transaction, or go back to one for each statement."""
        self.ensure_connection()  # opens it with its mode; each thread has a connection of its own
        begins = not autocommit and self.transaction_mode == "IMMEDIATE"  # others take no lock
        if begins:
            self._wait_for_turn()
        try:
            super().set_autocommit(autocommit, force_begin_transaction_with_broken_autocommit)
        except BaseException:
            self._transaction_ended()
            raise
        if begins:
            holding.begin(id(self))

    def _wait_for_turn(self) -> None:
        if self._turn is None and not self.is_in_memory_db():
            self._turn = Turn(str(self.settings_dict["NAME"]))
            self._turn.wait(self.get_connection_params()["timeout"])

    def _transaction_ended(self) -> bool:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.end()
        return super()._transaction_ended()
