"""One error names every wrong parameter, header and field of a request."""

import json
from typing import Any

import pytest
from rest_framework.test import APIClient

from auctions.engine.policies import change_policy
from auctions.models import Market
from studies.split_learning.api.examples import CSV
from tests.auctions.api.conftest import BASE, operations

NEED_ROWS = {"plans_replan", "programs_create", "progress_report"}
"""Their bodies are checked against rows, or they take another kind of token."""


def wrong_fields(answer: Any) -> list[str]:
    assert answer.status_code == 400, answer.content
    return [row["field"] for row in answer.json()["errors"]]


@pytest.mark.usefixtures("market")
def test_every_operation_with_a_body_names_wrong_parameters_headers_and_fields(olga: APIClient, document: Any) -> None:
    seen = set()
    for path, method, description in operations(document):
        if method not in ("post", "put") or description["operationId"] in NEED_ROWS:
            continue
        place = {one["name"]: 1 for one in description.get("parameters", ()) if one["in"] == "path"}
        headers = {one["name"] for one in description.get("parameters", ()) if one["in"] == "header"}
        key = {"Idempotency-Key": "two words"} if "Idempotency-Key" in headers else {}
        address = path.format(**{**place, "cluster": "lab"})
        body = json.dumps({"unknown": 1})
        answer = olga.generic(method, f"{address}?surprise=1", body, content_type="application/json", headers=key)
        assert {"surprise", "unknown", *key} <= set(wrong_fields(answer)), description["operationId"]
        seen.add(description["operationId"])
    assert len(seen) >= 40


def test_a_bid_is_checked_against_its_market(api: APIClient) -> None:
    body = {"model": "No such model", "epochs": 0}
    for address in ("bids", "quotes"):
        assert {"x", "model", "epochs"} <= set(wrong_fields(api.post(f"{BASE}/{address}?x=1", body, format="json")))
    many = {"bids": [body, body]}
    named = set(wrong_fields(api.post(f"{BASE}/bids/bulk?x=1", many, format="json")))
    assert {"x", "bids[0].model", "bids[0].epochs", "bids[1].model", "bids[1].epochs"} <= named
    assert named == {"x", *wrong_fields(api.post(f"{BASE}/bids/bulk", many, format="json"))}
    with_surprise = {**many, "surprise": 1}
    for query in ("", "?x=1"):
        found = set(wrong_fields(api.post(f"{BASE}/bids/bulk{query}", with_surprise, format="json")))
        assert found == named - {"x"} | {"surprise", *(["x"] if query else [])}


def test_a_bid_is_checked_against_the_policy_of_now(api: APIClient, market: Market) -> None:
    body = {"epochs": 0}
    before = set(wrong_fields(api.post(f"{BASE}/bids?x=1", body, format="json")))
    assert ("utility" in before, "weight" in before) == (True, False)
    change_policy(market, name="weighted_completion", parameters={}, by=None)
    after = set(wrong_fields(api.post(f"{BASE}/bids?x=1", body, format="json")))
    assert ("utility" in after, "weight" in after) == (False, True)


def test_a_list_names_its_cursor_its_size_and_its_filters(api: APIClient) -> None:
    answer = api.get(f"{BASE}/bids?cursor=x&page_size=0&owner=alice&state=wish&surprise=1")
    assert set(wrong_fields(answer)) == {"cursor", "page_size", "owner", "state", "surprise"}
    assert wrong_fields(api.get(f"{BASE}/bids?cursor=x&owner=alice")) == ["cursor", "owner"]
    assert wrong_fields(api.get(f"{BASE}/bids?cursor=x&cursor=y")) == ["cursor"]


def test_a_window_names_its_slots_and_its_server(api: APIClient) -> None:
    assert wrong_fields(api.get(f"{BASE}/prices?from_slot=x&to_slot=-5&server=mars")) == ["from_slot", "server"]
    assert wrong_fields(api.get(f"{BASE}/prices?surprise=1&from_slot=9&to_slot=8")) == ["surprise", "to_slot"]


@pytest.mark.parametrize("address", ["plans", "traces"])
def test_parameters_beside_csv_are_unknown_beside_json(api: APIClient, address: str) -> None:
    answer = api.post(f"/api/v1/{address}?label=x", {"unknown": 1}, format="json")
    assert {"label", "unknown"} <= set(wrong_fields(answer))


def test_wrong_parameters_are_named_beside_wrong_csv(api: APIClient) -> None:
    long = "x" * 1000
    answer = api.post(f"/api/v1/traces?label={long}&surprise=1", "", content_type="text/csv")
    assert wrong_fields(answer) == ["surprise", "label", "text"]
    answer = api.post("/api/v1/plans?slot_ms=x&seed=0&method=wish", CSV + "1,1\n", content_type="text/csv")
    assert wrong_fields(answer)[:2] == ["method", "slot_ms"]
    assert len(wrong_fields(answer)) == 3


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, '{"a":' * 700 + "1" + "}" * 700])
def test_no_operation_takes_a_body_that_is_nested_without_end(olga: APIClient, document: Any, text: str) -> None:
    for path, method, description in operations(document):
        if method in ("post", "put") and description["operationId"] != "progress_report":
            place = {one["name"]: 1 for one in description.get("parameters", ()) if one["in"] == "path"}
            answer = olga.generic(method, path.format(**place), text, content_type="application/json")
            assert answer.status_code in (400, 404), description["operationId"]


def test_a_plan_of_two_sources_names_both(api: APIClient) -> None:
    scenario = {"model": "resnet101", "clients": 3, "helpers": 2, "seed": 1}
    answer = api.post("/api/v1/plans", {"scenario": scenario, "instance": {"helpers": []}}, format="json")
    (problem,) = answer.json()["errors"]
    assert problem["field"] == "instance"
    assert problem["message"] == "expected either instance, profile or scenario, got instance and scenario"
    assert wrong_fields(api.post("/api/v1/plans", {"model": "resnet101"}, format="json")) == ["model", "instance"]


def test_an_instance_of_a_plan_names_all_its_wrong_fields(api: APIClient) -> None:
    tables = {"release": [[1, 2]], "forward": 3, "backward": [[1]], "gap": [[1]], "tail": [[-1]]}
    rows: dict[str, Any] = {"helpers": [{"memory_gb": -1}], "clients": [{"demand_gb": "x"}]}
    sent = {"instance": {**rows, **tables}, "seconds": -1}
    fields = ["clients[0].demand_gb", "helpers[0].memory_gb", "release[0]", "forward", "tail[0][0]"]
    expected = {"seconds", *(f"instance.{one}" for one in fields)}
    assert set(wrong_fields(api.post("/api/v1/plans", sent, format="json"))) == expected
    sent["instance"] = {"helpers": [{"memory": 1}], "clients": [{}], **tables}
    fields = ["helpers[0].memory_gb", "helpers[0].memory", "clients[0].demand_gb"]
    assert wrong_fields(api.post("/api/v1/plans", sent, format="json"))[:3] == [f"instance.{one}" for one in fields]
    sent["instance"] = {"helpers": [], "tables": {}}
    fields = ["clients", "release", "forward", "backward", "tail", "tables"]
    assert wrong_fields(api.post("/api/v1/plans", sent, format="json"))[:6] == [f"instance.{one}" for one in fields]


def test_an_experiment_names_each_unknown_parameter_of_a_policy(api: APIClient) -> None:
    policy = {"name": "dps", "parameters": {"unknown": 1, "other": 2}}
    sent = {"workloads": [{"generator": "dps"}], "policies": [policy], "seeds": [1]}
    fields = [f"policies[0].parameters.{key}" for key in ("unknown", "other")]
    assert wrong_fields(api.post("/api/v1/experiments", sent, format="json")) == fields


@pytest.mark.usefixtures("market")
def test_parameters_of_a_policy_are_named_beside_other_wrong_fields(olga: APIClient) -> None:
    parameters = {"unknown": 1, "refit_every": -3}
    sent = {"policy": "dps", "parameters": parameters, "since": 0, "other": 2}
    answer = olga.post(f"{BASE}/counterfactuals", sent, format="json")
    assert set(wrong_fields(answer)) == {"parameters.unknown", "parameters.refit_every", "since", "other"}
    body = {"workloads": [{"generator": "dps"}], "policies": [{"name": "dps", "parameters": parameters, "other": 2}]}
    fields = {f"policies[0].{one}" for one in ("parameters.unknown", "parameters.refit_every", "other")}
    assert set(wrong_fields(olga.post("/api/v1/experiments", body, format="json"))) == fields


def test_an_instance_without_a_table_names_what_else_is_wrong_with_its_keys(api: APIClient) -> None:
    sent = {"instance": {"helpers": [{"memory": 1}], "clients": 3, "slot_ms": 0, "unknown": 1}}
    fields = [
        "release",
        "forward",
        "backward",
        "tail",
        "unknown",
        "helpers[0].memory_gb",
        "helpers[0].memory",
        "clients",
    ]
    expected = [f"instance.{one}" for one in (*fields, "slot_ms")]
    assert wrong_fields(api.post("/api/v1/plans", sent, format="json")) == expected


def test_the_largest_number_of_a_trace_is_written_in_full(api: APIClient) -> None:
    sent = {"workloads": [{"trace": 0}], "policies": [{"name": "fifo"}]}
    (problem,) = api.post("/api/v1/experiments", sent, format="json").json()["errors"]
    assert problem["message"] == "expected 1 to 9,007,199,254,740,992, got 0"


def test_the_label_of_a_plan_is_one_line_without_control_characters(api: APIClient) -> None:
    for label in ("two\nlines", "turned \u202e", "\x1b[31mred"):
        assert wrong_fields(api.post("/api/v1/plans", {"label": label}, format="json")) == ["label", "instance"]


def test_a_setting_of_a_generator_names_all_its_wrong_fields(api: APIClient) -> None:
    setting = {"jobs": 0, "servers": 0}
    sent = {"workloads": [{"generator": "dps", "setting": setting}], "policies": [{"name": "fifo"}]}
    fields = [f"workloads[0].setting.{key}" for key in ("jobs", "servers")]
    assert wrong_fields(api.post("/api/v1/experiments", sent, format="json")) == fields


def test_a_list_of_numbers_of_a_policy_names_all_its_wrong_entries(api: APIClient) -> None:
    parameters = {"eta_worker": [0, 2, "x"], "eta_ps": [0.5]}
    sent = {"workloads": [{"generator": "dps"}], "policies": [{"name": "dps", "parameters": parameters}]}
    fields = [f"policies[0].parameters.{key}" for key in ("eta_worker[0]", "eta_worker[2]", "eta_ps[0]")]
    assert wrong_fields(api.post("/api/v1/experiments", sent, format="json")) == fields
