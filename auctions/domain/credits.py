"""Credits of teams: amounts in whole millionths, periods of the calendar, and the limit of a decision."""

from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Final

from django.conf import settings

from auctions.models import BudgetKind
from scheduling.model.decision import Decision, Reason
from scheduling.model.errors import InvalidField
from scheduling.model.validation import shown

MILLION: Final = 1_000_000
MOST_CREDITS: Final = 1_000_000_000
"""Largest number of credits that a budget or a grant may state."""
MONTHS: Final = {BudgetKind.MONTH: 1, BudgetKind.QUARTER: 3, BudgetKind.YEAR: 12}


def millionths(credits: float) -> int:
    """Return an amount of credits in whole millionths, rounded to the nearest.

    Examples
    --------
    >>> from auctions.domain.credits import millionths
    >>> millionths(2.5000004)
    2500000
    """
    return round(credits * MILLION)


def stated_millionths(credits: float, *, may_be_0: bool) -> int:
    """Return a stated amount in whole millionths; raises InvalidField if it counts as 0 where that is wrong.

    Examples
    --------
    >>> from auctions.domain.credits import stated_millionths
    >>> stated_millionths(0.0, may_be_0=True)
    0
    """
    found = millionths(credits)
    if found == 0 and not (may_be_0 and credits == 0):
        zero = "0, or " if may_be_0 else ""
        raise InvalidField("credits", f"expected {zero}a millionth or more, got {shown(credits)}")
    return found


def in_words(amount: int) -> str:
    """Return an amount of millionths as a number of credits, without digits that say nothing.

    Examples
    --------
    >>> from auctions.domain.credits import in_words
    >>> in_words(1_234_500_000), in_words(-3_000_000)
    ('1,234.5', '-3')
    """
    whole, part = divmod(abs(amount), MILLION)
    digits = f"{part:06d}".rstrip("0")
    return f"{'-' if amount < 0 else ''}{whole:,}{'.' if digits else ''}{digits}"


def priced(amount: int) -> str:
    """Return an amount of millionths in the currency that the operator states, as "12.50 EUR"; empty without one."""
    if settings.CREDIT_PRICE is None:
        return ""
    price, currency = settings.CREDIT_PRICE
    return f"{Decimal(amount) / MILLION * price:,.2f} {currency}"


def period_of(kind: BudgetKind, day: date) -> tuple[date, date]:
    """Return the first day of the period that contains a day, and the first day after it.

    Examples
    --------
    >>> from datetime import date
    >>> from auctions.domain.credits import period_of
    >>> [str(day) for day in period_of("quarter", date(2026, 11, 25))]
    ['2026-10-01', '2027-01-01']
    """
    if kind == BudgetKind.WEEK:
        first = day - timedelta(days=day.weekday())
        return first, first + timedelta(days=7)
    months = MONTHS[BudgetKind(kind)]
    begun = day.year * 12 + (day.month - 1) // months * months
    return _first_day(begun), _first_day(begun + months)


def limited(decision: Decision, left: int | None) -> Decision:
    """Return the decision, or a rejection if its payment is more than the bid's team has left.

    Parameters
    ----------
    decision
        The policy's decision.
    left
        Millionths of a credit; None without a limit.

    Notes
    -----
    The rejection keeps the offer (density and standalone value), so prices learn from it as from any other bid.
    """
    if left is None or not decision.admitted or millionths(decision.payment) <= left:
        return decision
    rejected = Decision.reject(
        decision.bid_id,
        Reason.OVER_BUDGET,
        f"Its best schedule costs {in_words(millionths(decision.payment))} credits, more than its team has left in this"
        f" period: {in_words(left)}.",
        slot=decision.slot,
        density=decision.density,
        standalone_value=decision.standalone_value,
        prices=decision.prices,
    )
    return replace(rejected, offer_factors=decision.offer_factors)


def too_few(stated: float, left: int | None) -> str:
    """Return why a bid does not stand of which a team with this left could not pay what it states; empty if it could.

    `stated` is the value, credits; `left` is in millionths of a credit, None without a limit.

    Examples
    --------
    >>> from auctions.domain.credits import too_few
    >>> too_few(50.0, 12_500_000)
    'It does not stand: it states 50 credits, more than its team has left in this period: 12.5.'
    """
    most = millionths(stated)
    if left is None or most <= left:
        return ""
    states, has = in_words(most), in_words(left)
    return f"It does not stand: it states {states} credits, more than its team has left in this period: {has}."


def _first_day(months: int) -> date:
    return date(months // 12, months % 12 + 1, 1)
