"""The trace's rows as bids."""

import re

import pytest

from cluster.models import LARGEST_CHUNKS
from cluster.traces.formats import open_trace
from cluster.traces.records import LARGEST_GPUS, TraceJob
from demo import philly
from demo.jobs import Machines
from tests.collection import ROOT

MACHINES = Machines(workers=("w1", "w2"), parameter_servers=("p1",), slot_s=3600)


def test_a_job_of_a_trace_can_have_a_chunk_for_each_gpu() -> None:
    assert LARGEST_GPUS == LARGEST_CHUNKS


@pytest.mark.parametrize("duration_s", [1.0, 40.0, 33_376.0, 4_600_000.0])
def test_the_job_lasts_what_the_trace_says_on_its_own_number_of_workers(duration_s: float) -> None:
    body = philly.offer(
        TraceJob(line=7, submitted_s=5.0, duration_s=duration_s, gpus=8), MACHINES, seed=1, name="philly", from_s=100.0
    ).body
    work = body["epochs"] * body["chunks"] * body["minibatches"]
    lasts = work * (philly.STEP_S + philly.UPDATE_S) / 8
    step = body["epochs"] * (philly.STEP_S + philly.UPDATE_S)
    assert body["chunks"] == 8
    assert abs(lasts - duration_s) <= step / 2 + 1e-6


def test_the_same_seed_gives_the_same_bid() -> None:
    row = TraceJob(line=7, submitted_s=5.0, duration_s=600.0, gpus=8)
    first, second = (philly.offer(row, MACHINES, seed=1, name="philly", from_s=0.0) for _ in range(2))
    other = philly.offer(row, MACHINES, seed=2, name="philly", from_s=0.0)
    assert first == second
    assert other.body != first.body


def test_the_trace_that_the_readme_plays_is_read_without_a_malformed_line() -> None:
    (path,) = re.findall(r"make demo TRACE=(\S+)`", (ROOT / "README.md").read_text())
    trace = open_trace(ROOT / path, TraceJob)
    assert (trace.format, trace.malformed) == ("philly", ())
    assert len(trace.rows) > 100
