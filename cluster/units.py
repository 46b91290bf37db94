"""The one place where seconds, MB and Mbit/s become slots and back. 1 MB = 8 Mbit.

Quotients are exact: a number counts as the decimal it is written as, so 0.28 s is 7/25 s and not its nearest double.
"""

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

MBIT_PER_MB = 8
BYTES_PER_MB = 10**6

MOST_KNOWN = 4096
"""Number of results that are remembered: bids have many equal times, and fractions are slow."""

Number = int | float | Decimal | Fraction


def exact(number: Number) -> Fraction:
    """The rational a number is written as."""
    return Fraction(str(number)) if isinstance(number, float) else Fraction(number)


@lru_cache(maxsize=MOST_KNOWN, typed=True)
def slots(seconds: Number, slot_seconds: int) -> Fraction:
    """Seconds in slots."""
    return exact(seconds) / slot_seconds


@lru_cache(maxsize=MOST_KNOWN, typed=True)
def slots_up(seconds: Number, slot_seconds: int) -> int:
    """Whole slots that seconds take: rounded up."""
    return math.ceil(slots(seconds, slot_seconds))


def transfer_slots(megabytes: Number, bandwidth_mbps: Number, slot_seconds: int) -> Fraction:
    """Slots to push gradients and pull parameters of that size, once each (DPS, eq. 1: 2 m / b)."""
    return 2 * MBIT_PER_MB * exact(megabytes) / exact(bandwidth_mbps) / slot_seconds


def bytes_up(megabytes: Number) -> int:
    """Return MB in whole bytes, rounded up."""
    return math.ceil(exact(megabytes) * BYTES_PER_MB)


def bytes_down(megabytes: Number) -> int:
    """Return MB in whole bytes, rounded down."""
    return math.floor(exact(megabytes) * BYTES_PER_MB)


def mb_of(count: int) -> float:
    """Bytes in MB."""
    return count / BYTES_PER_MB


def seconds(count: int, slot_seconds: int) -> int:
    """Slots in seconds."""
    return count * slot_seconds
