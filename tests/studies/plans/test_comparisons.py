"""Comparisons of a plan through REST: other methods, one more helper, other lengths of slots."""

import numpy as np
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from auctions.domain.errors import WrongState
from scheduling.model.errors import InvalidField
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.methods import METHODS
from studies.models import Plan
from studies.split_learning.api.examples import DESCRIBED
from studies.split_learning.changes import one_more_helper
from studies.split_learning.plans import submission as asking
from studies.split_learning.plans.noise import Draws, noise_of
from studies.split_learning.plans.plan_request import PlanRequest
from studies.split_learning.plans.submission import submit_plan
from tests.studies.plans.conftest import URL, submitted, tiny
from tests.studies.plans.here import compute_here

SCENARIO = {"number": 2, "model": "vgg19", "clients": 3, "helpers": 2, "seed": 3, "slot_ms": 400}


def test_methods_are_asked_once_and_stand_side_by_side(api: APIClient, alice: User) -> None:
    plan = submitted(alice, tiny(method="balanced-greedy"))
    where = f"{URL}/{plan.pk}"
    assert api.get(f"{where}/comparisons").json() == {"methods": [], "helpers": [], "slots": [], "replanned": []}
    first, again = (api.post(f"{where}/methods") for _ in range(2))
    assert (first.status_code, again.status_code, again.json()) == (202, 200, {"submitted": []})
    assert {row["method"] for row in first.json()["submitted"]} == set(METHODS) - {"balanced-greedy"}
    while compute_here():
        pass
    rows = api.get(f"{where}/comparisons").json()["methods"]
    assert [row["plan"]["id"] for row in rows] == [plan.pk, *(row["id"] for row in first.json()["submitted"])]
    assert {row["plan"]["comparison"] for row in rows[1:]} == {"method"}
    best = {row["plan"]["method"]: row["above_bound"] for row in rows}
    assert best["exact"] == 0.0
    assert all(above is None or above >= 0 for above in best.values())


def test_each_helper_that_is_asked_for_is_one_more_but_a_key_is_one_request(api: APIClient, alice: User) -> None:
    where = f"{URL}/{submitted(alice).pk}"
    first, again, next_one = (
        api.post(f"{where}/helpers", headers={"Idempotency-Key": key}) for key in ("one", "one", "two")
    )
    assert [answer.status_code for answer in (first, again, next_one)] == [202, 202, 202]
    assert first.json()["id"] == again.json()["id"]
    assert [answer.json()["helpers"] for answer in (first, next_one)] == [3, 4]
    while compute_here():
        pass
    rows = api.get(f"{where}/comparisons").json()["helpers"]
    assert [row["plan"]["helpers"] for row in rows] == [2, 3, 4]
    assert rows[0]["saved_slots"] is None
    assert rows[1]["saved_slots"] == rows[0]["plan"]["makespan"] - rows[1]["plan"]["makespan"] >= 0


def test_who_asks_for_a_helper_meanwhile_gets_another_number(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = submitted(alice)
    sizes = []

    def other_first(instance: Instance) -> Instance:
        monkeypatch.setattr(asking, "one_more_helper", one_more_helper)
        sizes.append(asking.submit_extra_helper(alice, plan).helpers)
        return one_more_helper(instance)

    monkeypatch.setattr(asking, "one_more_helper", other_first)
    sizes.append(asking.submit_extra_helper(alice, plan).helpers)
    assert sizes == [3, 4]


def test_lengths_of_slots_are_asked_once_and_compared_in_milliseconds(api: APIClient, alice: User) -> None:
    plan = submit_plan(alice, PlanRequest.from_json({"scenario": SCENARIO}))
    where = f"{URL}/{plan.pk}"
    assert [row["slot_ms"] for row in api.post(f"{where}/slots").json()["submitted"]] == [50, 100, 200, 800, 1600]
    assert api.post(f"{where}/slots").json() == {"submitted": []}
    assert {row["makespan_ms"] for row in api.get(f"{where}/comparisons").json()["slots"]} == {None}
    while compute_here():
        pass
    rows = api.get(f"{where}/comparisons").json()["slots"]
    assert [row["slot_ms"] for row in rows] == [50, 100, 200, 400, 800, 1600]
    assert [row["makespan_ms"] for row in rows] == sorted(row["makespan"] * row["slot_ms"] for row in rows)
    assert all(row["bound_ms"] <= row["makespan_ms"] and row["compute_s"] >= 0 for row in rows)


def test_lengths_that_nothing_may_have_are_left_out(alice: User) -> None:
    plan = submit_plan(alice, PlanRequest.from_json({"profile": {**DESCRIBED, "slot_ms": 500_000}}))
    assert [one.slot_ms for one in asking.compare_slot_lengths(alice, plan)] == [62_500, 125_000, 250_000, 1_000_000]


def test_what_cannot_be_compared_is_refused_in_words(api: APIClient, alice: User) -> None:
    where = f"{URL}/{submitted(alice).pk}"
    answer = api.post(f"{where}/slots")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == "slot_ms"
    assert "got one with times in slots" in answer.json()["errors"][0]["message"]
    assert api.post(f"{where}/methods", {"method": "exact"}, format="json").status_code == 400
    assert api.get(f"{where}/comparisons?colour=1").status_code == 400
    assert api.post(f"{URL}/99999/methods").status_code == 404


def test_too_many_at_once_are_refused(api: APIClient, alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    where = f"{URL}/{submitted(alice).pk}"
    monkeypatch.setitem(settings.OPEN_WORK, "plans", 2)
    assert api.post(f"{where}/methods").status_code == 429
    assert Plan.objects.count() == 1


def test_nothing_is_asked_beside_a_plan_that_was_deleted(alice: User) -> None:
    plan = submit_plan(alice, PlanRequest.from_json({"scenario": SCENARIO}))
    Plan.objects.filter(pk=plan.pk).delete()
    for beside in (asking.compare_methods, asking.submit_extra_helper, asking.compare_slot_lengths):
        with pytest.raises(WrongState, match="was deleted"):
            beside(alice, plan)
    assert not Plan.objects.exists()


def test_comparisons_of_comparisons_are_deleted_with_the_first_plan(api: APIClient, alice: User) -> None:
    plan, other = submitted(alice), submitted(alice)
    inner = asking.submit_extra_helper(alice, asking.submit_extra_helper(alice, plan))
    assert inner.of is not None
    assert inner.of.of == plan
    assert api.delete(f"{URL}/{plan.pk}").status_code == 204
    assert list(Plan.objects.all()) == [other]
    asking.delete_plan(plan)  # it is gone already


def test_times_that_would_be_too_long_under_noise_are_blamed_on_the_spread(alice: User) -> None:
    body = tiny()
    body["instance"]["tail"] = np.full((2, 3), 10**9).tolist()
    plan = submitted(alice, body)
    assert compute_here()
    plan.refresh_from_db()
    with pytest.raises(InvalidField, match="expected a spread with times that an instance may have") as refused:
        noise_of(plan, Draws(spread=0.5, count=3))
    assert refused.value.field == "spread"
    assert noise_of(plan, Draws(spread=0.0, count=3)).draws
