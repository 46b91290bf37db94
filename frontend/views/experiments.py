"""Experiments: the list, the form, and the page of one with its progress, its table and its chart."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.db.models import Exists, OuterRef
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from auctions.domain.errors import AuctionError
from frontend.access import action_view, form_view, page_view, viewer_of
from frontend.figures import experiments as figures
from frontend.figures.base import Table
from frontend.forms.experiment import READY_MADE, ExperimentForm
from frontend.presenters.experiments import blocks, view_of
from frontend.presenters.listing import listing
from frontend.views.responses import (
    csv_response,
    figure_response,
    part_response,
    say_done,
    unless_tagged,
    version_response,
)
from studies.background.models import OPEN
from studies.experiments import readings, requests, tables
from studies.experiments.metrics import METRICS
from studies.experiments.request import ExperimentRequest
from studies.experiments.traced import FILES
from studies.models import Experiment, Run

STATES = {"open": "under way", "ended": "ended"}


@page_view
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


@form_view
def new_experiment(request: HttpRequest) -> HttpResponse:
    """The form; an experiment that was stored leads to its page."""
    viewer = viewer_of(request)
    traces = readings.visible_traces(viewer)
    asked = request.POST if request.method == "POST" else None
    form = ExperimentForm(
        asked, traces=traces, viewer=viewer, initial={name: request.GET.get(name, "") for name in ("workload", *FILES)}
    )
    made = form.store(lambda: requests.create(viewer, ExperimentRequest.from_json(form.body(), traces)))
    if made is not None:
        return redirect("experiment", number=made.pk)
    return render(request, "frontend/experiment_new.html", {"form": form}, status=422 if form.is_bound else 200)


@action_view
def ready_made(request: HttpRequest) -> HttpResponse:
    """Create the experiment that an empty page offers."""
    viewer = viewer_of(request)
    try:
        checked = ExperimentRequest.from_json(READY_MADE, readings.visible_traces(viewer))
        return redirect("experiment", number=requests.create(viewer, checked).pk)
    except AuctionError as error:
        messages.error(request, str(error))
        return redirect("experiments")


@page_view
def experiment_page(request: HttpRequest, number: int) -> HttpResponse:
    """One experiment."""
    return render(request, "frontend/experiment.html", _context(request, _own(request, number)))


@page_view
def part(request: HttpRequest, number: int) -> HttpResponse:
    """Return the changing part of an experiment's page, for pages that are open."""
    found = _own(request, number)
    return part_response(request, _version(found), "frontend/_experiment.html", lambda: _context(request, found))


@page_view
def version(request: HttpRequest, number: int) -> HttpResponse:
    """Says whether anything changed, for pages that ask."""
    return version_response(request, _version(_own(request, number)))


@page_view
def chart(request: HttpRequest, number: int) -> HttpResponse:
    """The metric of the address, policies side by side."""
    found = _own(request, number)
    metric, workload = _chosen(request, found)

    def build() -> HttpResponse:
        view = view_of(readings.results_of(found), metric, workload)
        return figure_response(figures.figure(view, key=f"experiment {metric} {workload}"))

    return unless_tagged(request, _version(found), build)


@page_view
def chart_csv(request: HttpRequest, number: int) -> HttpResponse:
    """The numbers of the chart."""
    found = _own(request, number)
    metric, workload = _chosen(request, found)
    view = view_of(readings.results_of(found), metric, workload)
    return csv_response(figures.table(view), f"experiment-{found.pk}-{metric}.csv")


TABLES = {"results": tables.result_rows, "runs": tables.run_rows}


@page_view
def table(request: HttpRequest, number: int, name: str) -> HttpResponse:
    """Means over seeds, or every run, as CSV."""
    found = _own(request, number)
    if name not in TABLES:
        raise Http404
    rows = TABLES[name](readings.results_of(found))
    return csv_response(Table.of(rows), f"experiment-{found.pk}-{name}.csv")


@action_view
def cancel(request: HttpRequest, number: int) -> HttpResponse:
    """Cancel it; completed runs stay."""

    found = _own(request, number)

    def act() -> str:
        count = requests.cancel(found)
        return f"{count} run{'s' if count > 1 else ''} cancelled."

    say_done(request, act)
    return redirect("experiment", number=number)


@action_view
def rerun(request: HttpRequest, number: int) -> HttpResponse:
    """Run the experiment again, to compare the outcomes."""
    found = _own(request, number)
    try:
        found = requests.rerun(viewer_of(request), found)
    except AuctionError as error:
        messages.error(request, str(error))
    return redirect("experiment", number=found.pk)


@action_view
def delete(request: HttpRequest, number: int) -> HttpResponse:
    """Delete it with its runs."""
    requests.delete(_own(request, number))
    messages.success(request, f"Experiment {number} is deleted.")
    return redirect("experiments")


def _own(request: HttpRequest, number: int) -> Experiment:
    return get_object_or_404(readings.visible_experiments(viewer_of(request)), pk=number)


def _chosen(request: HttpRequest, experiment: Experiment) -> tuple[str, int]:
    """Metric and workload of the address; 404 for what is not there."""
    metric, workload = request.GET.get("metric") or "welfare", request.GET.get("workload") or "0"
    most = len(experiment.matrix["workloads"])
    if metric not in METRICS or not (workload.isascii() and workload.isdigit() and int(workload[:9]) < most):
        raise Http404
    return metric, int(workload)


def _version(experiment: Experiment) -> tuple[object, ...]:
    """Return what changes whenever the page of the experiment changes."""
    other = () if experiment.rerun_of is None else readings.tag_of(experiment.rerun_of)
    return readings.tag_of(experiment), readings.place_of(experiment), other


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
        "standing": readings.bids_stand(found),
        "metrics": [(name, one.title) for name, one in METRICS.items()],
        "metric": metric,
        "title": METRICS[metric].title,
        "workloads": list(enumerate(results.workloads)),
        "workload": workload,
        "chosen": urlencode({"metric": metric, "workload": workload}),
    }
