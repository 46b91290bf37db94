"""Budgets of teams, and the credits that were granted, held, charged and refunded, in double entry.

Amounts are whole millionths of a credit, so that sums are exact; a credit is the unit of values and payments.
"""

from typing import Final

from django.conf import settings
from django.db import models
from django.db.models import CheckConstraint, F, Index, Q, UniqueConstraint

from accounts.models import Team
from auctions.models.market import Bid


class BudgetKind(models.TextChoices):
    """Length of a period of a budget, by the calendar in UTC; weeks begin on Mondays."""

    WEEK = "week", "Week"
    MONTH = "month", "Month"
    QUARTER = "quarter", "Quarter"
    YEAR = "year", "Year"


class Budget(models.Model):
    """The limit of a team; who spends or grants its credits holds this row's lock. A team without one has no limit."""

    team = models.OneToOneField(Team, models.CASCADE, related_name="budget")
    period = models.CharField(max_length=10, choices=BudgetKind)
    amount = models.BigIntegerField(help_text="Granted when a period begins, millionths of a credit.")

    class Meta:
        ordering = ["team__name"]
        constraints = [
            CheckConstraint(condition=Q(period__in=BudgetKind.values), name="budget_period_known"),
            CheckConstraint(condition=Q(amount__gte=0), name="budget_not_negative"),
        ]

    def __str__(self) -> str:
        return f"Budget of {self.team}"


class BudgetPeriod(models.Model):
    """One period of a team. It is stored with the first decision or grant in it."""

    team = models.ForeignKey(Team, models.PROTECT, related_name="budget_periods")
    starts_on = models.DateField()
    ends_on = models.DateField(help_text="The first day after it.")
    granted = models.BigIntegerField(default=0, help_text="Sum of grants, millionths of a credit.")
    taken = models.BigIntegerField(default=0, help_text="Sum of holds, millionths of a credit.")

    class Meta:
        ordering = ["-starts_on", "team__name"]
        constraints = [
            UniqueConstraint(fields=["team", "starts_on", "ends_on"], name="budget_period_once"),
            CheckConstraint(condition=Q(ends_on__gt=F("starts_on")), name="budget_period_ends_after_it_starts"),
            CheckConstraint(condition=Q(taken__gte=0), name="budget_period_taken_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.team} from {self.starts_on}"


class CreditKind(models.TextChoices):
    """The kind of a transaction of credits."""

    GRANTED = "granted", "Granted"
    HELD = "held", "Held"
    CHARGED = "charged", "Charged"
    REFUNDED = "refunded", "Refunded"


class CreditAccount(models.TextChoices):
    """The accounts of one period of one team; the sum over all of them is 0."""

    ISSUED = "issued", "Issued"
    AVAILABLE = "available", "Available"
    HELD = "held", "Held"
    CHARGED = "charged", "Charged"


MOVES: Final = {
    CreditKind.GRANTED: (CreditAccount.ISSUED, CreditAccount.AVAILABLE),
    CreditKind.HELD: (CreditAccount.AVAILABLE, CreditAccount.HELD),
    CreditKind.CHARGED: (CreditAccount.HELD, CreditAccount.CHARGED),
    CreditKind.REFUNDED: (CreditAccount.CHARGED, CreditAccount.AVAILABLE),
}
"""The account that each kind of transaction takes from, and the one that it gives to."""


class CreditTransaction(models.Model):
    """A change of a team's credits; it is never edited. Its entries sum to 0."""

    period = models.ForeignKey(BudgetPeriod, models.PROTECT, related_name="transactions")
    kind = models.CharField(max_length=10, choices=CreditKind)
    bid = models.ForeignKey(Bid, models.PROTECT, null=True, related_name="credit_transactions")
    at = models.DateTimeField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    """The operator who granted; None for what a budget grants itself, and for what markets do."""
    note = models.CharField(max_length=200, blank=True)

    class Meta:
        ordering = ["-pk"]
        constraints = [
            CheckConstraint(condition=Q(kind__in=CreditKind.values), name="credit_kind_known"),
            CheckConstraint(
                condition=Q(kind=CreditKind.GRANTED, bid=None) | (~Q(kind=CreditKind.GRANTED) & Q(bid__isnull=False)),
                name="credit_of_a_bid_unless_granted",
            ),
            UniqueConstraint(fields=["bid", "kind"], name="credit_kind_once_a_bid"),
        ]
        indexes = [Index(fields=["period", "kind"], name="credit_by_kind")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} in the period of {self.period}"

    @property
    def amount(self) -> int:
        """Millionths of a credit that the receiving account got; below 0 if a grant was taken back."""
        receiver = MOVES[CreditKind(self.kind)][1]
        return sum(entry.amount for entry in self.entries.all() if entry.account == receiver)


class CreditEntry(models.Model):
    """The change of one account by a transaction."""

    transaction = models.ForeignKey(CreditTransaction, models.PROTECT, related_name="entries")
    account = models.CharField(max_length=10, choices=CreditAccount)
    amount = models.BigIntegerField(help_text="Millionths of a credit; below 0 if they leave the account.")

    class Meta:
        verbose_name_plural = "credit entries"
        constraints = [
            CheckConstraint(condition=Q(account__in=CreditAccount.values), name="credit_account_known"),
            CheckConstraint(condition=~Q(amount=0), name="credit_entry_not_zero"),
            UniqueConstraint(fields=["transaction", "account"], name="credit_account_once"),
        ]

    def __str__(self) -> str:
        return f"{self.amount} to {self.account}"
