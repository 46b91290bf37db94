"""Traces: the list with the upload form, and the page of one trace with its malformed lines."""

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from auctions.domain.errors import AuctionError
from cluster.traces.formats import FORMATS
from frontend.access import viewer_of
from frontend.forms.experiment import TraceForm
from frontend.presenters.listing import listing
from scheduling.model.errors import InvalidField
from studies.experiments import readings
from studies.experiments.traced import FILES
from studies.models import Trace
from studies.workloads.traces import upload

LONGEST_SOURCE = 200


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def trace_list(request: HttpRequest) -> HttpResponse:
    """List the traces the viewer may see, the newest first; after an upload, redirect to the trace's page."""
    form = TraceForm(request.POST, request.FILES) if request.method == "POST" else TraceForm()
    if form.is_bound and form.is_valid():
        try:
            return redirect("trace", number=_keep(request, form).pk)
        except InvalidField as error:
            form.add_error("file" if error.field in ("file", "text") else "throughputs", error.problem)
        except AuctionError as error:
            form.add_error(None, str(error))
    context = {
        "form": form,
        **listing(request, readings.visible_traces(viewer_of(request))),
        "formats": [one.title for one in FORMATS.values()],
    }
    return render(request, "frontend/traces.html", context, status=422 if form.is_bound else 200)


@login_required
@require_safe
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


@login_required
@require_POST
def delete(request: HttpRequest, number: int) -> HttpResponse:
    """Delete a trace, unless an experiment reads it."""
    trace = _own(request, number)
    try:
        upload.delete(trace)
    except AuctionError as error:
        messages.error(request, str(error))
        return redirect("trace", number=number)
    messages.success(request, f"Trace {number} is deleted.")
    return redirect("traces")


def _keep(request: HttpRequest, form: TraceForm) -> Trace:
    """Store the trace of a form; raises InvalidField or TooManyTraces."""
    file, table = form.cleaned_data["file"], form.cleaned_data["throughputs"]
    text = _text("file", file)
    throughputs = _text("throughputs", table) if table else ""
    source, label = (file.name or "")[:LONGEST_SOURCE], form.cleaned_data["label"]
    trace, new = upload.keep(viewer_of(request), text, label=label, source=source, throughputs=throughputs)
    if not new:
        messages.success(request, "You have this trace already.")
    return trace


def _text(field: str, file: "UploadedFile[bytes]") -> str:
    """Return the text of an uploaded file; raises InvalidField."""
    if file.size is None or file.size > settings.PLAN_BODY_LIMIT_BYTES:
        raise InvalidField(field, f"expected at most {settings.PLAN_BODY_LIMIT_BYTES:,} bytes")
    raw = bytes(file.read())
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidField(field, f"not UTF-8 in line {1 + raw.count(10, 0, error.start)}") from None
    if "\0" in text:
        line = 1 + text.count("\n", 0, text.index("\0"))
        raise InvalidField(field, f"it holds a character that cannot be stored in line {line}")
    return text


def _own(request: HttpRequest, number: int) -> Trace:
    return get_object_or_404(readings.visible_traces(viewer_of(request)), pk=number)
