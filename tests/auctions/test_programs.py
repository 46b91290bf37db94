"""Programs of bids: named only where jobs are run, checked by who runs them, and no matter to any decision."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from auctions.domain import programs
from auctions.engine import decision_queue
from auctions.engine.submission import quote, submit_bid, submit_bids
from auctions.history.audit import audit_market
from auctions.models import Bid, Event, Market
from cluster.models import Cluster
from frontend.forms.submission import BidForm, initial_of
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from tests.auctions.worlds import body, make_cluster, make_market, submit

PROGRAM: Json = {"name": "train", "arguments": ["--seed", "7", ""], "steps": 400}


def train_only(cluster: Cluster, bidder: User | None, program: Json) -> Mapping[str, str]:
    """Run `train` on the cluster lab, for Alice and in quotes for nobody."""
    if cluster.name != "lab":
        return {"": programs.NOT_RUN}
    if bidder is not None and bidder.username != "alice":
        return {"name": f"expected a program of yours, got {program['name']}"}
    return {} if program["name"] == "train" else {"name": f"expected train, got {program['name']}"}


@pytest.fixture
def running(market: Market, monkeypatch: pytest.MonkeyPatch) -> Market:
    """A market whose jobs are run."""
    monkeypatch.setattr(programs, "_checks", [train_only])
    return market


def refused(cluster: Cluster, owner: User, program: Any) -> dict[str, str]:
    """Problems by field of a bid that names this program."""
    with pytest.raises(InvalidField) as error:
        submit_bid(cluster=cluster, owner=owner, body=body(program=program))
    return {one.field: one.problem for one in error.value.all_wrong}


def test_it_is_refused_where_nobody_runs_jobs(market: Market, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_checks", [])
    assert refused(market.cluster, alice, PROGRAM) == {"program": programs.NOT_RUN}
    with pytest.raises(InvalidField) as error:
        quote(market=market, body=body(program=PROGRAM))
    assert error.value.field == "program"
    monkeypatch.setattr(programs, "_checks", [train_only])
    other = make_market(make_cluster("office")).cluster
    assert refused(other, alice, PROGRAM) == {"program": programs.NOT_RUN}
    assert Bid.objects.count() == 0


def test_a_name_that_does_not_exist_is_named_beside_other_wrong_fields(running: Market, alice: User) -> None:
    wrong = refused(running.cluster, alice, {"name": "other", "steps": 0, "continues": "12", "more": 1})
    assert wrong.pop("program.name") == "expected train, got other"
    assert set(wrong) == {"program.steps", "program.continues", "program.more"}
    other = make_market(make_cluster("office")).cluster
    assert set(refused(other, alice, {"name": "train", "steps": 0})) == {"program", "program.steps"}


def test_it_is_stored_as_it_was_sent(running: Market, alice: User) -> None:
    for program in (PROGRAM, {"name": "train"}):
        bid = submit(running, alice, program=program)
        bid.refresh_from_db()
        assert bid.body["program"] == bid.resolved_request["program"] == program
    decision_queue.process_pending(running.pk)
    assert all(finding.passed for finding in audit_market(running))


def test_it_changes_no_decision(running: Market, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_checks", [lambda *_: {}])
    other = make_market(make_cluster("office"))
    bare, named = submit(other, alice), submit(running, alice, program=PROGRAM)
    for market in (other, running):
        decision_queue.process_pending(market.pk)
    for bid in (bare, named):
        bid.refresh_from_db()
    assert named.decision.receipt == bare.decision.receipt
    assert named.core_bid == bare.core_bid
    one, two = (quote(market=running, body=sent).decision for sent in (body(), body(program=PROGRAM)))
    assert one == two


@pytest.mark.parametrize(
    ("program", "field"),
    [
        ("train", "program"),
        ({}, "program.name"),
        ({"name": ""}, "program.name"),
        ({"name": "x" * 61}, "program.name"),
        ({"name": "other"}, "program.name"),
        ({"name": "train", "arguments": "--fast"}, "program.arguments"),
        ({"name": "train", "arguments": ["a"] * 65}, "program.arguments"),
        ({"name": "train", "arguments": ["a", "b" * 1001]}, "program.arguments[1]"),
        ({"name": "train", "arguments": ["a\0b"]}, "program.arguments[0]"),
        ({"name": "train", "arguments": [3]}, "program.arguments[0]"),
        ({"name": "train", "steps": 0}, "program.steps"),
        ({"name": "train", "steps": 10**9 + 1}, "program.steps"),
        ({"name": "train", "steps": 2.5}, "program.steps"),
        ({"name": "train", "shell": True}, "program.shell"),
    ],
)
def test_a_wrong_part_is_named(running: Market, alice: User, program: Any, field: str) -> None:
    events = Event.objects.count()
    assert list(refused(running.cluster, alice, program)) == [field]
    with pytest.raises(InvalidField) as error:
        submit_bids(cluster=running.cluster, owner=alice, bodies=[body(), body(program=program)])
    assert error.value.field == f"bids[1].{field}"
    assert (Bid.objects.count(), Event.objects.count()) == (0, events)


def test_it_depends_on_the_bidder(running: Market, bob: User) -> None:
    assert refused(running.cluster, bob, PROGRAM) == {"program.name": "expected a program of yours, got train"}


def test_another_bidder_does_not_see_it(running: Market, alice: User, bob: User) -> None:
    bid = submit(running, alice, program=PROGRAM)
    decision_queue.process_pending(running.pk)
    clients = {user: APIClient() for user in (alice, bob)}
    found = {}
    for user, client in clients.items():
        client.force_authenticate(user)
        found[user] = [
            client.get(f"/api/v1/clusters/lab/{path}")
            for path in (f"bids/{bid.sequence}", "bids", "summary", "publications", "scheduler-log")
        ]
    assert found[alice][0].json()["body"]["program"] == PROGRAM
    assert found[bob][0].status_code == 404
    assert not any(b"--seed" in answer.content for answer in found[bob])
    with_quote = clients[bob].post("/api/v1/clusters/lab/quotes", body(program=PROGRAM), format="json")
    assert with_quote.json()["errors"][0]["field"] == "program.name"


def test_the_form_keeps_it_for_another_bid(running: Market, alice: User) -> None:
    shown = initial_of(body(program=PROGRAM), running.cluster)
    assert json.loads(shown["more"]) == {"program": PROGRAM}
    page = Client()
    page.force_login(alice)
    sent = {"label": "", "model": "ResNet-50", "epochs": 1, "value": 9, "form": "constant", "architecture": "ps"}
    answer = page.post(reverse("quote", args=["lab"]), {**sent, "more": json.dumps({"program": {"name": "other"}})})
    assert answer.json()["errors"] == {"more": "program.name: expected train, got other"}
    form = BidForm({**sent, "more": shown["more"]}, cluster=running.cluster)
    assert form.is_valid(), form.errors
    assert form.body()["program"] == PROGRAM
