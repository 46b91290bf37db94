"""Counterfactuals through REST: create, read by page and as CSV, cancel, delete, and errors."""

from typing import Any

import pytest
from rest_framework.test import APIClient

from auctions.engine import decision_queue
from auctions.models import Market
from studies.counterfactuals.computing import compute_next
from tests.auctions.worlds import make_user, submit
from tests.studies.counterfactuals.conftest import URL


def refused(answer: Any) -> dict[str, str]:
    assert answer.status_code == 400, answer.content
    assert answer["Content-Type"].startswith("application/problem+json")
    return {row["field"]: row["message"] for row in answer.json()["errors"]}


def test_it_is_requested_replayed_and_read(api: APIClient, market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = api.post(URL, {"policy": "fifo", "since": 2}, format="json")
    assert answer.status_code == 202, answer.content
    where = answer["Location"]
    waiting = api.get(where).json()
    assert (waiting["state"], waiting["totals"], waiting["since"], waiting["owner"]) == ("queued", None, 2, "olga")
    assert api.get(f"{where}/bids").json() == {"next": None, "results": []}
    assert api.get(f"{where}/bids.csv").status_code == 404
    assert compute_next()
    done = api.get(where).json()
    assert (done["state"], done["decided"], done["changed"], done["earlier_changed"]) == ("completed", 4, 4, 0)
    assert done["note"] == market.cluster.note
    assert (done["totals"]["recorded"]["admitted"], done["totals"]["other"]["admitted"]) == (0, 4)
    monkeypatch.setattr("studies.counterfactuals.api.views.MOST_ROWS", 3)
    first = api.get(f"{where}/bids?changed=true").json()
    rest = api.get(first["next"]).json()
    assert [row["sequence"] for row in first["results"] + rest["results"]] == [2, 3, 4, 5]
    assert rest["next"] is None
    assert first["results"][0]["recorded"]["reason"] == "price"
    lines = api.get(f"{where}/bids.csv", headers={"Accept": "text/csv"}).content.decode().splitlines()
    assert lines[0].startswith("sequence,label,owner,arrival_slot,changed,recorded_admitted")
    assert len(lines) == 1 + 4
    assert lines[1].split(",")[4:6] == ["yes", "no"]
    assert [row["id"] for row in api.get(URL).json()["results"]] == [done["id"]]
    assert api.delete(where).status_code == 204
    assert api.get(where).status_code == 404


def test_one_that_waits_is_cancelled_once(api: APIClient, market: Market) -> None:
    where = api.post(URL, {"policy": "fifo"}, format="json")["Location"]
    assert api.post(f"{where}/cancel").json()["state"] == "cancelled"
    assert api.post(f"{where}/cancel").status_code == 409


def test_the_same_key_and_body_are_one_counterfactual(api: APIClient, market: Market) -> None:
    key, body = {"Idempotency-Key": "one"}, {"policy": "fifo", "since": 2}
    first, again = (api.post(URL, body, format="json", headers=key) for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 202)
    assert first["Location"] == again["Location"]
    assert "Idempotency-Replayed" not in first
    assert again["Idempotency-Replayed"] == "true"
    assert api.post(URL, {"policy": "fifo"}, format="json", headers=key).status_code == 409
    assert compute_next()
    assert not compute_next(), "there was only one"
    done = api.post(URL, body, format="json", headers=key)
    assert (done.status_code, done.json()["state"], done.json()["stage"]) == (200, "completed", "")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("body", "field", "words"),
    [
        ({}, "policy", "missing"),
        ({"policy": "fofi"}, "policy", "expected dps, oasis, "),
        ({"policy": 3}, "policy", "expected dps, oasis, "),
        ({"policy": "oasis"}, "policy", "expected a policy that can run on this market's servers, got oasis"),
        ({"policy": "dps", "parameters": {"price": "free"}}, "parameters.price", "expected one of"),
        ({"policy": "dps", "parameters": {"colour": 1}}, "parameters.colour", "unknown parameter"),
        ({"policy": "dps", "parameters": 3}, "parameters", "expected an object"),
        ({"policy": "dps", "since": 0}, "since", "expected"),
        ({"policy": "fifo", "since": 6}, "since", "expected the number of a bid, got 6; the market has 5 bids"),
    ],
)
def test_what_is_wrong_is_named(api: APIClient, market: Market, body: Any, field: str, words: str) -> None:
    wrong = refused(api.post(URL, body, format="json"))
    assert words in wrong[field]


@pytest.mark.parametrize("query", ["changed=yes", "after=-1", "after=x", "colour=1"])
def test_filters_are_checked(api: APIClient, market: Market, query: str) -> None:
    where = api.post(URL, {"policy": "fifo"}, format="json")["Location"]
    assert query.partition("=")[0] in refused(api.get(f"{where}/bids?{query}"))


def test_alternatives_of_a_bid_are_its_owners_and_operators(api: APIClient, market: Market) -> None:
    where = "/api/v1/clusters/lab/bids/3/alternatives"
    seen = api.get(where).json()
    assert (seen["policy"], seen["truthful"], seen["value"], seen["time_s"]) == ("dps", True, 0.0001, None)
    assert [point["factor"] for point in seen["by_value"]] == [tenth / 10 for tenth in range(31)]
    assert seen["by_time"] == []
    stranger = APIClient()
    stranger.force_authenticate(make_user("charlie"))
    assert stranger.get(where).status_code == 404


def test_times_are_reported_in_seconds_and_a_bid_that_waits_is_refused(api: APIClient, market: Market) -> None:
    owner = make_user("bob")
    submit(market, owner, utility={"form": "step", "value": 40.0, "deadline_s": 450})
    where = "/api/v1/clusters/lab/bids/6/alternatives"
    assert api.get(where).status_code == 409
    decision_queue.process_pending(market.pk)
    seen = api.get(where).json()
    assert seen["time_s"] == 450
    assert seen["by_time"][9]["stated"] == 450
