"""Credits of teams in the admin: they are shown; operators set budgets and grant credits on pages and by REST."""

from django.contrib import admin

from auctions.admin.base import ReadOnlyAdmin
from auctions.domain.credits import in_words
from auctions.models import Budget, BudgetPeriod, CreditTransaction


@admin.register(Budget)
class BudgetAdmin(ReadOnlyAdmin):
    """Limits of teams."""

    list_display = ["team", "period", "credits"]
    list_select_related = ["team"]

    @admin.display(description="credits a period")
    def credits(self, budget: Budget) -> str:
        """Return what a period is granted."""
        return in_words(budget.amount)


@admin.register(BudgetPeriod)
class BudgetPeriodAdmin(ReadOnlyAdmin):
    """Periods in which something was decided or granted."""

    list_display = ["team", "starts_on", "ends_on", "credits"]
    list_select_related = ["team"]
    list_filter = ["team"]

    @admin.display(description="credits granted")
    def credits(self, period: BudgetPeriod) -> str:
        """Return the sum of grants."""
        return in_words(period.granted)


@admin.register(CreditTransaction)
class CreditTransactionAdmin(ReadOnlyAdmin):
    """Credits that were granted, held, charged and refunded."""

    list_display = ["at", "period", "kind", "credits", "bid", "by", "note"]
    list_filter = ["kind", "period__team"]
    list_select_related = ["period__team", "bid", "by"]

    @admin.display(description="credits")
    def credits(self, transaction: CreditTransaction) -> str:
        """Return how many."""
        return in_words(transaction.amount)
