"""Keys that make a request safe to send again, and preferences to wait, as bids have them."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError
from rest_framework.test import APIClient

from studies.background import creating as module
from studies.background.creating import IdempotencyKey, create_once
from studies.models import Plan
from studies.split_learning.api.examples import CSV
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import submit_plan
from tests.studies.plans.conftest import URL, submitted, tiny
from tests.studies.plans.here import compute_here

KEY = {"Idempotency-Key": "one"}


def test_the_same_key_and_body_are_one_plan(api: APIClient) -> None:
    first, again = (api.post(URL, tiny(), format="json", headers=KEY) for _ in range(2))
    assert (first.status_code, again.status_code, Plan.objects.count()) == (202, 202, 1)
    assert first.json()["id"] == again.json()["id"]
    assert "Idempotency-Replayed" not in first
    assert again["Idempotency-Replayed"] == "true"
    assert compute_here()
    done = api.post(URL, tiny(), format="json", headers=KEY)
    assert (done.status_code, done.json()["state"]) == (200, "completed")
    other = api.post(URL, tiny(seed=9), format="json", headers=KEY)
    assert other.status_code == 409
    assert api.post(URL, tiny(seed=9), format="json", headers={"Idempotency-Key": "two"}).status_code == 202


def test_tables_and_plans_made_again_have_keys_too(api: APIClient, alice: User) -> None:
    plan = submitted(alice)
    assert compute_here()
    for path, sent in ((f"{URL}?seed=3", CSV), (f"{URL}/{plan.pk}/replan", {"changes": {"drop": ["phone"]}})):
        kind: Any = {"content_type": "text/csv"} if sent is CSV else {"format": "json"}
        headers = {"Idempotency-Key": f"key-{sent is CSV}"}
        first, again = (api.post(path, sent, headers=headers, **kind) for _ in range(2))
        assert first.json()["id"] == again.json()["id"], first.content
    assert Plan.objects.count() == 3
    replan = api.post(f"{URL}/{plan.pk}/replan", {"changes": {"drop": ["camera"]}}, format="json", headers=headers)
    assert replan.status_code == 409


def test_keys_of_others_are_no_matter(api: APIClient, charlie: APIClient) -> None:
    mine, theirs = (client.post(URL, tiny(), format="json", headers=KEY) for client in (api, charlie))
    assert mine.json()["id"] != theirs.json()["id"]


def test_a_key_that_is_none_is_refused(api: APIClient) -> None:
    answer = api.post(URL, tiny(), format="json", headers={"Idempotency-Key": "a b"})
    assert answer.json()["errors"][0]["field"] == "Idempotency-Key"


def test_of_two_at_once_the_second_finds_the_first(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    request = IdempotencyKey.of("one", tiny())
    first = submit_plan(alice, PlanRequest.from_json(tiny()), request)
    known, looks = module._known, iter([None])
    monkeypatch.setattr(module, "_known", lambda *args: next(looks, known(*args)))

    def make() -> Plan:
        raise IntegrityError("plan_idempotency_key_once")

    found = create_once(Plan, alice, request, make)
    assert (found.row, found.created) == (first, False)
    with pytest.raises(IntegrityError):
        create_once(Plan, alice, IdempotencyKey.of("unheard of", tiny()), make)


def test_who_waits_gets_the_plan(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("web.shutdown.pause", lambda _: compute_here())
    answer = api.post(URL, tiny(), format="json", headers={"Prefer": "wait=20", **KEY})
    assert (answer.status_code, answer["Preference-Applied"]) == (201, "wait=20")
    assert answer.json()["result"]["makespan"] == answer.json()["makespan"]
    again = api.post(URL, tiny(), format="json", headers={"Prefer": "wait=20", **KEY})
    assert (again.status_code, again["Preference-Applied"]) == (200, "wait=20")


def test_a_wait_without_a_result_is_reported(api: APIClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert api.post(URL, tiny(), format="json", headers={"Prefer": "wait=0"}).status_code == 202
    monkeypatch.setattr("web.shutdown.pause", lambda _: Plan.objects.all().delete())
    gone = api.post(URL, tiny(), format="json", headers={"Prefer": "wait=20"})
    assert gone.status_code == 404
    assert "deleted" in gone.json()["detail"]
