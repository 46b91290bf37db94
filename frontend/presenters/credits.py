"""Credits of teams as pages show them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final

from auctions.domain.credits import in_words, priced
from auctions.models import Bid, CreditKind, CreditTransaction
from auctions.readings.statements import PeriodSums, Statement, TransactionFilter
from web.parameters import day_of

FILTERS: Final = ("kind", "cluster", "since", "until")
WORDS: Final = {"granted": "Granted", "held": "Held", "charged": "Charged", "refunded": "Refunded", "left": "Left"}
NOTES: Final = {
    "granted": "in this period",
    "held": "payments of jobs that have not ended",
    "charged": "payments of jobs that have ended",
    "refunded": "paid back for jobs that failed",
    "left": "to spend in this period",
}


@dataclass(frozen=True)
class Amount:
    """An amount with its name."""

    name: str
    credits: str
    price: str
    """The amount in the operator's currency; empty if none is stated."""
    note: str


@dataclass(frozen=True)
class TransactionCells:
    """One transaction."""

    at: datetime
    kind: str
    bid: Bid | None
    credits: str
    price: str
    by: str
    note: str


@dataclass(frozen=True)
class Summary:
    """The period under way of one team."""

    statement: Statement
    amounts: tuple[Amount, ...]

    @property
    def each(self) -> str:
        """Credits that a period is granted when it begins."""
        return in_words(self.statement.budget.amount)

    @property
    def left(self) -> str:
        """Credits that may be spent."""
        return in_words(self.statement.left)


def summary(statement: Statement) -> Summary:
    """Return a statement as pages show it."""
    pairs = ((name, getattr(statement, name)) for name in WORDS)
    return Summary(
        statement,
        tuple(Amount(WORDS[name], in_words(amount), priced(amount), NOTES[name]) for name, amount in pairs),
    )


@dataclass(frozen=True)
class PeriodCells:
    """One period that is over."""

    starts_on: date
    last_day: date
    cells: tuple[tuple[str, str, str], ...]
    """The name of each sum, the credits and the price."""


def period_row(sums: PeriodSums) -> PeriodCells:
    """Return a period as its table shows it."""
    pairs = ((name, getattr(sums, name)) for name in WORDS)
    cells = tuple((WORDS[name], in_words(amount), priced(amount)) for name, amount in pairs)
    return PeriodCells(sums.starts_on, sums.last_day, cells)


def row(transaction: CreditTransaction) -> TransactionCells:
    """Return a transaction as its table shows it."""
    return TransactionCells(
        at=transaction.at,
        kind=transaction.get_kind_display(),
        bid=transaction.bid,
        credits=in_words(transaction.amount),
        price=priced(transaction.amount),
        by="" if transaction.by is None else transaction.by.get_username(),
        note=transaction.note,
    )


def chosen(given: Mapping[str, str]) -> TransactionFilter | None:
    """Return the filter of an address; None if a value is invalid, so that nothing passes."""
    try:
        return TransactionFilter(
            kind=CreditKind(given["kind"]) if given["kind"] else None,
            cluster=given["cluster"] or None,
            since=day_of(given["since"]) if given["since"] else None,
            until=day_of(given["until"]) if given["until"] else None,
        )
    except ValueError:
        return None
