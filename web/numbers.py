"""Formats of numbers on pages and in sentences."""

from decimal import Decimal

LEAST = 1e-9
"""Amounts below this are written with an exponent."""


def money(amount: float | None) -> str:
    """Return an amount with two decimals, or with two digits if it is small; a dash for None.

    Examples
    --------
    >>> from web.numbers import money
    >>> [money(amount) for amount in (None, 0.0, 1234.5, 0.0043, 0.00006123, 2e-12)]
    ['–', '0.00', '1,234.50', '0.0043', '0.000061', '2e-12']
    """
    if amount is None:
        return "–"
    if LEAST <= abs(amount) < 0.01:
        return f"{Decimal(f'{amount:.2g}'):f}"
    if amount and abs(amount) < LEAST:
        return f"{amount:.2g}"
    return f"{amount:,.2f}"


def weight(number: float | None) -> str:
    """Return a weight as `money` writes an amount, but whole ones without decimals.

    Examples
    --------
    >>> from web.numbers import weight
    >>> [weight(number) for number in (None, 5.0, 1e9, 2.5, 0.000001)]
    ['–', '5', '1,000,000,000', '2.50', '0.000001']
    """
    return f"{number:,.0f}" if number is not None and number.is_integer() else money(number)


def percent(share: float | None) -> str:
    """Return a share as a percentage; a dash for None."""
    return "–" if share is None else f"{share:.1%}".replace("%", " %")
