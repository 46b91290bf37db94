"""Plans under noise through REST: drawn alike from a seed, bounded in work, in the order theory says."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from scheduling.model.errors import InvalidField
from studies.models import Plan
from studies.split_learning.plans.noise import FEWEST_DRAWS, MOST_DRAWS, Draws, few_draws, noise_of
from studies.split_learning.plans.readings import NothingYet, core_plan
from tests.studies.plans.conftest import URL, submitted


def test_the_stored_plan_is_the_one_that_was_computed(done: Plan) -> None:
    core = core_plan(done)
    assert done.result is not None
    assert core.makespan == done.makespan
    assert core.completion.tolist() == done.result["completion"]


def test_noise_is_drawn_alike_and_never_beats_the_bound(api: APIClient, done: Plan) -> None:
    path = f"{URL}/{done.pk}/noise?spread=0.3&draws=7&seed=5"
    answered = api.get(path).json()
    assert answered == api.get(path).json()
    assert (answered["spread"], answered["seed"], answered["planned"], len(answered["draws"])) == (
        0.3,
        5,
        done.makespan,
        7,
    )
    for kind in ("priorities", "first_come", "replanned", "bound"):
        found = [draw[kind] for draw in answered["draws"]]
        assert answered[kind] == {"mean": pytest.approx(sum(found) / 7), "worst": max(found)}
    for draw in answered["draws"]:
        assert draw["bound"] <= min(draw["replanned"], draw["priorities"], draw["first_come"])
    other = api.get(path.replace("seed=5", "seed=6")).json()
    assert other["draws"] != answered["draws"]


def test_without_noise_priorities_keep_what_was_planned(api: APIClient, done: Plan) -> None:
    answered = api.get(f"{URL}/{done.pk}/noise?spread=0&draws=2").json()
    assert answered["priorities"] == {"mean": done.makespan, "worst": done.makespan}


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("spread=1", "spread"),
        ("spread=-0.1", "spread"),
        ("spread=nan", "spread"),
        ("spread=much", "spread"),
        ("draws=0", "draws"),
        ("draws=1001", "draws"),
        ("draws=2.5", "draws"),
        ("seed=-1", "seed"),
        ("colour=red", "colour"),
        ("seed=", "seed"),
    ],
)
def test_what_cannot_be_drawn_is_named(api: APIClient, done: Plan, query: str, field: str) -> None:
    answer = api.get(f"{URL}/{done.pk}/noise?{query}")
    assert answer.status_code == 400
    assert [row["field"] for row in answer.json()["errors"]] == [field]


def test_a_plan_that_is_not_there_cannot_be_disturbed(api: APIClient, alice: User) -> None:
    waiting = submitted(alice)
    answer: Any = api.get(f"{URL}/{waiting.pk}/noise")
    assert answer.status_code == 404
    assert "queued" in answer.json()["detail"]
    with pytest.raises(NothingYet):
        noise_of(waiting, Draws(0.2, 1))
    with pytest.raises(NothingYet):
        core_plan(waiting)


def test_large_instances_get_fewer_draws() -> None:
    assert few_draws(Plan(helpers=25, clients=100)) == 20
    large = Plan(helpers=50, clients=1000)
    assert FEWEST_DRAWS <= few_draws(large) < 20
    assert Draws.of_query(large, {"draws": "16"}).count == 16
    with pytest.raises(InvalidField, match="draws"):
        Draws.of_query(large, {"draws": "17"})
    with pytest.raises(InvalidField, match=f"draws: expected a whole number from 1 to {FEWEST_DRAWS}"):
        Draws.of_query(Plan(helpers=1, clients=5000), {"draws": "4"})
    assert Draws.of_query(Plan(helpers=2, clients=3), {"draws": str(MOST_DRAWS)}).count == MOST_DRAWS
