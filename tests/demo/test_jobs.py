"""The drawn stream of bids."""

from itertools import islice

import pytest

from auctions.demo.jobs import BIDS_PER_SLOT, Machines, drawn

MACHINES = Machines(workers=("w1", "w2"), pss=("p1",), slot_s=3600)


def test_a_second_run_draws_the_bids_the_first_would_have() -> None:
    whole = list(islice(drawn(MACHINES, seed=3, number=1, from_s=0.0), 6))
    rest = list(islice(drawn(MACHINES, seed=3, number=4, from_s=whole[2].at_s), 3))
    assert [(o.key, o.body) for o in rest] == [(o.key, o.body) for o in whole[3:]]
    assert [o.at_s for o in rest] == pytest.approx([o.at_s for o in whole[3:]])


def test_arrivals_are_as_dense_as_declared() -> None:
    offers = list(islice(drawn(MACHINES, seed=0, number=1, from_s=0.0), 2000))
    assert 2000 * 3600 / offers[-1].at_s == pytest.approx(BIDS_PER_SLOT, rel=0.1)


def test_every_draw_lies_in_the_papers_ranges() -> None:
    for offer in islice(drawn(MACHINES, seed=5, number=1, from_s=0.0), 200):
        body = offer.body
        assert 20 <= body["epochs"] <= 60
        assert 27 <= body["chunks"] <= 115
        assert 10 <= body["minibatches"] <= 58
        assert 30 <= body["gradient_mb"] <= 575
        assert all(3.6 <= seconds <= 180 for seconds in body["worker_step_s"].values())
        assert all(0.01 <= seconds <= 0.1 for seconds in body["ps_step_s"].values())
        assert body["utility"]["value"] in (100, 200, 300, 400, 500)
