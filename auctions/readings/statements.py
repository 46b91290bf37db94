"""Statements of teams: the sums of a period, and the transactions behind them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from django.db.models import QuerySet, Sum

from accounts.models import Team
from auctions.domain.credits import in_words, period_of
from auctions.models import (
    Budget,
    BudgetKind,
    BudgetPeriod,
    CreditEntry,
    CreditKind,
    CreditTransaction,
)

HEADER: Final = ("time", "kind", "cluster", "bid", "label", "credits", "by", "note", "period")
SUMS: Final = ("granted", "held", "charged", "refunded", "left")
"""Sums of a period, as attributes of its statement."""
_NOTHING: Final = {"held": 0, "charged": 0, "refunded": 0}
BUDGETS_HEADER: Final = ("team", "title", "period", "first_day", "last_day", "credits_a_period", *SUMS)
MOST_ROWS: Final = 10_000
"""Rows of one CSV file; filters choose others."""
MOST_PERIODS: Final = 24
"""Periods beside the one under way, with their sums."""


@dataclass(frozen=True, kw_only=True)
class PeriodSums:
    """The sums of one period, millionths of a credit."""

    starts_on: date
    ends_on: date
    """The first day after it."""
    granted: int
    held: int
    """Payments of jobs that have not ended."""
    charged: int
    """Payments of jobs that have ended."""
    refunded: int

    @property
    def left(self) -> int:
        """Millionths of a credit that were not spent."""
        return self.granted - self.held - self.charged + self.refunded

    @property
    def last_day(self) -> date:
        """The last day of the period."""
        return self.ends_on - timedelta(days=1)


@dataclass(frozen=True, kw_only=True)
class Statement(PeriodSums):
    """The sums of the period under way, and the budget that grants its credits."""

    budget: Budget


@dataclass(frozen=True)
class TransactionFilter:
    """The transactions that a list shows; None shows all."""

    kind: CreditKind | None = None
    cluster: str | None = None
    since: date | None = None
    until: date | None = None
    """The last day."""


def statement_of(team: Team, at: datetime) -> Statement | None:
    """Return the sums of the period that contains a time; None if the team has no budget."""
    found = statements_of(Team.objects.filter(pk=team.pk), at)
    return found[0] if found else None


def statements_of(teams: QuerySet[Team], at: datetime) -> list[Statement]:
    """Return the sums of those of these teams that have a budget, by name, in three queries.

    A period that nobody has spent from yet is not stored; it has what the budget grants.
    """
    budgets = list(Budget.objects.select_related("team").filter(team__in=teams).order_by("team__name"))
    days = {one.team_id: period_of(BudgetKind(one.period), at.date()) for one in budgets}
    stored = BudgetPeriod.objects.filter(team__in=days, starts_on__in={first for first, _ in days.values()})
    periods = {one.team_id: one for one in stored if days[one.team_id] == (one.starts_on, one.ends_on)}
    sums = _sums_of(periods.values())
    found = []
    for budget in budgets:
        period, (first, end) = periods.get(budget.team_id), days[budget.team_id]
        amounts = {"granted": budget.amount, **_NOTHING} if period is None else sums[period.pk]
        found.append(Statement(budget=budget, starts_on=first, ends_on=end, **amounts))
    return found


def other_periods(team: Team, under_way: PeriodSums | None) -> list[PeriodSums]:
    """Return the sums of the newest periods of a team but the one under way, newest first, at most `MOST_PERIODS`.

    They are over, or the budget has another length since, or was removed. A period that nobody has spent from and that
    nobody granted to was never stored.
    """
    others = BudgetPeriod.objects.filter(team=team).order_by("-ends_on", "-starts_on")
    if under_way is not None:
        others = others.exclude(starts_on=under_way.starts_on, ends_on=under_way.ends_on)
    rows = list(others[:MOST_PERIODS])
    sums = _sums_of(rows)
    return [PeriodSums(starts_on=row.starts_on, ends_on=row.ends_on, **sums[row.pk]) for row in rows]


def _sums_of(periods: Collection[BudgetPeriod]) -> dict[int, dict[str, int]]:
    """Return what was granted, held, charged and refunded in each stored period, by key, in one query."""
    entries = CreditEntry.objects.filter(transaction__period__in=periods, amount__gt=0).order_by()
    rows = entries.values_list("transaction__period", "transaction__kind").annotate(sum=Sum("amount"))
    sums: dict[tuple[int, str], int] = {(period, kind): amount for period, kind, amount in rows}
    found = {}
    for one in periods:
        held, charged, refunded = (
            sums.get((one.pk, kind), 0) for kind in (CreditKind.HELD, CreditKind.CHARGED, CreditKind.REFUNDED)
        )
        found[one.pk] = {"granted": one.granted, "held": held - charged, "charged": charged, "refunded": refunded}
    return found


def transactions(team: Team, chosen: TransactionFilter) -> QuerySet[CreditTransaction]:
    """Return the transactions of a team that the filter lets pass, newest first, with what a row shows."""
    rows = CreditTransaction.objects.filter(period__team=team).order_by("-pk")
    if chosen.kind is not None:
        rows = rows.filter(kind=chosen.kind)
    if chosen.cluster is not None:
        rows = rows.filter(bid__market__cluster__name=chosen.cluster)
    if chosen.since is not None:
        rows = rows.filter(at__gte=datetime.combine(chosen.since, time.min, UTC))
    if chosen.until is not None:
        rows = rows.filter(at__lt=datetime.combine(chosen.until, time.min, UTC) + timedelta(days=1))
    return rows.select_related("period", "bid__market__cluster", "by").prefetch_related("entries")


def csv_rows(rows: QuerySet[CreditTransaction]) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each of the newest transactions, at most `MOST_ROWS`."""
    for one in rows[:MOST_ROWS]:
        bid = one.bid
        place = ("", "", "") if bid is None else (bid.market.cluster.name, bid.sequence, bid.label)
        yield (
            one.at.isoformat(),
            one.kind,
            *place,
            _plain(one.amount),
            "" if one.by is None else one.by.get_username(),
            one.note,
            one.period.starts_on,
        )


def budget_rows(teams: QuerySet[Team], at: datetime) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each team with the sums of the period under way, credits; empty cells without a budget."""
    found = {one.budget.team_id: one for one in statements_of(teams, at)}
    for team in teams:
        one = found.get(team.pk)
        if one is None:
            yield (team.name, team.title, *[""] * (len(BUDGETS_HEADER) - 2))
            continue
        sums = (_plain(getattr(one, name)) for name in SUMS)
        yield (team.name, team.title, one.budget.period, one.starts_on, one.last_day, _plain(one.budget.amount), *sums)


def _plain(amount: int) -> Decimal:
    """Credits without separators. A number, also below 0: CSV files quote a text that begins with a minus sign."""
    return Decimal(in_words(amount).replace(",", ""))
