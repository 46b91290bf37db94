"""Ids in logs: they join a request to its bid, and the bid to the task that decides it."""

import io
import json
import logging
import logging.config
from collections.abc import Iterator
from copy import deepcopy
from typing import Any
from urllib.parse import quote

import pytest
from django.conf import LazySettings
from django.conf import settings as project
from django.contrib.auth.models import User
from django.test import Client

from auctions import tasks
from auctions.engine import decision_queue
from auctions.models import Market
from tests.auctions.worlds import body, make_market, make_user
from web import logs


@pytest.fixture
def lines(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What is logged from INFO on, in the form that the test names."""
    kept: dict[str, Any] = project.LOGGING
    form = getattr(request, "param", "json")
    made: Any = logging.config.DictConfigurator({"formatters": {form: deepcopy(kept["formatters"][form])}})
    handler = logging.StreamHandler(io.StringIO())
    handler.setFormatter(made.configure_formatter(made.config["formatters"][form]))
    handler.addFilter(logs.Ids())
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield handler.stream
    root.removeHandler(handler)
    root.setLevel(level)
    logs.begin()


def rows(lines: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines.getvalue().splitlines()]


@pytest.fixture
def market(db: None) -> Market:
    return make_market()


@pytest.fixture
def alice(db: None) -> User:
    return make_user("alice")


def submit(alice: User, **headers: str) -> Any:
    client = Client()
    client.force_login(alice)
    return client.post("/api/v1/clusters/lab/bids", body(), content_type="application/json", headers=headers)


def test_a_request_is_joined_to_its_bid_and_the_bid_to_its_decision(
    market: Market, alice: User, lines: io.StringIO
) -> None:
    answer = submit(alice)
    stored = next(row for row in rows(lines) if row["logger"] == "auctions.engine.intake")
    answered = next(row for row in rows(lines) if row["logger"] == "shadowprice.requests")
    assert stored["request_id"] == answered["request_id"] == answer.headers[logs.HEADER]
    assert (stored["market"], stored["bid"], stored["level"]) == ("lab", 1, "INFO")
    assert (answered["method"], answered["path"], answered["status"]) == ("POST", "/api/v1/clusters/lab/bids", 202)
    tasks.limit_task(task_id="7f", task=tasks.decide_market)
    decision_queue.process_pending(market.pk)
    decided = next(row for row in rows(lines) if row["logger"] == "auctions.engine.decision_queue")
    assert (decided["market"], decided["bid"], decided["task"], decided["task_id"]) == (
        "lab",
        1,
        "auctions.tasks.decide_market",
        "7f",
    )
    assert decided["state"] in ("planned", "running", "rejected")
    assert "request_id" not in decided


@pytest.mark.parametrize("lines", ["line"], indirect=True)
def test_lines_for_people_end_with_the_ids(lines: io.StringIO) -> None:
    with logs.named(market="lab", bid=3):
        logging.getLogger("here").warning("something")
    logging.getLogger("here").warning("something else")
    first, second = lines.getvalue().splitlines()
    assert first.endswith("WARNING here something market=lab bid=3")
    assert second.endswith("WARNING here something else")


@pytest.mark.parametrize("lines", ["line"], indirect=True)
def test_a_client_forges_no_line(db: None, lines: io.StringIO) -> None:
    forged = "2026-11-26 00:00:00,000 CRITICAL here"
    Client().get(quote(f"/nothing\n{forged}\r{forged}\x85{forged}\u2028{forged}\x1b[2K\u202e end é"))
    logging.getLogger("here").warning("two\nlines")
    try:
        raise ValueError(f"no\n{forged}")
    except ValueError:
        logging.getLogger("here").exception("it failed")
    written = lines.getvalue()
    assert f"GET /nothing\n  {forged}\\r{forged}\\x85{forged}\\u2028{forged}\\x1b[2K\\u202e end é" in written
    assert [line for line in written.splitlines() if line.startswith(forged)] == []
    assert {one for one in written if not one.isprintable()} == {"\n"}
    assert "WARNING here two\n  lines\n" in written
    assert f"\n  ValueError: no\n  {forged}\n" in written


def test_an_error_keeps_its_traceback_and_its_ids(lines: io.StringIO) -> None:
    with logs.named(market="lab"):
        try:
            raise ValueError("no")
        except ValueError:
            logging.getLogger("here").exception("it failed")
    (row,) = rows(lines)
    assert (row["message"], row["market"]) == ("it failed", "lab")
    assert row["exc_info"].endswith("ValueError: no")


@pytest.mark.parametrize(
    ("proxies", "given", "is_taken"),
    [
        ([], "a-proxy-gave-it", False),
        (["127.0.0.1"], "a-proxy-gave-it", True),
        (["127.0.0.1"], "forged\nline", False),
        (["127.0.0.1"], "short", False),
        (["127.0.0.1"], "x" * 65, False),
    ],
)
def test_an_id_is_taken_from_proxies_in_a_form_that_cannot_forge_lines(
    db: None, settings: LazySettings, proxies: list[str], given: str, is_taken: bool
) -> None:
    settings.PROXIES = proxies
    answer = Client().get("/livez", headers={logs.HEADER: given})
    assert (answer.headers[logs.HEADER] == given) is is_taken
    assert answer.headers[logs.HEADER]


def test_ids_end_with_their_block_and_with_the_next_task(lines: io.StringIO) -> None:
    logs.begin(task_id="first")
    with logs.named(bid=1):
        pass
    logging.getLogger("here").info("one")
    logs.begin(task_id="second")
    logging.getLogger("here").info("two")
    assert [(row["task_id"], "bid" in row) for row in rows(lines)] == [("first", False), ("second", False)]


@pytest.mark.parametrize(
    ("path", "kind"), [("/livez", "text/html"), ("/markets/", "text/html"), ("/api/v1/clusters", "application/problem")]
)
def test_a_request_for_an_unknown_host_is_refused_with_the_setting_that_names_hosts(
    path: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = Client().get(path, headers={"Host": "market.example"})
    assert (answer.status_code, answer["Content-Type"].startswith(kind)) == (400, True)
    assert "SHADOWPRICE_HOSTS" in answer.content.decode()
    (record,) = caplog.records
    assert logs.RefusedBriefly().filter(record)
    assert (record.levelname, record.exc_info) == ("WARNING", None)
    assert "ALLOWED_HOSTS" not in record.getMessage()
    assert "market.example" in record.getMessage()


def test_other_records_keep_their_traceback() -> None:
    error = ValueError("wrong")
    record = logging.LogRecord("django.request", logging.ERROR, __file__, 1, "%s", ("x",), (ValueError, error, None))
    assert logs.RefusedBriefly().filter(record)
    assert (record.levelname, record.exc_info) == ("ERROR", (ValueError, error, None))
