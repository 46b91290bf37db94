"""Formats of numbers on pages."""


def money(amount: float | None) -> str:
    """Return an amount with two decimals, or more if it is small; a dash for None."""
    if amount is None:
        return "–"
    if amount and abs(amount) < 0.01:
        return f"{amount:.2g}"
    return f"{amount:,.2f}"


def percent(share: float | None) -> str:
    """Return a share as a percentage; a dash for None."""
    return "–" if share is None else f"{share:.1%}".replace("%", " %")
