"""Django's PostgreSQL with limits for each connection; transactions are watched while they hold locks."""

from collections.abc import Callable
from typing import Any, Final

from django.db.backends.postgresql import base

from cluster.database import holding, limits
from cluster.database.watched import WatchedConnection

LOCKING: Final = ("INSERT", "UPDATE", "DELETE")
"""Statements that lock rows; a query that does so ends with its lock's name."""


class DatabaseWrapper(WatchedConnection, base.DatabaseWrapper):
    """A connection."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.execute_wrappers.append(self._note_lock)

    def get_connection_params(self) -> dict[str, Any]:
        """Add the limits of this thread."""
        found: dict[str, Any] = super().get_connection_params()
        options = " ".join(part for part in (found.get("options", ""), limits.current().options()) if part)
        return found | ({"options": options} if options else {})

    def _note_lock(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]
    ) -> Any:
        answer = execute(sql, params, many, context)
        if self.in_atomic_block and (sql.startswith(LOCKING) or " FOR UPDATE" in sql or " FOR NO KEY UPDATE" in sql):
            holding.begin(id(self))
        return answer
