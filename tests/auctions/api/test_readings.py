import re
from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from auctions.engine import decision_queue
from auctions.models import Bid, Market
from tests.auctions.api.conftest import BASE
from tests.auctions.worlds import body, set_time, submit

PROBLEM = "application/problem+json"


@pytest.mark.parametrize("what", ["prices", "utilisation", "welfare", "summary"])
def test_a_reading_is_not_sent_again_until_something_moved(
    api: APIClient, market: Market, alice: User, what: str
) -> None:
    first = api.get(f"{BASE}/{what}")
    again = api.get(f"{BASE}/{what}", headers={"If-None-Match": first["ETag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")
    submit(market, alice)
    decision_queue.process_pending(market.pk)
    assert api.get(f"{BASE}/{what}", headers={"If-None-Match": first["ETag"]}).status_code == 200


def test_a_window_is_cut_to_slots_and_server(api: APIClient) -> None:
    answered = api.get(f"{BASE}/prices?from_slot=2&to_slot=5&server=cloud").json()
    assert (answered["from_slot"], answered["to_slot"], answered["servers"]) == (2, 5, ["cloud"])
    assert [len(answered["prices"]), len(answered["prices"][0]), len(answered["prices"][0][0])] == [3, 1, 2]


@pytest.mark.parametrize(
    "wrong",
    ["from_slot=x", "to_slot=99999999999", "server=mars", "serve=cloud", "from_slot=", "from_slot=1&from_slot=2"],
)
def test_a_wrong_window_is_named(api: APIClient, wrong: str) -> None:
    for what in ("prices", "utilisation"):
        answer = api.get(f"{BASE}/{what}?{wrong}")
        assert answer.status_code == 400
        assert answer.json()["errors"][0]["field"] == wrong.split("=", maxsplit=1)[0]


def test_all_that_is_wrong_with_a_window_is_named_at_once(api: APIClient) -> None:
    for query, fields in (
        ("from_slot=x&to_slot=1.5&serve=cloud", {"from_slot", "to_slot", "serve"}),
        ("server=mars&from_slot=3&to_slot=2", {"server", "to_slot"}),
    ):
        assert {row["field"] for row in api.get(f"{BASE}/prices?{query}").json()["errors"]} == fields


def test_no_answer_is_larger_than_its_bound(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("auctions.api.views.MOST_NUMBERS", 12)
    answered = api.get(f"{BASE}/prices").json()
    assert (len(answered["prices"]), answered["truncated"]) == (2, True)
    assert api.get(f"{BASE}/prices?from_slot=0&to_slot=9").status_code == 400


@pytest.mark.thorough
def test_a_password_brings_a_token_that_works(market: Market) -> None:
    User.objects.create_user("bob", password="correct horse")
    ask = APIClient()
    login = {"username": "bob", "password": "correct horse"}
    token = ask.post("/api/v1/token", login, format="json").json()["token"]
    assert ask.get("/api/v1/clusters", headers={"Authorization": f"Token {token}"}).status_code == 200
    for wrong in ({**login, "password": "x"}, {"username": "bob"}, {**login, "password": 3}):
        assert ask.post("/api/v1/token", wrong, format="json").status_code == 400


@pytest.mark.parametrize(
    "path", ["/api/v1/nothing", "/api/x", f"{BASE}/bids/0.5", "/api/v1/clusters/mars", "/api/v1/", "/api"]
)
def test_nothing_there_is_a_problem_document(api: APIClient, path: str) -> None:
    answer = api.get(path)
    assert (answer.status_code, answer["Content-Type"]) == (404, PROBLEM)
    assert answer.json()["status"] == 404


def test_wrong_method_and_wrong_format_are_problems(api: APIClient) -> None:
    assert api.delete(f"{BASE}/bids").json()["status"] == 405
    assert api.get(f"{BASE}/bids", headers={"Accept": "text/html"}).json()["status"] == 406


def test_a_session_without_its_csrf_token_is_a_problem(market: Market, alice: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice)
    answer = client.post(f"{BASE}/bids", body(), content_type="application/json")
    assert (answer.status_code, answer["Content-Type"]) == (403, PROBLEM)
    assert "CSRF" in answer.json()["detail"]
    assert not Bid.objects.exists()


def test_what_nobody_foresaw_is_a_problem_that_reveals_nothing_of_the_inside(
    market: Market, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Market) -> None:
        raise RuntimeError("the inside")

    monkeypatch.setattr("auctions.readings.market_readings.summary", fail)
    client = Client(raise_request_exception=False)
    client.force_login(alice)
    answer = client.get(f"{BASE}/summary")
    assert (answer.status_code, answer["Content-Type"]) == (500, PROBLEM)
    assert "inside" not in answer.json()["detail"]


def test_an_unknown_host_is_a_problem(db: None) -> None:
    answer = Client().get("/api/v1/clusters", headers={"Host": "mars.example"})
    assert (answer.status_code, answer["Content-Type"]) == (400, PROBLEM)


def test_the_times_of_a_summary_are_reported_in_slots_seconds_and_cluster_time(api: APIClient, market: Market) -> None:
    set_time(market, 250)
    answered = api.get(f"{BASE}/summary").json()
    assert [answered[f"{name}_slot"] for name in ("current", "next", "end")] == [2, 3, 15]
    assert answered["next_s"] == 300
    assert datetime.fromisoformat(answered["next_at"]) == market.cluster.epoch + timedelta(seconds=300)


def test_too_many_requests_are_answered_with_retry_after(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.throttles.CallerThrottle.rate", "1/hour", raising=False)
    api.get("/api/v1/clusters")
    answer = api.get("/api/v1/clusters")
    assert (answer.status_code, answer["Content-Type"]) == (429, PROBLEM)
    assert int(answer["Retry-After"]) > 0


@pytest.mark.thorough
def test_no_header_lets_a_guesser_of_passwords_pass_for_many(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.throttles.PasswordThrottle.THROTTLE_RATES", {"password": "3/hour"})
    guesses = [
        APIClient().post(
            "/api/v1/token",
            {"username": "bob", "password": str(i)},
            format="json",
            headers={"X-Forwarded-For": f"10.0.0.{i}"},
        )
        for i in range(4)
    ]
    assert [answer.status_code for answer in guesses] == [400, 400, 400, 429]


def test_the_docs_page_loads_from_this_host_only(db: None) -> None:
    page = APIClient().get("/api/v1/docs")
    assert page.status_code == 200
    assert not re.findall(r"(?:src|href)=[\"'](?:https?:)?//", page.content.decode())
    assert "<script>" not in page.content.decode()


@pytest.mark.parametrize("address", ["docs", "schema"])
def test_the_description_refuses_other_methods_and_formats_in_json(db: None, address: str) -> None:
    client = APIClient()
    for method in ("options", "put", "post", "delete"):
        answer = client.generic(method.upper(), f"/api/v1/{address}")
        assert answer.status_code == 405, method
        assert answer["Allow"] == "GET, HEAD"
        assert answer["Content-Type"] == "application/problem+json"
        assert answer.json()["status"] == 405
    answer = client.get(f"/api/v1/{address}", headers={"Accept": "image/png"})
    assert (answer.status_code, answer["Content-Type"]) == (406, "application/problem+json")
    assert answer.json()["status"] == 406
