"""Django's PostgreSQL with limits for each connection; transactions are watched while they hold locks.

Connections of requests and tasks are kept for the next ones (`kept.py`), and the server keeps the plans of queries
that are asked often (`statements.py`).
"""

from collections.abc import Callable
from typing import Any, Final

from django.db.backends.postgresql import base

from cluster.database import holding, limits
from cluster.database.postgresql import kept, statements
from cluster.database.watched import WatchedConnection

LOCKING: Final = ("INSERT", "UPDATE", "DELETE")
"""Statements that lock rows; a query that does so ends with its lock's name."""


class DatabaseWrapper(WatchedConnection, base.DatabaseWrapper):
    """A connection."""

    _parameters: tuple[tuple[str, str], ...] = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.execute_wrappers += [self._note_lock, _execute_by_name]

    def get_connection_params(self) -> dict[str, Any]:
        """Add the limits of this thread."""
        found: dict[str, Any] = super().get_connection_params()
        options = " ".join(part for part in (found.get("options", ""), limits.current().options()) if part)
        return found | ({"options": options} if options else {})

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Take a connection that was kept, or open one."""
        self._parameters = tuple(sorted((name, str(value)) for name, value in conn_params.items()))
        return kept.take(self._parameters) or super().get_new_connection(conn_params)

    def _close(self) -> None:
        """Keep the connection, or close it; one that had an error may be broken."""
        fit = not (self.in_atomic_block or self.errors_occurred or limits.current() == limits.NO_LIMITS)
        if not (fit and self.connection is not None and kept.put(self.connection, self._parameters)):
            super()._close()  # type: ignore[misc]  # Django's types leave it out

    def _note_lock(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        answer = execute(sql, params, many, context)
        if self.in_atomic_block and (sql.startswith(LOCKING) or " FOR UPDATE" in sql or " FOR NO KEY UPDATE" in sql):
            holding.begin(id(self))
        return answer


def _execute_by_name(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
    if not many and params is not None and statements.is_registered(sql):
        with context["connection"].wrap_database_errors:  # to prepare may fail as any query
            sql = statements.named(sql, context["cursor"].cursor)
    return execute(sql, params, many, context)
