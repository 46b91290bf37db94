"""Effect of noise on a plan: a chart, a table and a CSV file; the address has the parameters of the draws."""

from dataclasses import dataclass
from typing import Final

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from frontend.figures import plan_noise
from frontend.figures.base import Drawing
from frontend.views.overview import csv_response
from frontend.views.plan_access import own_plan, tag_of_plan
from frontend.views.versions import unless_tagged
from scheduling.model.errors import InvalidField
from studies.models import Plan
from studies.split_learning.plans.noise import KINDS, SPREAD, Draws, Noise, noise_of
from studies.split_learning.plans.stored import NothingYet

SPREADS: Final = ("0", "0.05", "0.1", "0.2", "0.3", "0.5")


@dataclass(frozen=True)
class Row:
    """One kind of helpers in the table."""

    name: str
    mean: float
    worst: int
    above: float
    """The mean above what was planned, a share of it; negative if it is below."""


def spread_choices(request: HttpRequest) -> list[tuple[str, str, bool]]:
    """Value, words and whether it is chosen; what the address says is there as well."""
    chosen = request.GET.get("spread", str(SPREAD))[:20]
    values = SPREADS if chosen in SPREADS else (*SPREADS, chosen)
    return [(value, _percent(value), value == chosen) for value in values]


@login_required
@require_safe
def part(request: HttpRequest, number: int) -> HttpResponse:
    """The table below the chart."""
    plan = own_plan(request, number)

    def build() -> HttpResponse:
        noise, _ = _noise(request, plan)  # why there is none is said below the chart
        return render(request, "frontend/_plan_noise.html", {"noise": noise, "rows": _rows(noise)})

    return unless_tagged(request, tag_of_plan(request, plan), build)


@login_required
@require_safe
def figure(request: HttpRequest, number: int) -> HttpResponse:
    """Mean and worst makespans as Plotly's JSON."""
    plan = own_plan(request, number)

    def build() -> HttpResponse:
        noise, problem = _noise(request, plan)
        return JsonResponse(_drawing(plan, noise, problem).to_json())

    return unless_tagged(request, tag_of_plan(request, plan), build)


@login_required
@require_safe
def table(request: HttpRequest, number: int) -> HttpResponse:
    """Every draw as CSV; 404 while there is nothing to draw from, or for an address that asks for nonsense."""
    plan = own_plan(request, number)
    noise, problem = _noise(request, plan)
    if noise is None:
        raise Http404(problem)
    rows = ([draw.planned, *(getattr(draw, kind) for kind in KINDS)] for draw in noise.draws)
    return csv_response(plan_noise.table(rows), f"plan-{plan.pk}-noise.csv")


def _noise(request: HttpRequest, plan: Plan) -> tuple[Noise | None, str]:
    """Return the result, or the reason why there is none."""
    try:
        return noise_of(plan, Draws.of_query(plan, request.GET.dict())), ""
    except NothingYet:
        return None, "There is no plan to be disturbed yet."
    except InvalidField as error:
        return None, f"The address asks for what cannot be drawn: {error}."


def _drawing(plan: Plan, noise: Noise | None, problem: str) -> Drawing:
    if noise is None:
        return plan_noise.figure([], planned=0, slot_ms=plan.slot_ms, note=problem)
    found = {kind: noise.makespans(kind) for kind in KINDS}
    bars = [
        plan_noise.Bar(plan_noise.NAMES[kind], row.mean, row.worst, plan_noise.COLOURS[kind])
        for kind, row in found.items()
    ]
    drawn = noise.parameters
    note = (
        f"{drawn.count} draws, seed {drawn.seed}: each time of a pass or link is multiplied by a factor of its own, up"
        f" to {_percent(str(drawn.spread))} more or less. The assignment stays; the dotted line was planned."
    )
    return plan_noise.figure(bars, planned=noise.planned, slot_ms=plan.slot_ms, note=note)


def _rows(noise: Noise | None) -> list[Row]:
    if noise is None:
        return []
    found = {kind: noise.makespans(kind) for kind in KINDS}
    planned = max(1, noise.planned)
    return [Row(plan_noise.NAMES[kind], row.mean, row.worst, row.mean / planned - 1) for kind, row in found.items()]


def _percent(share: str) -> str:
    try:
        return f"{100 * float(share):.4g} %"
    except ValueError:
        return share
