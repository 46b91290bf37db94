"""Numbers as pages show them."""


def money(amount: float | None) -> str:
    """An amount with two decimals, more for small ones; a dash for none."""
    if amount is None:
        return "–"
    if amount and abs(amount) < 0.01:
        return f"{amount:.2g}"
    return f"{amount:,.2f}"


def percent(share: float | None) -> str:
    """A share as a percentage; a dash for none."""
    return "–" if share is None else f"{share:.1%}".replace("%", " %")
