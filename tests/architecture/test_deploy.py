"""Alert rules and dashboards ask for metrics that exist, by labels that they have, in valid expressions."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import promql_parser
import pytest
import yaml
from django.conf import LazySettings
from django.test import Client
from prometheus_client import Counter
from prometheus_client.parser import text_string_to_metric_families

from auctions.engine import decision_queue
from auctions.runtime import signs
from execution.models import Execution
from tests.auctions.worlds import make_market, make_user, submit
from tests.conftest import missing
from tests.processes import ROOT
from web import metrics

DEPLOY: Final = ROOT / "deploy"
RULES: Final = [
    rule
    for group in yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
PANELS: Final = json.loads((DEPLOY / "grafana/shadowprice.json").read_text())["panels"]
EXPRESSIONS: Final = [rule["expr"] for rule in RULES] + [t["expr"] for panel in PANELS for t in panel["targets"]]
OF_PROMETHEUS: Final = {"up": {"job", "instance"}}
ADDED: Final = {"job", "instance"}
"""Labels that a scrape adds."""


def selectors(node: Any) -> Iterator[Any]:
    """Yield the vector selectors within a parsed expression."""
    match type(node).__name__:
        case "VectorSelector":
            yield node
        case "MatrixSelector":
            yield node.vector_selector
        case "Call":
            for argument in node.args:
                yield from selectors(argument)
        case "BinaryExpr":
            yield from selectors(node.lhs)
            yield from selectors(node.rhs)
        case "AggregateExpr" | "ParenExpr" | "UnaryExpr" | "SubqueryExpr":
            yield from selectors(node.expr)


def grouped(node: Any) -> Iterator[str]:
    """Yield the labels by which a parsed expression groups."""
    match type(node).__name__:
        case "Call":
            for argument in node.args:
                yield from grouped(argument)
        case "BinaryExpr":
            yield from grouped(node.lhs)
            yield from grouped(node.rhs)
        case "AggregateExpr":
            yield from (node.modifier.labels if node.modifier else ())
            yield from grouped(node.expr)
        case "ParenExpr" | "UnaryExpr" | "SubqueryExpr":
            yield from grouped(node.expr)


@pytest.fixture(scope="module")
def exported(kept_rows: None) -> dict[str, set[str]]:
    """The labels of each sample that a server with a broker exports."""
    market = make_market()
    Execution.objects.create(cluster=market.cluster)
    submit(market, make_user("alice"))
    decision_queue.process_pending(market.pk)
    signs.give("worker-1@shadowprice", ["celery"])
    for counter in vars(metrics).values():  # each has samples once something was counted
        if isinstance(counter, Counter):
            metrics.add_one(counter, "an event")
    return {}


@pytest.fixture
def samples(exported: dict[str, set[str]], db: None, settings: LazySettings) -> dict[str, set[str]]:
    """The same, read once."""
    if not exported:
        settings.EMBEDDED, settings.REDIS_URL = False, "redis://127.0.0.1:1/0"
        settings.METRICS_ADDRESSES = ["127.0.0.1"]
        Client().get("/healthz")  # an answer to count
        for family in text_string_to_metric_families(Client().get("/metrics").content.decode()):
            for sample in family.samples:
                exported.setdefault(sample.name, set()).update(sample.labels)
            if family.name == "shadowprice_broker_tasks":  # without samples while no broker answers
                exported.setdefault(family.name, {"queue"})
    return exported


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_an_expression_is_valid_and_asks_for_what_exists(samples: dict[str, set[str]], expression: str) -> None:
    node = promql_parser.parse(expression.replace("$market", "M"))
    known = samples | OF_PROMETHEUS
    found = list(selectors(node))
    assert found
    labels: set[str] = set()
    for one in found:
        assert one.name in known, one.name
        matched = {matcher.name for matcher in one.matchers.matchers}
        assert matched <= known[one.name] | ADDED, one.name
        labels |= known[one.name]
    assert set(grouped(node)) <= labels | ADDED


def test_an_unknown_metric_would_be_found(samples: dict[str, set[str]]) -> None:
    (one,) = selectors(promql_parser.parse("max by (market) (deriv(shadowprice_decision_queue_bidz[5m])) > 0"))
    assert one.name == "shadowprice_decision_queue_bidz"
    assert one.name not in samples
    with pytest.raises(ValueError):
        promql_parser.parse("max by (market) (shadowprice_decision_queue_bids > 0")


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_a_rule_says_whom_it_calls_and_names_only_labels_that_it_keeps(rule: Any) -> None:
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in ("page", "ticket")
    used = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    assert used <= set(grouped(promql_parser.parse(rule["expr"]))) | ({"instance"} if "up{" in rule["expr"] else set())


def test_answers_of_health_checks_are_no_errors_of_the_server(client: Client, db: None) -> None:
    (errors,) = [rule["expr"] for rule in RULES if rule["alert"] == "ShadowpriceServerErrors"]
    probed = {client.get(f"/{name}").resolver_match.view_name for name in ("livez", "healthz", "readyz", "metrics")}
    for one in selectors(promql_parser.parse(errors)):
        if one.name == "up":
            continue
        (left_out,) = [str(matcher.value) for matcher in one.matchers.matchers if matcher.name == "route"]
        assert set(left_out.split("|")) == probed


FAILURES: Final = """
rule_files: [alerts.yml]
evaluation_interval: 15s
tests:
  - name: "one address after another fails for the first time"
    interval: 15s
    input_series:
      - {series: 'up{job="shadowprice",instance="a"}', values: "1x160"}
      - {series: 'shadowprice_http_seconds_count{instance="a",route="bids",status="200"}', values: "0+1x160"}
      - {series: 'shadowprice_http_seconds_count{instance="a",route="1",status="500"}', values: "_x80 1x80"}
      - {series: 'shadowprice_http_seconds_count{instance="a",route="2",status="500"}', values: "_x90 1x70"}
      - {series: 'shadowprice_http_seconds_count{instance="a",route="3",status="500"}', values: "_x99 1x61"}
    alert_rule_test:
      - {eval_time: 19m, alertname: ShadowpriceServerErrors}
      - eval_time: 26m
        alertname: ShadowpriceServerErrors
        exp_alerts:
          - exp_labels: {severity: ticket}
            exp_annotations: {summary: "10% of the answers are the server's failures."}
  - name: "a server with old failures was away"
    interval: 15s
    input_series:
      - {series: 'up{job="shadowprice",instance="a"}', values: "1x60 0x40 1x60"}
      - series: 'shadowprice_http_seconds_count{instance="a",route="bids",status="200"}'
        values: "0+1x60 _x40 60+1x60"
      - series: 'shadowprice_http_seconds_count{instance="a",route="1",status="500"}'
        values: "7x60 _x40 7x60"
    alert_rule_test:
      - {eval_time: 31m, alertname: ShadowpriceServerErrors}
      - {eval_time: 36m, alertname: ShadowpriceServerErrors}
"""


def test_the_first_failures_of_addresses_raise_the_alert_and_old_ones_do_not(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        missing("Prometheus", install="apt-get install prometheus")
    shutil.copy(DEPLOY / "prometheus/alerts.yml", tmp_path)
    (tmp_path / "failures.yml").write_text(FAILURES)
    done = subprocess.run(["promtool", "test", "rules", tmp_path / "failures.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def families(samples: dict[str, set[str]]) -> set[str]:
    """Names of metrics as people write them: a histogram has one."""
    found = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in samples}
    return {name for name in found if not name.endswith("_created")}


def test_the_document_names_every_metric_and_no_other(samples: dict[str, set[str]]) -> None:
    text = (ROOT / "docs/operators/monitoring.md").read_text()
    table = text.partition("| metric `shadowprice_...` |")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(f"shadowprice_{name}" for name in named) == sorted(families(samples))


def test_every_metric_is_on_the_dashboard_or_in_a_rule(samples: dict[str, set[str]]) -> None:
    text = " ".join(EXPRESSIONS)
    unused = {name for name in families(samples) if name not in text}
    assert unused == {f"shadowprice_bids_{name}" for name in ("submitted", "admitted", "rejected", "standing")}


def test_panels_have_places_that_do_not_overlap() -> None:
    cells = [
        (x, y)
        for panel in PANELS
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)


def test_the_scrape_is_of_the_address_that_the_server_has() -> None:
    scrape = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"][0]
    assert scrape["metrics_path"] == "/metrics"
    assert scrape["job_name"] == "shadowprice"
    assert scrape["authorization"]["type"] == "Bearer"
