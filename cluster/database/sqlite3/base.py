"""Django's SQLite backend, with transactions that queue for the lock and are watched while they hold it."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

from django.db.backends.sqlite3 import base

from cluster.database import holding, limits
from cluster.database.sqlite3.line import Turn
from cluster.database.sqlite3.private import make_private
from cluster.database.watched import WatchedConnection


class DatabaseWrapper(WatchedConnection, base.DatabaseWrapper):
    """A connection."""

    transaction_mode: str | None
    _turn: Turn | None = None

    def get_connection_params(self) -> dict[str, Any]:
        """Set how long this thread may wait for the lock."""
        found: dict[str, Any] = super().get_connection_params()
        return found | ({"timeout": limits.current().lock} if limits.current().lock else {})

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Open the database, whose files other users of the machine may not open, once for each process and file."""
        path = str(self.settings_dict["NAME"])
        if path not in _private and not self.is_in_memory_db() and not path.startswith("file:"):
            make_private(path)
            _private.add(path)
        return super().get_new_connection(conn_params)

    def set_autocommit(self, autocommit: bool, force_begin_transaction_with_broken_autocommit: bool = False) -> None:
        """Begin a transaction, or go back to one for each statement."""
        self.ensure_connection()  # opens it with its mode; each thread has a connection of its own
        begins = not autocommit and self.transaction_mode == "IMMEDIATE"  # others take no lock
        left_s = self._wait_for_turn() if begins else None
        try:
            with self.waiting_for_lock(left_s):
                super().set_autocommit(autocommit, force_begin_transaction_with_broken_autocommit)
        except BaseException:
            self._transaction_ended()
            raise
        if begins:
            holding.begin(id(self))

    def _wait_for_turn(self) -> float | None:
        """Wait in line; how long the lock itself may still be waited for, None if no time was lost."""
        if self._turn is not None or self.is_in_memory_db():
            return None
        longest_s, began = float(self.get_connection_params()["timeout"]), monotonic()
        self._turn = Turn(str(self.settings_dict["NAME"]))
        return max(0.0, longest_s - (monotonic() - began)) if self._turn.wait(longest_s) else None

    @contextmanager
    def waiting_for_lock(self, seconds: float | None) -> Iterator[None]:
        """Let SQLite wait for the lock for so long in the block; None: as long as the connection says.

        The connection must be open.
        """
        if seconds is None:
            yield
            return
        self._set_busy_timeout(seconds)
        try:
            yield
        finally:
            self._set_busy_timeout(self.get_connection_params()["timeout"])

    def _set_busy_timeout(self, seconds: float) -> None:
        self.connection.execute(f"PRAGMA busy_timeout = {round(1000 * seconds)}")

    def _transaction_ended(self) -> bool:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.end()
        return super()._transaction_ended()


_private: set[str] = set()
"""Databases whose files this process has made private."""
