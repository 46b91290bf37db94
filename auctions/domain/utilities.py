"""Utilities as bids state them, in seconds: one shape a form, and the core's utility in slots."""

# ruff: noqa: D101 (shapes are named for what they describe, and their fields carry their texts)
from typing import Any, Final

from rest_framework.exceptions import ErrorDetail, ValidationError

from cluster.models import LARGEST_SECONDS
from scheduling.model.errors import InvalidField, OutOfRange
from scheduling.model.types import Json
from scheduling.model.utility import MOST_POINTS, are_points, utility_from_json
from scheduling.model.validation import LARGEST_MONEY
from web.fields import Choice, Number, Rows, problem_of
from web.schema import Schema

LEAST_VALUE: Final = 1e-6
"""Smallest greatest value of a bid, money: what a smaller one would have to state to be admitted is not looked for."""
SMALLEST_ZERO_S: Final = 0.001
"""Smallest `zero_at_s`, seconds. The value is divided by it, so it must not be close to 0."""
SECONDS_AFTER_ARRIVAL: Final = "seconds after arrival (the beginning of the slot after the submission, `arrival_s`)"
"""Unit and beginning of all times in a bid, in the texts of the interface."""
CORE_NAMES: Final = {
    "v": "value",
    "c": "value",
    "a": "value",
    "g1": "value",
    "b": "zero_at_s",
    "T": "zero_at_s",
    "g2": "steepness_per_s",
    "g3": "midpoint_s",
    "deadline": "deadline_s",
}
"""Names that a body uses for the fields of the core's utilities."""


def _form(name: str) -> Choice:
    return Choice([name], help_text="How the value falls as completion comes later.")


def _value() -> Number:
    return Number(LEAST_VALUE, LARGEST_MONEY, help_text="Greatest value of a completion, money.")


def _zero() -> Number:
    return Number(
        SMALLEST_ZERO_S, LARGEST_SECONDS, help_text=f"When the value has fallen to 0, {SECONDS_AFTER_ARRIVAL}."
    )


class _Utility(Schema):
    def validate(self, attrs: Any) -> Any:
        """Check the remaining rules, such as points that rise, on the curve that the core will use."""
        slot_s = self.context["bids"].snapshot.slot_seconds
        try:
            utility_from_json(core_utility(attrs, slot_s))
        except InvalidField as error:
            raise ValidationError(dict(self._named(one, slot_s) for one in error.all_wrong)) from None
        return attrs

    def _named(self, error: InvalidField, slot_s: int) -> tuple[str, list[ErrorDetail]]:
        """Return the field as a body names it, and its problem."""
        _, _, field = error.field.partition(".")
        problem = error.problem
        if isinstance(error, OutOfRange):  # the core's message is in its own units, which the user did not enter
            problem = f"expected a value that fits the other fields and slots of {slot_s} s, got another one"
        return CORE_NAMES.get(field, field), [problem_of(InvalidField(field, problem))]


class Constant(_Utility):
    form = _form("constant")
    value = _value()


class Step(_Utility):
    form = _form("step")
    value = _value()
    deadline_s = Number(0, LARGEST_SECONDS, help_text=f"A later completion has value 0, {SECONDS_AFTER_ARRIVAL}.")


class Linear(_Utility):
    form = _form("linear")
    value = _value()
    zero_at_s = _zero()


class Inverse(_Utility):
    form = _form("inverse")
    value = _value()
    zero_at_s = _zero()


class Sigmoid(_Utility):
    form = _form("sigmoid")
    value = _value()
    steepness_per_s = Number(0, LARGEST_SECONDS, help_text="How steeply the value falls, per second.")
    midpoint_s = Number(0, LARGEST_SECONDS, help_text=f"When half the value is gone, {SECONDS_AFTER_ARRIVAL}.")


FRACTION: Final = Number(0, 1)
"""The second number of a point."""


class Point(Rows):
    """Seconds after arrival, and the fraction of the value that is left then."""

    def __init__(self, **more: Any) -> None:
        super().__init__(Number(0, LARGEST_SECONDS), least=2, most=2, **more)

    def _checked_entries(self, data: list[Any]) -> list[Any]:
        """The two numbers; raises ValidationError that names each wrong one."""
        checked, wrong = [], dict[Any, Any]()
        for i, (number, entry) in enumerate(zip((self.child, FRACTION), data, strict=True)):
            try:
                checked.append(number.run_validation(entry))
            except ValidationError as error:
                wrong[i] = error.detail
        if wrong:
            raise ValidationError(wrong)
        return checked


class Points(Rows):
    """Points that are checked at once, and one by one only to name the wrong ones: a bid may state 1,000 of them."""

    def _checked_entries(self, data: list[Any]) -> list[Any]:
        if are_points(data, latest=LARGEST_SECONDS):
            return [[float(elapsed), float(fraction)] for elapsed, fraction in data]
        return super()._checked_entries(data)


class PiecewiseLinear(_Utility):
    form = _form("piecewise_linear")
    value = _value()
    points = Points(
        Point(),
        least=1,
        most=MOST_POINTS,
        help_text=f"Pairs of {SECONDS_AFTER_ARRIVAL}, which rise, and the fraction of the value then, from 1 to 0,"
        " which does not rise.",
    )


UTILITIES: Final[dict[str, type[Schema]]] = {
    "constant": Constant,
    "step": Step,
    "linear": Linear,
    "inverse": Inverse,
    "sigmoid": Sigmoid,
    "piecewise_linear": PiecewiseLinear,
}
"""The shape of each form."""


def core_utility(document: Json, slot_s: int) -> Json:
    """Return the core's utility, in slots after arrival."""
    value = document["value"]
    match document["form"]:
        case "step":
            return {"type": "step", "v": value, "deadline": document["deadline_s"] / slot_s}
        case "linear":
            # value x (1 - t / zero_at) = value - (value / zero_at) t
            return {"type": "linear", "c": value, "b": value / (document["zero_at_s"] / slot_s)}
        case "inverse":
            # value x (zero_at / t - 1) = value x 1 x (zero_at - t) / t
            return {"type": "inverse", "a": value, "work": 1.0, "T": document["zero_at_s"] / slot_s}
        case "sigmoid":
            steepness, midpoint = document["steepness_per_s"] * slot_s, document["midpoint_s"] / slot_s
            return {"type": "sigmoid", "g1": value, "g2": steepness, "g3": midpoint}
        case "piecewise_linear":
            points = [[elapsed / slot_s, fraction] for elapsed, fraction in document["points"]]
            return {"type": "piecewise_linear", "value": value, "points": points}
    return {"type": "constant", "v": value}
