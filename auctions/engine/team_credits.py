"""Credits of teams in decisions: what a team has left, and the rows of what is held, charged and refunded.

A decision on a bid of a team that has a budget is made under the lock of the budget, in the transaction of the
decision. Locks are taken in the order of teams, all of a transaction at once, so that two markets never wait for one
another. An admitted job holds its payment. When the job ends, the payment is charged, and what the market pays back is
refunded to the same period. These only add rows: they need no lock, since they leave no team less.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from django.contrib.auth.models import User
from django.db.models import F, OuterRef, Q, Subquery, Sum

from auctions.domain.credits import millionths, period_of
from auctions.domain.lock import MarketTime
from auctions.models import (
    MOVES,
    Bid,
    Budget,
    BudgetKind,
    BudgetPeriod,
    CreditAccount,
    CreditEntry,
    CreditKind,
    CreditTransaction,
    Market,
)


@dataclass(frozen=True)
class Posting:
    """A transaction to be written."""

    kind: CreditKind
    period: int
    """Key of the period."""
    amount: int
    """Millionths of a credit; a grant may be below 0."""
    at: datetime
    bid: int | None = None
    """Key of the bid."""
    by: User | None = None
    note: str = ""


class TeamCredits:
    """The credits that teams have left, for the holder of the locks of their budgets, until the transaction ends."""

    def __init__(self, periods: Mapping[int, BudgetPeriod] | None = None) -> None:
        self._periods = periods or {}
        self._left = {team: left_in(period) for team, period in self._periods.items()}

    def left(self, team: int | None) -> int | None:
        """Return what a team has left, millionths of a credit; None if it has no limit."""
        return None if team is None else self._left.get(team)

    def take(self, team: int | None, payment: float) -> None:
        """Note that a bid of the team was admitted at this payment, money."""
        if team is not None and team in self._left:
            self._left[team] -= millionths(payment)

    def hold(self, admitted: Sequence[Bid], *, at: datetime) -> None:
        """Write what these admitted bids hold; their payments were taken before."""
        owed = [(bid, millionths(bid.payment or 0.0)) for bid in admitted if bid.team_id in self._periods]
        postings = [
            Posting(CreditKind.HELD, self._periods[team].pk, amount, at, bid=bid.pk)
            for bid, amount in owed
            if amount and (team := bid.team_id) is not None
        ]
        post(postings)
        for period in sorted({one.period for one in postings}):
            amount = sum(one.amount for one in postings if one.period == period)
            BudgetPeriod.objects.filter(pk=period).update(taken=F("taken") + amount)


def locked(teams: Iterable[int | None], moment: MarketTime) -> TeamCredits:
    """Lock the budgets of these teams, and return what they have left in the periods of this moment.

    A transaction that calls this twice must name all of its teams in the first call.
    """
    keys = sorted({team for team in teams if team is not None})
    if not keys:
        return TeamCredits()
    budgets = list(Budget.objects.select_for_update(no_key=True).filter(team__in=keys).order_by("team_id"))
    if not budgets:
        return TeamCredits()
    return TeamCredits(periods_at(budgets, moment.wall))


def left_at(team: int | None, at: datetime) -> int | None:
    """Return what a team has left, without a lock; None if it has no limit."""
    budget = None if team is None else Budget.objects.filter(team=team).first()
    if budget is None:
        return None
    found = _stored([budget], at).get(budget.team_id)
    return budget.amount if found is None else left_in(found)


def periods_at(budgets: Sequence[Budget], at: datetime) -> dict[int, BudgetPeriod]:
    """Return the periods of locked budgets by team; one that begins is stored, and granted the budget's amount."""
    found = _stored(budgets, at)
    new = [budget for budget in budgets if budget.team_id not in found]
    if new:
        rows = [
            BudgetPeriod(team_id=one.team_id, starts_on=first, ends_on=end, granted=one.amount)
            for one, (first, end) in ((budget, _days(budget, at)) for budget in new)
        ]
        BudgetPeriod.objects.bulk_create(rows)
        post([Posting(CreditKind.GRANTED, row.pk, row.granted, at) for row in rows if row.granted])
        for row in rows:
            row.refunded = 0  # type: ignore[attr-defined]  # as the query annotates it
            found[row.team_id] = row
    return found


def left_in(period: BudgetPeriod) -> int:
    """Return what is left in a period that a query of this module has read, millionths of a credit."""
    refunded: int = period.refunded  # type: ignore[attr-defined]
    return period.granted - period.taken + refunded


def end(bid: Bid, moment: MarketTime) -> None:
    """Charge what the job of this bid held, which has ended, and refund what its market pays back."""
    if bid.team_id is not None:
        _settle(Q(transaction__bid=bid), moment)


def complete(market: Market, numbers: Sequence[int], moment: MarketTime) -> None:
    """Charge what jobs held that are completed, by the sequence numbers of their bids."""
    if numbers:
        _settle(Q(transaction__bid__market=market, transaction__bid__sequence__in=numbers), moment)


def post(postings: Sequence[Posting]) -> None:
    """Write transactions, each with its two entries."""
    if not postings:
        return
    rows = [
        CreditTransaction(period_id=one.period, kind=one.kind, bid_id=one.bid, at=one.at, by=one.by, note=one.note)
        for one in postings
    ]
    CreditTransaction.objects.bulk_create(rows)
    CreditEntry.objects.bulk_create(
        CreditEntry(transaction=row, account=account, amount=amount)
        for row, one in zip(rows, postings, strict=True)
        for account, amount in zip(MOVES[one.kind], (-one.amount, one.amount), strict=True)
    )


def _settle(ended: Q, moment: MarketTime) -> None:
    held = CreditEntry.objects.filter(ended, transaction__kind=CreditKind.HELD, account=CreditAccount.HELD)
    rows = held.order_by("pk").values_list(
        "transaction__period", "transaction__bid", "transaction__bid__refund", "amount"
    )
    postings = []
    for period, bid, refund, amount in rows:
        postings.append(Posting(CreditKind.CHARGED, period, amount, moment.wall, bid=bid))
        if back := millionths(refund):
            postings.append(Posting(CreditKind.REFUNDED, period, back, moment.wall, bid=bid))
    post(postings)


def _stored(budgets: Sequence[Budget], at: datetime) -> dict[int, BudgetPeriod]:
    """Return the stored periods of these budgets by team, each with what was refunded in it."""
    refunds = CreditEntry.objects.filter(
        transaction__period=OuterRef("pk"), transaction__kind=CreditKind.REFUNDED, account=CreditAccount.AVAILABLE
    )
    summed = refunds.values("transaction__period").annotate(sum=Sum("amount")).values("sum")
    days = {one.team_id: _days(one, at) for one in budgets}
    rows = BudgetPeriod.objects.filter(team__in=days, starts_on__in={first for first, _ in days.values()})
    found: dict[int, BudgetPeriod] = {}
    for row in rows.annotate(refunded=Subquery(summed)):
        row.refunded = row.refunded or 0
        if days[row.team_id] == (row.starts_on, row.ends_on):
            found[row.team_id] = row
    return found


def _days(budget: Budget, at: datetime) -> tuple[date, date]:
    return period_of(BudgetKind(budget.period), at.date())
