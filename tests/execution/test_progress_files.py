"""Progress files that grow faster than they are read, are read by another executor, or are begun again."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from execution import places, records
from execution.models import Progress, TrainingState
from execution.places import ProgressFile
from execution.records import files_of
from tests.auctions.worlds import SLOT_S
from tests.execution.worlds import World, make_world


def lines(first: int, last: int) -> str:
    return "".join(json.dumps({"step": n}) + "\n" for n in range(first, last + 1))


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    monkeypatch.setattr(places, "LARGEST_READ", 200)
    return make_world(monkeypatch, settings, tmp_path)


def test_what_a_program_reported_in_its_last_second_is_read_to_the_end(world: World) -> None:
    bid = world.submit(epochs=8, steps=100)
    world.go(1.1 * SLOT_S)
    files_of(world.training(bid)).progress(0).write_text(lines(1, 100))
    for key in list(world.engine.alive()):
        world.engine.exit(key, 0)
    world.go(10)
    training = world.training(bid)
    assert (training.state, training.step) == (TrainingState.FINISHED, 100)


def test_what_is_left_to_read_at_the_end_is_recorded_in_one_transaction(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction for each part would keep other jobs waiting, and hold the lock of the database again and again."""
    bid = world.submit(epochs=8, steps=100)
    world.go(1.1 * SLOT_S)
    executor = world.executor()
    world.go(5, executor=executor)
    recorded: list[int] = []
    keep = records.keep_progress

    def counted(fence: int, reports: Iterable[records.Report]) -> None:
        reports = list(reports)
        recorded.extend(len(one.points) for one in reports)
        keep(fence, reports)

    monkeypatch.setattr(records, "keep_progress", counted)
    files_of(world.training(bid)).progress(0).write_text(lines(1, 100))
    for key in list(world.engine.alive()):
        world.engine.exit(key, 0)
    world.go(10, executor=executor)
    assert world.training(bid).state == TrainingState.FINISHED
    assert Progress.objects.count() == sum(recorded) == 100
    assert len(recorded) <= 3, "one for each look before the end, and one for the rest"


def test_the_step_does_not_go_back_when_another_executor_reads_the_file(world: World) -> None:
    bid = world.submit(epochs=8, steps=200)
    world.go(1.1 * SLOT_S)
    file = files_of(world.training(bid)).progress(0)
    file.write_text(lines(1, 100))
    first, second = world.executor(), world.executor("two")
    world.go(100, executor=first)
    assert world.training(bid).step == 100
    first.close()
    with file.open("a") as more:
        more.write(lines(101, 102))
    steps = []
    for _ in range(12):
        world.go(5, executor=second)
        steps.append(world.training(bid).step)
    assert (min(steps), steps[-1]) == (100, 102)


@pytest.mark.parametrize("steps", [(4, 5), (4, 6), (4, 7), (10, 12)], ids=["shorter", "as long", "longer", "wider"])
def test_a_file_that_was_written_again_is_read_from_its_begin(tmp_path: Path, steps: tuple[int, int]) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text(lines(1, 3))
    file = ProgressFile(str(path))
    file.read()
    path.write_text(lines(*steps))
    later = path.stat().st_mtime_ns + 10**9  # executors look once a second
    os.utime(path, ns=(later, later))
    assert [point.step for point in file.read()] == list(range(steps[0], steps[1] + 1))
    assert file.read() == []


def test_a_file_whose_time_alone_has_changed_is_not_read_again(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text(lines(1, 30))
    file = ProgressFile(str(path))
    assert len(file.read()) == 30
    os.utime(path, ns=(0, 0))
    assert file.read() == []


def test_of_more_than_can_be_read_soon_the_newest_part_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "LARGEST_READ", 40)
    monkeypatch.setattr(places, "MOST_PARTS", 2)
    path = tmp_path / "progress.jsonl"
    path.write_text(lines(10, 50))
    file = ProgressFile(str(path))
    assert [[point.step for point in file.read()] for _ in range(2)] == [[48, 49, 50], []]
