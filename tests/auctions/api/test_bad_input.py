"""Every field of every body, wrong in every way: a problem document that names it, and not one row stored."""

import json
from copy import deepcopy
from itertools import product
from math import inf, nan
from typing import Any

import pytest
from django.apps import apps
from rest_framework.test import APIClient

from tests.auctions.api.conftest import BASE

PROBLEM = "application/problem+json"
Path = tuple[str | int, ...]

NO_NUMBERS: list[Any] = [True, "1", "1e3", None, [], {}, [1], -1, -0.5, 1e300, 10**30, 10**400, nan, inf, -inf]
NO_COUNTS: list[Any] = [*NO_NUMBERS, 0, 1.5]
NO_TEXTS: list[Any] = [True, 3, None, [], {}, "\0", "\ud800"]
NO_OBJECTS: list[Any] = [True, 3, None, [], "x", {}]
NUMBERS: dict[Path, list[Any]] = {
    ("epochs",): NO_COUNTS,
    ("chunks",): NO_COUNTS,
    ("minibatches",): NO_COUNTS,
    ("gradient_mb",): NO_NUMBERS,
    ("chunk_mb",): NO_NUMBERS,
    ("start_after_s",): NO_NUMBERS,
    ("worker_step_s", "gpu"): NO_NUMBERS,
    ("ps_step_s", "ps"): NO_NUMBERS,
    ("upload_delay_s", "cloud"): NO_NUMBERS,
    ("utility", "value"): NO_NUMBERS,
}
OTHERS: dict[Path, list[Any]] = {
    ("label",): [*NO_TEXTS, "x" * 121, "two\nlines", "turned \u202e", "\x1b[31mred"],
    ("model",): [*NO_TEXTS, "", "No such model", "x" * 10_000],
    ("worker_step_s",): [*NO_OBJECTS, {"mars": 1}, {"": 1}, {"x" * 10_000: 1}],
    ("ps_step_s",): [*NO_OBJECTS, {"mars": 1}],
    ("upload_delay_s",): [*NO_OBJECTS[:-1], {"mars": 1}],
    ("utility",): NO_OBJECTS,
    ("utility", "form"): [*NO_TEXTS, "", "wish", "Constant"],
    ("surprise",): [1, None],
    ("utility", "surprise"): [1, None],
}
FORMS: dict[str, dict[str, Any]] = {
    "constant": {},
    "step": {"deadline_s": 400},
    "linear": {"zero_at_s": 400},
    "inverse": {"zero_at_s": 400},
    "sigmoid": {"steepness_per_s": 0.01, "midpoint_s": 400},
    "piecewise_linear": {"points": [[0, 1], [400, 0.5]]},
}
OF_FORMS: list[tuple[str, Path, list[Any]]] = [
    ("step", ("utility", "deadline_s"), NO_NUMBERS),
    ("linear", ("utility", "zero_at_s"), [*NO_NUMBERS, 0, 5e-324]),
    ("inverse", ("utility", "zero_at_s"), [*NO_NUMBERS, 0, 5e-324]),
    ("sigmoid", ("utility", "steepness_per_s"), NO_NUMBERS),
    ("sigmoid", ("utility", "midpoint_s"), NO_NUMBERS),
    ("piecewise_linear", ("utility", "points"), [*NO_OBJECTS, [], [1], [[1]], [[0, 1, 2]], [[5, 1], [4, 0.5]]]),
    ("piecewise_linear", ("utility", "points", 1, 0), NO_NUMBERS),
    ("piecewise_linear", ("utility", "points", 1, 1), [*NO_NUMBERS, 1.5]),
]
CASES = [("constant", path, wrong) for path, wrong in {**NUMBERS, **OTHERS}.items()] + OF_FORMS


def full(form: str) -> Any:
    """A body that says everything."""
    return {
        "label": "mine",
        "model": "ResNet-50",
        "epochs": 1,
        "chunks": 4,
        "minibatches": 10,
        "gradient_mb": 10,
        "chunk_mb": 0.5,
        "worker_step_s": {"gpu": 9},
        "ps_step_s": {"ps": 1},
        "upload_delay_s": {"cloud": 0},
        "start_after_s": 0,
        "utility": {"form": form, "value": 100, **FORMS[form]},
    }


def changed(document: Any, path: Path, value: Any) -> Any:
    """The document with another value in one place."""
    document = deepcopy(document)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return document


def dotted(path: Path) -> str:
    """Return the name of a field."""
    return ".".join(str(step) for step in path).replace(".0", "[0]").replace(".1", "[1]")


def rows() -> dict[str, int]:
    """Rows of every table."""
    return {model._meta.label: model._default_manager.count() for model in apps.get_models()}


def send(api: APIClient, path: str, document: Any) -> Any:
    return api.post(f"{BASE}/{path}", json.dumps(document), content_type="application/json")


@pytest.mark.parametrize("form", FORMS)
def test_the_body_the_wrong_ones_are_made_from_is_right(api: APIClient, form: str) -> None:
    assert send(api, "quotes", full(form)).status_code == 200


@pytest.mark.thorough
@pytest.mark.parametrize(("form", "path", "wrong"), CASES, ids=[f"{f}-{dotted(p)}" for f, p, _ in CASES])
def test_a_wrong_field_is_named_and_nothing_is_stored(api: APIClient, form: str, path: Path, wrong: list[Any]) -> None:
    before = rows()
    for value, (to, within) in product(wrong, [("bids", False), ("quotes", False), ("bids/bulk", True)]):
        document = changed(full(form), path, value)
        answer = send(api, to, {"bids": [full(form), document]} if within else document)
        assert (answer.status_code, answer["Content-Type"]) == (400, PROBLEM), (value, answer.content)
        field = answer.json()["errors"][0]["field"]
        assert field.startswith(("bids[1]." if within else "") + dotted(path)), (value, field)
        assert len(answer.content) < 2_000
    assert rows() == before


def test_all_wrong_fields_are_reported_at_once(api: APIClient) -> None:
    document = {**full("step"), "epochs": 0, "gradient_mb": None, "worker_step_s": {"mars": 1}}
    document["utility"]["deadline_s"] = True
    wrong = ["epochs", "gradient_mb", "worker_step_s.mars", "utility.deadline_s"]
    for to in ("bids", "quotes"):
        assert [row["field"] for row in send(api, to, document).json()["errors"]] == wrong
    answer = send(api, "bids/bulk", {"bids": [full("step"), document]})
    assert [row["field"] for row in answer.json()["errors"]] == [f"bids[1].{field}" for field in wrong]


def test_an_answer_to_a_megabyte_of_unknown_keys_is_short(api: APIClient) -> None:
    keys = {f"k{i}": 1 for i in range(70_000)}
    answer = send(api, "bids", {**full("step"), **keys})
    assert (answer.status_code, len(answer.content) < 50_000) == (400, True)


def test_a_message_shows_values_as_they_were_sent(api: APIClient) -> None:
    answer = send(api, "bids", {**full("step"), "epochs": None, "chunks": True})
    assert [row["message"][-4:] for row in answer.json()["errors"]] == ["null", "true"]


@pytest.mark.parametrize("key", ["epochs", "utility", "utility.form", "utility.value", "utility.deadline_s"])
def test_a_missing_field_is_named(api: APIClient, key: str) -> None:
    document = full("step")
    inner, _, last = key.rpartition(".")
    del (document[inner] if inner else document)[last]
    answer = send(api, "bids", document)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, key)


@pytest.mark.parametrize("bids", [None, 3, "x", {}, [], [None], [[]], ["x"], [{}] * 501])
def test_bulk_refuses_what_is_no_list_of_bids(api: APIClient, bids: Any) -> None:
    before = rows()
    answer = send(api, "bids/bulk", {"bids": bids})
    assert (answer.status_code, answer["Content-Type"]) == (400, PROBLEM)
    assert answer.json()["errors"][0]["field"].startswith("bids")
    assert rows() == before


@pytest.mark.parametrize("entry", [5, None, []])
def test_a_bulk_names_an_entry_that_is_no_object_beside_what_is_wrong_in_the_others(api: APIClient, entry: Any) -> None:
    answer = send(api, "bids/bulk", {"bids": [entry, {**full("step"), "epochs": 0}]})
    assert [row["field"] for row in answer.json()["errors"]] == ["bids[0]", "bids[1].epochs"]
    assert answer.json()["errors"][0]["message"].startswith("expected an object, got ")


@pytest.mark.parametrize("field", ["username", "password"])
@pytest.mark.parametrize("value", [None, 3, True, [], {}, "", "x" * 501, "\0", nan])
def test_a_login_that_is_no_text_is_named(api: APIClient, field: str, value: Any) -> None:
    before = rows()
    login = {"username": "alice", "password": "x", field: value}
    answer = api.post("/api/v1/token", json.dumps(login), content_type="application/json")
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    assert rows() == before
