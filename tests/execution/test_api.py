"""REST of execution: a training with its generations, its progress, and what operators see of a cluster."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from auctions.models import Bid
from execution import readings
from execution.models import Execution, Lease, Process, Progress, Training
from execution.places import engine_root
from execution.records import files_of
from tests.auctions.worlds import SLOT_S, make_operator
from tests.execution.worlds import World, make_world
from tests.rest import charlie, client_of, nobody_asked_before

pytestmark = pytest.mark.thorough

__all__ = ["charlie", "client_of", "nobody_asked_before"]


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path)


@pytest.fixture
def alice(client_of: Callable[[User], APIClient], world: World) -> APIClient:
    """The owner's client."""
    return client_of(world.owner)


@pytest.fixture
def olga(client_of: Callable[[User], APIClient], db: None) -> APIClient:
    """An operator's client."""
    return client_of(make_operator())


def report(training: Training, steps: range) -> None:
    """Let the newest generation report these steps."""
    generation = training.generations.latest("number")
    lines = [json.dumps({"step": n, "loss": 10 / n, "seconds": 0.5}) + "\n" for n in steps]
    files_of(training).progress(generation.number).write_text("".join(lines))


@pytest.fixture
def running(world: World) -> Bid:
    """A bid whose training has done 20 of 300 steps."""
    bid = world.submit(epochs=8, steps=300)
    world.go(1.1 * SLOT_S)
    report(world.training(bid), range(1, 21))
    world.go(5)
    return bid


def address(bid: Bid, rest: str = "") -> str:
    return f"/api/v1/clusters/lab/bids/{bid.sequence}/training{rest}"


def restart(world: World, bid: Bid) -> None:
    """Let the job fail after a checkpoint at step 15, and start again."""
    generation = world.training(bid).generations.get()
    (files_of(world.training(bid)).checkpoints(generation.number) / "step-15").mkdir()
    world.engine.exit(next(key for key in world.engine.alive() if "-w" in key), 7, output=b"no memory\n")
    world.go(20)


def test_a_training_is_read_with_its_generation_and_processes(world: World, alice: APIClient, running: Bid) -> None:
    read = alice.get(address(running)).json()
    assert (read["cluster"], read["sequence"], read["program"]) == ("lab", running.sequence, "train")
    assert (read["state"], read["reason"], read["arguments"]) == ("running", "", ["--fast"])
    assert (read["step"], read["steps"], read["percent"], read["loss"]) == (20, 300, 6, 0.5)
    assert (read["retries"], read["next_try_at"], read["truncated"]) == (0, None, False)
    (generation,) = read["generations"]
    assert (generation["number"], generation["state"], generation["ending"]) == (0, "running", None)
    assert (generation["pause_s"], generation["repeated_steps"], generation["resumed_from"]) == (None, None, None)
    assert generation["last_step"] == 20
    assert sum(one["count"] for one in generation["machines"]) == len(world.engine.alive())
    assert {one["key"] for one in generation["processes"]} == set(world.engine.alive())
    assert {(one["state"], one["code"]) for one in generation["processes"]} == {("running", None)}


def test_a_restart_says_why_and_what_it_cost(world: World, alice: APIClient, running: Bid) -> None:
    restart(world, running)
    read = alice.get(address(running)).json()
    first, second = read["generations"]
    assert (first["ending"], first["state"], second["number"]) == ("fault", "ended", 1)
    assert (second["resumed_from"], second["repeated_steps"]) == (15, 5)
    assert 0 < second["pause_s"] <= 20
    assert 7 in {one["code"] for one in first["processes"]}
    earlier = alice.get(address(running, "?before=1")).json()
    assert [one["number"] for one in earlier["generations"]] == [0]


def test_of_many_generations_the_newest_are_read(
    world: World, alice: APIClient, running: Bid, monkeypatch: pytest.MonkeyPatch
) -> None:
    restart(world, running)
    monkeypatch.setattr(readings, "MOST_GENERATIONS", 1)
    read = alice.get(address(running)).json()
    assert ([one["number"] for one in read["generations"]], read["truncated"]) == ([1], True)
    assert read["generations"][0]["repeated_steps"] == 5
    earlier = alice.get(address(running, "?before=1")).json()
    assert ([one["number"] for one in earlier["generations"]], earlier["truncated"]) == ([0], False)


def test_a_failed_training_has_its_last_lines_and_the_time_of_the_next_try(
    world: World, alice: APIClient, running: Bid
) -> None:
    world.engine.exit(next(key for key in world.engine.alive() if "-w" in key), 7, output=b"no memory\n")
    while world.training(running).state != "waiting":
        world.go(0.5, every=0.5)
    read = alice.get(address(running)).json()
    assert "no memory" in read["reason"]
    assert (read["state"], read["retries"]) == ("waiting", 1)
    assert read["next_try_at"] is not None
    world.go(5)
    execution = Execution.objects.get()
    execution.is_on = False
    execution.save()
    world.go(20)
    read = alice.get(address(running)).json()
    assert (read["state"], read["retries"], read["next_try_at"]) == ("waiting", 1, None)  # it is over


def test_a_bid_without_a_training_is_404_and_says_why(world: World, alice: APIClient) -> None:
    bid = world.submit(epochs=8)
    answer = alice.get(address(bid))
    assert (answer.status_code, "Nothing was started" in answer.json()["detail"]) == (404, True)
    Bid.objects.filter(pk=bid.pk).update(body={**bid.body, "program": None}, program=None)
    assert "names no program" in alice.get(address(bid)).json()["detail"]
    assert alice.get(address(bid, "/progress")).json() == {"results": [], "truncated": False}


def test_progress_is_read_from_a_step_of_a_generation_on(
    world: World, alice: APIClient, running: Bid, monkeypatch: pytest.MonkeyPatch
) -> None:
    restart(world, running)
    report(world.training(running), range(16, 19))
    world.go(5)

    def read(query: str) -> list[tuple[int, int]]:
        answer = alice.get(address(running, f"/progress{query}")).json()
        assert answer["truncated"] == (len(answer["results"]) == readings.MOST_STEPS)
        return [(one["generation"], one["step"]) for one in answer["results"]]

    every = [*((0, step) for step in range(1, 21)), *((1, step) for step in range(16, 19))]
    assert read("") == every
    assert read("?from_step=19") == every[18:]
    assert read("?generation=1&from_step=17") == [(1, 17), (1, 18)]
    assert read("?generation=1&from_step=19") == []
    monkeypatch.setattr(readings, "MOST_STEPS", 7)
    rows = read("")
    while len(rows) % 7 == 0:
        rows += read(f"?generation={rows[-1][0]}&from_step={rows[-1][1] + 1}")
    assert rows == every
    one = alice.get(address(running, "/progress?from_step=20")).json()["results"][0]
    assert (one["loss"], one["seconds"]) == (0.5, 0.5)


@pytest.mark.parametrize("query", ["/progress?from_step=-1", "/progress?generation=x", "?before=1.5", "?after=1"])
def test_a_wrong_parameter_is_named(alice: APIClient, running: Bid, query: str) -> None:
    answer = alice.get(address(running, query))
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["field"] == query.partition("?")[2].partition("=")[0]


@pytest.mark.parametrize("rest", ["", "/progress"])
def test_anothers_training_is_404(charlie: APIClient, olga: APIClient, running: Bid, rest: str) -> None:
    assert charlie.get(address(running, rest)).status_code == 404
    assert olga.get(address(running, rest)).status_code == 200


def test_an_operator_reads_the_execution_of_a_cluster(world: World, olga: APIClient, running: Bid) -> None:
    read = olga.get("/api/v1/clusters/lab/execution").json()
    assert (read["cluster"], read["is_on"], read["engine"], read["grace_s"]) == ("lab", True, "local", 10.0)
    assert (read["executor_active"], read["executor"], read["fence"]) == (True, "one", 1)
    assert (read["trainings"]["running"], read["trainings"]["failed"], read["generations"]) == (1, 0, 1)
    assert read["processes"] == {"sent": 0, "running": Process.objects.count(), "exited": 0, "lost": 0}
    assert sum(one["running"] for one in read["servers"]) == Process.objects.count()
    assert [one["in_service"] for one in read["servers"]] == [True] * len(read["servers"])
    assert read["late"] == []


def test_what_is_late_is_listed(world: World, olga: APIClient) -> None:
    bid = world.submit(epochs=8)
    world.wall[0] += 1.2 * SLOT_S
    read = olga.get("/api/v1/clusters/lab/execution").json()
    assert [(one["sequence"], one["problem"]) for one in read["late"]] == [
        (bid.sequence, "it holds machines and nothing was started")
    ]
    assert (read["executor_active"], read["executor"], read["fence"]) == (False, None, None)
    Lease.objects.create(name="executor", holder="one", fence=4, until=world.now - 1)
    assert olga.get("/api/v1/clusters/lab/execution").json()["executor_active"] is False


def test_a_cluster_that_does_not_execute_is_404_and_bidders_are_refused(
    world: World, olga: APIClient, alice: APIClient
) -> None:
    assert alice.get("/api/v1/clusters/lab/execution").status_code == 403
    Execution.objects.all().delete()
    answer = olga.get("/api/v1/clusters/lab/execution")
    assert (answer.status_code, "not run by this service" in answer.json()["detail"]) == (404, True)


def test_reading_writes_nothing_and_asks_few_queries(
    world: World, alice: APIClient, olga: APIClient, running: Bid, django_assert_max_num_queries: Any
) -> None:
    before = [list(rows.objects.values()) for rows in (Training, Process, Progress, Lease)]
    with django_assert_max_num_queries(17):
        alice.get(address(running))
    with django_assert_max_num_queries(25):
        olga.get("/api/v1/clusters/lab/execution")
    assert [list(rows.objects.values()) for rows in (Training, Process, Progress, Lease)] == before


def test_the_log_of_a_process_is_read_in_parts(world: World, alice: APIClient, olga: APIClient, running: Bid) -> None:
    process = Process.objects.order_by("pk")[0]
    folder = engine_root("lab") / "live" / process.key
    folder.mkdir(parents=True)
    (folder / f"log.{5:020}").write_bytes(b"\x1b[31mone\x1b[0m\ntwo\nhalf")
    first = alice.get(address(running, f"/logs/{process.key}")).json()
    expected = {"text": "one\ntwo\n", "begin": 5, "end": 22, "first": 5, "size": 26, "unfinished": "half"}
    assert first == {**expected, "is_over": False}
    rest = alice.get(address(running, f"/logs/{process.key}?offset={first['end']}")).json()
    assert (rest["text"], rest["end"]) == ("", first["end"]), "a line that is not whole yet is kept back"
    Process.objects.filter(pk=process.pk).update(state="exited", code=0)
    rest = olga.get(address(running, f"/logs/{process.key}?offset={first['end']}")).json()
    assert (rest["text"], rest["end"], rest["is_over"]) == ("half", 26, True)
    assert "no process other" in alice.get(address(running, "/logs/other")).json()["detail"]


def test_the_log_of_another_bidders_process_is_404(charlie: APIClient, running: Bid) -> None:
    key = Process.objects.order_by("pk")[0].key
    assert charlie.get(address(running, f"/logs/{key}")).status_code == 404
