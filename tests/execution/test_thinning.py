"""A program that reports steps without end: few are stored, and they are a curve from the first to the last."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auctions.models import Bid
from execution import places, records
from execution.models import Checkpoint, Generation, Progress, Training
from execution.places import LARGEST_STEP, Point, checkpoints_in
from execution.thinning import MOST_STEPS, NEWEST, SLACK, STARTS, Stored, thinned
from tests.auctions.worlds import SLOT_S
from tests.execution.worlds import World, make_world

LEAST = NEWEST + 2 * STARTS
"""Smallest limit that has room for what is always kept."""


def test_up_to_the_limit_every_step_is_kept() -> None:
    steps = [Stored(0, step) for step in range(LEAST)]
    assert thinned(steps, LEAST) == steps


def test_above_it_multiples_of_a_power_of_two_are_kept_and_the_newest() -> None:
    kept = [one.step for one in thinned([Stored(0, step) for step in range(1, 100_001)])]
    assert kept[:4] == [1, 32, 64, 96]
    assert kept[-NEWEST:] == list(range(100_001 - NEWEST, 100_001))
    assert MOST_STEPS / 2 < len(kept) <= MOST_STEPS


def test_the_first_and_the_last_step_of_each_of_the_newest_starts_are_kept() -> None:
    steps = [Stored(number, 1_000 * number + step) for number in range(300) for step in range(1, 31)]
    kept = thinned(steps, LEAST)
    assert len(kept) <= LEAST
    for number in range(300 - STARTS, 300):
        assert {Stored(number, 1_000 * number + 1), Stored(number, 1_000 * number + 30)} <= set(kept)


@settings(max_examples=50)
@given(
    st.sets(
        st.tuples(st.integers(0, 400), st.integers(0, 20_000) | st.integers(0, 2**23).map(lambda number: number << 30)),
        min_size=1,
    ).map(lambda found: sorted(Stored(*one) for one in found)),
    st.integers(1, 40),
)
def test_whatever_is_reported_the_limit_holds_and_nothing_is_invented(steps: list[Stored], repeated: int) -> None:
    every = sorted({one._replace(step=min(one.step + more, LARGEST_STEP)) for one in steps for more in range(repeated)})
    kept = thinned(every, LEAST)
    assert len(kept) <= LEAST
    assert kept == sorted(kept)
    assert set(kept) <= set(every)
    assert kept[-1] == every[-1]


def run_job(world: World) -> tuple[Bid, Generation]:
    bid = world.submit(epochs=8)
    world.go(1.1 * SLOT_S)
    return bid, Generation.objects.get()


@pytest.fixture
def world(db: None, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path) -> World:
    return make_world(monkeypatch, settings, tmp_path)


def test_a_file_of_endless_progress_leaves_a_limited_number_of_rows(world: World) -> None:
    bid, generation = run_job(world)
    file = records.files_of(world.training(bid)).progress(0)
    with open(file, "w") as lines:
        lines.writelines(f'{{"step": {step}, "loss": {1 / step}}}\n' for step in range(1, 30_001))
    executor = world.executor()
    most = 0
    for _ in range(4):
        world.go(5, executor=executor)
        most = max(most, Progress.objects.count())
    assert most <= MOST_STEPS + SLACK
    steps = list(generation.progress.values_list("step", flat=True))
    assert (steps[0], steps[-1]) == (1, 30_000)
    assert steps[-NEWEST:] == list(range(30_001 - NEWEST, 30_001))
    assert world.training(bid).step == 30_000


def test_reports_by_http_and_by_file_together_stay_within_the_limit(world: World) -> None:
    bid, generation = run_job(world)
    file = records.files_of(world.training(bid)).progress(0)
    executor = world.executor()
    for begin in range(0, 12_000, 2_000):
        with open(file, "a") as lines:
            lines.writelines(f'{{"step": {2 * (begin + i)}}}\n' for i in range(2_000))
        records.report(generation, [Point(2 * (begin + i) + 1, None, None) for i in range(1_000)])
        world.go(5, executor=executor)
        assert Progress.objects.count() <= MOST_STEPS + 2 * SLACK
    assert Training.objects.get().step == 2 * 11_999


def test_endless_checkpoints_leave_a_limited_number_of_rows_and_the_newest_is_resumed_from(world: World) -> None:
    bid, _ = run_job(world)
    folder = records.files_of(world.training(bid)).checkpoints(0)
    for step in range(1, 3 * places.MOST_CHECKPOINTS, 20):
        for more in range(20):
            (folder / f"step-{step + more}").mkdir()
        with open(records.files_of(world.training(bid)).progress(0), "a") as lines:
            lines.write(f'{{"step": {step}}}\n')
        world.go(5)
    assert Checkpoint.objects.count() == places.MOST_CHECKPOINTS
    newest = records.newest_checkpoint(world.training(bid))
    assert newest is not None
    assert newest.path == str(folder / f"step-{newest.step}")
    assert newest.step == max(step for step, _ in checkpoints_in(folder))


def test_of_a_directory_with_too_many_entries_a_part_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "MOST_ENTRIES", 5)
    for step in range(20):
        (tmp_path / f"step-{step}").mkdir()
    assert len(checkpoints_in(tmp_path)) == 5
