"""The benchmark replays drawn rows where no file is named, and says of each slice which it replayed."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.philly import DAY, SLOT_S, WEEK, Slice, jobs_of, table
from benchmarks.philly_rows import draw_jobs, text_of
from cluster.traces.formats import read_trace
from cluster.traces.records import TraceJob
from tests.traces import Traces


@pytest.mark.thorough
@pytest.mark.parametrize(("cut", "days", "jobs"), [(DAY, 1, 3022), (WEEK, 7, 12_751)])
def test_drawn_rows_are_as_many_and_as_large_as_the_published_ones(cut: Slice, days: int, jobs: int) -> None:
    rows = jobs_of(cut, None)
    assert len(rows) == jobs
    assert len({row.tenant for row in rows}) == 9
    assert max(row.submitted_s for row in rows) < days * 86_400
    gpus = Counter(row.gpus for row in rows)
    assert set(gpus) == {1, 2, 4, 8, 16}
    assert gpus[1] / jobs == pytest.approx(0.975, abs=0.01)
    # The published rows have 15,797 and 76,447 GPU-hours.
    hours = sum(row.gpus * (row.duration_s or 0) for row in rows) / 3600
    assert hours == pytest.approx({1: 15_797, 7: 76_447}[days], rel=0.1)
    assert 2 * max(row.duration_s or 0 for row in rows) / SLOT_S < 10_000, "the horizon"


def test_the_same_seed_draws_the_same_rows_and_another_seed_others() -> None:
    first, again, other = (draw_jobs(DAY.drawn, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other
    trace = read_trace(text_of(first).splitlines(), TraceJob)
    assert (len(trace.rows), trace.malformed) == (len(first), ())


def test_the_table_says_which_rows_were_replayed(traces: Traces, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(DAY, drawn=replace(DAY.drawn, jobs=60), gpus=64)
    monkeypatch.setattr("benchmarks.philly.QUICK", ((small, "fifo"),))
    drawn = list(table(files={}, quick=True, seed=1))
    assert drawn[1] == "day: synthetic rows in the format of Philly, values synthetic, too"
    assert "  day     60    64" in drawn[-1]
    named = list(table(files={"day": traces.tiresias}, quick=True, seed=1))
    assert named[1] == f"day: {traces.tiresias.name}, arrivals and sizes as there, values synthetic"
    assert f"  day {traces.of(traces.tiresias)['records']:6,d}    64" in named[-1]
