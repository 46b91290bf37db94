"""Programs that write what nobody expects: the executor records nothing of it, and serves the other jobs."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from execution import forecasts, places
from execution.models import Checkpoint, Ending, Generation, Progress, TrainingState
from execution.places import JobFiles, Point, ProgressFile, checkpoints_in
from execution.records import files_of
from tests.auctions.worlds import SLOT_S
from tests.execution.worlds import World, make_world

pytestmark = pytest.mark.thorough

LINES = {
    "nested without end": "[" * 100_000,
    "an integer that no float holds": '{"step": 1' + "0" * 400 + "}",
    "an integer too long to be read": '{"step": 1' + "0" * 5_000 + "}",
    "a step that readers of JSON round": f'{{"step": {2**60}}}',
    "a step below 0": '{"step": -1}',
    "no number": '{"step": NaN, "loss": 1.0}',
    "a text": '{"step": "7"}',
    "no object": "7",
    "no text": "\x00\x01",
}


@pytest.mark.parametrize("name", LINES)
def test_a_line_of_another_form_is_passed_over(tmp_path: Path, name: str) -> None:
    file = tmp_path / "progress"
    file.write_text(LINES[name] + '\n{"step": 7, "loss": 0.5, "seconds": 2}\n')
    progress = ProgressFile(str(file))
    assert (progress.read(), progress.offset) == ([Point(7, 0.5, 2)], file.stat().st_size)


def test_only_what_is_behind_the_offset_is_read(tmp_path: Path) -> None:
    file = tmp_path / "progress"
    file.write_text('{"step": 1}\n{"step": 2}\n')
    progress = ProgressFile(str(file))
    progress.read()
    with file.open("a") as more:
        more.write('{"step": 3}\n{"step"')
    assert (progress.read(), progress.offset) == ([Point(3, None, None)], file.stat().st_size - len('{"step"'))


def test_losses_and_durations_whose_sums_are_not_finite_are_not_taken(tmp_path: Path) -> None:
    file = tmp_path / "progress"
    file.write_text('{"step": 1, "loss": 1e308, "seconds": 1e308}\n{"step": 2, "loss": -Infinity, "seconds": -1}\n')
    assert ProgressFile(str(file)).read() == [Point(1, None, None), Point(2, None, None)]


def put_nothing(folder: Path) -> None:
    shutil.rmtree(folder)


def put_a_file(folder: Path) -> None:
    put_nothing(folder)
    folder.write_text("")


def put_a_link(folder: Path) -> None:
    put_nothing(folder)
    (folder.parent / "elsewhere" / "step-99").mkdir(parents=True)
    folder.symlink_to(folder.parent / "elsewhere")


def put_a_circle(folder: Path) -> None:
    put_nothing(folder)
    folder.symlink_to(folder)


def put_a_pipe(folder: Path) -> None:
    put_nothing(folder)
    os.mkfifo(folder)


TRICKS = (put_nothing, put_a_file, put_a_link, put_a_circle, put_a_pipe)


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path)


@pytest.mark.parametrize("trick", TRICKS)
def test_a_job_without_a_directory_of_checkpoints_goes_on_and_so_does_another_one(
    world: World, trick: Callable[[Path], None]
) -> None:
    hostile, other = world.submit(epochs=8), world.submit(epochs=8)
    world.go(1.1 * SLOT_S)
    trick(files_of(world.training(hostile)).checkpoints(0))
    files_of(world.training(hostile)).progress(0).write_text('{"step": 3, "loss": 1.0}\n')
    files_of(world.training(other)).progress(0).write_text('{"step": 4, "loss": 1.0}\n')
    (files_of(world.training(other)).checkpoints(0) / "step-4").mkdir()
    world.go(5)
    worker = next(p for p in Generation.objects.get(training__bid=hostile).processes.all() if p.role == "worker")
    world.engine.exit(worker.key, 1)
    world.go(30)
    assert list(Checkpoint.objects.values_list("generation__training__bid", "step")) == [(other.pk, 4)]
    assert sorted(Progress.objects.values_list("step", flat=True)) == [3, 4]
    endings = Generation.objects.filter(training__bid=hostile).order_by("number").values_list("ending", flat=True)
    assert list(endings) == [Ending.FAULT, ""]
    assert world.training(other).state == TrainingState.RUNNING


def test_of_too_many_checkpoints_those_of_the_greatest_steps_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "MOST_CHECKPOINTS", 2)
    for name in ("step-1", "step-20", "step-3", "step-\N{ARABIC-INDIC DIGIT NINE}", "step-", "writing"):
        (tmp_path / name).mkdir()
    assert checkpoints_in(tmp_path) == [(3, tmp_path / "step-3"), (20, tmp_path / "step-20")]


def test_directories_that_a_program_may_have_changed_are_left_as_they_are(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EXECUTION_DIR = tmp_path
    changed: list[tuple[Path, int]] = []
    monkeypatch.setattr(os, "chown", lambda path, user, _group, **_: changed.append((path, user)))
    files = JobFiles("lab", UUID(int=7))
    files.make(0, user=200_007)
    assert changed == [(files.checkpoints(0), 200_007), (files.generation(0), 200_007)]
    put_a_link(files.checkpoints(0))
    monkeypatch.setattr(os, "lstat", lambda _: SimpleNamespace(st_uid=200_007))
    files.make(0, user=200_007)
    files.make(0, user=None)
    assert files.checkpoints(0).is_symlink()
    assert len(changed) == 2


def test_the_reason_of_a_failure_has_no_characters_that_cannot_be_shown_or_stored(world: World) -> None:
    bid = world.submit(epochs=8)
    world.go(1.1 * SLOT_S)
    key = next(key for key in world.engine.alive() if "-w" in key)
    world.engine.exit(key, 1, output=b"\x1b[31mred\x1b[0m\n\x00\xff\x07 binary\n\xe2\x80\xae desrever\n")
    world.go(10)
    reason = world.training(bid).reason
    assert reason.splitlines()[1:] == [
        "red",
        "\N{REPLACEMENT CHARACTER}" * 3 + " binary",
        "\N{REPLACEMENT CHARACTER} desrever",
    ]


def test_an_end_after_the_calendar_is_foreseen_as_late(world: World) -> None:
    bid = world.submit(epochs=8, steps=10**9)
    world.go(1.1 * SLOT_S)
    for last in (1, 6):
        lines = [json.dumps({"step": n}) + "\n" for n in range(1, last + 1)]
        files_of(world.training(bid)).progress(0).write_text("".join(lines))
        world.go(5)
    Progress.objects.filter(step=1).update(at="1990-01-01T00:00:00Z")
    found = forecasts.forecast_of(bid)
    assert found is not None
    assert 2120 < found.done_at.year < 2140
    assert [one.bid for one in forecasts.late_ones(world.market)] == [bid.sequence]
