"""Time limits of computations."""

from collections.abc import Callable
from math import inf

Left = Callable[[], float]
"""Returns the seconds that are left; the caller has the clock, as the core has none."""


def within(seconds: float, left: Left) -> Left:
    """Return a limit of `seconds` within another limit.

    Examples
    --------
    >>> within(2.0, lambda: 10.0)()
    2.0
    >>> within(20.0, lambda: 10.0)()
    10.0
    """
    until = max(0.0, left() - seconds)
    return lambda: left() - until


def unlimited() -> float:
    """The limit of a computation that may take any time."""
    return inf
