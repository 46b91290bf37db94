"""Prepared statements of PostgreSQL: the server plans a query once for a connection, and not each time.

To plan a query takes the server three to six times as long as to find a row by an index. A statement is prepared when
a connection first asks it, and again from time to time, since a plan that was made for a small table may be a bad one
for the same table when it has grown.
"""

import re
from time import monotonic
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from psycopg2.extensions import connection, cursor

LONGEST_S: Final = 60.0
"""Time after which a connection prepares a statement again, seconds."""

_numbers: dict[str, int] = {}
"""Number of each registered statement, by its SQL."""
_prepared: "WeakKeyDictionary[connection, dict[int, float]]" = WeakKeyDictionary()
"""Time at which each connection last prepared a statement, by the statement's number."""


def register(sql: str) -> None:
    """Let this query be prepared, whose parameters are written as `%s`."""
    _numbers.setdefault(sql, len(_numbers))


def is_registered(sql: str) -> bool:
    """Return whether this query is to be prepared."""
    return sql in _numbers


def named(sql: str, on: "cursor") -> str:
    """Return the statement that executes a registered query with the same parameters; prepare it first if needed."""
    number, now = _numbers[sql], monotonic()
    known = _prepared.setdefault(on.connection, {})
    if now > known.get(number, -LONGEST_S) + LONGEST_S:
        # No transaction undoes this, also not one that fails.
        forget = "" if known.pop(number, None) is None else f"DEALLOCATE asked_{number}; "
        on.execute(f"{forget}PREPARE asked_{number} AS {_with_numbers(sql)}")
        known[number] = now
    count = sql.replace("%%", "").count("%s")
    return f"EXECUTE asked_{number} ({', '.join(['%s'] * count)})" if count else f"EXECUTE asked_{number}"


def _with_numbers(sql: str) -> str:
    """Return a query with its parameters written as `$1`, `$2` and so on."""
    parts = re.split(r"%(s|%)", sql)
    words, count = [parts[0]], 0
    for kind, text in zip(parts[1::2], parts[2::2], strict=True):
        count += kind == "s"
        words += [f"${count}" if kind == "s" else "%", text]
    return "".join(words)
