"""The trace's rows as bids."""

import pytest

from auctions.demo import philly
from auctions.demo.jobs import Machines
from auctions.demo.philly import Malformed, Row

HEADING = "timestamp,duration,num_gpus,gpu_time,cluster\n"
MACHINES = Machines(workers=("w1", "w2"), pss=("p1",), slot_s=3600)


def rows(*lines: str) -> list[Row | Malformed]:
    return list(philly.read([HEADING, *(line + "\n" for line in lines)]))


def test_times_count_from_the_first_row() -> None:
    assert rows("2017-10-01 00:00:10,60.0,1,60.0,a", "2017-10-01 01:00:10,120.0,4,480.0,a") == [
        Row(line=2, at_s=0.0, duration_s=60.0, gpus=1),
        Row(line=3, at_s=3600.0, duration_s=120.0, gpus=4),
    ]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("yesterday,60.0,1,60.0,a", "timestamp"),
        ("2017-10-01 00:00:00+00:00,60.0,1,60.0,a", "timestamp"),
        ("2017-10-01 00:00:00,nan,1,60.0,a", "duration"),
        ("2017-10-01 00:00:00,-1,1,60.0,a", "duration"),
        ("2017-10-01 00:00:00,60.0,1.5,60.0,a", "num_gpus"),
        ("2017-10-01 00:00:00,60.0,0,60.0,a", "num_gpus"),
        ("2017-10-01 00:00:00,60.0,many,60.0,a", "num_gpus"),
        ("2017-10-01 00:00:00,60.0,1,60.0", "cells"),
    ],
)
def test_a_malformed_row_is_told_by_its_line(line: str, word: str) -> None:
    good, bad, later = rows("2017-10-01 00:00:00,1.0,1,1.0,a", line, "2017-10-02 00:00:00,1.0,1,1.0,a")
    assert isinstance(good, Row)
    assert isinstance(later, Row)
    assert isinstance(bad, Malformed)
    assert bad.line == 3
    assert word in bad.why


def test_a_row_before_the_first_is_malformed() -> None:
    _, bad = rows("2017-10-02 00:00:00,1.0,1,1.0,a", "2017-10-01 00:00:00,1.0,1,1.0,a")
    assert isinstance(bad, Malformed)


def test_another_file_is_refused() -> None:
    with pytest.raises(ValueError, match="columns"):
        list(philly.read(["a,b\n", "1,2\n"]))


@pytest.mark.parametrize("duration_s", [1.0, 40.0, 33_376.0, 4_600_000.0])
def test_the_job_lasts_what_the_trace_says_on_its_own_number_of_workers(duration_s: float) -> None:
    body = philly.offer(
        Row(line=7, at_s=5.0, duration_s=duration_s, gpus=8), MACHINES, seed=1, name="philly", from_s=100.0
    ).body
    work = body["epochs"] * body["chunks"] * body["minibatches"]
    lasts = work * (philly.STEP_S + philly.UPDATE_S) / 8
    step = body["epochs"] * (philly.STEP_S + philly.UPDATE_S)
    assert body["chunks"] == 8
    assert abs(lasts - duration_s) <= step / 2 + 1e-6


def test_the_same_seed_gives_the_same_bid() -> None:
    row = Row(line=7, at_s=5.0, duration_s=600.0, gpus=8)
    first, second = (philly.offer(row, MACHINES, seed=1, name="philly", from_s=0.0) for _ in range(2))
    other = philly.offer(row, MACHINES, seed=2, name="philly", from_s=0.0)
    assert first == second
    assert other.body != first.body
