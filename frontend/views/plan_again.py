"""Planning again on pages: the form, and what the new plan changes."""

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from auctions.domain.errors import AuctionError
from frontend.access import viewer_of
from frontend.figures.base import Table
from frontend.forms.replanning import ReplanForm
from frontend.views.plan_access import own_plan
from scheduling.model.errors import InvalidField
from studies.models import Plan
from studies.split_learning.plans import readings
from studies.split_learning.plans.submission import submit_replan


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def again(request: HttpRequest, number: int) -> HttpResponse:
    """The form; a new plan that was stored leads to its page."""
    plan = own_plan(request, number)
    form = ReplanForm(request.POST, plan=plan) if request.method == "POST" else ReplanForm(plan=plan)
    if form.is_bound and form.is_valid():
        try:
            return redirect("plan", number=submit_replan(viewer_of(request), plan, form.plan_request()).pk)
        except InvalidField as error:
            form.blame(error)
        except AuctionError as error:
            form.add_error(None, str(error))
    status = 422 if form.is_bound else 200
    return render(request, "frontend/plan_again.html", {"plan": plan, "form": form}, status=status)


def changes_table(plan: Plan) -> Table:
    """What a plan made again means for each client; slots, nothing where it is not in a plan."""
    columns = ("client", "helper", "what", "completion_before", "completion")
    rows = (
        ["" if getattr(row, name) is None else getattr(row, name) for name in columns]
        for row in readings.changes_of(plan)
    )
    return Table(columns, rows)
