"""Measured step times: what steps of which jobs count, beside which figure of the profile, and what adopting does."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User

from auctions.models import Bid, Market
from cluster import guards
from cluster.guards import ChangeRefused
from cluster.models import ClockKind, StepTime
from execution import step_times
from execution.models import Generation
from execution.records import files_of
from execution.step_times import LEAST_STEPS, Constellation, Sample
from scheduling.model.errors import InvalidField
from tests.auctions.worlds import SLOT_S, make_operator
from tests.execution.worlds import World, make_world

WORKER_S, PS_S, TRANSFER_S = 9.0, 1.0, 0.16
"""ResNet-50 in the profile; the transfer is that of 10 MB there and back at 1,000 Mbit/s."""
ALONE = Constellation("net", "ring", "gpu", 1, "", 0, one_server=True)
PAIR = Constellation("net", "ring", "gpu", 2, "", 0, one_server=False)
MIXED = Constellation("net", "ring", "cpu + gpu", 2, "", 0, one_server=False)


def sample(of: Constellation, seconds: list[float], *, bid: int = 1, expected_s: float = 2.0) -> Sample:
    return Sample(of, expected_s=expected_s, worker_s=1.5, bid=bid, seconds=seconds)


def test_a_slow_step_does_not_move_the_median_and_the_exchange_is_not_the_workers() -> None:
    steps = [3.0] * LEAST_STEPS + [500.0]
    found = step_times.step_times([sample(ALONE, steps[:11], bid=1), sample(ALONE, steps[11:], bid=2)])
    (row,), (estimate,) = found.measured, found.estimates
    assert (row.constellation, row.measured_s, row.ratio, row.steps, row.jobs) == (ALONE, 3.0, 1.5, 21, 2)
    assert (estimate.model, estimate.worker_type, estimate.profile_s) == ("net", "gpu", 1.5)
    assert estimate.measured_s == 2.5
    assert estimate.ratio == pytest.approx(2.5 / 1.5)


def test_too_few_steps_are_counted_and_give_no_figure() -> None:
    found = step_times.step_times([sample(ALONE, [3.0] * (LEAST_STEPS - 1))])
    assert [(one.measured_s, one.ratio, one.steps) for one in found.measured] == [(None, None, LEAST_STEPS - 1)]
    assert [(one.measured_s, one.ratio, one.steps) for one in found.estimates] == [(None, None, LEAST_STEPS - 1)]


def test_constellations_are_kept_apart_and_only_jobs_with_one_worker_type_say_something_of_it() -> None:
    many = [3.0] * LEAST_STEPS
    found = step_times.step_times([sample(PAIR, many, expected_s=2.5), sample(ALONE, many), sample(MIXED, many)])
    assert {one.constellation for one in found.measured} == {ALONE, PAIR, MIXED}
    assert [(one.worker_type, one.steps) for one in found.estimates] == [("gpu", 2 * LEAST_STEPS)]


def test_steps_that_are_quicker_than_the_exchange_alone_give_no_step_time() -> None:
    found = step_times.step_times([sample(ALONE, [0.4] * LEAST_STEPS)])
    assert [one.ratio for one in found.measured] == [0.2]
    assert [one.measured_s for one in found.estimates] == [None]


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path)


def run(world: World, seconds: list[float | None], **changes: Any) -> Bid:
    """A bid whose job reported steps of these durations."""
    bid = world.submit(epochs=8, steps=300, **changes)
    world.go(1.2 * SLOT_S)
    generation = world.training(bid).generations.get()
    lines = [json.dumps({"step": n, "loss": 1.0, "seconds": one}) + "\n" for n, one in enumerate(seconds, start=1)]
    files_of(world.training(bid)).progress(generation.number).write_text("".join(lines))
    world.go(5)
    return bid


def profile_of(market: Market) -> float:
    return StepTime.objects.get(profile__cluster=market.cluster, machine_type__role="worker").seconds


def test_reported_steps_stand_beside_what_the_profile_says_without_the_first_one(world: World) -> None:
    run(world, [99.0, *[14.0] * 25, None])
    machines = [tuple(one) for one in Generation.objects.get().allocation]
    counts = {role: sum(one[3] for one in machines if one[0] == role) for role in ("worker", "ps")}
    spread = len({one[1] for one in machines}) > 1
    found = step_times.of_market(world.market)
    (row,), (estimate,) = found.measured, found.estimates
    assert row.constellation == Constellation(
        "ResNet-50", "ps", "gpu", counts["worker"], "ps", counts["ps"], one_server=not spread
    )
    assert row.expected_s == pytest.approx(WORKER_S + PS_S + TRANSFER_S * spread)
    assert (row.measured_s, row.steps, row.jobs) == (14.0, 25, 1)
    assert estimate.measured_s == pytest.approx(14.0 - PS_S - TRANSFER_S * spread)


def test_a_job_that_states_its_own_step_times_says_nothing_of_the_profile(world: World) -> None:
    run(world, [14.0] * 30, worker_step_s={"gpu": 5.0})
    assert step_times.of_market(world.market).measured == []


def test_profiles_are_in_seconds_of_the_clusters_clock(world: World) -> None:
    run(world, [14.0] * 30)
    cluster = world.market.cluster
    cluster.clock_kind, cluster.clock_speed = ClockKind.VIRTUAL, 10.0
    cluster.save()
    (row,) = step_times.of_market(Market.objects.get()).measured
    assert row.measured_s == 140.0


def test_adopting_is_a_change_of_the_profile_that_the_guards_allow(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    olga, cluster = make_operator(), world.market.cluster
    given: dict[str, Any] = {"model": "ResNet-50", "worker_type": "gpu", "by": olga}
    with pytest.raises(InvalidField, match=r"expected the step time of now, 9 s, got 8 s"):
        step_times.adopt(cluster, before=8.0, after=13.0, **given)
    with pytest.raises(InvalidField, match="expected a profile"):
        step_times.adopt(cluster, before=9.0, after=13.0, **given | {"worker_type": "ps"})
    with monkeypatch.context() as patch:
        patch.setattr(guards, "_checks", [lambda cluster, inventory: ["Not now."]])
        with pytest.raises(ChangeRefused, match="Not now"):
            step_times.adopt(cluster, before=9.0, after=13.0, **given)
    assert profile_of(world.market) == 9.0
    step_times.adopt(cluster, before=9.0, after=13.0, **given)
    assert profile_of(world.market) == 13.0
    bid = world.submit(epochs=1)
    assert bid.resolved_request["worker_step_s"] == {"gpu": 13.0}
    entry = LogEntry.objects.get()
    assert (entry.user, entry.object_repr) == (User.objects.get(username="olga"), "ResNet-50")
    assert entry.change_message == "Step time on gpu changed from 9 s to 13 s, as measured."
