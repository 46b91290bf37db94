"""Experiments: the list, the form, and the page of one with its progress, its table and its chart."""

from collections.abc import Callable
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from auctions.domain.errors import AuctionError
from frontend.access import viewer_of
from frontend.figures import experiments as figures
from frontend.figures.base import Table
from frontend.forms.experiment import READY_MADE, ExperimentForm
from frontend.presenters.experiments import blocks, view_of
from frontend.presenters.listing import listing
from frontend.views.overview import csv_response
from frontend.views.versions import unless_tagged
from scheduling.model.errors import InvalidField
from studies.background.models import OPEN
from studies.experiments import readings, requests, tables
from studies.experiments.metrics import METRICS
from studies.experiments.request import ExperimentRequest
from studies.experiments.traced import FILES
from studies.models import Experiment, Run

STATES = {"open": "under way", "ended": "ended"}


@login_required
@require_safe
def experiment_list(request: HttpRequest) -> HttpResponse:
    """Experiments the visitor may see, newest first; the filter is in the address."""
    everything = readings.visible_experiments(viewer_of(request))
    state = request.GET.get("state", "")
    found = everything
    if state in STATES:
        under_way = Exists(Run.objects.filter(experiment=OuterRef("pk"), state__in=OPEN))
        found = found.filter(under_way) if state == "open" else found.exclude(under_way)
    listed = listing(request, found, {"state": state})
    context = {
        **listed,
        "states": STATES.items(),
        "rows": [(one, readings.progress_of(one)) for one in listed["page"].object_list],
        "any_at_all": everything.exists(),
        "ready_made": READY_MADE,
    }
    return render(request, "frontend/experiments.html", context)


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def new_experiment(request: HttpRequest) -> HttpResponse:
    """The form; an experiment that was stored leads to its page."""
    viewer = viewer_of(request)
    traces = readings.visible_traces(viewer)
    asked = request.POST if request.method == "POST" else None
    form = ExperimentForm(
        asked, traces=traces, initial={name: request.GET.get(name, "") for name in ("workload", *FILES)}
    )
    if form.is_bound and form.is_valid():
        try:
            checked = ExperimentRequest.from_json(form.body(), traces)
            return redirect("experiment", number=requests.create(viewer, checked).pk)
        except InvalidField as error:
            form.blame(error)
        except AuctionError as error:
            form.add_error(None, str(error))
    return render(request, "frontend/experiment_new.html", {"form": form}, status=422 if form.is_bound else 200)


@login_required
@require_POST
def ready_made(request: HttpRequest) -> HttpResponse:
    """Create the experiment that an empty page offers."""
    viewer = viewer_of(request)
    try:
        checked = ExperimentRequest.from_json(READY_MADE, readings.visible_traces(viewer))
        return redirect("experiment", number=requests.create(viewer, checked).pk)
    except AuctionError as error:
        messages.error(request, str(error))
        return redirect("experiments")


@login_required
@require_safe
def experiment_page(request: HttpRequest, number: int) -> HttpResponse:
    """One experiment."""
    return render(request, "frontend/experiment.html", _context(request, _own(request, number)))


@login_required
@require_safe
def part(request: HttpRequest, number: int) -> HttpResponse:
    """What changes on an experiment's page, for pages that are open."""
    found = _own(request, number)

    def build() -> HttpResponse:
        return render(request, "frontend/_experiment.html", _context(request, found))

    return unless_tagged(request, _tag(request, found), build)


@login_required
@require_safe
def version(request: HttpRequest, number: int) -> HttpResponse:
    """Says whether anything changed, for pages that ask."""
    tag = _tag(request, _own(request, number))
    return unless_tagged(request, tag, lambda: HttpResponse(f"version {tag}", content_type="text/plain"))


@login_required
@require_safe
def chart(request: HttpRequest, number: int) -> HttpResponse:
    """The metric of the address, policies side by side."""
    found = _own(request, number)
    metric, workload = _chosen(request, found)

    def build() -> HttpResponse:
        view = view_of(readings.results_of(found), metric, workload)
        return JsonResponse(figures.figure(view, key=f"experiment {metric} {workload}").to_json())

    return unless_tagged(request, _tag(request, found), build)


@login_required
@require_safe
def chart_csv(request: HttpRequest, number: int) -> HttpResponse:
    """The numbers of the chart."""
    found = _own(request, number)
    metric, workload = _chosen(request, found)
    view = view_of(readings.results_of(found), metric, workload)
    return csv_response(figures.table(view), f"experiment-{found.pk}-{metric}.csv")


TABLES = {"results": tables.result_rows, "runs": tables.run_rows}


@login_required
@require_safe
def table(request: HttpRequest, number: int, name: str) -> HttpResponse:
    """Means over seeds, or every run, as CSV."""
    found = _own(request, number)
    if name not in TABLES:
        raise Http404
    header, *rows = TABLES[name](readings.results_of(found))
    cells = [[cell if isinstance(cell, int | float) else str(cell) for cell in row] for row in rows]
    return csv_response(Table(tuple(map(str, header)), cells), f"experiment-{found.pk}-{name}.csv")


@login_required
@require_POST
def cancel(request: HttpRequest, number: int) -> HttpResponse:
    """Cancel it; completed runs stay."""

    def act(found: Experiment) -> Experiment:
        count = requests.cancel(found)
        messages.success(request, f"{count} run{'s' if count > 1 else ''} cancelled.")
        return found

    return _do(request, number, act)


@login_required
@require_POST
def rerun(request: HttpRequest, number: int) -> HttpResponse:
    """Run the experiment again, to compare the outcomes."""
    return _do(request, number, lambda found: requests.rerun(viewer_of(request), found))


@login_required
@require_POST
def delete(request: HttpRequest, number: int) -> HttpResponse:
    """Delete it with its runs."""
    requests.delete(_own(request, number))
    messages.success(request, f"Experiment {number} is deleted.")
    return redirect("experiments")


def _do(request: HttpRequest, number: int, act: Callable[[Experiment], Experiment]) -> HttpResponse:
    found = _own(request, number)
    try:
        found = act(found)
    except AuctionError as error:
        messages.error(request, str(error))
    return redirect("experiment", number=found.pk)


def _own(request: HttpRequest, number: int) -> Experiment:
    return get_object_or_404(readings.visible_experiments(viewer_of(request)), pk=number)


def _chosen(request: HttpRequest, experiment: Experiment) -> tuple[str, int]:
    """Metric and workload of the address; 404 for what is not there."""
    metric, workload = request.GET.get("metric") or "welfare", request.GET.get("workload") or "0"
    most = len(experiment.matrix["workloads"])
    if metric not in METRICS or not (workload.isascii() and workload.isdigit() and int(workload[:9]) < most):
        raise Http404
    return metric, int(workload)


def _tag(request: HttpRequest, experiment: Experiment) -> str:
    """Return a tag that changes whenever the page of the experiment changes."""
    other = () if experiment.rerun_of is None else readings.tag_of(experiment.rerun_of)
    own = (readings.tag_of(experiment), readings.place_of(experiment))
    parts = (own, other, viewer_of(request).pk, request.get_full_path())
    return f'"{sha256(repr(parts).encode()).hexdigest()[:24]}"'


def _context(request: HttpRequest, found: Experiment) -> dict[str, Any]:
    results, progress = readings.results_of(found), readings.progress_of(found)
    metric, workload = _chosen(request, found)
    return {
        "experiment": found,
        "progress": progress,
        "place": readings.place_of(found),
        "percent": round(100 * progress.share),
        "blocks": blocks(results),
        "notes": results.notes,
        "warnings": results.warnings,
        "comparison": readings.comparison_of(found),
        "runs": results.cells,
        "failed": [cell.run for cell in results.cells if cell.run.error][:5],
        "seeds": found.matrix["seeds"],
        "metrics": [(name, one.title) for name, one in METRICS.items()],
        "metric": metric,
        "title": METRICS[metric].title,
        "workloads": list(enumerate(results.workloads)),
        "workload": workload,
        "chosen": urlencode({"metric": metric, "workload": workload}),
    }
