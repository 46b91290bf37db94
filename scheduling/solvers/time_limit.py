"""Time that a computation may take."""

from collections.abc import Callable
from math import inf

Left = Callable[[], float]
"""Seconds that are left of it; the core has no clock of its own."""


def within(seconds: float, left: Left) -> Left:
    """So much of what is left, or all of it."""
    until = max(0.0, left() - seconds)
    return lambda: left() - until


def unlimited() -> float:
    """As long as it takes."""
    return inf
