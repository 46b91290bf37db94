import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from auctions.engine import decision_queue
from auctions.engine.markets import set_open
from auctions.models import Bid, BidState, DecisionRecord, Market
from tests.auctions.api.conftest import BASE
from tests.auctions.worlds import SLOT_S, body, make_cluster, make_market, set_time
from web import waiting
from web.numbers import money

BIDS = f"{BASE}/bids"
PROBLEM = "application/problem+json"


def post(client: APIClient, path: str, document: Any, **headers: str) -> Any:
    return client.post(path, document, format="json", headers={k.replace("_", "-"): v for k, v in headers.items()})


def test_a_bid_is_taken_and_later_read_with_its_receipt(api: APIClient, market: Market) -> None:
    answer = post(api, BIDS, body(label="first"))
    assert (answer.status_code, answer.json()["state"]) == (202, "submitted")
    decision_queue.process_pending(market.pk)
    answered = api.get(answer["Location"]).json()
    assert answered["decision"]["admitted"]
    assert answered["decision"]["schedule"]["placements"][0]["server"] == "edge-0"
    assert answered["decision"]["schedule"]["completion_s"] == 100 * answered["completion_slot"]
    schedule = api.get(f"{answer['Location']}/schedule").json()
    assert schedule == answered["decision"]["schedule"]


def test_who_prefers_to_wait_gets_the_decision(api: APIClient, market: Market, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.shutdown.pause", lambda _: decision_queue.process_pending(market.pk))
    answer = post(api, BIDS, body(), Prefer="respond-async, WAIT=99")
    assert answer.status_code == 201
    assert answer["Preference-Applied"] == "wait=30"
    assert answer.json()["decision"]["admitted"]


@pytest.mark.parametrize(
    ("prefer", "applied"),
    [
        ("wait=0", "wait=0"),
        ('respond-async, wait="2"; strict', "wait=2"),
        ("wait=1, wait=20", "wait=1"),
        ('note="a,wait=3,b"', None),
        ("handling=strict; wait=9", None),
        ("wait=-1", None),
        ("wait=1e9", None),
        ("wait", None),
        (",,=", None),
        ('"', None),
    ],
)
def test_a_preference_is_applied_or_ignored_and_never_fails(
    api: APIClient, market: Market, monkeypatch: pytest.MonkeyPatch, prefer: str, applied: str | None
) -> None:
    monkeypatch.setattr("web.shutdown.pause", lambda _: decision_queue.process_pending(market.pk))
    answer = post(api, BIDS, body(), Prefer=prefer)
    assert answer.status_code in (201, 202)
    assert answer.get("Preference-Applied") == applied


@pytest.mark.thorough
def test_waiting_in_vain_ends_in_time(api: APIClient) -> None:
    began = time.monotonic()
    assert post(api, BIDS, body(), Prefer="wait=1").status_code == 202
    assert time.monotonic() - began < 3


@pytest.mark.parametrize(
    ("own", "others", "waits"), [(0, 0, True), (15, 16, True), (16, 0, False), (0, 31, True), (0, 32, False)]
)
def test_a_user_waits_while_others_leave_room_and_has_half_of_it_at_most(
    api: APIClient, alice: User, monkeypatch: pytest.MonkeyPatch, own: int, others: int, waits: bool
) -> None:
    waiters = Counter({alice.pk: own, -1: others})
    monkeypatch.setattr("web.waiting._waiters", +waiters)
    answer = post(api, BIDS, body(), Prefer="wait=0")
    assert answer.status_code == 202
    assert answer.has_header("Preference-Applied") == waits
    assert +waiters == waiting._waiters


FORMS: list[dict[str, Any]] = [
    {"form": "constant"},
    {"form": "step", "deadline_s": 900},
    {"form": "linear", "zero_at_s": 1100},
    {"form": "inverse", "zero_at_s": 1100},
    {"form": "sigmoid", "steepness_per_s": 0.005, "midpoint_s": 500},
    {"form": "piecewise_linear", "points": [[0, 1], [300, 0.9], [1200, 0.1]]},
]


@pytest.mark.thorough
@pytest.mark.parametrize("utility", FORMS, ids=[form["form"] for form in FORMS])
@pytest.mark.parametrize("epochs", [1, 4, 6])
def test_a_rejection_reports_what_would_have_done_and_that_is_true(
    api: APIClient, market: Market, utility: dict[str, Any], epochs: int
) -> None:
    for n in (3, 7):
        post(api, BIDS, body(900.0, epochs=n))

    decision_queue.process_pending(market.pk)

    def offer(value: float, *, start: int = 0) -> Any:
        return body(epochs=epochs, utility={**utility, "value": value}, start_after_s=start * SLOT_S)

    def quoted(value: float, *, start: int = 0) -> Any:
        return post(api, f"{BASE}/quotes", offer(value, start=start)).json()

    low = quoted(0.001)
    assert (low["admitted"], low["reason"], low["schedule"]) == (False, "price", None)
    least, latest = low["counter_offer"]["least_value"], low["counter_offer"]["latest_start_slot"]
    assert f"{least:.2f}" in low["explanation"]
    last, beyond = quoted(least + 0.01, start=latest), quoted(least + 0.01, start=latest + 1)
    assert (last["admitted"], last["schedule"]["start_slot"], beyond["admitted"]) == (True, latest, False)
    assert last["ledger_version"] == low["ledger_version"]
    for value in (0.001, least - 0.01, least + 0.01):
        post(api, BIDS, offer(value))
    decision_queue.process_pending(market.pk)
    decisions = [api.get(f"{BIDS}/{n}").json()["decision"] for n in (3, 4, 5)]
    assert [decision["admitted"] for decision in decisions] == [False, False, True]
    assert decisions[0]["counter_offer"] == low["counter_offer"]
    assert decisions[2]["prices"] == low["prices"]


def test_a_key_brings_the_same_bid_and_never_another(api: APIClient) -> None:
    first = post(api, BIDS, body(), Idempotency_Key="k")
    again = post(api, BIDS, body(), Idempotency_Key="k")
    assert again["Idempotency-Replayed"] == "true"
    assert again.json()["sequence"] == first.json()["sequence"]
    assert post(api, BIDS, body(7.0), Idempotency_Key="k").status_code == 409
    assert Bid.objects.count() == 1


@pytest.mark.parametrize("key", ["", "x" * 129, "a b", "é"])
def test_a_bad_key_is_refused(api: APIClient, key: str) -> None:
    answer = post(api, BIDS, body(), Idempotency_Key=key)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "Idempotency-Key"
    assert not Bid.objects.exists()


RAW: list[tuple[bytes, str]] = [
    (b"", "epochs"),
    (b"{", "body"),
    (b"[]", "body"),
    (b"null", "body"),
    (b'{"epochs": 1, "epochs": 2}', "epochs"),
    (b'{"utility": {"value": 1, "value": 1}}', "utility.value"),
    (b'{"epochs": NaN}', "epochs"),
    (b'{"utility": {"points": [[0, 1], [Infinity, 1]]}}', "utility.points[1][0]"),
    (b'{"gradient_mb": 1e999}', "gradient_mb"),
    (b'{"gradient_mb": -1e999}', "gradient_mb"),
    (b'{"label": "\\ud800"}', "label"),
    (b'{"label": "\\u0000"}', "label"),
    (b'{"worker_step_s": {"\\u0000": 1}}', "worker_step_s"),
    (b'{"label": "\xff"}', "body"),
    (b"[" * 100_000, "body"),
    (b'{"label": ' + b"[" * 30 + b"]" * 30 + b"}", "label"),
    (b'{"epochs": ' + b"9" * 5000 + b"}", "epochs"),
    (b'{"epochs": -' + b"9" * 500 + b"}", "epochs"),
]


@pytest.mark.parametrize(("raw", "field"), RAW, ids=range(len(RAW)))
def test_a_body_that_is_no_plain_json_object_is_a_problem(api: APIClient, raw: bytes, field: str) -> None:
    answer = api.post(BIDS, raw, content_type="application/json")
    assert (answer.status_code, answer["Content-Type"]) == (400, PROBLEM)
    assert answer.json()["errors"][0]["field"].startswith(field)
    assert not Bid.objects.exists()


def test_everything_that_is_no_plain_json_is_named_and_no_more_than_twenty(api: APIClient) -> None:
    raw = b'{"label": "\\ud800", "model": "a\\u0000", "epochs": 1e999, "chunks": 1, "chunks": 2}'
    errors = api.post(BIDS, raw, content_type="application/json").json()["errors"]
    assert {error["field"] for error in errors} == {"label", "model", "epochs", "chunks"}
    many = b'{"points": [' + b"NaN, " * 1000 + b"1]}"
    errors = api.post(BIDS, many, content_type="application/json").json()["errors"]
    assert [error["field"] for error in errors] == [f"points[{i}]" for i in range(20)]


def test_a_large_body_and_a_strange_one_are_problems(api: APIClient) -> None:
    large = b'{"label": "' + b"x" * 1_000_001 + b'"}'
    assert api.post(BIDS, large, content_type="application/json").status_code == 413
    assert api.post(BIDS, b"epochs=1", content_type="application/x-www-form-urlencoded").status_code == 415
    packed = api.post(BIDS, b"\x1f\x8b", content_type="application/json", headers={"Content-Encoding": "gzip"})
    assert packed.status_code == 415
    assert "gzip" in packed.json()["detail"]


def test_a_closed_market_takes_nothing(api: APIClient, market: Market) -> None:
    set_open(market, False)
    assert post(api, BIDS, body()).status_code == 409
    assert post(api, f"{BASE}/quotes", body()).status_code == 409


def test_bulk_is_all_or_nothing_and_repeatable(api: APIClient) -> None:
    document = {"bids": [body(), body(2.0)]}
    answer = post(api, f"{BIDS}/bulk", document, Idempotency_Key="b")
    assert [row["sequence"] for row in answer.json()["results"]] == [1, 2]
    assert post(api, f"{BIDS}/bulk", document, Idempotency_Key="b").status_code == 200
    assert post(api, f"{BIDS}/bulk", {"bids": []}).status_code == 400
    assert Bid.objects.count() == 2


def test_a_bulk_asks_the_database_for_little_more_than_it_writes(
    api: APIClient, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(10 + 4 * 50):
        assert post(api, f"{BIDS}/bulk", {"bids": [body()] * 50}).status_code == 202


def test_the_times_in_a_bid_count_from_its_arrival_which_quote_and_answer_show(api: APIClient, market: Market) -> None:
    set_time(market, 60.0)
    needed = post(api, f"{BASE}/quotes", body()).json()["schedule"]["completion_s"] - SLOT_S
    in_time = {**body(), "utility": {"form": "step", "value": 100.0, "deadline_s": needed}}
    too_late = {**body(), "utility": {"form": "step", "value": 100.0, "deadline_s": needed - SLOT_S}}
    assert [post(api, f"{BASE}/quotes", one).json()["admitted"] for one in (in_time, too_late)] == [True, False]
    quote, answer = post(api, f"{BASE}/quotes", in_time).json(), post(api, BIDS, in_time).json()
    for name, expected in (("arrival_slot", 1), ("arrival_s", SLOT_S)):
        assert quote[name] == answer[name] == expected
    assert quote["arrival_at"] == answer["arrival_at"]
    assert answer["submitted_s"] == 60.0
    assert quote["schedule"]["completion_s"] == quote["arrival_s"] + needed


def test_no_text_of_the_interface_counts_from_the_submission(api: APIClient) -> None:
    described = api.get("/api/v1/schema", HTTP_ACCEPT="application/json").content.decode()
    assert "seconds after arrival" in described
    assert "after submission" not in described


def test_a_quote_is_the_later_decision_and_stores_nothing(api: APIClient, market: Market) -> None:
    quote = post(api, f"{BASE}/quotes", body()).json()
    assert not Bid.objects.exists()
    post(api, BIDS, body())
    decision_queue.process_pending(market.pk)
    decision = api.get(f"{BIDS}/1").json()["decision"]
    only_quoted = {"stands_until_slot", "stands_until_s", "stands_until_at"}
    only_quoted |= {"standing_wait_slots", "standing_admitted_share"}
    only_quoted |= {"arrival_slot", "arrival_s", "arrival_at"}
    assert {key: decision[key] for key in quote.keys() - only_quoted} == {
        key: quote[key] for key in quote.keys() - only_quoted
    }


def test_a_small_amount_in_words_is_not_zero(client_of: Callable[[User], APIClient], alice: User) -> None:
    market, api = make_market(initial_low=1e-9, initial_high=1e-6), client_of(alice)
    quote = post(api, f"{BASE}/quotes", body()).json()
    post(api, BIDS, body())
    decision_queue.process_pending(market.pk)
    for said in (quote, api.get(f"{BIDS}/1").json()["decision"]):
        assert 0 < said["payment"] < 0.001
        assert f"costs {money(said['payment'])} at the posted prices" in said["explanation"]
    assert "costs 0.00 at the posted prices" in DecisionRecord.objects.get().receipt, "receipts stay as they are"


def test_waiting_bids_are_withdrawn_and_jobs_cancelled(api: APIClient, market: Market) -> None:
    post(api, BIDS, body())
    assert post(api, f"{BIDS}/1/cancel", None).status_code == 409
    assert post(api, f"{BIDS}/1/withdraw", None).json()["state"] == "withdrawn"
    assert api.get(f"{BIDS}/1/schedule").status_code == 404
    post(api, BIDS, body())
    decision_queue.process_pending(market.pk)
    assert post(api, f"{BIDS}/2/withdraw", None).status_code == 409
    assert post(api, f"{BIDS}/2/cancel", {}).json()["state"] == "cancelled"


def test_the_list_holds_what_one_may_see(api: APIClient, olga: APIClient, charlie: APIClient) -> None:
    post(api, BIDS, body())
    assert [len(client.get(BIDS).json()["results"]) for client in (api, olga, charlie)] == [1, 1, 0]


def test_the_list_holds_no_bid_of_another_market(api: APIClient, olga: APIClient, market: Market) -> None:
    other = make_market(make_cluster("other"))
    post(api, BIDS, body(label="here"))
    for label in ("there", "there too"):
        post(api, f"/api/v1/clusters/{other.cluster.name}/bids", body(label=label))
    for client in (api, olga):
        rows = client.get(BIDS).json()["results"]
        assert [(row["label"], row["cluster"]) for row in rows] == [("here", market.cluster.name)]


def test_the_list_filters_and_turns_pages(api: APIClient, olga: APIClient, market: Market) -> None:
    for i in range(5):
        post(api, BIDS, body(label=f"b{i % 2}"))
    decision_queue.process_pending(market.pk)
    page = api.get(f"{BIDS}?page_size=2").json()
    assert [row["sequence"] for row in page["results"]] == [5, 4]
    assert [row["sequence"] for row in api.get(page["next"]).json()["results"]] == [3, 2]
    assert len(api.get(f"{BIDS}?label=b1&admitted=true&from_slot=0&before_slot=1").json()["results"]) == 2
    assert len(olga.get(f"{BIDS}?owner=alice").json()["results"]) == 5
    assert [olga.get(f"{BIDS}?{name}=%20").json()["results"] for name in ("label", "owner")] == [[], []]


WRONG_QUERIES = [
    *("state=x", "state=", "admitted=2", "admitted=", "from_slot=x", "from_slot=", "before_slot=%D9%A1"),
    *("from_slot=1.5", "before_slot=1e3", "before_slot=9999999999", "owner=alice", "lable=a", "label=%00"),
    *("label=a&label=b", "cursor=x", "cursor=", "cursor=====", "page_size=0", "page_size=", "page_size=201"),
]


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", WRONG_QUERIES)
def test_a_wrong_filter_is_named(api: APIClient, wrong: str) -> None:
    answer = api.get(f"{BIDS}?{wrong}")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == wrong.split("=", maxsplit=1)[0]


def test_wrong_filters_of_all_kinds_are_named_at_once(api: APIClient) -> None:
    query = "state=running&state=x&admitted=2&from_slot=x&before_slot=9999999999&label=&page_size=0&lable=a"
    found = api.get(f"{BIDS}?{query}").json()["errors"]
    assert {row["field"]: row["message"].partition(",")[0] for row in found} == {
        "state": "expected " + BidState.values[0],
        "admitted": "expected true or false",
        "from_slot": "expected a whole number from -1",
        "before_slot": "expected a whole number from -1",
        "label": "expected a value",
        "page_size": "expected a whole number from 1 to 200",
        "lable": "unknown parameter; known: state",
    }


def test_states_may_be_repeated(api: APIClient, market: Market) -> None:
    post(api, BIDS, body())
    assert len(api.get(f"{BIDS}?state=submitted&state=planned").json()["results"]) == 1
