"""Utilities: the value of a job as a function of the slots between its arrival and its completion."""

import math
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from itertools import islice, pairwise
from typing import Any, ClassVar, Final, Protocol, Self, TypeGuard

import numpy as np
from numpy.typing import NDArray

from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Floats, Json
from scheduling.model.validation import (
    LARGEST_INTEGER,
    LARGEST_MONEY,
    MOST_NAMED,
    check_each,
    check_list,
    check_named,
    check_number,
    check_object,
    shown,
)

MOST_POINTS: Final = 1000
"""Points of a piecewise linear utility at most."""


class Utility(Protocol):
    """The value of a job by the number of slots from its arrival to its completion.

    The function is never negative, never increases, and is proportional to its amplitude `value`. Forms: `Constant`,
    `Sigmoid`, `Step`, `Linear`, `Inverse`, `Table` and `PiecewiseLinear`.

    Examples
    --------
    >>> from scheduling.model.utility import Step
    >>> utility = Step(v=5.0, deadline=2)
    >>> utility.at(2), utility.at(3), utility.scaled(2.0).at(2)
    (5.0, 0.0, 10.0)
    >>> utility.curve(4).tolist()
    [5.0, 5.0, 5.0, 0.0]
    """

    @property
    def value(self) -> float:
        """The amplitude: money."""

    def at(self, elapsed: int) -> float:
        """Return the value of completion `elapsed` slots after arrival, money."""

    def curve(self, slots: int) -> Floats:
        """Return the values at elapsed 0, 1, ..., slots - 1."""

    def scaled(self, factor: float) -> "Utility":
        """Return the same shape with the amplitude times `factor`."""

    def to_json(self) -> Json:
        """Return a document that `utility_from_json` reads back."""


@dataclass(frozen=True)
class _Form:
    """Base class of all forms: an amplitude field (the first of `money`) times a shape."""

    form: ClassVar[str]
    money: ClassVar[tuple[str, ...]]
    """Fields that scale with the amplitude; the first one is the amplitude."""

    def __post_init__(self) -> None:
        for name, number in check_named({one.name: partial(self._checked, one.name) for one in fields(self)}).items():
            object.__setattr__(self, name, number)

    def _checked(self, name: str) -> float:
        high = LARGEST_MONEY if name in self.money else LARGEST_INTEGER
        return check_number(name, getattr(self, name), high=high)

    @property
    def value(self) -> float:
        """The amplitude: money."""
        return float(getattr(self, self.money[0]))

    def at(self, elapsed: int) -> float:
        """Return the value of completion `elapsed` slots after arrival, money."""
        raise NotImplementedError

    def curve(self, slots: int) -> Floats:
        """Return the values at elapsed 0, 1, ..., slots - 1."""
        raise NotImplementedError

    def scaled(self, factor: float) -> Self:
        """Return the same shape with the amplitude times `factor`."""
        other = copy(self)
        for name in self.money:
            object.__setattr__(other, name, getattr(self, name) * factor)  # unchecked: may pass what a bid may state
        return other

    def to_json(self) -> Json:
        """Return a document that `utility_from_json` reads back."""
        return {"type": self.form, **{field.name: getattr(self, field.name) for field in fields(self)}}


@dataclass(frozen=True)
class Constant(_Form):
    """`v` at every completion time."""

    form = "constant"
    money = ("v",)
    v: float

    def at(self, elapsed: int) -> float:
        """Return the value of completion `elapsed` slots after arrival, money."""
        return self.v

    def curve(self, slots: int) -> Floats:
        """Return the values at elapsed 0, 1, ..., slots - 1."""
        return np.full(slots, self.v)


@dataclass(frozen=True)
class Sigmoid(_Form):
    """`g1 / (1 + exp(g2 (d - g3)))` (OASiS, Section V; DPS, Section 6.1 with g3 = 0)."""

    form = "sigmoid"
    money = ("g1",)
    g1: float
    g2: float
    g3: float

    def at(self, elapsed: int) -> float:
        """Return the value of completion `elapsed` slots after arrival, money."""
        x = self.g2 * (elapsed - self.g3)
        if x <= 0:
            return self.g1 / (1.0 + math.exp(x))
        small = math.exp(-x)  # exp(x) would overflow for late completions
        return self.g1 * small / (1.0 + small)

    def curve(self, slots: int) -> Floats:
        """Return the values at elapsed 0, 1, ..., slots - 1, equal to `at` to the last bit."""
        early, powers = _sigmoid_powers(self.g2, self.g3, slots)
        values: Floats = np.where(early, self.g1, self.g1 * powers) / (1.0 + powers)
        return values


NOTHING_LEFT = 746.0
"""exp(-x) is 0 in a double for x of at least this."""


@lru_cache(maxsize=64)
def _sigmoid_powers(g2: float, g3: float, slots: int) -> tuple[NDArray[np.bool_], Floats]:
    """Compute and cache which slots are not after g3, and exp(-|g2 (d - g3)|) for each slot.

    `math.exp` is used because the exp of another library may differ in the last bit.
    """
    x = g2 * (np.arange(slots) - g3)
    powers, near = np.zeros(slots), np.abs(x) < NOTHING_LEFT
    powers[near] = [*map(math.exp, (-np.abs(x[near])).tolist())]
    for array in (early := x <= 0, powers):
        array.flags.writeable = False
    return early, powers


@dataclass(frozen=True)
class Step(_Form):
    """`v` if complete within `deadline` slots of arrival, else 0."""

    form = "step"
    money = ("v",)
    v: float
    deadline: float

    def at(self, elapsed: int) -> float:
        """Return the value of completion `elapsed` slots after arrival, money."""
        return self.v if elapsed <= self.deadline else 0.0

    def curve(self, slots: int) -> Floats:
        """Return the values at elapsed 0, 1, ..., slots - 1."""
        values: Floats = np.where(np.arange(slots) <= self.deadline, self.v, 0.0)
        return values


@dataclass(frozen=True)
class Linear(_Form):
    """`max(0, c - b d)` (DPS, Section 6.2.2)."""

    form = "linear"
    money = ("c", "b")
    c: float
    b: float

    def at(self, elapsed: int) -> float:
        """Return the value of completion `elapsed` slots after arrival, money."""
        return max(0.0, self.c - self.b * elapsed)

    def curve(self, slots: int) -> Floats:
        """Return the values at elapsed 0, 1, ..., slots - 1."""
        values: Floats = np.maximum(0.0, self.c - self.b * np.arange(slots))
        return values


@dataclass(frozen=True)
class Inverse(_Form):
    """`max(0, a work (T - d) / d)`, with d at least 1 (DPS, Section 6.2.2). The amplitude is a x work."""

    form = "inverse"
    money = ("a",)
    a: float
    work: float
    T: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("a", self.a * self.work * max(self.T - 1.0, 1.0))

    @property
    def value(self) -> float:
        """The amplitude: money."""
        return self.a * self.work

    def at(self, elapsed: int) -> float:
        """Return the value of completion `elapsed` slots after arrival, money."""
        d = max(elapsed, 1)
        return max(0.0, self.a * self.work * (self.T - d) / d)

    def curve(self, slots: int) -> Floats:
        """Return the values at elapsed 0, 1, ..., slots - 1, equal to `at` to the last bit."""
        d = np.maximum(np.arange(slots), 1)
        values = self.a * self.work * (self.T - d) / d
        return np.where(values > 0.0, values, 0.0)


@dataclass(frozen=True)
class Table(_Form):
    """`values[min(d, last)]`: any non-increasing shape, given slot by slot. The amplitude is the first value."""

    form = "table"
    money = ("values",)
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        entries = check_list("values", self.values)
        if not 1 <= len(entries) <= 100_000:
            raise InvalidField("values", f"expected 1 to 100000 numbers, got {len(entries)}")
        numbers = check_each(partial(check_number, f"values[{i}]", entry) for i, entry in enumerate(entries))
        refuse_all(list(islice(_risen_values(numbers), MOST_NAMED)))
        object.__setattr__(self, "values", tuple(numbers))

    @property
    def value(self) -> float:
        """The amplitude: money."""
        return self.values[0]

    def at(self, elapsed: int) -> float:
        """Return the value of completion `elapsed` slots after arrival, money."""
        return self.values[min(elapsed, len(self.values) - 1)]

    def curve(self, slots: int) -> Floats:
        """Return the values at elapsed 0, 1, ..., slots - 1."""
        curve = np.full(slots, self.values[-1], dtype=np.float64)
        stated = self.values[:slots]
        curve[: len(stated)] = stated
        return curve

    def scaled(self, factor: float) -> Self:
        """Return the same shape with the amplitude times `factor`."""
        other = copy(self)
        object.__setattr__(other, "values", tuple(value * factor for value in self.values))
        return other

    def to_json(self) -> Json:
        """Return a document that `utility_from_json` reads back."""
        return {"type": self.form, "values": list(self.values)}


@dataclass(frozen=True)
class PiecewiseLinear(_Form):
    """`value` times a fraction interpolated between `points` (elapsed slots, fraction), constant before and after them.

    Elapsed slots rise strictly; fractions lie in [0, 1] and never rise.
    """

    form = "piecewise_linear"
    money = ("value",)
    value: float = 0.0
    points: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        checks: dict[str, Callable[[], object]] = {
            "value": partial(self._checked, "value"),
            "points": partial(_checked_points, self.points),
        }
        for name, checked in check_named(checks).items():
            object.__setattr__(self, name, checked)

    def at(self, elapsed: int) -> float:
        """Return the value of completion `elapsed` slots after arrival, money."""
        points = self.points
        if elapsed <= points[0][0]:
            return self.value * points[0][1]
        for (x0, y0), (x1, y1) in pairwise(points):
            if elapsed <= x1:
                # Clamped: rounding must not let the curve rise from one piece to the next.
                fraction = y0 + (y1 - y0) * ((elapsed - x0) / (x1 - x0))
                return self.value * min(y0, max(y1, fraction))
        return self.value * points[-1][1]

    def curve(self, slots: int) -> Floats:
        """Return the values at elapsed 0, 1, ..., slots - 1, equal to `at` to the last bit."""
        x, y = np.array(self.points, dtype=np.float64).T
        d = np.arange(slots, dtype=np.float64)
        after = np.searchsorted(x, d)  # the first point that is not before d
        values: Floats = self.value * y[np.minimum(after, len(x) - 1)]
        between = (after > 0) & (after < len(x))
        d, right = d[between], after[between]
        x0, x1, y0, y1 = x[right - 1], x[right], y[right - 1], y[right]
        fraction = y0 + (y1 - y0) * ((d - x0) / (x1 - x0))
        values[between] = self.value * np.minimum(y0, np.maximum(y1, fraction))
        return values

    def to_json(self) -> Json:
        """Return a document that `utility_from_json` reads back."""
        return {"type": self.form, "value": self.value, "points": [list(point) for point in self.points]}


def are_points(rows: Sequence[object], *, latest: float) -> TypeGuard[Sequence[tuple[float, float]]]:
    """Return whether all are pairs of a time up to `latest` and a fraction, without naming what is wrong.

    To check each number by its name takes twenty times as long, and a utility may have 1,000 points.
    """
    return all(
        isinstance(row, (list, tuple)) and len(row) == 2 and _is_up_to(latest, row[0]) and _is_up_to(1, row[1])
        for row in rows
    )


def _is_up_to(high: float, number: object) -> bool:
    return isinstance(number, (int, float)) and not isinstance(number, bool) and 0 <= number <= high


def _checked_points(given: object) -> tuple[tuple[float, float], ...]:
    rows = check_list("points", given)
    if not 1 <= len(rows) <= MOST_POINTS:
        raise InvalidField("points", f"expected 1 to {MOST_POINTS} points, got {len(rows)}")
    if are_points(rows, latest=LARGEST_INTEGER):
        points = [(float(elapsed), float(fraction)) for elapsed, fraction in rows]
    else:
        points = check_each(partial(_checked_point, f"points[{i}]", row) for i, row in enumerate(rows))
    refuse_all(list(islice(_out_of_order(points), MOST_NAMED)))
    return tuple(points)


def _checked_point(where: str, row: object) -> tuple[float, float]:
    both = zip(check_list(where, row, length=2), (LARGEST_INTEGER, 1.0), strict=True)
    elapsed, fraction = check_each(
        partial(check_number, f"{where}[{i}]", number, high=high) for i, (number, high) in enumerate(both)
    )
    return elapsed, fraction


def _out_of_order(points: Sequence[tuple[float, float]]) -> Iterator[InvalidField]:
    for i, ((elapsed, before), (later, after)) in enumerate(pairwise(points), start=1):
        if later <= elapsed:
            yield InvalidField(f"points[{i}][0]", "expected times that rise, got one that does not")
        if after > before:
            yield InvalidField(f"points[{i}][1]", _risen(before, after))


def _risen(before: float, after: float) -> str:
    return f"expected at most {before:g}, the value before, got {after:g}"


def _risen_values(numbers: Sequence[float]) -> Iterator[InvalidField]:
    for i, (before, after) in enumerate(pairwise(numbers), start=1):
        if after > before:
            yield InvalidField(f"values[{i}]", _risen(before, after))


FORMS: dict[str, type[Any]] = {
    form.form: form for form in (Constant, Sigmoid, Step, Linear, Inverse, Table, PiecewiseLinear)
}


def utility_from_json(document: Json, where: str = "utility") -> Utility:
    """Read a utility: `{"type": form, ...}` with the form's own fields.

    Raises
    ------
    InvalidField
        If a field is missing, unknown, of the wrong type or out of range, or if the value would increase with time; it
        names `where.<field>`.

    Examples
    --------
    >>> from scheduling.model.utility import utility_from_json
    >>> utility_from_json({"type": "linear", "c": 10, "b": 2}).at(3)
    4.0
    >>> utility_from_json({"type": "linear", "c": -1, "b": 2})
    Traceback (most recent call last):
    ...
    scheduling.model.errors.OutOfRange: utility.c: expected 0 to 1,000,000,000,000, got -1
    """
    if not isinstance(document, dict):
        raise InvalidField(where, f"expected an object, got {shown(document)}")
    if "type" not in document:
        raise InvalidField(f"{where}.type", "missing")
    form = FORMS.get(document["type"]) if isinstance(document["type"], str) else None
    if form is None:
        known = ", ".join(sorted(FORMS))
        raise InvalidField(f"{where}.type", f"expected one of {known}, got {shown(document['type'])}")
    names = [field.name for field in fields(form)]
    check_object(where, document, required=["type", *names])
    try:
        utility: Utility = form(**{name: document[name] for name in names})
    except InvalidField as error:
        raise error.inside(where) from None
    return utility
