"""A shape of REST, written once: it checks what is received, writes what is sent, and describes both in OpenAPI."""

# ruff: noqa: D101 (shapes are named for what they describe, and their fields carry their texts)

from collections.abc import Iterator, Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from scheduling.model.errors import InvalidField
from scheduling.model.validation import shown
from web.fields import MESSAGES


class Schema(serializers.Serializer):  # type: ignore[type-arg]
    # No docstring: the OpenAPI document would repeat it at each of its children.
    default_error_messages = {**MESSAGES, "null": "expected an object, got null"}

    @classmethod
    def read(cls, body: object, **context: Any) -> dict[str, Any]:
        """Return the checked body. Raises one InvalidField that names all wrong, missing and unknown fields."""
        if body is None:
            raise InvalidField("", "expected an object, got null")
        schema = cls(data=body, context=context)
        try:
            schema.is_valid(raise_exception=True)
        except ValidationError as error:
            raise invalid(error.detail) from None
        return dict(schema.validated_data)

    @classmethod
    def write(cls, row: object, **context: Any) -> dict[str, Any]:
        """Return the document of a row."""
        return dict(cls(row, context=context).data)

    def to_internal_value(self, data: Any) -> Any:
        """Check each field; a key that the shape does not have is refused, too."""
        if not isinstance(data, Mapping):
            raise ValidationError({"": [f"expected an object, got {shown(data)}"]})
        wrong: dict[str, Any] = {}
        checked: Any = {}
        try:
            checked = super().to_internal_value(data)
        except ValidationError as error:
            wrong = dict(error.detail)  # type: ignore[arg-type]
        known = [name for name, field in self.fields.items() if not field.read_only]
        for key in data:
            if key not in known:
                wrong[str(key)[:60]] = [f"unknown; known: {', '.join(sorted(known)) or 'none'}"]
        if wrong:
            raise ValidationError(wrong)
        return checked


def named(field: Any) -> Any:
    """The field as the attribute `label`, `source` or `errors` of a schema: the same names mean something else to
    a serializer's type, though not to the serializer, which takes fields out of its class.
    """
    return field


def invalid(detail: Any) -> InvalidField:
    """Return one error of the core that names all fields of the framework's error."""
    first, *others = (InvalidField(row["field"], row["message"]) for row in rows_of(detail))
    first.also = tuple(others)
    return first


def refused(error: InvalidField) -> ValidationError:
    """Return the framework's error with all fields of an error of the core, for a check within a schema."""
    return ValidationError({one.field: [one.problem] for one in (error, *error.also)})


def rows_of(detail: Any, where: str = "") -> Iterator[dict[str, str]]:
    """Yield `field` and `message` of each wrong field of the framework's error."""
    if isinstance(detail, Mapping):
        for key, inner in detail.items():
            yield from rows_of(inner, inside(where, key))
    elif isinstance(detail, list):
        for i, inner in enumerate(detail):
            # The framework gives the errors of a list of shapes as a list, with an empty object for each good one.
            yield from rows_of(inner, inside(where, i) if isinstance(inner, (Mapping, list)) else where)
    else:
        yield {"field": where, "message": str(detail)}


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
