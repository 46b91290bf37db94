"""Shapes of answers that come in long lists: rows are written by functions made once of the fields of a shape.

The framework walks through its fields, with their settings, for each row; for 200 bids that takes four times as long.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from rest_framework import serializers

from web.schema import Schema

Write = Callable[[Any, Mapping[str, Any]], Any]
"""The JSON value of a field, from a row and the context."""


class Answer(Schema):  # noqa: D101
    # No docstring: the OpenAPI document would repeat it at each of its children.
    @classmethod
    def write(cls, row: object, **context: Any) -> dict[str, Any]:
        """Return the document of a row. A field is read from its `source`, or by the static method `<field>_of`.

        A field with a method `written` makes JSON of its value and the context.
        """
        return write(cls, row, context)


class Columns(serializers.ListField):
    """A long list of objects of one shape, written from the columns of a table, which are JSON already."""

    def written(self, columns: Mapping[str, Sequence[object]], _context: object) -> list[dict[str, Any]]:
        """Return the objects."""
        shape: Any = self.child
        names = list(shape.fields)
        return [dict(zip(names, row, strict=True)) for row in zip(*(columns[name] for name in names), strict=True)]


@cache
def writers_of(shape: type[serializers.Serializer[Any]]) -> tuple[tuple[str, Write], ...]:
    """Return the name and the function of each field of a shape that is written."""
    fields: Mapping[str, Any] = shape._declared_fields
    return tuple((name, _writer(shape, name, field)) for name, field in fields.items() if not field.write_only)


def write(shape: type[serializers.Serializer[Any]], row: Any, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of a row, in the order of the fields."""
    return {name: of_row(row, context) for name, of_row in writers_of(shape)}


def _writer(shape: type[Any], name: str, field: Any) -> Write:
    made = getattr(shape, f"{name}_of", None)
    get = made if made is not None else getter(name if field.source is None else field.source)
    value_of = _of_value(field)
    if value_of is None:
        return lambda row, _: get(row)

    def of_row(row: Any, context: Mapping[str, Any]) -> Any:
        value = get(row)
        return None if value is None else value_of(value, context)

    return of_row


def getter(source: str) -> Callable[[Any], Any]:
    """Return the function that reads `source` of a row: attributes or entries joined by dots; "*" is the row itself.

    Nothing below a value that is None is read: the whole is None then.
    """
    if source == "*":
        return lambda row: row
    names = source.split(".")
    if len(names) == 1:
        plain = attrgetter(source)
        return lambda row: row[source] if isinstance(row, dict) else plain(row)

    def get(row: Any) -> Any:
        for name in names:
            if row is None:
                return None
            row = row[name] if isinstance(row, dict) else getattr(row, name)
        return row

    return get


def _of_value(field: Any) -> Write | None:
    """Return what makes JSON of a value that is not None; None if the value is JSON already."""
    if hasattr(field, "written"):
        written: Write = field.written
        return written
    if isinstance(field, (serializers.ListSerializer, serializers.ListField)):
        one = _of_value(field.child)
        return None if one is None else lambda rows, context: [one(row, context) for row in rows]
    if isinstance(field, serializers.Serializer):
        return lambda row, context: write(type(field), row, context)
    if isinstance(field, serializers.DateTimeField):
        return lambda at, _: at.isoformat()
    if isinstance(field, serializers.ChoiceField):
        return lambda name, _: str(name)
    return None
