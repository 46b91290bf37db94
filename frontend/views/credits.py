"""Credits of teams: statements for their members, and budgets and grants for operators."""

from collections.abc import Callable

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache

from accounts.models import Team
from accounts.rights import rights_of
from accounts.teams import visible_teams
from auctions.domain.credits import MILLION, stated_millionths
from auctions.engine import budgets
from auctions.models import BudgetKind, CreditKind, CreditTransaction
from auctions.readings import statements
from cluster import clock
from frontend.access import action_view, page_view, viewer_of
from frontend.forms.credits import BudgetForm, GrantForm
from frontend.presenters import credits
from frontend.presenters.listing import listing
from frontend.views.responses import say_done
from web.csv_files import csv_file


@page_view
def budget_list(request: HttpRequest) -> HttpResponse:
    """List all teams with what they have left, for operators."""
    if not rights_of(viewer_of(request)).operates_all:
        raise Http404
    found = {one.budget.team_id: one for one in statements.statements_of(Team.objects.all(), clock.now())}
    context = listing(request, Team.objects.all())
    context["rows"] = [
        (team, credits.summary(found[team.pk]) if team.pk in found else None) for team in context["page"].object_list
    ]
    return render(request, "frontend/budgets.html", context)


@page_view
def budgets_csv(request: HttpRequest) -> HttpResponse:
    """Return all teams with the sums of the period under way as CSV, for operators."""
    if not rights_of(viewer_of(request)).operates_all:
        raise Http404
    rows = statements.budget_rows(Team.objects.all(), clock.now())
    return csv_file([statements.BUDGETS_HEADER, *rows], "budgets.csv")


@never_cache
@page_view
def statement(request: HttpRequest, team: str) -> HttpResponse:
    """Show a team's credits: the sums of this period, and the transactions that the address lets pass."""
    return _page(request, _visible(request, team))


@page_view
def statement_csv(request: HttpRequest, team: str) -> HttpResponse:
    """Return the same transactions as CSV."""
    found = _visible(request, team)
    rows = statements.csv_rows(_transactions(found, _given(request)))
    return csv_file([statements.HEADER, *rows], f"{found.name}-credits.csv")


@action_view
def set_budget(request: HttpRequest, team: str) -> HttpResponse:
    """Limit a team."""
    found, form = _operated(request, team), BudgetForm(request.POST)

    def act() -> bool:
        given = form.cleaned_data
        amount = stated_millionths(given["credits"], may_be_0=True)
        budgets.set_budget(found, period=BudgetKind(given["period"]), amount=amount)
        return True

    if not form.store(act):
        return _page(request, found, budget=form)
    return _done(request, found, lambda: f"The budget of {found} is set.")


@action_view
def grant(request: HttpRequest, team: str) -> HttpResponse:
    """Grant credits to a team, or take them back."""
    found, form = _operated(request, team), GrantForm(request.POST)

    def act() -> bool:
        amount = stated_millionths(form.cleaned_data["credits"], may_be_0=False)
        budgets.grant(found, amount, by=viewer_of(request), note=form.cleaned_data["note"])
        return True

    if not form.store(act):
        return _page(request, found, grant=form)
    return _done(request, found, lambda: f"The credits of {found} have changed.")


@action_view
def remove_budget(request: HttpRequest, team: str) -> HttpResponse:
    """Let a team spend without a limit."""
    found = _operated(request, team)

    def act() -> str:
        budgets.remove_budget(found)
        return f"{found} has no limit any more."

    return _done(request, found, act)


def _page(
    request: HttpRequest, team: Team, *, budget: BudgetForm | None = None, grant: GrantForm | None = None
) -> HttpResponse:
    given, viewer = _given(request), viewer_of(request)
    found = statements.statement_of(team, clock.now())
    operates = rights_of(viewer).operates_all
    context = listing(request, _transactions(team, given), given)
    context |= {
        "team": team,
        "summary": None if found is None else credits.summary(found),
        "periods": [credits.period_row(one) for one in statements.other_periods(team, found)],
        "words": list(credits.WORDS.values()),
        "rows": [credits.row(one) for one in context["page"].object_list],
        "kinds": CreditKind.choices,
        "operates": operates,
        "most_rows": statements.MOST_ROWS,
    }
    if operates:
        initial = None if found is None else {"period": found.budget.period, "credits": found.budget.amount / MILLION}
        context["budget_form"] = budget or BudgetForm(initial=initial)
        context["grant_form"] = grant or GrantForm()
    return render(request, "frontend/credits.html", context, status=422 if budget or grant else 200)


def _given(request: HttpRequest) -> dict[str, str]:
    return {name: request.GET.get(name, "").strip()[:100] for name in credits.FILTERS}


def _transactions(team: Team, given: dict[str, str]) -> "QuerySet[CreditTransaction]":
    chosen = credits.chosen(given)
    return CreditTransaction.objects.none() if chosen is None else statements.transactions(team, chosen)


def _visible(request: HttpRequest, name: str) -> Team:
    return get_object_or_404(visible_teams(viewer_of(request)), name=name)


def _operated(request: HttpRequest, name: str) -> Team:
    found = _visible(request, name)
    if not rights_of(viewer_of(request)).operates_all:
        raise PermissionDenied
    return found


def _done(request: HttpRequest, team: Team, act: Callable[[], str]) -> HttpResponse:
    say_done(request, act)
    return redirect("credits", team.name)
