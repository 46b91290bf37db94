"""Traces: a bid's decision is in the trace of the request that submitted it, and spans have ids alone."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from celery import current_app
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.test import Client
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from accounts.tokens import NewToken, issue
from auctions import tasks
from auctions.engine import decision_queue
from auctions.models import Bid, Market
from tests.auctions.worlds import body
from tests.faults import crowd
from tests.faults.installation import start_web
from tests.processes import ROOT, free_port, make_tables, python_env, wait_until
from web import logs, tracing

STEPS = ["claim", "book", "price", "write", "commit"]


@pytest.fixture
def exporter(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Traces are on; spans stay in memory."""
    settings.TRACES = True
    settings.MIDDLEWARE = ["web.logs.name_requests", "web.tracing.trace_requests", *settings.MIDDLEWARE[1:]]
    monkeypatch.setattr(tracing, "_provider", None)
    found = InMemorySpanExporter()
    tracing.use(SimpleSpanProcessor(found))
    return found


def ids(span: ReadableSpan) -> dict[str, Any]:
    """The attributes of this project."""
    return {
        name.removeprefix(tracing.PREFIX): value
        for name, value in dict(span.attributes or {}).items()
        if name.startswith(tracing.PREFIX)
    }


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.trace_id)


def span_id_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return int(span.parent.span_id)


def submit(market: Market, *, bids: int = 1) -> Any:
    """Bids in one request; its answer."""
    user, _ = User.objects.get_or_create(username="alice")
    headers = {"Authorization": f"Token {issue(user, NewToken('test')).text}"}
    url, bodies = f"/api/v1/clusters/{market.cluster.name}/bids", [body(40.0) for _ in range(bids)]
    if bids > 1:
        return Client().post(f"{url}/bulk", {"bids": bodies}, content_type="application/json", headers=headers)
    return Client().post(url, bodies[0], content_type="application/json", headers=headers)


def test_a_decision_is_in_the_trace_of_its_request(market: Market, exporter: InMemorySpanExporter) -> None:
    answer = submit(market)
    assert answer.status_code == 202
    decision_queue.process_pending(market.pk)
    request, *steps, decide = exporter.get_finished_spans()
    assert (request.name, request.parent) == ("POST api-bids", None)
    assert ids(request) == {"request_id": answer.headers[logs.HEADER], "market": "lab", "bid": (1,)}
    assert dict(request.attributes or {})["http.response.status_code"] == 202
    assert (decide.name, trace_of(decide)) == ("decide", trace_of(request))
    assert parent_of(decide) == span_id_of(request)
    assert ids(decide) == {"market": "lab", "bid": 1, "state": Bid.objects.get().state}
    assert [step.name for step in steps] == STEPS
    assert {parent_of(step) for step in steps} == {span_id_of(decide)}
    times = [(span.start_time, span.end_time) for span in steps]
    assert all(begin is not None and end is not None and begin <= end for begin, end in times)
    assert (decide.start_time, decide.end_time) == (times[0][0], times[-1][1])


def test_each_bid_of_a_batch_is_in_the_trace_of_its_own_request(market: Market, exporter: InMemorySpanExporter) -> None:
    submit(market, bids=3)
    submit(market)
    assert decision_queue.process_pending(market.pk) == 4
    spans = exporter.get_finished_spans()
    many, one = (span for span in spans if span.name.startswith("POST "))
    decided = {ids(span)["bid"]: trace_of(span) for span in spans if span.name == "decide"}
    assert decided == dict.fromkeys((1, 2, 3), trace_of(many)) | {4: trace_of(one)}
    assert ids(many)["bid"] == (1, 2, 3)


def test_a_bid_that_no_trace_records_has_no_span(
    market: Market, exporter: InMemorySpanExporter, settings: LazySettings
) -> None:
    settings.TRACES = False
    submit(market)
    settings.TRACES = True
    exporter.clear()
    decision_queue.process_pending(market.pk)
    assert exporter.get_finished_spans() == ()


def test_a_task_has_a_trace_of_its_own_that_is_linked_with_what_woke_it(
    market: Market, exporter: InMemorySpanExporter
) -> None:
    current_app.loader.import_default_modules()
    tracing.watch_tasks()
    submit(market)
    bid = Bid.objects.get()
    tasks.decide_market.apply(args=(market.pk,), headers={tracing.KEY: bid.trace_context})
    (request,) = (span for span in exporter.get_finished_spans() if span.name == "POST api-bids")
    (task,) = (span for span in exporter.get_finished_spans() if span.name == "task auctions.tasks.decide_market")
    (decide,) = (span for span in exporter.get_finished_spans() if span.name == "decide")
    assert task.parent is None
    assert [link.context.span_id for link in task.links] == [span_id_of(request)]
    assert [link.context.span_id for link in decide.links] == [span_id_of(task)]
    assert trace_of(decide) == trace_of(request) != trace_of(task)


@pytest.mark.parametrize("proxies", [[], ["127.0.0.1"]])
def test_only_a_trusted_proxy_may_name_a_trace(
    db: None, exporter: InMemorySpanExporter, settings: LazySettings, proxies: list[str]
) -> None:
    settings.PROXIES = proxies
    Client().get("/livez", headers={tracing.KEY: f"00-{'a' * 32}-{'b' * 16}-01"})
    (span,) = exporter.get_finished_spans()
    assert (trace_of(span) == int("a" * 32, 16)) is bool(proxies)


NOTHING = """
import sys
sys.modules["opentelemetry"] = None  # to import any part of it is an error; the client of Redis tries, and goes on
import django; django.setup()
from celery import current_app; current_app.loader.import_default_modules()
import config.asgi, config.urls, web.tracing
web.tracing.note(bid=1)
assert web.tracing.current() == ""
"""


@pytest.mark.slow
def test_no_package_is_needed_unless_a_receiver_is_named(tmp_path: Path) -> None:
    env = python_env(tmp_path, DJANGO_SETTINGS_MODULE="config.settings")
    done = subprocess.run([sys.executable, "-c", NOTHING], env=env, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_missing_packages_are_named_at_the_start(tmp_path: Path) -> None:
    receiver = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}
    env = python_env(tmp_path, DJANGO_SETTINGS_MODULE="config.settings", **receiver)
    code = "import sys; sys.modules['opentelemetry.sdk'] = None; import config.asgi"
    done = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0
    assert "expected the packages of requirements-traces.txt" in done.stderr


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[Any]]]:
    """The address of a receiver of OTLP over HTTP, and the spans that it was sent with the key that it expects."""
    spans: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            assert (self.path, self.headers["api-key"]) == ("/v1/traces", "of the receiver")
            for resource in ExportTraceServiceRequest.FromString(content).resource_spans:
                for scope in resource.scope_spans:
                    spans.extend(scope.spans)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", spans
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.slow
def test_a_server_sends_the_trace_of_a_bid_from_both_of_its_processes(
    tmp_path: Path, shared: Path, receiver: tuple[str, list[Any]]
) -> None:
    address, spans = receiver
    key = tmp_path / "otlp-headers"
    key.write_text("api-key=of the receiver\n")
    env = python_env(
        tmp_path,
        OTEL_EXPORTER_OTLP_ENDPOINT=address,
        OTEL_EXPORTER_OTLP_HEADERS_FILE=str(key),
        DJANGO_SETTINGS_MODULE="tests.settings",
    )
    make_tables(env, shared=shared)
    token, port = crowd.call("prepare", "dps", env=env)[0], free_port()
    web = start_web(port, env, tmp_path / "web.log")
    try:
        url = f"http://127.0.0.1:{port}/api/v1/clusters/{crowd.CLUSTER}/bids"
        headers = {"Authorization": f"Token {token}", "Prefer": "wait=60"}
        answer = requests.post(url, json=crowd.body_of(0, 1), headers=headers, timeout=90)
        assert answer.status_code == 201, answer.text
    finally:
        web.end()  # what waits is sent then
    wait_until(lambda: any(span.name == "decide" for span in spans), what="the spans of the worker", seconds=20)
    (request,) = (span for span in spans if span.name == "POST api-bids")
    (decide,) = (span for span in spans if span.name == "decide")
    assert (decide.trace_id, decide.parent_span_id) == (request.trace_id, request.span_id)
    assert [span.name for span in spans if span.parent_span_id == decide.span_id] == STEPS
    found = {pair.key: pair.value.string_value or pair.value.int_value for pair in decide.attributes}
    assert found[f"{tracing.PREFIX}market"] == crowd.CLUSTER
    assert found[f"{tracing.PREFIX}bid"] == 1
    woken = [span for span in spans if span.name == "task auctions.tasks.decide_market"]
    assert request.span_id in {link.span_id for span in woken for link in span.links}
