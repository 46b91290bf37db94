"""A bid for the rest: its training resumes from the newest checkpoint of an earlier bid's training."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from auctions.engine import decision_queue
from auctions.engine.submission import submit_bid
from auctions.models import Bid, BidState
from execution.models import Checkpoint, Program, Training, TrainingState
from execution.records import files_of
from scheduling.model.errors import InvalidField
from tests.auctions.worlds import SLOT_S, body, make_operator, make_user
from tests.execution.worlds import World, make_world

pytestmark = pytest.mark.thorough


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path)


@pytest.fixture
def ended(world: World) -> Bid:
    """A bid whose training was stopped at the end of its promise, with a checkpoint of step 40 of 100."""
    bid = world.submit(steps=100)
    world.go(0.5 * SLOT_S)
    (files_of(world.training(bid)).checkpoints(0) / "step-40").mkdir()
    world.go(20 * SLOT_S, every=SLOT_S / 4)
    assert world.training(bid).state == TrainingState.STOPPED
    return bid


def rest_of(world: World, number: int, owner: User | None = None, program: str = "train") -> Bid:
    sent = body(program={"name": program, "steps": 100, "continues": number}, epochs=8)
    bid = submit_bid(cluster=world.market.cluster, owner=owner or world.owner, body=sent).bid
    decision_queue.process_pending(world.market.pk)
    bid.refresh_from_db()
    return bid


def started(world: World, bid: Bid) -> list[dict[str, str]]:
    """The environments of the processes of this bid that live."""
    token = world.training(bid).token.hex
    found = [world.engine.processes[key].start.environment for key in world.engine.alive()]
    return [dict(env) for env in found if token in env["SHADOWPRICE_CHECKPOINTS"]]


def test_it_resumes_from_the_newest_checkpoint_of_the_earlier_bid(world: World, ended: Bid) -> None:
    rest = rest_of(world, ended.sequence)
    world.go(1.2 * SLOT_S)
    checkpoint = files_of(world.training(ended)).checkpoints(0) / "step-40"
    environments = started(world, rest)
    assert {env["SHADOWPRICE_RESUME"] for env in environments} == {str(checkpoint)}
    assert {env["SHADOWPRICE_STEPS"] for env in environments} == {"100"}
    training = world.training(rest)
    assert (training.step, training.steps) == (40, 100)
    assert training.starts_from is not None
    assert training.starts_from.generation.training.bid == ended


def test_its_own_newer_checkpoints_go_before_and_older_ones_do_not(world: World, ended: Bid) -> None:
    rest = rest_of(world, ended.sequence)
    world.go(1.2 * SLOT_S)
    resumed = started(world, rest)[0]["SHADOWPRICE_RESUME"]
    for step, expected in ((30, resumed), (50, None)):
        number = world.training(rest).generations.latest("number").number
        made = files_of(world.training(rest)).checkpoints(number) / f"step-{step}"
        made.mkdir()
        worker = next(key for key in world.engine.alive() if "-w" in key)
        world.engine.exit(worker, 7)
        world.go(30)
        assert started(world, rest)[0]["SHADOWPRICE_RESUME"] == (expected or str(made))


def test_it_is_refused_in_words_unless_it_can_resume(world: World, ended: Bid) -> None:
    def problem(**changes: Any) -> str:
        count = Bid.objects.count()
        with pytest.raises(InvalidField) as error:
            rest_of(world, **{"number": ended.sequence, **changes})
        assert (error.value.field, Bid.objects.count()) == ("program.continues", count)
        return error.value.problem

    mine = "expected the number of an earlier bid of yours that was run, got"
    for other in (make_user("bob"), make_operator()):  # neither another bidder nor an operator
        assert problem(owner=other) == f"{mine} {ended.sequence}"
    assert problem(number=99) == f"{mine} 99"
    Program.objects.create(cluster=world.market.cluster, name="other", arguments=["x"], working_directory="/")
    assert problem(program="other") == f"expected a bid whose program is other, got {ended.sequence}, whose is train"
    Training.objects.update(state=TrainingState.RUNNING)
    assert problem().endswith(f"whose training has ended, got {ended.sequence}, whose is running")
    Training.objects.update(state=TrainingState.FAILED)
    Checkpoint.objects.all().delete()
    assert problem().endswith(f"whose training has a checkpoint, got {ended.sequence}, whose has none")


def test_a_job_whose_checkpoint_is_gone_when_it_starts_fails_and_is_refunded(world: World, ended: Bid) -> None:
    rest = rest_of(world, ended.sequence)
    shutil.rmtree(files_of(world.training(ended)).root)
    Checkpoint.objects.all().delete()
    world.go(1.2 * SLOT_S)
    rest.refresh_from_db()
    assert rest.state == BidState.FAILED
    assert rest.end_reason == f"The checkpoints of bid {ended.sequence} were removed before the job started."
    assert not Training.objects.filter(bid=rest).exists()
