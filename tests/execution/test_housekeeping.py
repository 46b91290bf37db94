"""Old files are deleted, the newest checkpoint last; refused launches are tried less and less often, and said once."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from auctions.engine import decision_queue
from auctions.engine.submission import submit_bid
from auctions.models import Bid
from cluster import clock
from execution import archives, overviews, programs
from execution.engines.base import EngineError
from execution.housekeeping import DAY_S, EVERY_S, Housekeeping, deletions
from execution.models import Checkpoint, Execution, Lease, Process, Program, TrainingState
from execution.places import archive_file, engine_root, jobs_root, unpacked
from execution.records import files_of, newest_checkpoint
from scheduling.model.errors import InvalidField
from tests.auctions.worlds import SLOT_S, body
from tests.execution.packing import tar_of, zip_of
from tests.execution.test_continued import rest_of
from tests.execution.worlds import World, make_world

pytestmark = pytest.mark.thorough


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path)


@pytest.fixture
def ended(world: World) -> Bid:
    """A bid whose training ended after two generations: a checkpoint of step 10 in the first, of 20 in the second."""
    bid = world.submit(epochs=8, steps=100)
    world.go(1.1 * SLOT_S)
    for number, step in ((0, 10), (1, 20)):
        (files_of(world.training(bid)).checkpoints(number) / f"step-{step}").mkdir()
        if number == 0:
            world.engine.exit(next(key for key in world.engine.alive() if "-w" in key), 7)
        world.go(30)
    world.go(20 * SLOT_S, every=SLOT_S / 2)
    assert world.training(bid).state == TrainingState.STOPPED
    return bid


def clean(world: World, days: float = 0.0) -> None:
    """Delete what is old some days from now."""
    for _ in deletions(Lease.objects.get().fence, Execution.objects.get(), now=world.now + days * DAY_S):
        pass


def directories(world: World, bid: Bid) -> set[str]:
    root = files_of(world.training(bid)).root
    return {one.name for one in root.iterdir()} if root.exists() else set()


def test_directories_of_a_training_go_after_a_time_and_its_newest_checkpoint_later(world: World, ended: Bid) -> None:
    clean(world, 29)
    assert directories(world, ended) == {"g0", "g1"}
    clean(world, 31)
    assert directories(world, ended) == {"g1"}
    assert set(Checkpoint.objects.filter(deleted_at=None).values_list("step", flat=True)) == {20}
    clean(world, 89)
    assert directories(world, ended) == {"g1"}
    clean(world, 91)
    assert not files_of(world.training(ended)).root.exists()
    assert newest_checkpoint(world.training(ended)) is None
    assert Checkpoint.objects.count() == 2  # the record stays
    with pytest.raises(InvalidField, match="whose has none"):
        rest_of(world, ended.sequence)


def nest(folder: Path, depth: int) -> None:
    """Make directories one in another, deeper than a path can name."""
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(handle)


def test_directories_that_a_program_has_nested_very_deeply_go_too_and_so_do_the_others(
    world: World, ended: Bid
) -> None:
    other = engine_root("lab") / "ended" / "last"
    for folder in (files_of(world.training(ended)).generation(0), engine_root("lab") / "ended" / "first", other):
        folder.mkdir(parents=True, exist_ok=True)
        nest(folder, 3_000 if folder != other else 1)
        os.utime(folder, (world.now, world.now))
    clean(world, 31)
    assert directories(world, ended) == {"g1"}
    assert list((engine_root("lab") / "ended").iterdir()) == []


def test_a_training_that_a_bid_continues_or_that_is_not_over_is_left_alone(world: World, ended: Bid) -> None:
    rest = rest_of(world, ended.sequence)
    clean(world, 1_000)
    assert directories(world, ended) == {"g0", "g1"}
    world.go(1.2 * SLOT_S)
    clean(world, 1_000)
    assert directories(world, ended) == {"g0", "g1"}
    assert directories(world, rest) == {"g0"}
    strange = jobs_root("lab") / ("0" * 32)
    strange.mkdir()
    world.go(40 * SLOT_S, every=SLOT_S / 2)
    clean(world, 1_000)
    assert list(jobs_root("lab").iterdir()) == [strange]


def test_a_link_in_a_directory_leads_to_nothing_that_is_deleted(world: World, ended: Bid, tmp_path: Path) -> None:
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "file").touch()
    (files_of(world.training(ended)).generation(0) / "link").symlink_to(tmp_path / "else")
    clean(world, 1_000)
    assert (tmp_path / "else" / "file").exists()


def test_old_logs_are_deleted(world: World) -> None:
    Execution.objects.update(keep_days=2)
    Lease.objects.create(name="executor", holder="one", fence=1, until=0)
    for name, days in (("old", 2.1), ("new", 1.9)):
        folder = engine_root("lab") / "ended" / name
        folder.mkdir(parents=True)
        (folder / "log.0").touch()
        os.utime(folder, (world.now, world.now - days * DAY_S))
    clean(world)
    assert [one.name for one in (engine_root("lab") / "ended").iterdir()] == ["new"]


def test_programs_are_kept_while_a_job_may_need_them(world: World) -> None:
    Execution.objects.update(own_programs=True, users_trust_each_other=True)
    new = programs.NewProgram("mine", ("python3", "job.py"), archive=tar_of())
    mine = programs.create(world.market.cluster, world.owner, new)
    file, place = archive_file("lab", mine.archive_sha256), unpacked("lab", mine.archive_sha256, None)
    strange = archive_file("lab", archives.sha256_of(zip_of()))
    archives.store(strange, zip_of())
    for path in (file, strange):
        os.utime(path, (world.now, world.now))
    Program.objects.filter(name="train").update(is_open=False)
    asked = body(program={"name": "mine"})
    bid = submit_bid(cluster=world.market.cluster, owner=world.owner, body=asked).bid
    decision_queue.process_pending(world.market.pk)
    programs.close(mine)
    world.go(0.5 * SLOT_S)
    assert place.is_dir()
    os.utime(place, (world.now, world.now))
    clean(world, 1)
    assert file.exists()
    assert place.is_dir()
    assert not strange.exists()
    world.go(40 * SLOT_S, every=SLOT_S / 2)
    assert world.training(bid).state == TrainingState.STOPPED
    clean(world, 1)
    assert not file.exists()
    assert not place.exists()


def test_an_open_program_keeps_its_archive(world: World) -> None:
    Execution.objects.update(own_programs=True, users_trust_each_other=True)
    mine = programs.create(world.market.cluster, world.owner, programs.NewProgram("mine", ("x",), archive=tar_of()))
    Lease.objects.create(name="executor", holder="one", fence=1, until=0)
    os.utime(archive_file("lab", mine.archive_sha256), (world.now, world.now))
    clean(world, 1_000)
    assert archive_file("lab", mine.archive_sha256).exists()


def test_much_is_deleted_in_several_loops_and_looked_for_once_an_hour(world: World) -> None:
    Lease.objects.create(name="executor", holder="one", fence=1, until=0)
    ended = engine_root("lab") / "ended"
    for number in range(10):
        (ended / str(number)).mkdir(parents=True)
        os.utime(ended / str(number), (1, 1))
    ticks = iter(range(1_000))
    keeping = Housekeeping(lambda: 0.05 * next(ticks))
    execution = Execution.objects.get()
    left = []
    for _ in range(5):
        keeping.go_on(1, execution, now=world.now)
        left.append(len(list(ended.iterdir())))
    assert left == [7, 4, 1, 0, 0]
    (ended / "more").mkdir()
    os.utime(ended / "more", (1, 1))
    keeping.go_on(1, execution, now=world.now + EVERY_S - 1)
    assert (ended / "more").exists()
    keeping.go_on(1, execution, now=world.now + EVERY_S + 1)
    assert not (ended / "more").exists()


def test_old_files_are_looked_for_at_once_after_the_clock_was_set_back(world: World) -> None:
    Lease.objects.create(name="executor", holder="one", fence=1, until=0)
    keeping, execution = Housekeeping(), Execution.objects.get()
    keeping.go_on(1, execution, now=world.now + 2 * DAY_S)
    old = engine_root("lab") / "ended" / "old"
    old.mkdir(parents=True)
    os.utime(old, (1, 1))
    keeping.go_on(1, execution, now=world.now)
    assert not old.exists()


def test_a_refused_launch_is_said_once_and_tried_less_and_less_often(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[float] = []

    def refuse(start: Any) -> None:
        tries.append(world.now)
        raise EngineError("expected sbatch to answer, got nothing" if len(tries) < 9 else "another problem")

    launch = world.engine.launch
    monkeypatch.setattr(world.engine, "launch", refuse)
    world.submit(epochs=8, chunks=1)
    executor = world.executor()
    with caplog.at_level(logging.WARNING, "execution"):
        world.go(2.5 * SLOT_S, executor=executor, every=5)
    processes = Process.objects.count()
    said = [record.message for record in caplog.records if "was not started" in record.message]
    assert len([one for one in said if "sbatch" in one]) <= processes
    assert len(tries) <= 10 * processes  # 1, 2, 4 ... 60 seconds apart
    late = [str(one) for one in overviews.late(Execution.objects.get())]
    assert any("has not started (" in one for one in late)
    monkeypatch.setattr(world.engine, "launch", launch)
    world.go(70, executor=executor)
    assert len(world.engine.launches) == processes
    assert set(Process.objects.values_list("reason", flat=True)) == {""}
    assert clock.now().timestamp() == world.now
