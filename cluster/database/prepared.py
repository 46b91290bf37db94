"""Queries whose SQL is built once: building it from the models takes ten times as long as running it.

For queries of few rows that every request or every bid asks. Rows, joined rows and converted values are as usual. On
PostgreSQL the server keeps their plans, too (`postgresql/statements.py`).
"""

from collections.abc import Callable, Sequence
from copy import copy
from types import SimpleNamespace
from typing import Any, Final, Generic, TypeVar

from django.db import DEFAULT_DB_ALIAS, connections
from django.db.models import QuerySet
from django.db.models.query import ModelIterable

from cluster.database.postgresql import statements

Row = TypeVar("Row")

STAND_INS: Final[dict[type, Callable[[int], object]]] = {
    int: lambda i: 2_000_000_000 - i,
    str: lambda i: f"argument {i} of a prepared query",
}
"""It stands for an argument while the SQL is built; no query has such a constant."""


class Prepared(Generic[Row]):
    """A query with arguments, each an int or a str that is compared with a column.

    Called with arguments it returns a list: of instances, or of tuples for `values_list`.
    """

    def __init__(self, make: Callable[..., "QuerySet[Any, Row]"], *kinds: type) -> None:
        self._make = make
        self._stand_ins = [STAND_INS[kind](i) for i, kind in enumerate(kinds)]
        self._built: dict[str, tuple[Any, str, tuple[object, ...]]] = {}
        """Compiler with its converters of columns, SQL and its parameters, by the kind of database."""

    def __call__(self, *arguments: int | str) -> list[Row]:
        """Run the query on this thread's connection."""
        connection = connections[DEFAULT_DB_ALIAS]
        if connection.vendor not in self._built:
            self._built[connection.vendor] = self._build()
        kept, sql, parameters = self._built[connection.vendor]
        given = dict(zip(self._stand_ins, arguments, strict=True))
        compiler = copy(kept)
        compiler.connection = connection
        compiler.as_sql = lambda: (sql, tuple(given.get(value, value) for value in parameters))
        if not kept.query.default_cols:
            return list(compiler.results_iter(tuple_expected=True))
        query = SimpleNamespace(get_compiler=lambda using: compiler)
        asked: Any = SimpleNamespace(db=DEFAULT_DB_ALIAS, query=query, _known_related_objects={})
        return list(ModelIterable(asked))

    def first(self, *arguments: int | str) -> Row | None:
        """Return the first row, None without one; the query itself says that it wants no more."""
        return next(iter(self(*arguments)), None)

    def _build(self) -> tuple[Any, str, tuple[object, ...]]:
        compiler = self._make(*self._stand_ins).query.get_compiler(using=DEFAULT_DB_ALIAS)
        sql, parameters = compiler.as_sql()
        missing = [value for value in self._stand_ins if value not in parameters]
        if missing:
            raise ValueError(f"the query compares no column with {missing}")
        # Django looks for them in each run, at each column. They depend on the kind of database alone.
        converters = compiler.get_converters([column for column, *_ in compiler.select])
        compiler.get_converters = lambda _: converters
        if compiler.connection.vendor == "postgresql":
            sql, parameters = _with_constants(sql, parameters, arguments=self._stand_ins)
            statements.register(sql)
        return compiler, sql, tuple(parameters)


def _with_constants(sql: str, parameters: Sequence[object], *, arguments: Sequence[object]) -> tuple[str, list[object]]:
    """Return a query in which texts and whole numbers that are no arguments are written out, and the other parameters.

    A plan that is kept for any parameter cannot use an index of the rows that have a certain value, and a parameter
    that is compared with nothing would be taken for a text.
    """
    stay = [value in arguments or not _can_be_written(value) for value in parameters]
    texts = ["%s" if kept else _written(value) for kept, value in zip(stay, parameters, strict=True)]
    return sql.replace("%%", "%%%%") % tuple(texts), [v for kept, v in zip(stay, parameters, strict=True) if kept]


def _can_be_written(value: object) -> bool:
    return type(value) is int or (isinstance(value, str) and "\\" not in value)


def _written(value: object) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''").replace("%", "%%") + "'"
    return str(value)
