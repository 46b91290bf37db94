"""An error that nobody foresaw, while the executor deals with one job: it is seen, and the other jobs go on."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import DataError, OperationalError
from django.test import Client

from auctions.engine import jobs
from auctions.models import Bid, BidState
from execution import defects, executor, overviews, records
from execution.defects import MOST_TRIES
from execution.engines.base import EngineError
from execution.execution_metrics import ExecutionMetrics
from execution.lease import LASTS_S
from execution.models import Defect, Execution, Generation, GenerationState, Progress, TrainingState
from execution.records import files_of
from tests.auctions.worlds import SLOT_S, make_operator
from tests.execution.worlds import World, make_world

pytestmark = [pytest.mark.thorough, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path)


class Faults:
    """Lets one step of the executor raise for one bid, as long as `error` is set."""

    def __init__(self, bid: Bid, error: Exception) -> None:
        self.bid, self.error = bid, error
        self.on = True
        self.raised = 0

    def around(self, call: Callable[..., Any], is_its: Callable[..., bool]) -> Callable[..., Any]:
        def wrapped(*args: Any, **more: Any) -> Any:
            if self.on and is_its(*args, **more):
                self.raised += 1
                raise self.error
            return call(*args, **more)

        return wrapped


def keys_of(bid: Bid) -> set[str]:
    return set(Generation.objects.filter(training__bid=bid).values_list("processes__key", flat=True))


Place = Callable[[pytest.MonkeyPatch, World, Faults], None]


def creating(patch: pytest.MonkeyPatch, world: World, faults: Faults) -> None:
    mine = faults.around(records.create_training, lambda _fence, bid, *_: bid == faults.bid)
    patch.setattr(records, "create_training", mine)


def launching(patch: pytest.MonkeyPatch, world: World, faults: Faults) -> None:
    patch.setattr(
        world.engine, "launch", faults.around(world.engine.launch, lambda start: start.key in keys_of(faults.bid))
    )


def making_folders(patch: pytest.MonkeyPatch, world: World, faults: Faults) -> None:
    patch.setattr(records, "files_of", faults.around(files_of, lambda training: training.bid_id == faults.bid.pk))


def observing(patch: pytest.MonkeyPatch, world: World, faults: Faults) -> None:
    mine = faults.around(records.observe, lambda _fence, process, *_: process.key in keys_of(faults.bid))
    patch.setattr(records, "observe", mine)


def recording_progress(patch: pytest.MonkeyPatch, world: World, faults: Faults) -> None:
    mine = faults.around(
        records.keep_progress, lambda _fence, reports: any(one.training.bid_id == faults.bid.pk for one in reports)
    )
    patch.setattr(records, "keep_progress", mine)


PLACES = (creating, launching, making_folders, observing, recording_progress)


def report(bid: Bid, world: World, step: int) -> None:
    with open(files_of(world.training(bid)).progress(0), "a") as lines:
        lines.write(f'{{"step": {step}}}\n')


def two_jobs(world: World) -> tuple[Bid, Bid]:
    return world.submit(epochs=8, steps=50), world.submit(epochs=8, steps=50)


@pytest.mark.parametrize("place", PLACES)
def test_an_error_of_one_job_is_seen_and_the_other_goes_on_until_it_is_mended(
    world: World, place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = two_jobs(world)
    faults = Faults(bad, DataError("value too long"))
    one = world.executor()
    if place in (observing, recording_progress):
        world.go(1.1 * SLOT_S, executor=one)
        report(bad, world, 1)
        place(monkeypatch, world, faults)
    else:
        place(monkeypatch, world, faults)
        world.go(1.1 * SLOT_S, executor=one)
    report(good, world, 2)
    world.go(2, executor=one, every=1)
    assert faults.raised
    assert Progress.objects.get(generation__training__bid=good).step == 2
    assert set(world.engine.alive()) >= keys_of(good) != set()
    row = Defect.objects.get()
    assert (row.bid, row.problem) == (bad, "DataError: value too long")
    line = next(one for one in caplog.records if one.name == defects.log.name)
    assert line.levelno == logging.ERROR
    assert line.exc_info is not None
    late = [str(one) for one in overviews.overview(Execution.objects.get()).late if one.bid == bad.sequence]
    assert any("DataError: value too long" in words for words in late)

    faults.on = False
    world.go(60, executor=one)
    assert not Defect.objects.exists()
    assert set(world.engine.alive()) == keys_of(good) | keys_of(bad)
    assert Generation.objects.exclude(state=GenerationState.ENDED).count() == 2


@pytest.mark.parametrize("place", [launching, creating])
def test_a_job_on_which_the_executor_always_fails_fails_with_a_reason_and_is_refunded(
    world: World, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = two_jobs(world)
    faults = Faults(bad, KeyError("rank"))
    place(monkeypatch, world, faults)
    Execution.objects.update(grace_s=0.5)
    world.go(SLOT_S, executor=world.executor())
    one = world.executor("two")
    world.wall[0] += 20
    for _ in range(4 * 60):
        world.go(1, executor=one, every=1)
        bad.refresh_from_db()
        if bad.state == BidState.FAILED:
            break
    assert bad.end_reason == f"The executor failed on this job {MOST_TRIES} times in a row (KeyError)."
    assert 0 < (bad.refund or 0) < (bad.payment or 0)  # slots that have passed count as delivered
    assert faults.raised == MOST_TRIES
    world.go(70, executor=one, every=5)
    assert not Defect.objects.exists()
    assert not keys_of(bad) & set(world.engine.alive())
    good.refresh_from_db()
    assert good.state in (BidState.RUNNING, BidState.COMPLETED)
    if place is launching:
        assert world.training(bad).state == TrainingState.FAILED


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), EngineError("expected an answer, got none")])
def test_a_job_waits_for_a_disk_or_an_engine_and_does_not_fail(
    world: World, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = world.submit(epochs=8)
    faults = Faults(bad, error)
    making_folders(monkeypatch, world, faults)
    one = world.executor()
    world.go(SLOT_S + 1, executor=one)
    Defect.objects.update(failures=MOST_TRIES)
    world.go(60, executor=world.executor(), every=5)
    bad.refresh_from_db()
    assert bad.state == BidState.RUNNING
    assert faults.raised
    faults.on = False


def test_machines_of_a_job_on_which_the_executor_fails_are_given_to_nobody_while_something_runs_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = world.submit(epochs=8)
    one = world.executor()
    world.go(1.1 * SLOT_S, executor=one)
    faults = Faults(bad, RuntimeError("broken"))
    observing(monkeypatch, world, faults)
    world.go(5, executor=one)
    alive = set(world.engine.alive())
    taken: list[Any] = []

    def nothing(_jobs: Any, **about: Any) -> dict[int, Any]:
        taken.extend(about["taken"])
        return {}

    monkeypatch.setattr(executor, "next_steps_of", nothing)
    world.go(2, executor=one, every=1)
    assert sum(machines.number for allocation in taken[:1] for machines in allocation) == len(alive)
    for key in alive:
        world.engine.exit(key, 0)
    taken.clear()
    world.go(1, executor=one, every=1)
    assert taken[0] == ()


def test_an_engine_that_fails_to_end_a_stranger_stops_no_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    good = world.submit(epochs=8)
    one = world.executor()
    world.go(1.1 * SLOT_S, executor=one)
    seen = world.engine.list

    def with_a_stranger() -> Any:
        found = dict(seen())
        return found | {"stranger": next(iter(found.values()))}

    def kill(key: str) -> None:
        raise EngineError("expected it to be gone, got: it lives")

    monkeypatch.setattr(world.engine, "list", with_a_stranger)
    monkeypatch.setattr(world.engine, "kill", kill)
    report(good, world, 7)
    world.go(5, executor=one)
    assert Progress.objects.get().step == 7
    row = Defect.objects.get()
    assert (row.bid, row.problem) == (None, "EngineError: expected it to be gone, got: it lives")


def test_an_error_of_the_whole_cluster_is_shown_to_operators_and_goes_when_it_is_mended(
    world: World, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    world.submit(epochs=8)
    client.force_login(make_operator())
    one = world.executor()
    with monkeypatch.context() as patch:
        patch.setattr(
            world.engine, "list", Faults(Bid(), ValueError("no \0 text")).around(world.engine.list, lambda: True)
        )
        world.go(10, executor=one, every=1)
    row = Defect.objects.get()
    assert (row.bid, row.failures, row.problem) == (None, 10, "ValueError: no \N{REPLACEMENT CHARACTER} text")
    words = "the executor failed 10 times in a row: ValueError: no \N{REPLACEMENT CHARACTER} text"
    assert words in client.get("/markets/lab/execution/").content.decode()
    assert client.get("/api/v1/clusters/lab/execution").json()["defect"] == words
    assert exported() == {"shadowprice_execution_defects": [1.0], "shadowprice_executor_active": [1.0]}
    world.go(1, executor=one, every=1)
    assert not Defect.objects.exists()
    assert client.get("/api/v1/clusters/lab/execution").json()["defect"] is None


def test_the_metrics_say_that_no_executor_is_active_for_a_cluster_that_executes(world: World) -> None:
    assert exported()["shadowprice_executor_active"] == [0.0], "none has ever run"
    world.go(1, executor=world.executor("one"))
    assert exported()["shadowprice_executor_active"] == [1.0]
    world.wall[0] += LASTS_S + 1
    assert exported()["shadowprice_executor_active"] == [0.0]
    Execution.objects.update(is_on=False)
    assert exported()["shadowprice_executor_active"] == []


def exported() -> dict[str, list[float]]:
    return {metric.name: [sample.value for sample in metric.samples] for metric in ExecutionMetrics().collect()}


def test_an_executor_that_fails_after_another_has_taken_over_writes_nothing_and_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.submit(epochs=8)
    first, other = world.executor("first"), world.executor("other")
    world.go(1.1 * SLOT_S, executor=first)

    def fails() -> Any:
        world.wall[0] += 20
        with monkeypatch.context() as patch:
            patch.setattr(world.engine, "list", dict)
            assert other.once()
        raise ValueError("broken")

    with monkeypatch.context() as patch:
        patch.setattr(world.engine, "list", fails)
        assert not first.once()
    assert not Defect.objects.exists()


def test_no_job_is_to_blame_for_a_database_that_cannot_be_used(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, _ = two_jobs(world)
    one = world.executor()
    world.go(1.1 * SLOT_S, executor=one)
    faults = Faults(bad, OperationalError("database is locked"))
    observing(monkeypatch, world, faults)
    world.go(1, executor=one, every=1)
    assert Defect.objects.get().bid is None


def test_its_owner_reads_that_the_executor_failed(
    world: World, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
    bad = world.submit(epochs=8)
    creating(monkeypatch, world, Faults(bad, TypeError("broken")))
    world.go(1.1 * SLOT_S)
    client.force_login(world.owner)
    page = client.get(f"/markets/lab/bids/{bad.sequence}/").content.decode()
    assert "The executor failed on this job and will try again." in page
    assert "TypeError" not in page


def test_a_job_that_is_cancelled_meanwhile_leaves_no_defect(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = world.submit(epochs=8)
    creating(monkeypatch, world, Faults(bad, TypeError("broken")))
    one = world.executor()
    world.go(1.1 * SLOT_S, executor=one)
    assert Defect.objects.get().bid == bad
    bad.refresh_from_db()
    jobs.cancel_job(bad)
    world.go(5, executor=one)
    assert not Defect.objects.exists()
