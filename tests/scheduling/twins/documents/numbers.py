"""Exact numbers of instance files, what completion is worth, and how answers are written."""

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

Document = dict[str, Any]
TIE = Decimal("1e-9")
"""Amounts of money this close are equal, because a difference that doubles do not resolve must not decide a case."""


def exact(value: Any) -> Fraction:
    """The number that a file writes: a whole number, a decimal, or a string such as "7/3"."""
    return Fraction(str(value))


def money(value: Fraction) -> Decimal:
    """A fraction as a decimal."""
    return Decimal(value.numerator) / Decimal(value.denominator)


def value_of(utility: Document, elapsed: int) -> Decimal:
    """What completion `elapsed` slots after arrival is worth."""
    kind = utility["type"]
    if kind == "table":
        values = utility["values"]
        return money(exact(values[min(elapsed, len(values) - 1)]))
    number = {name: exact(value) for name, value in utility.items() if name != "type"}
    if kind == "sigmoid":
        return money(number["g1"]) / (1 + money(number["g2"] * (elapsed - number["g3"])).exp())
    return money(_rational(kind, number, elapsed))


def _rational(kind: str, number: dict[str, Fraction], elapsed: int) -> Fraction:
    if kind == "constant":
        return number["v"]
    if kind == "step":
        return number["v"] if elapsed <= number["deadline"] else Fraction(0)
    if kind == "linear":
        return max(Fraction(0), number["c"] - number["b"] * elapsed)
    if kind == "inverse":
        d = max(elapsed, 1)
        return max(Fraction(0), number["a"] * number["work"] * (number["T"] - d) / d)
    raise ValueError(f"no form of utility: {kind}")


def transfer_slots(size_mb: Any, bandwidth_mbps: Any, slot_seconds: Any) -> Fraction:
    """Slots to push gradients and pull parameters of one mini-batch: twice the size, 8 Mbit in a MB."""
    return 2 * 8 * exact(size_mb) / exact(bandwidth_mbps) / exact(slot_seconds)


def whole(value: Fraction) -> int:
    """The least whole number that is not below."""
    return math.ceil(value)


def shown(value: Decimal) -> float:
    """Twelve digits, which every machine writes alike."""
    return float(f"{value:.11e}")
