"""New values for many rows in one statement."""

from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, cast

from django.db import connection
from django.db.models import Field, Model

MOST_PARAMETERS: Final = 990
"""SQLite takes a thousand parameters for a statement where it is built as by default."""


def update_rows(
    rows: Sequence[Model], fields: Sequence[str], *, only_if: tuple[str, Sequence[object]] | None = None
) -> int:
    """Store these fields of rows of one table, and return the number of rows that were updated.

    `only_if` names a field and the value that each row must have in the database; other rows are not updated.

    It is what `bulk_update` does. That builds an expression for each value, which took 60 ms for 60 rows; this takes 2.
    """
    columns = [cast("Field[Any, Any]", rows[0]._meta.get_field(name)) for name in fields] if rows else []
    values: list[list[Any]] = [
        [row.pk, *(column.get_db_prep_save(getattr(row, column.attname), connection) for column in columns)]
        for row in rows
    ]
    expected = None
    if only_if is not None and rows:
        expected = cast("Field[Any, Any]", rows[0]._meta.get_field(only_if[0]))
        for of_row, value in zip(values, only_if[1], strict=True):
            of_row.append(expected.get_db_prep_save(value, connection))
    at_once, updated = MOST_PARAMETERS // (2 + len(columns)), 0
    for begin in range(0, len(rows), at_once):
        updated += _update(type(rows[0]), values[begin : begin + at_once], columns, expected)
    return updated


def _update(
    model: type[Model],
    values: list[list[Any]],
    columns: Sequence["Field[Any, Any]"],
    expected: "Field[Any, Any] | None",
) -> int:
    quote = connection.ops.quote_name
    table = quote(model._meta.db_table)

    def given(number: int, column: "Field[Any, Any]") -> str:
        # Both databases call the columns of VALUES so. A column of only NULL has no type.
        return f"CAST(given.column{number} AS {column.db_type(connection)})"

    def name(column: "Field[Any, Any]") -> str:
        return quote(cast(str, column.column))

    new = ", ".join(f"{name(column)} = {given(i, column)}" for i, column in enumerate(columns, start=2))
    one = f"({', '.join(['%s'] * len(values[0]))})"
    statement = f"""
        UPDATE {table} SET {new} FROM (VALUES {", ".join([one] * len(values))}) AS given
        WHERE {table}.{quote(cast(str, model._meta.pk.column))} = given.column1
    """  # noqa: S608 (names of this project's tables and columns)
    if expected is not None:
        statement += f" AND {table}.{name(expected)} = {given(2 + len(columns), expected)}"
    with connection.cursor() as cursor:
        cursor.execute(statement, list(chain.from_iterable(values)))
        return int(cursor.rowcount)
