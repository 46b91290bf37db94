"""Progress that programs report by HTTP: what the token of a generation can do, and all that it cannot."""

import time
import types
from pathlib import Path
from typing import Any

import pytest
from django.core import signing
from django.core.cache import cache
from rest_framework.test import APIClient

from auctions.models import Bid, Market
from execution.api.progress import EXAMPLE
from execution.models import Execution, Generation, GenerationState, Progress
from execution.records import files_of
from execution.tokens import SALT, token_of
from tests.auctions.worlds import SLOT_S, make_operator
from tests.execution.test_run_your_own import REPORTING
from tests.execution.worlds import World, make_world
from tests.rest import nobody_asked_before, user_token

pytestmark = pytest.mark.thorough

__all__ = ["nobody_asked_before"]
ADDRESS = "/api/v1/progress"
STEPS = [{"step": 7, "loss": 0.75, "seconds": 0.5}, {"step": 8, "loss": 0.5}]


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    world = make_world(monkeypatch, settings, tmp_path)
    Execution.objects.update(service_url="http://market.example:8000/")
    return world


@pytest.fixture
def bid(world: World) -> Bid:
    """A bid whose first generation runs."""
    bid = world.submit(epochs=8, steps=300)
    world.go(1.1 * SLOT_S)
    return bid


def given(world: World) -> tuple[str, str]:
    """The address and the token that the newest process got."""
    env = list(world.engine.processes.values())[-1].start.environment
    return env["SHADOWPRICE_URL"], env["SHADOWPRICE_TOKEN"]


def speaking_as(token: str) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {token}")
    return client


def report(token: str, steps: Any = STEPS) -> Any:
    cache.clear()  # the rate is tested below
    return speaking_as(token).post(ADDRESS, {"steps": steps}, format="json")


def test_the_example_of_the_document_is_taken(world: World, bid: Bid) -> None:
    assert report(given(world)[1], EXAMPLE["steps"]).json() == {"step": 42}


def test_a_program_reports_its_own_progress(world: World, bid: Bid) -> None:
    url, token = given(world)
    assert url == f"http://market.example:8000{ADDRESS}"
    market = Market.objects.values().get()
    assert report(token).json() == {"step": 8}
    assert report(token).status_code == 200  # a report that is sent again is stored once
    rows = Progress.objects.values_list("generation__number", "step", "loss", "seconds")
    assert list(rows) == [(0, 7, 0.75, 0.5), (0, 8, 0.5, None)]
    training = world.training(bid)
    assert (training.step, training.loss, training.state) == (8, 0.5, "running")
    assert Market.objects.values().get() == market
    world.go(5)
    assert world.training(bid).step == 8  # the file, which has nothing, takes nothing back


def test_a_late_report_takes_no_step_back_and_a_new_start_does(world: World, bid: Bid) -> None:
    _, token = given(world)
    file, executor = files_of(world.training(bid)).progress(0), world.executor()
    file.write_text('{"step": 2}\n')
    world.go(10, executor=executor)
    assert report(token).json() == {"step": 8}
    assert report(token, [{"step": 3, "loss": 0.9}]).json() == {"step": 8}
    file.write_text('{"step": 2}\n{"step": 5, "loss": 0.8}\n')
    world.go(10, executor=executor)
    executor.close()
    assert sorted(Progress.objects.values_list("step", flat=True)) == [2, 3, 5, 7, 8]
    assert (world.training(bid).step, world.training(bid).loss) == (8, 0.5)
    world.engine.exit(next(key for key in world.engine.alive() if "-w" in key), 7)
    world.go(2 * SLOT_S)
    assert report(given(world)[1], [{"step": 4, "loss": 0.7}]).json() == {"step": 4}
    assert (world.training(bid).step, world.training(bid).loss) == (4, 0.7)


def test_without_an_address_a_program_has_no_token(world: World) -> None:
    Execution.objects.update(service_url="")
    world.submit(epochs=8)
    world.go(1.1 * SLOT_S)
    env = next(iter(world.engine.processes.values())).start.environment
    assert not {"SHADOWPRICE_URL", "SHADOWPRICE_TOKEN"} & env.keys()


def test_the_token_ends_with_its_generation_and_belongs_to_it_alone(world: World, bid: Bid) -> None:
    _, first = given(world)
    world.engine.exit(next(key for key in world.engine.alive() if "-w" in key), 7)
    world.go(20)
    _, second = given(world)
    assert second != first
    refused = report(first)
    assert (refused.status_code, refused.json()["detail"]) == (409, "This generation of the training has ended.")
    assert report(second).status_code == 200
    assert set(Progress.objects.values_list("generation__number", flat=True)) == {1}
    Generation.objects.exclude(state=GenerationState.ENDED).update(fence=99)
    assert report(second).status_code == 401  # signed for another fence


@pytest.mark.parametrize("token", ["", "x", "a:b", signing.Signer(salt=SALT).sign_object("text"), "ä"])
def test_another_token_is_refused(world: World, bid: Bid, token: str) -> None:
    running = Generation.objects.get()
    for one in (token, signing.Signer(salt="other").sign_object([running.pk, running.fence])):
        assert report(one).status_code == 401
    assert not Progress.objects.exists()


def test_users_cannot_report_and_programs_can_do_nothing_else(world: World, bid: Bid) -> None:
    for user in (world.owner, make_operator()):
        assert report(user_token(user)).status_code == 401
    program = speaking_as(given(world)[1])
    own = f"clusters/lab/bids/{bid.sequence}"
    for path in ("clusters", "clusters/lab/bids", f"{own}/training", "clusters/lab/programs"):
        assert program.get(f"/api/v1/{path}").status_code == 401
    assert program.post(f"/api/v1/{own}/cancel").status_code == 401


def test_wrong_steps_are_named_and_nothing_is_stored(world: World, bid: Bid) -> None:
    _, token = given(world)
    wrong = [{"step": -1}, {"step": 1.5}, {"loss": 1}, {"step": 2, "loss": "x", "seconds": -1, "more": 1}]
    fields = [one["field"] for one in report(token, wrong).json()["errors"]]
    assert fields == ["steps[0].step", "steps[1].step", "steps[2].step"] + [
        f"steps[3].{name}" for name in ("loss", "seconds", "more")
    ]
    assert report(token, []).status_code == report(token, [{"step": 1}] * 1_001).status_code == 400
    assert not Progress.objects.exists()


def test_reports_are_limited_for_each_generation(world: World, bid: Bid) -> None:
    program = speaking_as(token_of(Generation.objects.get()))
    codes = [program.post(ADDRESS, {"steps": STEPS}, format="json").status_code for _ in range(9)]
    assert codes[:2] == [200, 200]
    assert codes[-1] == 429


def test_the_guides_function_reports_and_survives_a_failure(
    live_server: Any, world: World, bid: Bid, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = types.ModuleType("guide")
    exec(REPORTING, guide.__dict__)
    monkeypatch.setenv("SHADOWPRICE_TOKEN", given(world)[1])
    for url in ("http://127.0.0.1:1/", f"{live_server.url}{ADDRESS}"):
        monkeypatch.setenv("SHADOWPRICE_URL", url)
        guide.report(STEPS)
    deadline = time.monotonic() + 5
    while not Progress.objects.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert Progress.objects.count() == 2
