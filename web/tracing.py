"""Traces by OpenTelemetry: a span for each request, each task, and each decision with its steps.

They are on if `OTEL_EXPORTER_OTLP_ENDPOINT` names a receiver; otherwise nothing of OpenTelemetry is imported. A bid is
stored with the context of the request that submitted it, and its decision is a span of the same trace, though a worker
decides many bids of many requests together. So a task's span has a trace of its own, with a link to the request that
woke the worker, and a decision's span has a link to its task.

Spans have ids of requests, markets and bids, and nothing else of a bid or a user.
"""

import atexit
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

from celery.signals import task_postrun, task_prerun, worker_process_shutdown
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponseBase

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.trace import Link, Tracer

KEY: Final = "traceparent"
"""Name of the header that carries a context, in HTTP and in messages to workers."""
PREFIX: Final = "shadowprice."
SERVICE: Final = "shadowprice"
EXPORT_S: Final = 3.0
"""Longest export of a batch of spans, unless the environment says otherwise."""

SERVER_ERROR: Final = 500

Value = str | int | Sequence[int]
Answer = Callable[[HttpRequest], HttpResponseBase]

_guard = Lock()
_provider: "TracerProvider | None" = None
_running_tasks: dict[str, Any] = {}
"""The context managers of the spans of tasks under way, by the task's id."""


@dataclass(frozen=True)
class Step:
    """A part of some work that has ended."""

    name: str
    began_ns: int
    """Begin, nanoseconds of the wall clock."""
    ended_ns: int


def current() -> str:
    """Return the context of the present span for `decided`; empty without one, or if its trace is not recorded."""
    if not settings.TRACES:
        return ""
    from opentelemetry.trace import get_current_span  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    if not get_current_span().get_span_context().trace_flags.sampled:
        return ""
    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(KEY, "")


def note(**ids: Value) -> None:
    """Add ids to the present span, if there is one."""
    if settings.TRACES:
        from opentelemetry.trace import get_current_span  # noqa: PLC0415

        get_current_span().set_attributes(_attributes(ids))


def trace_requests(get_response: Answer) -> Answer:
    """Middleware: a span for each request; an event stream's ends with the beginning of its answer.

    The context of a header is continued if the server has proxies; a client without one could send any.
    """
    from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415

    tracer()  # a package that is missing is found at the start

    def middleware(request: HttpRequest) -> HttpResponseBase:
        parent = _context(request.headers.get(KEY, "")) if settings.PROXIES else None
        with tracer().start_as_current_span(str(request.method), context=parent, kind=SpanKind.SERVER) as span:
            span.set_attribute(f"{PREFIX}request_id", getattr(request, "request_id", ""))
            response = get_response(request)
            match = request.resolver_match
            if match is not None:
                span.update_name(f"{request.method} {match.view_name}")
                span.set_attribute("http.route", match.route)
            span.set_attribute("http.request.method", str(request.method))
            span.set_attribute("http.response.status_code", response.status_code)
            if response.status_code >= SERVER_ERROR:
                span.set_status(Status(StatusCode.ERROR))
        return response

    return middleware


def decided(parent: str, steps: Sequence[Step], **ids: Value) -> None:
    """Add the span of a decision that is committed, with a span for each step, to the trace of its bid.

    Parameters
    ----------
    parent
        What `current` was when the bid was submitted; nothing is added if it is empty.
    steps
        The steps of the decision in order; at least one.
    ids
        Ids of the market, the bid and so on.
    """
    if not parent:
        return
    from opentelemetry.trace import set_span_in_context  # noqa: PLC0415

    begin, end = min(step.began_ns for step in steps), max(step.ended_ns for step in steps)
    span = tracer().start_span(
        "decide", context=_context(parent), start_time=begin, attributes=_attributes(ids), links=_links(current())
    )
    within = set_span_in_context(span)
    for step in steps:
        tracer().start_span(step.name, context=within, start_time=step.began_ns).end(step.ended_ns)
    span.end(end)


def watch_tasks() -> None:
    """Let each task of this process have a span, if traces are on."""
    if settings.TRACES:
        task_prerun.connect(_begin_task, weak=False, dispatch_uid="tracing")
        task_postrun.connect(_end_task, weak=False, dispatch_uid="tracing")
        worker_process_shutdown.connect(end, weak=False, dispatch_uid="tracing")


@contextmanager
def task_span(name: str, task_id: str, woken_by: str) -> Iterator[None]:
    """Let the block be in the span of a task; `woken_by` is `current` of what woke the worker, or empty."""
    from opentelemetry.trace import SpanKind  # noqa: PLC0415

    ids = _attributes({"task_id": task_id})
    with tracer().start_as_current_span(
        f"task {name}", context=_context(""), kind=SpanKind.CONSUMER, attributes=ids, links=_links(woken_by)
    ):
        yield


def use(processor: "SpanProcessor") -> "TracerProvider":
    """Give all further spans of this process to a processor; return what makes tracers for it."""
    global _provider
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    resource = Resource.create({SERVICE_NAME: os.environ.get("OTEL_SERVICE_NAME", SERVICE)})
    _provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    _provider.add_span_processor(processor)
    return _provider


def tracer() -> "Tracer":
    """Return what makes spans; the first call begins to export them to the receiver.

    Raises
    ------
    ImproperlyConfigured
        If the packages are not installed.
    """
    with _guard:
        provider = _provider or _export()
    return provider.get_tracer(SERVICE)


def _export() -> "TracerProvider":
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        raise ImproperlyConfigured(
            "OTEL_EXPORTER_OTLP_ENDPOINT: expected the packages of requirements-traces.txt to be installed,"
            f" got {error}."
        ) from error
    # The exporter reads the receiver's address, headers, certificates and its own limit of time from the environment.
    is_limited = any(name in os.environ for name in ("OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT"))
    limit = None if is_limited else EXPORT_S
    atexit.register(end)
    return use(BatchSpanProcessor(OTLPSpanExporter(timeout=limit)))


def end(**_: object) -> None:
    """Send what waits, for at most `EXPORT_S` each batch; a process that ends otherwise than by itself calls this."""
    if _provider is not None:
        _provider.shutdown()


def _begin_task(task_id: str = "", task: Any = None, **_: object) -> None:
    entered = task_span(getattr(task, "name", ""), task_id, _woken_by(task))
    entered.__enter__()
    _running_tasks[task_id] = entered


def _end_task(task_id: str = "", **_: object) -> None:
    entered = _running_tasks.pop(task_id, None)
    if entered is not None:
        entered.__exit__(None, None, None)


def _woken_by(task: Any) -> str:
    return str((getattr(task.request, "headers", None) or {}).get(KEY, ""))


def _attributes(ids: Mapping[str, Value]) -> dict[str, Value]:
    return {f"{PREFIX}{name}": value for name, value in ids.items()}


def _context(carried: str) -> "Context":
    """Return the context that a header carries; one without a span if it is empty or not valid."""
    from opentelemetry.context import Context  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    return TraceContextTextMapPropagator().extract({KEY: carried}, context=Context())


def _links(carried: str) -> "list[Link]":
    from opentelemetry.trace import Link, get_current_span  # noqa: PLC0415

    found = get_current_span(_context(carried)).get_span_context()
    return [Link(found)] if found.is_valid else []
