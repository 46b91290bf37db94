"""The drawn streams of bids."""

from itertools import islice

import pytest

from demo.clusters.catalogue import MODELS
from demo.jobs import Machines
from demo.scenarios import COMPETITION, DPS, OASIS, SCENARIOS, WEIGHTED, Scenario

MACHINES = Machines(workers=("w1", "w2"), parameter_servers=("p1",), slot_s=3600)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_second_run_draws_the_bids_the_first_would_have(scenario: Scenario) -> None:
    whole = list(islice(scenario.offers(MACHINES, seed=3, number=1, from_s=0.0), 6))
    rest = list(islice(scenario.offers(MACHINES, seed=3, number=4, from_s=whole[2].at_s), 3))
    assert [(o.key, o.body) for o in rest] == [(o.key, o.body) for o in whole[3:]]
    assert [o.at_s for o in rest] == pytest.approx([o.at_s for o in whole[3:]])


@pytest.mark.thorough
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_arrivals_are_as_dense_as_declared(scenario: Scenario) -> None:
    offers = list(islice(scenario.offers(MACHINES, seed=0, number=1, from_s=0.0), 2000))
    assert 2000 * 3600 / offers[-1].at_s == pytest.approx(scenario.bids_per_slot, rel=0.02)


def test_every_draw_lies_in_the_ranges_of_dps() -> None:
    for offer in islice(DPS.offers(MACHINES, seed=5, number=1, from_s=0.0), 200):
        body = offer.body
        assert 20 <= body["epochs"] <= 60
        assert 27 <= body["chunks"] <= 115
        assert 10 <= body["minibatches"] <= 58
        assert 30 <= body["gradient_mb"] <= 575
        assert all(3.6 <= seconds <= 180 for seconds in body["worker_step_s"].values())
        assert all(0.01 <= seconds <= 0.1 for seconds in body["ps_step_s"].values())
        assert body["utility"]["value"] in (100, 200, 300, 400, 500)


def test_every_draw_lies_in_the_ranges_of_oasis() -> None:
    for offer in islice(OASIS.offers(MACHINES, seed=5, number=1, from_s=0.0), 200):
        body = offer.body
        assert body["model"] in MODELS
        assert 50 <= body["epochs"] <= 200
        assert 5 <= body["chunks"] <= 100
        assert 1 <= body["utility"]["value"] <= 100
        assert 2 <= body["utility"]["midpoint_s"] / 3600 <= 16
        assert 0 <= body["utility"]["steepness_per_s"] * 3600 <= 6


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_one_bid_of_three_stands_where_prices_are_posted_and_each_where_bids_compete(scenario: Scenario) -> None:
    bodies = [offer.body for offer in islice(scenario.offers(MACHINES, seed=5, number=1, from_s=0.0), 30)]
    stands = [body.get("standing", False) for body in bodies]
    assert sum(stands) == {DPS.name: 10, OASIS.name: 10, COMPETITION.name: 30}.get(scenario.name, 0)


def test_every_draw_of_competition_is_worth_less_later() -> None:
    for offer in islice(COMPETITION.offers(MACHINES, seed=5, number=1, from_s=0.0), 200):
        body = offer.body
        assert body["model"] in MODELS
        assert 50 <= body["epochs"] <= 100
        assert 4 <= body["chunks"] <= 12
        assert 1 <= body["utility"]["value"] <= 100
        assert 10 <= body["utility"]["midpoint_s"] / 3600 <= 50
        assert 0.1 <= body["utility"]["steepness_per_s"] * 3600 <= 1


def test_weighted_jobs_are_of_both_architectures() -> None:
    bodies = [o.body for o in islice(WEIGHTED.offers(MACHINES, seed=5, number=1, from_s=0.0), 200)]
    rings = [body for body in bodies if body.get("architecture") == "ring"]
    assert 60 < len(rings) < 140
    assert all(0.01 <= body["reduce_step_s"] <= 0.1 for body in rings)
    assert all(200 <= body["weight"] <= 5000 and 50 <= body["epochs"] <= 100 for body in bodies)
    assert not any("utility" in body for body in bodies)
