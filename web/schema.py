"""A shape of REST, written once: it checks what is received, writes what is sent, and describes both in OpenAPI."""

# ruff: noqa: D101 (shapes are named for what they describe, and their fields carry their texts)

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from scheduling.model.errors import InvalidField
from scheduling.model.validation import shown
from web.fields import MESSAGES, problem_of, unknown_keys

_spare: dict[type[Any], list[Any]] = {}
"""Shapes that were set up and are not in use, by their class."""


class Schema(serializers.Serializer):  # type: ignore[type-arg]
    # No docstring: the OpenAPI document would repeat it at each of its children.
    default_error_messages = {**MESSAGES, "null": "expected an object, got null"}

    @classmethod
    def read(cls, body: object, **context: Any) -> dict[str, Any]:
        """Return the checked body. Raises one InvalidField that names all wrong, missing and unknown fields."""
        return cls.reader(**context)(body)

    @classmethod
    def reader(cls, **context: Any) -> Callable[[object], dict[str, Any]]:
        """Return `read` for many bodies with the same context.

        To set up the fields takes longer than to check a body, so a shape that is not in use is used again.
        """
        spare = _spare.setdefault(cls, [])

        def read(body: object) -> dict[str, Any]:
            try:
                schema = spare.pop()  # no other thread has it until it is back
            except IndexError:
                schema = cls()
            schema._context = context
            try:
                return dict(schema.run_validation(body))
            except ValidationError as error:
                raise invalid(error.detail) from None
            finally:
                schema._context = {}
                spare.append(schema)

        return read

    @classmethod
    def write(cls, row: object, **context: Any) -> dict[str, Any]:
        """Return the document of a row."""
        return dict(cls(row, context=context).data)

    def get_fields(self) -> dict[str, Any]:
        """Return the fields; one without shapes in it is copied as it is, which is faster than to make it again."""
        declared: Mapping[str, Any] = self._declared_fields
        return {
            name: copy.copy(field) if _is_plain(field) else copy.deepcopy(field) for name, field in declared.items()
        }

    def to_internal_value(self, data: Any) -> Any:
        """Check each field; a key that the shape does not have is refused, too."""
        if not isinstance(data, Mapping):
            raise ValidationError({"": [f"expected an object, got {shown(data)}"]})
        data = dict(data)  # a form's dictionary would make the framework read it as a form
        wrong: dict[str, Any] = {}
        checked: Any = {}
        try:
            checked = super().to_internal_value(self.filled_in(data))
        except ValidationError as error:
            wrong = dict(error.detail)  # type: ignore[arg-type]
        wrong |= {key: [problem] for key, problem in {**self._unknown(data), **self.wrong_keys(data)}.items()}
        if wrong:
            raise ValidationError(wrong)
        return checked

    def filled_in(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the body with the values of what was left out."""
        return data

    def wrong_keys(self, data: dict[str, Any]) -> Mapping[str, str]:
        """Return what is wrong with the choice of keys, by key: those that are missing or out of place here."""
        return {}

    def known_keys(self, data: dict[str, Any]) -> list[str]:
        """Return the keys that this body may have."""
        return [name for name, field in self.fields.items() if not field.read_only]

    def _unknown(self, data: dict[str, Any]) -> dict[str, str]:
        known = sorted(self.known_keys(data))
        names = ", ".join(known) or "none"
        return unknown_keys(data, self.fields, f"unknown; known: {names}")


def _is_plain(field: Any) -> bool:
    """Return whether a field has no shapes in it: those know the field around them."""
    child = getattr(field, "child", None)
    if child is not None:
        return _is_plain(child)
    kinds = (serializers.IntegerField, serializers.FloatField, serializers.CharField, serializers.BooleanField)
    return isinstance(field, (*kinds, serializers.ChoiceField, serializers.DateTimeField))


def named(field: Any) -> Any:
    """The field as the attribute `label`, `source` or `errors` of a schema: the same names mean something else to
    a serializer's type, though not to the serializer, which takes fields out of its class.
    """
    return field


def invalid(detail: Any) -> InvalidField:
    """Return one error of the core that names all fields of the framework's error."""
    first, *others = (_of_core(field, message) for field, message in _messages(detail, ""))
    first.also = tuple(others)
    return first


def refused(error: InvalidField) -> ValidationError:
    """Return the framework's error with all fields of an error of the core, for a check within a schema."""
    return ValidationError({one.field: [problem_of(one)] for one in error.all_wrong})


def rows_of(detail: Any) -> Iterator[dict[str, str]]:
    """Yield `field` and `message` of each wrong field of the framework's error."""
    for field, message in _messages(detail, ""):
        yield {"field": field, "message": str(message)}


def _messages(detail: Any, where: str) -> Iterator[tuple[str, Any]]:
    if isinstance(detail, Mapping):
        for key, inner in detail.items():
            yield from _messages(inner, inside(where, key))
    elif isinstance(detail, list):
        for i, inner in enumerate(detail):
            # The framework gives the errors of a list of shapes as a list, with an empty object for each good one.
            yield from _messages(inner, inside(where, i) if isinstance(inner, (Mapping, list)) else where)
    else:
        yield where, detail


def _of_core(field: str, message: Any) -> InvalidField:
    """Return the error of the core that the message was made of, if it was: it may know the limit of a number."""
    error = getattr(message, "code", None)
    return error.at(field) if isinstance(error, InvalidField) else InvalidField(field, str(message))


def inside(where: str, key: str | int) -> str:
    """Return the name of an entry: `bids[3].utility.value`."""
    if isinstance(key, int):
        return f"{where}[{key}]"
    return f"{where}.{key}" if where and key else where or key


class ProblemRow(Schema):
    field = serializers.CharField(help_text="The field, parameter or header that was wrong.")
    message = serializers.CharField(help_text="What was expected.")


class Problem(Schema):
    """A problem document (RFC 9457)."""

    type = serializers.CharField(help_text="Always about:blank.")
    title = serializers.CharField(help_text="The status in words.")
    status = serializers.IntegerField(help_text="The HTTP status.")
    detail = serializers.CharField(allow_blank=True, help_text="What went wrong.")
    errors = named(ProblemRow(many=True, help_text="One row a field that was wrong."))
