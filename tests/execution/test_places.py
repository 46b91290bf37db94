"""Files of jobs, as programs write them: what is read of them, and what is not."""

import json
import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from execution import places
from execution.places import (
    LARGEST_LOSS,
    LARGEST_STEP,
    LONGEST_STEP_S,
    JobFiles,
    Point,
    ProgressFile,
    checkpoints_in,
    text_of,
)

lines = st.lists(
    st.sampled_from(
        (b'{"step": 1}', b'{"step": 2, "loss": -3.5, "seconds": 0}', b"[1]", b"no", b"", b"\xff", b"[" * 99)
    )
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("progress")


@given(lines, st.lists(st.integers(1, 50)))
def test_a_progress_file_is_read_once_however_it_grows(folder: Path, rows: list[bytes], sizes: list[int]) -> None:
    text = b"".join(row + b"\n" for row in rows)
    path = folder / "progress.jsonl"
    path.write_bytes(b"")
    file, found = ProgressFile(str(path)), list[Point]()
    end = 0
    for size in [*sizes, len(text)]:
        end = min(len(text), end + size)
        path.write_bytes(text[:end])
        found += file.read()
        assert file.offset == text[:end].rfind(b"\n") + 1
    one, two = Point(1, None, None), Point(2, -3.5, 0)
    assert found == [{b'{"step": 1}': one}.get(row, two) for row in rows if row.startswith(b"{")]


def test_of_a_large_file_a_part_is_read_at_a_time_and_a_line_without_an_end_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "LARGEST_READ", 12)
    path = tmp_path / "progress.jsonl"
    path.write_bytes(b'{"step": 1}\n{"step": 2}\n' + b"x" * 30 + b'\n{"step": 3}\n')
    file = ProgressFile(str(path))
    assert [[point.step for point in file.read()] for _ in range(7)] == [[1], [2], [], [], [], [3], []]
    path.write_bytes(path.read_bytes() + b"y" * 11)
    assert (file.read(), file.offset) == ([], path.stat().st_size - 11), "a line that may still end"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"step": LARGEST_STEP, "loss": LARGEST_LOSS, "seconds": LONGEST_STEP_S}, None),
        ({"step": 0, "loss": -LARGEST_LOSS, "seconds": 0}, None),
        ({"step": 1, "loss": 2 * LARGEST_LOSS, "seconds": 1}, Point(1, None, 1)),
        ({"step": 1, "loss": -2 * LARGEST_LOSS, "seconds": 2 * LONGEST_STEP_S}, Point(1, None, None)),
        ({"step": 1, "loss": "2", "seconds": -1e-9}, Point(1, None, None)),
        ({"step": 1, "loss": True, "seconds": float("nan")}, Point(1, None, None)),
    ],
)
def test_numbers_are_read_within_their_limits(tmp_path: Path, said: dict[str, float], expected: Point | None) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text(json.dumps(said) + "\n")
    assert ProgressFile(str(path)).read() == [expected or Point(int(said["step"]), said["loss"], said["seconds"])]


def test_a_step_beyond_the_limits_is_none(tmp_path: Path) -> None:
    path = tmp_path / "progress.jsonl"
    path.write_text(f'{{"step": {LARGEST_STEP + 1}}}\n{{"step": -1}}\n{{"step": "1"}}\n')
    assert ProgressFile(str(path)).read() == []


def test_a_text_is_read_if_it_is_a_file_that_is_not_too_large(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("12345")
    assert text_of(tmp_path / "text", most=5) == "12345"
    with pytest.raises(ValueError, match="at most 4 bytes"):
        text_of(tmp_path / "text", most=4)
    (tmp_path / "link").symlink_to(tmp_path / "text")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "nothing"):
        with pytest.raises(OSError, match=name):
            text_of(tmp_path / name, most=5)


def test_whole_checkpoints_are_found_in_order_and_the_greatest_of_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beyond = f"step-{10**15}"
    names = ("step-9", "step-10", "step-x", "step-1.part", "writing-step-30", "step-2", beyond)
    for name in names:
        (tmp_path / name).mkdir()
    assert checkpoints_in(tmp_path) == [(step, tmp_path / f"step-{step}") for step in (2, 9, 10)]
    monkeypatch.setattr(places, "MOST_CHECKPOINTS", 2)
    assert [step for step, _ in checkpoints_in(tmp_path)] == [9, 10]
    monkeypatch.setattr(places, "MOST_ENTRIES", 0)
    assert checkpoints_in(tmp_path) == []
    (tmp_path / "link").symlink_to(tmp_path)
    assert checkpoints_in(tmp_path / "link") == checkpoints_in(tmp_path / "nothing") == []


def test_a_directory_that_was_read_is_closed(tmp_path: Path) -> None:
    opened = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        checkpoints_in(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == opened


def test_directories_are_given_to_the_programs_user_once_and_are_left_as_they_are_afterwards(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EXECUTION_DIR = tmp_path
    given: list[tuple[Path, int]] = []
    monkeypatch.setattr(os, "chown", lambda path, user, group, *, follow_symlinks: given.append((path, user)))
    files, other = JobFiles("lab", uuid4()), os.getuid() + 1
    files.make(0, user=other)
    assert given == [(files.checkpoints(0), other), (files.generation(0), other)]
    files.checkpoints(0).rmdir()  # as a program may do, whose directory it is
    files.make(0, user=os.getuid())
    assert len(given) == 2
    assert not files.checkpoints(0).exists()
