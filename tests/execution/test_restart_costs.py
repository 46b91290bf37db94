"""The cost of a restart: the time without a step, without the time in which the job held nothing."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cluster import clock
from execution import restart_costs
from execution.models import Checkpoint, Ending, Generation, GenerationState, Process, Progress, Training
from execution.restart_costs import restart_cost
from tests.auctions.worlds import make_cluster, make_market
from tests.execution.rows import make_training
from tests.execution.worlds import BEGIN_S, World, make_world


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path)


def restarted(world: World, *, ending: Ending = Ending.CHANGED, slot: int = 1) -> Training:
    """A job that made its last step, the tenth, 4 s before slot 1, and its next one 16 s after `slot` began."""
    training = make_training(world.submit())
    first = training.generations.get()
    now = clock.now()
    first.state, first.ending, first.ended_at, first.until = GenerationState.ENDED, ending, now, BEGIN_S + 100
    first.save()
    Progress.objects.create(generation=first, step=10, seconds=2.0, at=now + timedelta(seconds=96))
    saved = Checkpoint.objects.create(generation=first, step=8, path="/x", found_at=now)
    second = Generation.objects.create(
        training=training,
        number=1,
        fence=1,
        allocation=first.allocation,
        slot=slot,
        resumed_from=saved,
        until=BEGIN_S + 1_000,
        created_at=now,
    )
    Progress.objects.create(generation=second, step=9, seconds=3.0, at=now + timedelta(seconds=100 * slot + 16))
    return training


def test_it_is_the_time_without_a_step_and_that_of_steps_done_again(world: World) -> None:
    restarted(world)
    found = restart_cost(world.market)
    # 20 s from step to step, of which 3 s are the new one; steps 9 and 10 of 2 s are done again.
    assert (found.restarts, found.seconds, found.slots) == (1, 17.0 + 4.0, 0.21)
    assert (found.parameter, found.counted_slots) == ("pause", 0)


def test_slots_in_which_a_job_held_nothing_are_no_cost(world: World) -> None:
    restarted(world, slot=4)
    assert restart_cost(world.market).seconds == 21.0


def test_failures_wait_on_purpose_and_are_not_counted(world: World) -> None:
    restarted(world, ending=Ending.FAULT)
    found = restart_cost(world.market)
    assert (found.restarts, found.seconds, found.slots) == (0, None, None)


def test_of_a_job_that_failed_later_the_change_of_machines_alone_is_counted(world: World) -> None:
    training = restarted(world)
    second = training.generations.get(number=1)
    second.state, second.ending, second.ended_at = GenerationState.ENDED, Ending.FAULT, clock.now()
    second.save()
    third = Generation.objects.create(
        training=training,
        number=2,
        fence=1,
        allocation=second.allocation,
        slot=2,
        until=BEGIN_S + 1_000,
        created_at=clock.now(),
    )
    Progress.objects.create(generation=third, step=10, seconds=3.0, at=clock.now() + timedelta(seconds=900))
    found = restart_cost(world.market)
    assert (found.restarts, found.seconds) == (1, 21.0)


def test_the_newest_restarts_of_the_market_count(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    restarted(world)
    Process.objects.update(key="another")  # keys are unique
    newest = restarted(world)
    Progress.objects.filter(generation__training=newest, generation__number=1).update(step=10, seconds=None)
    Progress.objects.filter(generation__training=newest, generation__number=0).update(seconds=None)
    found = restart_cost(world.market)
    assert (found.restarts, found.seconds) == (2, (20.0 + 21.0) / 2), "a step that states no duration counts as none"
    monkeypatch.setattr(restart_costs, "MOST_RESTARTS", 1)
    assert (restart_cost(world.market).restarts, restart_cost(world.market).seconds) == (1, 20.0)
    assert restart_cost(make_market(make_cluster("other"))).restarts == 0


def test_a_step_that_comes_sooner_than_expected_costs_nothing(world: World) -> None:
    """The clock of a program may be wrong."""
    training = restarted(world)
    Progress.objects.filter(generation__number=1).update(step=11, at=clock.now() - timedelta(seconds=50))
    assert (restart_cost(world.market).restarts, restart_cost(world.market).seconds) == (1, 0.0)
    assert training.generations.count() == 2


def test_the_parameter_is_that_of_the_policy_in_force(
    db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    world = make_world(monkeypatch, settings, tmp_path, policy="weighted_completion", parameters={"restart": 3})
    found = restart_cost(world.market)
    assert (found.parameter, found.counted_slots) == ("restart", 3)
