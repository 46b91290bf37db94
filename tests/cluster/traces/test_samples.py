"""Every shared sample is read whole: each line is a record, or is told by its number."""

from pathlib import Path

import pytest

from cluster.traces import gavel
from cluster.traces.formats import FORMATS, open_trace, recognise
from cluster.traces.records import Machine, Quota, StepTime, Throughput, TraceJob
from tests import traces

JOBS = [
    (traces.PHILLY_VC, "philly", 1511, 0),
    (traces.PHILLY_DAY, "philly", 3022, 0),
    (traces.PHILLY_WEEK, "philly", 12751, 0),
    *((traces.gavel(name), "gavel", count, 0) for name, count in traces.GAVEL.items()),
    *((path, "shockwave", int(path.name.partition("_")[0]), 0) for path in traces.SHOCKWAVE),
    (traces.ROOT / "tiresias" / "60_job.csv", "tiresias", 60, 0),
]


@pytest.mark.parametrize(("path", "name", "count", "malformed"), JOBS)
def test_every_line_of_a_job_trace_is_a_job(path: Path, name: str, count: int, malformed: int) -> None:
    trace = open_trace(path, TraceJob)
    assert trace.format == name
    assert (len(trace.rows), len(trace.malformed)) == (count, malformed)
    assert len({row.line for row in trace.rows}) == count
    assert trace.rows[0].submitted_s == 0


def test_the_philly_day_has_the_gpu_hours_that_its_notes_state() -> None:
    rows = open_trace(traces.PHILLY_DAY, TraceJob).rows
    assert sum(row.gpus * (row.duration_s or 0) for row in rows) / 3600 == pytest.approx(15_797, abs=1)
    assert max(row.gpus for row in rows) == 16
    assert len({row.tenant for row in rows}) == 9


def test_gavels_throughputs_are_those_without_a_neighbour() -> None:
    table = gavel.throughputs(traces.THROUGHPUTS.read_text())
    assert {"k80", "p100", "v100"} <= set(table)
    assert table["k80"]["ResNet-18 (batch size 16)", 1] == pytest.approx(4.907044539018749)
    # No GPU type is measured for every model and scale; each measurement is a number.
    assert all(rate >= 0 for rows in table.values() for rate in rows.values())
    entries = open_trace(traces.THROUGHPUTS, Throughput).rows
    assert {(row.gpu_type, row.model, row.gpus): row.per_s for row in entries} == {
        (gpu_type, *key): rate for gpu_type, rows in table.items() for key, rate in rows.items()
    }
    named = {row.model for row in open_trace(traces.gavel("msr_seed0_ee9e8c"), TraceJob).rows}
    assert named <= {model for model, gpus in table["v100"] if gpus == 1}


def test_pai_has_the_machines_that_its_notes_state() -> None:
    rows = open_trace(traces.ROOT / "pai2020" / "pai_machine_spec.csv", Machine).rows
    assert len(rows) == 1897
    assert sum(row.gpus for row in rows) == 6742
    assert sum(row.gpu_type == "CPU" for row in rows) == 83


@pytest.mark.parametrize(("name", "nodes", "gpus"), [("cluster_spec", 16, 4), ("n32g4", 32, 4)])
def test_tiresias_clusters_are_nodes_that_are_alike(name: str, nodes: int, gpus: int) -> None:
    (machine,) = open_trace(traces.ROOT / "tiresias" / f"{name}.csv", Machine).rows
    assert (machine.count, machine.gpus) == (nodes, gpus)


def test_helios_has_a_quota_for_each_tenant_and_day() -> None:
    trace = open_trace(traces.ROOT / "helios" / "Earth_gpu_number.csv", Quota)
    assert not trace.malformed
    assert len(trace.rows) == 181 * 25
    assert len({row.day for row in trace.rows}) == 181
    assert sum(row.gpus for row in trace.rows if row.day == "2020-09-28") == 1208


@pytest.mark.parametrize(
    "path", sorted((traces.ROOT / "sia" / "step_times").glob("*/*.csv")), ids=lambda p: p.parent.name
)
def test_every_measured_step_is_longer_than_its_synchronisation(path: Path) -> None:
    trace = open_trace(path, StepTime)
    assert len(trace.rows) + len(trace.malformed) == len(path.read_text().splitlines()) - 1
    assert not trace.malformed
    assert all(0 <= row.sync_s < row.step_s for row in trace.rows)


def test_no_two_formats_know_the_same_first_line() -> None:
    for path in sorted(p for p in traces.ROOT.rglob("*") if p.suffix in (".csv", ".trace")):
        with path.open(encoding="utf-8-sig") as lines:
            first = next(lines)
        known = [name for name, one in FORMATS.items() if one.knows(first)]
        assert len(known) <= 1
        if known:
            assert recognise(first) == known[0]
