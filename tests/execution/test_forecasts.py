"""Forecasts of the end of a training: one function for its page, REST and the list of what is late."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from rest_framework.test import APIClient

from auctions.models import Bid, Commitment
from execution import forecasts
from execution.records import files_of
from tests.auctions.worlds import SLOT_S, make_operator
from tests.execution.worlds import World, make_world
from tests.rest import client_of

pytestmark = pytest.mark.thorough

__all__ = ["client_of"]


def test_a_rate_is_taken_from_the_end_of_the_first_reading_to_the_end_of_the_last() -> None:
    points = [(14, 20.0), (13, 20.0), (8, 11.0), (4, 10.0), (3, 10.0), (2, 10.0)]
    assert forecasts.pace(points) == 1.0
    assert forecasts.pace([]) is None
    assert forecasts.pace([(n, 10.0) for n in range(9, 0, -1)]) is None, "all were read at once"
    assert forecasts.pace([(5, 20.0), (1, 10.0)]) is None, "these are too few"


def test_work_goes_on_only_in_the_slots_that_are_held_and_after_the_last_of_them() -> None:
    held = forecasts.merged([(9.0, 10.0), (3.0, 5.0), (4.0, 6.0)])
    assert held == [(3.0, 6.0), (9.0, 10.0)]
    assert forecasts.done_at(1.5, held, now=4.0) == 5.5
    assert forecasts.done_at(2.5, held, now=4.0) == 9.5
    assert forecasts.done_at(4.0, held, now=4.0) == 11.0
    assert forecasts.done_at(1.0, held, now=1.0) == 4.0


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path)


@pytest.fixture
def running(world: World) -> Bid:
    """A bid that holds machines from slot 1 on, whose job makes a step each second."""
    bid = world.submit(epochs=8, steps=10_000)
    world.go(1.1 * SLOT_S)
    training = world.training(bid)
    for last in (5, 10, 15):
        world.go(5)
        lines = [json.dumps({"step": n, "loss": 1.0}) + "\n" for n in range(1, last + 1)]
        files_of(training).progress(0).write_text("".join(lines))
    world.go(5)
    return bid


def late_slots(world: World, bid: Bid) -> float:
    end = max(Commitment.objects.filter(bid=bid).values_list("end", flat=True))
    return world.slot + (10_000 - 15) / SLOT_S - end


def test_page_rest_and_the_list_of_late_jobs_say_the_same(
    world: World, running: Bid, client: Client, client_of: Callable[[User], APIClient]
) -> None:
    late = late_slots(world, running)
    assert late > 0
    read = client_of(world.owner).get(f"/api/v1/clusters/lab/bids/{running.sequence}/training").json()["forecast"]
    assert (read["step"], read["steps"], read["step_s"]) == (15, 10_000, 1.0)
    assert read["late_slots"] == pytest.approx(late)
    assert read["done_slot"] == pytest.approx(world.slot + 9_985 / SLOT_S)
    client.force_login(world.owner)
    words = f"At this rate it is done {late:.1f} slots after the end of its promise."
    assert words in client.get(f"/markets/lab/bids/{running.sequence}/").content.decode()
    olga = make_operator()
    assert client_of(olga).get("/api/v1/clusters/lab/execution").json()["foreseen"] == [read]
    client.force_login(olga)
    assert words in client.get("/markets/lab/execution/").content.decode()


def test_a_job_that_is_in_time_is_not_among_the_late_ones(world: World, running: Bid, client: Client) -> None:
    training = world.training(running)
    training.steps = 20
    training.save()
    forecast = forecasts.forecast_of(running)
    assert forecast is not None
    assert forecast.late_slots < 0
    assert forecasts.late_ones(world.market) == []
    assert "slots before the end" in str(forecast)


def test_nothing_is_foreseen_without_steps_in_all_or_while_nothing_runs(world: World, running: Bid) -> None:
    training = world.training(running)
    training.steps = None
    training.save()
    assert forecasts.forecast_of(running) is None
    training.steps = 10_000
    training.save()
    training.generations.update(state="stopping")
    assert forecasts.forecast_of(running) is None
