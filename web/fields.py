"""Fields of REST shapes that take only what they describe: a number is not a string, true is not 1.

Each message has the form "expected ..., got ...". Bounds are part of the OpenAPI document.
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, TypeVar

from rest_framework import serializers
from rest_framework.exceptions import ErrorDetail

from scheduling.model.errors import InvalidField
from scheduling.model.validation import check_fraction, check_integer, check_number, shown

T = TypeVar("T")

UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
"""Postgres stores no NUL, and a lone surrogate has no UTF-8."""
MOST_UNKNOWN: Final = 50
"""Largest number of unknown keys of an object that an answer names."""
MOST_NAMED: Final = 12
"""Largest number of expected names that an error lists."""
MOST_WRONG_ENTRIES: Final = 50
"""Largest number of wrong entries of a list that an answer names."""
MESSAGES: Final[dict[str, Any]] = {"required": "missing", "null": "expected a value, got null"}


def _checked(check: Callable[[], T]) -> T:
    try:
        return check()
    except InvalidField as error:
        raise serializers.ValidationError([problem_of(error)]) from None


def problem_of(error: InvalidField) -> ErrorDetail:
    """Return the framework's message for an error of the core, which stays in it as the code."""
    return ErrorDetail(error.problem, code=error)  # type: ignore[arg-type]


class Integer(serializers.IntegerField):
    """A whole number from `low` to `high`."""

    default_error_messages = MESSAGES

    def __init__(self, low: int, high: int, **more: Any) -> None:
        super().__init__(min_value=low, max_value=high, **more)
        self.low, self.high = low, high

    def to_internal_value(self, data: Any) -> int:
        """The number; raises ValidationError for anything else."""
        return _checked(lambda: check_integer("", data, low=self.low, high=self.high))


class Number(serializers.FloatField):
    """A finite number from `low` to `high`."""

    default_error_messages = MESSAGES

    def __init__(self, low: float, high: float, **more: Any) -> None:
        super().__init__(min_value=low, max_value=high, **more)
        self.low, self.high = low, high

    def to_internal_value(self, data: Any) -> float:
        """The number; raises ValidationError for anything else."""
        if isinstance(data, str):
            raise serializers.ValidationError(f"expected a number, got the string {shown(data)}")
        return _checked(lambda: check_number("", data, low=self.least(), high=self.high))

    def least(self) -> float:
        """Return the least number that a body may have: `low`, or more where that depends on the context."""
        return self.low


class Text(serializers.CharField):
    """A string of at most `most` characters, at least one unless it is `blank`.

    A `line` has no control characters, and loses the spaces at both ends.
    """

    default_error_messages = MESSAGES

    def __init__(self, most: int | None = None, *, blank: bool = False, line: bool = False, **more: Any) -> None:
        super().__init__(max_length=most, allow_blank=blank, trim_whitespace=False, **more)
        self.line = line

    def run_validation(self, data: Any = serializers.empty) -> Any:
        """The string; raises ValidationError for anything else."""
        if data is serializers.empty or data is None:
            return super().run_validation(data)
        least, most = int(not self.allow_blank), self.max_length
        if not isinstance(data, str) or len(data) < least or (most is not None and len(data) > most):
            raise serializers.ValidationError(f"expected {self._expected(least, most)}, got {shown(data)}")
        if UNSTORABLE.search(data):
            raise serializers.ValidationError(f"expected characters that can be stored, got {data[:60]!a}")
        if self.line and (problem := wrong_line(data)):
            raise serializers.ValidationError(problem)
        text = data.strip() if self.line else data
        if len(text) < least:
            raise serializers.ValidationError(f"expected {self._expected(least, most)}, got {shown(data)}")
        return text

    def _expected(self, least: int, most: int | None) -> str:
        kind = "a line" if self.line else "a string"
        if most is None:
            return f"{kind} that is not empty" if least else kind
        return f"{kind} of {'1 to' if least else 'at most'} {most} characters"


class Flag(serializers.BooleanField):
    """True or false."""

    default_error_messages = MESSAGES

    def to_internal_value(self, data: Any) -> bool:
        """The value; raises ValidationError for anything else, 0 and "true" included."""
        if not isinstance(data, bool):
            raise serializers.ValidationError(f"expected true or false, got {shown(data)}")
        return data


class Timestamp(serializers.DateTimeField):
    """A moment of the wall clock in ISO 8601, as answers state it."""

    def to_representation(self, value: Any) -> str:
        """The moment with its offset from UTC."""
        return str(value.isoformat())


class Choice(serializers.ChoiceField):
    """One of these strings."""

    default_error_messages = MESSAGES

    def __init__(self, values: Iterable[str], **more: Any) -> None:
        super().__init__([(str(value), str(value)) for value in values], **more)

    def to_internal_value(self, data: Any) -> str:
        """The string; raises ValidationError for anything else."""
        if not isinstance(data, str) or data not in self.choices:
            raise serializers.ValidationError(f"expected {any_of(list(self.choices))}, got {shown(data)}")
        return data


class Rows(serializers.ListField):
    """A list of `least` to `most` entries, each checked by `child` until too many are wrong."""

    default_error_messages = MESSAGES

    def __init__(self, child: Any, *, least: int = 0, most: int | None = None, **more: Any) -> None:
        super().__init__(child=child, min_length=least or None, max_length=most, **more)
        self.least, self.most = least, most

    def to_internal_value(self, data: Any) -> list[Any]:
        """The entries; raises ValidationError that names each wrong one."""
        if not isinstance(data, list):
            raise serializers.ValidationError(f"expected a list, got {shown(data)}")
        if len(data) < self.least or (self.most is not None and len(data) > self.most):
            raise serializers.ValidationError(f"expected {self._expected()}, got {len(data)}")
        return self._checked_entries(data)

    def _checked_entries(self, data: list[Any]) -> list[Any]:
        checked, wrong = [], dict[Any, Any]()
        for i, entry in enumerate(data):
            try:
                checked.append(self.child.run_validation(entry))
            except serializers.ValidationError as error:
                wrong[i] = error.detail
                if len(wrong) == MOST_WRONG_ENTRIES:
                    break
        if wrong:
            raise serializers.ValidationError(wrong)
        return checked

    def _expected(self) -> str:
        if self.most is None:
            return f"at least {self.least} entries"
        if self.least == self.most:
            return f"{self.most} entries"
        return f"{self.least} to {self.most} entries" if self.least else f"at most {self.most} entries"


class Quantity(serializers.Field):  # type: ignore[type-arg]
    """A number from `low` to `high`, or the same as a decimal string; `exact` reads it as a fraction, as written."""

    default_error_messages = MESSAGES

    def __init__(self, low: float, high: int, *, exact: bool = False, **more: Any) -> None:
        super().__init__(**more)
        self.low, self.high, self.exact = low, high, exact
        text = {"type": "string", "pattern": r"^[0-9]{1,8}(\.[0-9]{1,9})?$"}
        number = {"type": "number", "minimum": low, "maximum": high}
        self._spectacular_annotation = {"field": {"oneOf": [number, text]}}

    def to_internal_value(self, data: Any) -> float | Fraction:
        """The number; raises ValidationError for anything else."""
        if self.exact:
            return _checked(lambda: check_fraction("", data, low=int(self.low), high=self.high, as_written=True))
        return _checked(lambda: check_number("", data, low=self.low, high=self.high))

    def to_representation(self, value: Any) -> Any:
        """The number as it is."""
        return value


class ByName(serializers.DictField):
    """An object whose keys are names, each value checked by `child`; with `names`, only of these."""

    default_error_messages = MESSAGES

    def __init__(self, child: Any, *, least: int = 0, **more: Any) -> None:
        super().__init__(child=child, **more)
        self.least = least

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        """The values by name; raises ValidationError that names each wrong one."""
        if not isinstance(data, dict):
            raise serializers.ValidationError(f"expected an object, got {shown(data)}")
        if len(data) < self.least:
            raise serializers.ValidationError(f"expected at least {self.least} by name, got {shown(data)}")
        wrong: dict[str, Any] = {}
        known = self.names()
        if known is not None:
            names = set(known)
            problems = {} if names.issuperset(data) else unknown_keys(data, names, f"expected {any_of(list(known))}")
            wrong = {name: [problem] for name, problem in problems.items()}
        try:
            checked = dict(self.run_child_validation({k: v for k, v in data.items() if known is None or k in known}))
        except serializers.ValidationError as error:
            raise serializers.ValidationError({**wrong, **_as_dict(error.detail)}) from None
        if wrong:
            raise serializers.ValidationError(wrong)
        return checked

    def names(self) -> Sequence[str] | None:
        """Return the names that an object may have; None if it may have any."""
        return None


class OneOf(serializers.Field):  # type: ignore[type-arg]
    """An object of one of these shapes, which its entry `key` names."""

    default_error_messages = MESSAGES

    def __init__(self, key: str, shapes: Mapping[str, Any], **more: Any) -> None:
        super().__init__(**more)
        self.key, self.shapes = key, dict(shapes)
        for shape in self.shapes.values():
            shape.bind(field_name="", parent=self)

    def to_internal_value(self, data: Any) -> Any:
        """The object, checked by its shape; raises ValidationError that names each wrong field."""
        if not isinstance(data, dict):
            expected = f"an object with `{self.key}`: {any_of(list(self.shapes))}"
            raise serializers.ValidationError(f"expected {expected}, got {shown(data)}")
        name = data.get(self.key)
        if not isinstance(name, str) or name not in self.shapes:
            got = shown(name) if self.key in data else "nothing"
            raise serializers.ValidationError({self.key: [f"expected {any_of(list(self.shapes))}, got {got}"]})
        return self.shapes[name].run_validation(data)

    def to_representation(self, value: Any) -> Any:
        """The object as it is."""
        return value


def unknown_keys(keys: Iterable[str], known: Container[str], problem: str) -> dict[str, str]:
    """Return `problem` for each key that is not known; of more than `MOST_UNKNOWN`, the last one counts the others."""
    found = [str(key)[:60] for key in keys if key not in known]
    problems = dict.fromkeys(found[:MOST_UNKNOWN], problem)
    if len(found) > MOST_UNKNOWN:
        problems[found[MOST_UNKNOWN - 1]] = f"{problem}; the same of {len(found) - MOST_UNKNOWN} more keys"
    return problems


def _as_dict(detail: Any) -> dict[str, Any]:
    return detail if isinstance(detail, dict) else {"": detail}


def any_of(names: list[str]) -> str:
    """These names as a list for people; of very many the first: "a, b or c"."""
    if not names:
        return "nothing (there is none)"
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[:MOST_NAMED])} or one of {len(names) - MOST_NAMED} more"
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def wrong_line(text: str) -> str:
    """Return what is wrong with a text that has to be one line, empty if nothing is: REST and pages take the same."""
    return "" if text.isprintable() else f"expected one line without control characters, got {shown(text)}"
