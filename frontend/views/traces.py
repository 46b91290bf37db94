"""Traces: the list with the upload form, and the page of one trace with its malformed lines."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from cluster.traces.formats import FORMATS
from frontend.access import action_view, form_view, page_view, viewer_of
from frontend.forms.experiment import TraceForm
from frontend.presenters.listing import listing
from frontend.views.responses import say_done
from studies.experiments import readings
from studies.experiments.traced import FILES
from studies.models import Trace
from studies.workloads.traces import upload

LONGEST_SOURCE = 200


@form_view
def trace_list(request: HttpRequest) -> HttpResponse:
    """List the traces the viewer may see, the newest first; after an upload, redirect to the trace's page."""
    form = TraceForm(request.POST, request.FILES) if request.method == "POST" else TraceForm()
    kept = form.store(lambda: _keep(request, form))
    if kept is not None:
        return redirect("trace", number=kept.pk)
    context = {
        "form": form,
        **listing(request, readings.visible_traces(viewer_of(request))),
        "formats": [one.title for one in FORMATS.values()],
    }
    return render(request, "frontend/traces.html", context, status=422 if form.is_bound else 200)


@page_view
def trace_page(request: HttpRequest, number: int) -> HttpResponse:
    """Show one trace."""
    trace = _own(request, number)
    chosen = [f"{name}={trace.pk}" for name, kinds in FILES.items() if trace.kind in kinds]
    context = {
        "trace": trace,
        "chosen": chosen[0] if chosen else f"workload=trace-{trace.pk}",
        "experiments": trace.experiments.order_by("-pk")[:20],
    }
    return render(request, "frontend/trace.html", context)


@action_view
def delete(request: HttpRequest, number: int) -> HttpResponse:
    """Delete a trace, unless an experiment reads it."""
    trace = _own(request, number)

    def act() -> str:
        upload.delete(trace)
        return f"Trace {number} is deleted."

    return redirect("traces") if say_done(request, act) else redirect("trace", number=number)


def _keep(request: HttpRequest, form: TraceForm) -> Trace:
    """Store the trace of a form; raises InvalidField or TooManyTraces."""
    said = form.cleaned_data
    text, throughputs, label = said["file"], said["throughputs"] or "", said["label"]
    source = (request.FILES.getlist("file")[0].name or "")[:LONGEST_SOURCE]
    trace, new = upload.keep(viewer_of(request), text, label=label, source=source, throughputs=throughputs)
    if not new:
        messages.success(request, "You have this trace already.")
    return trace


def _own(request: HttpRequest, number: int) -> Trace:
    return get_object_or_404(readings.visible_traces(viewer_of(request)), pk=number)
