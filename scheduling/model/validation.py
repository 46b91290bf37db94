"""Checks of single fields; every error names the field, the expected value and the given value.

Bids that users send are checked by `auctions/domain/bid_check.py`.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TypeVar

from scheduling.model.errors import InvalidField, OutOfRange, refuse_all
from scheduling.model.types import Json

LARGEST_INTEGER = 10**9
LARGEST_EXACT = 2**53
"""Every whole number up to this is exactly representable as a double."""
MOST_NAMED = 50
"""Largest number of wrong fields of a document that an error names."""
T = TypeVar("T")
LARGEST_MONEY = 1e12
"""Largest value, money. Above it a double does not resolve a cent, so counter-offers would not be exact."""


def shown(value: object) -> str:
    """Format a value for an error message: short, on one line, null and booleans as in JSON; only text has quotes."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = str(value) if isinstance(value, (Decimal, Fraction)) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def plain(number: float) -> str:
    """Format a limit for people: "1,000,000,000" rather than "1e+09", "0.001"."""
    if number == int(number) and abs(number) <= LARGEST_EXACT:
        return f"{int(number):,}"
    return f"{number:g}"


def every_digit(number: float) -> str:
    """Format a number for a form that reads it again: with as few digits as bring it back, such as "24" or "0.1"."""
    return repr(float(number)).removesuffix(".0")


def check_object(field: str, value: object, *, required: Iterable[str], optional: Iterable[str] = ()) -> Json:
    """Check an object: every required key is there, and no unknown key. The error names all such keys.

    `field` is empty for a whole document.
    """
    if not isinstance(value, dict):
        raise InvalidField(field or "document", f"expected an object, got {shown(value)}")
    required = list(required)
    prefix = f"{field}." if field else ""
    known = {*required, *optional}
    unknown = f"unknown; known: {', '.join(sorted(known)) or 'none'}"
    refuse_all(
        [InvalidField(f"{prefix}{key}", "missing") for key in required if key not in value]
        + [InvalidField(f"{prefix}{str(key)[:60]}", unknown) for key in value if key not in known][:MOST_NAMED]
    )
    return value


def check_flag(field: str, value: object) -> bool:
    """Check a boolean."""
    if not isinstance(value, bool):
        raise InvalidField(field, f"expected true or false, got {shown(value)}")
    return value


def check_each(checks: Iterable[Callable[[], T]]) -> list[T]:
    """Make all checks, then return their results; raises one InvalidField that names the wrong fields of all."""
    found, wrong = list[T](), list[InvalidField]()
    for check in checks:
        try:
            found.append(check())
        except InvalidField as error:
            wrong += error.all_wrong
    refuse_all(wrong[:MOST_NAMED])
    return found


def check_named(checks: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Make all checks, then return their results by name; raises as `check_each` does."""
    return dict(zip(checks, check_each(checks.values()), strict=True))


def check_list(field: str, value: object, *, length: int | None = None) -> list[object]:
    """Check a list, with `length` entries if that is given."""
    if not isinstance(value, (list, tuple)):
        raise InvalidField(field, f"expected a list, got {shown(value)}")
    if length is not None and len(value) != length:
        raise InvalidField(field, f"expected {length} entries, got {len(value)}")
    return list(value)


def check_integer(field: str, value: object, *, low: int = 0, high: int = LARGEST_INTEGER) -> int:
    """Check a whole number in `[low, high]`; a boolean is not a number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidField(field, f"expected a whole number, got {shown(value)}")
    if not low <= value <= high:
        raise _out_of_range(field, value, low, high, above=value > high)
    return value


def _out_of_range(field: str, value: object, low: float, high: float, *, above: bool) -> OutOfRange:
    problem = f"expected {plain(low)} to {plain(high)}, got {shown(value)}"
    return OutOfRange(field, problem, limit=high if above else low, above=above)


def check_fraction(
    field: str, value: object, *, low: int = 0, high: int = LARGEST_INTEGER, as_written: bool = False
) -> Fraction:
    """Check an exact rational in `[low, high]`: an integer, a decimal, or a string such as "7/3", in ASCII digits.

    A double counts with its exact value, or `as_written`: 0.1 is a tenth then, and its double is a little more.
    """
    exact: Fraction
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, Fraction, str)):
        raise InvalidField(field, f"expected a number, got {shown(value)}")
    try:
        if isinstance(value, (str, Decimal)) and (len(str(value)) > 60 or abs(_exponent(str(value))) > 40):
            raise ValueError("too long")
        if isinstance(value, str) and (not value.isascii() or "_" in value):
            raise ValueError("other digits, or underscores")
        exact = Fraction(repr(value) if as_written and isinstance(value, float) else value)
    except (ValueError, ZeroDivisionError, OverflowError):
        raise InvalidField(field, f"expected a finite number, got {shown(value)}") from None
    if not low <= exact <= high:
        raise _out_of_range(field, value, low, high, above=exact > high)
    return exact


def _exponent(text: str) -> int:
    # Fraction("1e999999999") would fill the memory before any range check could refuse it.
    _, marker, exponent = text.lower().partition("e")
    return int(exponent) if marker else 0


def check_number(field: str, value: object, *, low: float = 0.0, high: float = LARGEST_MONEY) -> float:
    """Check a finite number in `[low, high]` and return it as a double; a boolean is not a number.

    Raises
    ------
    InvalidField
        If the value is no number; `OutOfRange` if it is outside the range.

    Examples
    --------
    >>> check_number("value", "7/2")
    3.5
    >>> check_number("value", True)
    Traceback (most recent call last):
    ...
    scheduling.model.errors.InvalidField: value: expected a number, got true
    """
    if isinstance(value, str):
        value = check_fraction(field, value, low=-LARGEST_INTEGER)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, Fraction)):
        raise InvalidField(field, f"expected a number, got {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidField(field, f"expected a finite number, got {shown(value)}")
    if not low <= number <= high:
        raise _out_of_range(field, value, low, high, above=number > high)
    return number
