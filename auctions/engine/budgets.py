"""Budgets of teams, set by operators: the limit, the grants, and their entries in the record of who changed what."""

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F

from accounts.models import Team
from auctions.domain.credits import MILLION, MOST_CREDITS, in_words
from auctions.domain.errors import NoBudget, NotGranted
from auctions.engine import team_credits
from auctions.engine.team_credits import Posting
from auctions.models import Budget, BudgetKind, BudgetPeriod, CreditKind
from cluster import changes, clock


def set_budget(team: Team, *, period: BudgetKind, amount: int) -> Budget:
    """Limit a team to this amount a period, millionths of a credit. It holds for periods that are stored later.

    A period is stored with its first decision or grant, so a first budget holds at once, as a change does until then.
    """
    with transaction.atomic():
        # A first budget has no row that could be locked. Of a team that is deleted meanwhile it cannot be stored.
        Team.objects.select_for_update(no_key=True).filter(pk=team.pk).first()
        budget = Budget.objects.select_for_update(no_key=True).filter(team=team).first()
        before = (None, None) if budget is None else (budget.get_period_display(), in_words(budget.amount))
        if budget is None:
            budget = Budget(team=team)
        budget.period, budget.amount = period, amount
        budget.save()
        after = (budget.get_period_display(), in_words(amount))
        pairs = dict(zip(("period", "credits"), zip(before, after, strict=True), strict=True))
        changes.note(budget, "budget set", pairs, team=team.pk)
    return budget


def remove_budget(team: Team) -> None:
    """Let a team spend without a limit; its statement stays. Raises NoBudget."""
    with transaction.atomic():
        budget = _locked(team)
        pairs = {"period": (budget.get_period_display(), None), "credits": (in_words(budget.amount), None)}
        changes.note(budget, "budget removed", pairs, team=team.pk)
        budget.delete()


def grant(team: Team, amount: int, *, by: User, note: str = "") -> BudgetPeriod:
    """Grant credits for the period under way, or take credits back that were not spent.

    Parameters
    ----------
    team
        The team; it has a budget.
    amount
        Millionths of a credit; below 0 to take them back.
    by
        The operator.
    note
        What the grant is for; the team reads it.

    Raises
    ------
    NoBudget
        If the team has no limit.
    NotGranted
        If more would be taken back than is left, or a period would have more than `MOST_CREDITS`.
    """
    with transaction.atomic():
        budget, at = _locked(team), clock.now()
        period = team_credits.periods_at([budget], at)[team.pk]
        left = team_credits.left_in(period)
        if left + amount < 0:
            raise NotGranted(
                f"Credits that {team} has left in this period: {in_words(left)}. No more can be taken back."
            )
        if period.granted + amount > MOST_CREDITS * MILLION:
            raise NotGranted(f"A team is granted at most {MOST_CREDITS:,} credits a period.")
        team_credits.post([Posting(CreditKind.GRANTED, period.pk, amount, at, by=by, note=note)])
        BudgetPeriod.objects.filter(pk=period.pk).update(granted=F("granted") + amount)
        pairs = {"credits left": (in_words(left), in_words(left + amount)), "note": (None, note or None)}
        what = "credits granted" if amount > 0 else "credits taken back"
        changes.note(budget, what, pairs, team=team.pk)
    return period


def _locked(team: Team) -> Budget:
    budget = Budget.objects.select_for_update(no_key=True).filter(team=team).first()
    if budget is None:
        raise NoBudget(f"{team} has no budget.")
    return budget
