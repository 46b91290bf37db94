"""Servers by REST: for operators, said twice without harm, and every wrong field named."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from auctions.engine import decision_queue
from auctions.models import Bid, BidState, Event, Market
from tests.auctions.worlds import make_operator, set_time, submit

SERVERS = "/api/v1/clusters/lab/servers"


@pytest.fixture
def operator(client_of: Callable[[User], APIClient]) -> APIClient:
    """Olga's client."""
    return client_of(make_operator("olga"))


def test_an_operator_reads_who_holds_what_until_when(market: Market, alice: User, operator: APIClient) -> None:
    submit(market, alice, label="mine", epochs=5)
    decision_queue.process_pending(market.pk)
    bid = Bid.objects.get()
    rows = operator.get(SERVERS).json()["results"]
    assert [row["name"] for row in rows] == ["edge-0", "edge-1", "cloud"]
    (busy,) = [row for row in rows if row["jobs"]]
    assert busy["state"] == "in_service"
    assert busy["free_from_slot"] == bid.completion_slot
    held = busy["held"][0]
    assert (held["sequence"], held["owner"], held["label"]) == (1, "alice", "mine")
    assert (held["start_slot"], held["end_slot"]) == (bid.start_slot, bid.completion_slot)
    assert operator.get(f"{SERVERS}/{busy['name']}").json() == busy


def test_a_server_is_drained_lost_and_returned(market: Market, operator: APIClient) -> None:
    drained = operator.post(f"{SERVERS}/edge-0/drain", {"deadline_slot": 6, "reason": "new rack"}, format="json")
    assert drained.status_code == 200
    answered = drained.json()
    assert (answered["state"], answered["from_slot"], answered["deadline_slot"]) == ("draining", 0, 6)
    assert (answered["reason"], answered["reported_by"]) == ("new rack", "olga")
    assert operator.post(f"{SERVERS}/edge-0/lost", {}, format="json").json()["state"] == "lost"
    events = Event.objects.count()
    assert operator.post(f"{SERVERS}/edge-0/lost", {}, format="json").status_code == 200
    assert Event.objects.count() == events
    refused = operator.post(f"{SERVERS}/edge-0/drain", {}, format="json")
    assert refused.status_code == 409
    assert "return it to service first" in refused.json()["detail"]
    window = operator.get("/api/v1/clusters/lab/utilisation?from_slot=0&to_slot=2").json()
    assert window["closed"] == [[True, False, False]] * 2
    assert window["capacity"][0] == [4, 4], "what it has, though nobody gets it"
    assert operator.post(f"{SERVERS}/edge-0/restore", {}, format="json").json()["state"] == "in_service"


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        ({"from_slot": -2}, "from_slot"),
        ({"from_slot": 99}, "from_slot"),
        ({"from_slot": 3, "deadline_slot": 2}, "deadline_slot"),
        ({"from_slot": 99, "deadline_slot": 98}, "from_slot deadline_slot"),
        ({"from_slot": "3"}, "from_slot"),
        ({"reason": "x" * 201}, "reason"),
        ({"reason": "two\u202elines"}, "reason"),
        ({"until": 3}, "until"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_stored(
    market: Market, operator: APIClient, sent: dict[str, object], field: str
) -> None:
    before = Event.objects.count()
    answer = operator.post(f"{SERVERS}/edge-0/drain", sent, format="json")
    assert answer.status_code == 400
    assert [row["field"] for row in answer.json()["errors"]] == field.split()
    assert Event.objects.count() == before


def test_a_server_that_is_none_is_404(market: Market, operator: APIClient) -> None:
    assert operator.get(f"{SERVERS}/mars").status_code == 404
    assert operator.post(f"{SERVERS}/mars/lost", {}, format="json").status_code == 404


def test_an_operator_fails_a_job_and_its_owner_reads_why(
    market: Market, alice: User, operator: APIClient, client_of: Callable[[User], APIClient]
) -> None:
    submit(market, alice, epochs=5)
    decision_queue.process_pending(market.pk)
    set_time(market, 150)
    address = "/api/v1/clusters/lab/bids/1"
    for body, field in (({}, "reason"), ({"reason": ""}, "reason"), ({"reason": "x", "refund": "half"}, "refund")):
        assert operator.post(f"{address}/fail", body, format="json").json()["errors"][0]["field"] == field
    answered = operator.post(
        f"{address}/fail", {"reason": "its data was damaged", "refund": "full"}, format="json"
    ).json()
    assert answered["state"] == BidState.FAILED
    assert answered["refund"] == answered["payment"] > 0
    assert client_of(alice).get(address).json()["end_reason"] == "its data was damaged"
    assert operator.post(f"{address}/fail", {"reason": "again"}, format="json").status_code == 409
    summary = operator.get("/api/v1/clusters/lab/summary").json()
    assert summary["revenue"] == 0


def test_a_drain_under_way_gets_other_slots_and_keeps_its_reason_if_only_that_differs(
    market: Market, operator: APIClient
) -> None:
    def drained(**body: Any) -> tuple[str, int, int | None, str]:
        answer = operator.post(f"{SERVERS}/edge-0/drain", body, format="json")
        assert answer.status_code == 200, answer.content
        server = answer.json()
        return server["state"], server["from_slot"], server["deadline_slot"], server["reason"]

    assert drained(reason="new rack") == ("draining", 0, None, "new rack")
    assert drained(reason="new disk") == ("draining", 0, None, "new rack")
    assert drained(from_slot=2, deadline_slot=5, reason="new disk") == ("draining", 2, 5, "new disk")
