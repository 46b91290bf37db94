"""Samples are read whole: each line is a record, or is reported by its number; all samples can be made again."""

import json
from ast import literal_eval
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cluster.traces import gavel
from cluster.traces.formats import FORMATS, KINDS, Trace, UnknownFormat, open_trace, recognise
from cluster.traces.records import Machine, Quota, StepTime, Throughput, TraceJob
from tests.data.make.traces.files import RECORD, contents
from tests.traces import LARGER, OWN, Traces, files_of

SAMPLES = tuple(OWN.facts)
"""Paths of the project's own."""
READ = [path for path in SAMPLES if OWN.facts[path]["format"]]
ODD_JOBS = [path for path in READ if "/odd." in path and FORMATS[OWN.facts[path]["format"]].kind == "jobs"]
EACH_TRACE_OF_JOBS = pytest.mark.parametrize(("traces", "path"), files_of(lambda traces: traces.jobs))


def test_the_samples_are_made_again_byte_for_byte() -> None:
    made = contents()
    there = {path.relative_to(OWN.root).as_posix() for path in OWN.root.rglob("*") if path.is_file()}
    assert there == set(made), "no sample is left from an earlier script, and none is missing"
    for path, content in made.items():
        assert (OWN.root / path).read_bytes() == content, f"{path}: python -m tests.data.make writes it again"


def test_every_format_has_a_sample_without_and_one_with_a_line_that_is_no_record() -> None:
    whole = {facts["format"] for facts in OWN.facts.values() if not facts["malformed"]}
    assert whole - {""} == set(FORMATS)
    broken = {facts["format"] for facts in OWN.facts.values() if facts["malformed"]}
    # A JSON file has no lines: with a mistake in it, it is refused as a whole.
    assert broken == set(FORMATS) - {"gavel_throughputs"}


def test_every_sample_says_that_its_rows_are_synthetic() -> None:
    note = (OWN.root / "README.md").read_text()
    parts = note.split("## ")[1:]
    assert [part.partition("\n")[0] for part in parts] == list(SAMPLES)
    assert all("\nSynthetic rows in the format of " in part for part in parts)


if LARGER is not None:
    PUBLISHED = LARGER

    @pytest.mark.collection
    def test_no_line_of_a_sample_is_a_line_of_a_published_trace() -> None:
        published = {line for path in PUBLISHED.jobs for line in path.read_text().splitlines()[1:]}
        drawn = {line for path in OWN.jobs for line in path.read_text().splitlines()[1:]}
        assert len(published) > len(drawn) > 1000
        assert not published & drawn


@pytest.mark.parametrize("path", READ)
def test_a_reader_finds_what_the_script_put_into_a_sample(path: str) -> None:
    trace, facts = open_trace(OWN.root / path, *KINDS.values()), OWN.facts[path]
    assert trace.format == facts["format"]
    assert len(trace.rows) == facts["records"]
    assert [[row.line, row.field] for row in trace.malformed] == facts["malformed"]
    if FORMATS[trace.format].kind != "throughputs":
        lines = (OWN.root / path).read_text(encoding="utf-8-sig", errors="replace").splitlines()
        reported = {row.line for row in trace.malformed} | {
            row.line for row in trace.rows if not isinstance(row, Throughput)
        }
        assert reported == set(range(1 + len(lines) - len(reported), 1 + len(lines)))


@pytest.mark.parametrize("path", [path for path in SAMPLES if path not in READ])
def test_a_file_that_comes_with_a_trace_and_is_not_read_is_refused(path: str) -> None:
    with pytest.raises(UnknownFormat, match=r"expected a file of a known format \(.*philly.*sia"):
        open_trace(OWN.root / path, *KINDS.values())


@EACH_TRACE_OF_JOBS
def test_every_line_of_a_job_trace_is_a_job(traces: Traces, path: Path) -> None:
    trace = open_trace(path, TraceJob)
    count = traces.of(path)["records"]
    assert trace.format == path.parent.name
    assert (len(trace.rows), len(trace.malformed)) == (count, 0)
    assert len({row.line for row in trace.rows}) == count
    assert trace.rows[0].submitted_s == 0


@EACH_TRACE_OF_JOBS
def test_jobs_are_as_many_and_as_large_as_was_counted(traces: Traces, path: Path) -> None:
    assert_counted(open_trace(path, TraceJob), traces.of(path))


@pytest.mark.parametrize("path", ODD_JOBS)
def test_jobs_among_odd_lines_are_as_large_as_the_script_made_them(path: str) -> None:
    assert_counted(open_trace(OWN.root / path, TraceJob), OWN.facts[path])


def assert_counted(trace: Trace[TraceJob], facts: Mapping[str, Any]) -> None:
    rows = trace.rows
    found = {
        "format": trace.format,
        "records": len(rows),
        "gpu_seconds": sum(row.gpus * (row.duration_s or 0) for row in rows),
        "steps": sum(row.steps or 0 for row in rows),
        "jobs_of_gpus": Counter(str(row.gpus) for row in rows),
        "jobs_of_tenants": Counter(row.tenant for row in rows),
        "jobs_of_modes": Counter(row.mode for row in rows),
        "models": len({row.model for row in rows}),
        "last_submitted_s": max(row.submitted_s for row in rows),
        "longest_s": max(row.duration_s or 0 for row in rows),
        "first_line": min(rows, key=lambda row: row.submitted_s).line,
        "malformed": [[row.line, row.field] for row in trace.malformed],
    }
    assert facts.keys() <= found.keys()
    assert len(facts) >= 3
    assert {name: found[name] for name in facts} == facts


def test_gavels_throughputs_are_those_without_a_neighbour(traces: Traces) -> None:
    table = gavel.throughputs(traces.throughputs.read_text())
    assert {"k80", "p100", "v100"} <= set(table)
    # No GPU type is measured for every model and scale; each measurement is a number.
    assert all(rate >= 0 for rows in table.values() for rate in rows.values())
    entries = open_trace(traces.throughputs, Throughput).rows
    assert {(row.gpu_type, row.model, row.gpus): row.per_s for row in entries} == {
        (gpu_type, *key): rate for gpu_type, rows in table.items() for key, rate in rows.items()
    }
    named = {row.model for path in traces.gavel for row in open_trace(path, TraceJob).rows}
    assert named <= {model for model, gpus in table["v100"] if gpus == 1}
    document = json.loads(traces.throughputs.read_text())
    assert {gpu_type: len(rows) for gpu_type, rows in table.items()} == {gpu: len(document[gpu]) for gpu in document}
    key = "ResNet-18 (batch size 16)", 1
    assert table["k80"][key] == document["k80"][str(key)]["null"]


def test_gavels_throughputs_are_those_that_the_script_drew() -> None:
    table, facts = gavel.throughputs(OWN.throughputs.read_text()), OWN.of(OWN.throughputs)
    assert {gpu_type: len(rows) for gpu_type, rows in table.items()} == facts["entries_of_gpu_types"]
    assert sum(rate == 0 for rows in table.values() for rate in rows.values()) == facts["zeros"] > 0
    for gpu_type, rows in facts["alone"].items():
        assert {key: table[gpu_type][literal_eval(key)] for key in rows} == rows


def test_machines_are_as_many_as_was_counted(traces: Traces) -> None:
    for path in (traces.machines, traces.nodes):
        rows, facts = open_trace(path, Machine).rows, traces.of(path)
        assert len(rows) == facts["records"]
        assert sum(row.count for row in rows) == facts["machines"]
        assert sum(row.count * row.gpus for row in rows) == facts["gpus"]
    rows, facts = open_trace(traces.machines, Machine).rows, traces.of(traces.machines)
    types = {row.gpu_type: sum(one.gpus for one in rows if one.gpu_type == row.gpu_type) for row in rows}
    assert types == facts["gpus_of_types"]
    (node,) = open_trace(traces.nodes, Machine).rows
    assert (node.count, node.gpus) == (traces.of(traces.nodes)["machines"], 4)


@pytest.mark.parametrize("path", ["tiresias/mixed.csv", "pai2020/odd_machine_spec.csv"])
def test_machines_among_odd_lines_are_as_many_as_the_script_made(path: str) -> None:
    rows, facts = open_trace(OWN.root / path, Machine).rows, OWN.facts[path]
    assert sum(row.count for row in rows) == facts["machines"]
    assert sum(row.count * row.gpus for row in rows) == facts["gpus"]


def test_helios_has_a_quota_for_each_tenant_and_day(traces: Traces) -> None:
    trace, facts = open_trace(traces.quotas, Quota), traces.of(traces.quotas)
    assert not trace.malformed
    assert len(trace.rows) == facts["records"]
    assert len({row.day for row in trace.rows}) == facts["days"]
    assert sum(row.gpus for row in trace.rows) == facts["gpu_days"]
    assert sum(row.gpus for row in trace.rows if row.day == facts["last_day"]) == facts["gpus_of_last_day"]


@pytest.mark.parametrize(
    ("traces", "path"), files_of(lambda traces: sorted(traces.root.glob("sia/step_times/*/*.csv")))
)
def test_every_measured_step_is_longer_than_its_synchronisation(traces: Traces, path: Path) -> None:
    trace = open_trace(path, StepTime)
    assert len(trace.rows) + len(trace.malformed) == len(path.read_text().splitlines()) - 1
    assert all(0 <= row.sync_s < row.step_s for row in trace.rows)
    known = traces.facts.get(path.relative_to(traces.root).as_posix(), {"malformed": []})
    assert [[row.line, row.field] for row in trace.malformed] == known["malformed"]
    if "gpus" in known:
        assert sorted({sum(row.placement) for row in trace.rows}) == known["gpus"]


@pytest.mark.parametrize("suffix", ["csv", "trace", "json"])
def test_no_two_formats_know_the_same_first_line(traces: Traces, suffix: str) -> None:
    paths = [path for path in sorted(traces.root.rglob(f"*.{suffix}")) if path.name != RECORD]
    assert paths
    for path in paths:
        with path.open(encoding="utf-8-sig", errors="replace") as lines:
            first = next(lines)
        known = [name for name, one in FORMATS.items() if one.knows(first)]
        assert len(known) <= 1
        if known:
            assert recognise(first) == known[0]
