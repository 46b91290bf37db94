"""Malformed lines are reported by number and field; other files are refused; nothing is dropped."""

import hashlib
from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.traces import gavel, pai, philly, shockwave, sia
from cluster.traces.formats import FORMATS, UnknownFormat, open_trace, read_trace, recognise
from cluster.traces.records import Machine, Malformed, Quota, Reader, Record, StepTime, TraceJob
from scheduling.model.errors import InvalidField

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster"
TIRESIAS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval"
HELIOS = "date,a,b,total"
SCALABILITY = "num_nodes,num_replicas,local_bsz,step_time,sync_time"
SIA = "placement,local_bsz,step_time,sync_time"
GAVEL = "ResNet-18 (batch size 16)\tpython3 main.py\twhere\t--steps\t1\t1000\t4\t2\t1.5\t60"
SHOCKWAVE = "LM (batch size 10)\tmain.py\tlm\t--steps\t1\t134583\t2\tgns\t1\t-1.000000\t1418\t55"


def test_times_count_from_the_first_row() -> None:
    trace = read_trace([PHILLY, "2017-10-01 00:00:10,60.0,1,60.0,a", "2017-10-01 01:00:10,120.0,4,480.0,b"], TraceJob)
    assert trace.rows == (
        TraceJob(line=2, submitted_s=0.0, duration_s=60.0, gpus=1, tenant="a"),
        TraceJob(line=3, submitted_s=3600.0, duration_s=120.0, gpus=4, tenant="b"),
    )


def test_the_earliest_row_begins_a_trace_that_is_not_in_order() -> None:
    rows = ["2017-10-01 01:00:00,60.0,1,60.0,a", "oops", "2017-10-01 00:00:00,60.0,1,60.0,a"]
    trace = read_trace([PHILLY, *rows], TraceJob)
    assert [(row.line, row.submitted_s) for row in trace.rows] == [(2, 3600.0), (4, 0.0)]
    assert [row.line for row in trace.malformed] == [3]


def test_a_cell_of_very_many_digits_is_refused_at_once() -> None:
    began = process_time()
    (row,) = read_trace([PHILLY, f"2017-10-01 00:00:00,{'1' * 10**6}x,1,60.0,a"], TraceJob).malformed
    assert row.field == "duration"
    assert process_time() - began < 5, "each digit is looked at once: a tenth as many took minutes"


@pytest.mark.parametrize("cell", ["1e300", "1e999", "-3", "0", "1.5", "x"])
def test_a_whole_number_out_of_range_is_reported_with_its_range(cell: str) -> None:
    (row,) = read_trace([PHILLY, f"2017-10-01 00:00:00,60.0,{cell},60.0,a"], TraceJob).malformed
    expected = "1 to 10,000" if cell not in ("1e999", "1.5", "x") else "a whole number"
    assert row.message.startswith(f"expected {expected}, got ")


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["m,V100,96,512,8", f"n,{'x' * 5000},96,512,0"], Machine),
        ([SIA, f"4,4,1.{'5' * 5000},1.9"], StepTime),
        ([HELIOS, f"2020-04-01,8,0,{'9' * 5000}"], Quota),
        ([f"date,{'x' * 5000},total", "2020-04-01,no,8"], Quota),
    ],
)
def test_a_line_is_reported_in_a_line_however_long_its_cells_are(lines: list[str], kind: type[Record]) -> None:
    (row,) = read_trace(lines, kind).malformed
    assert len(str(row)) < 300


def test_a_gavel_line_says_steps_and_no_duration() -> None:
    (job,) = gavel.read([GAVEL])
    assert job == TraceJob(1, 60.0, 4, model="ResNet-18 (batch size 16)", steps=1000, weight=2.0, slo=1.5)


def test_a_shockwave_line_says_how_its_batch_changes() -> None:
    (job,) = shockwave.read([SHOCKWAVE])
    assert job == TraceJob(
        1, 55.0, 2, duration_s=1418.0, model="LM (batch size 10)", steps=134583, weight=1.0, mode="gns"
    )


def test_steps_are_counted_over_all_gpus_of_a_tiresias_job() -> None:
    (job,) = read_trace([TIRESIAS, "1,8,30,133,vgg11,147,23"], TraceJob).rows
    assert job == TraceJob(2, 30.0, 8, duration_s=147.0, model="vgg11", steps=8 * 133)


def test_a_quota_is_of_a_tenant_and_a_day() -> None:
    rows = read_trace([HELIOS, "2020-04-01,8,0,8"], Quota).rows
    assert rows == (Quota(2, "2020-04-01", "a", 8), Quota(2, "2020-04-01", "b", 0))


def test_gpus_are_spread_over_the_nodes_of_a_measurement() -> None:
    rows = read_trace([SCALABILITY, "3,8,4,1.5,0.5"], StepTime).rows
    assert rows == (StepTime(2, (3, 3, 2), 4, 1.5, 0.5),)
    assert read_trace([SIA, "1134,4,1.5,0"], StepTime).rows[0].placement == (1, 1, 3, 4)


WRONG: list[tuple[list[str], str, str]] = [
    ([PHILLY], "yesterday,60.0,1,60.0,a", "timestamp"),
    ([PHILLY], "2017-10-01 00:00:00+00:00,60.0,1,60.0,a", "timestamp"),
    ([PHILLY], "2017-10-01 00:00:00,nan,1,60.0,a", "duration"),
    ([PHILLY], "2017-10-01 00:00:00,inf,1,60.0,a", "duration"),
    ([PHILLY], "2017-10-01 00:00:00,1_000,1,60.0,a", "duration"),
    ([PHILLY], "2017-10-01 00:00:00,١٢,1,60.0,a", "duration"),
    ([PHILLY], "2017-10-01 00:00:00,1e999,1,60.0,a", "duration"),
    ([PHILLY, "2017-10-02 00:00:00,1.0,1,1.0,a"], "9017-10-01 00:00:00,1.0,1,1.0,a", "timestamp"),
    ([PHILLY], "2017-10-01 00:00:00,-1,1,60.0,a", "duration"),
    ([PHILLY], "2017-10-01 00:00:00,0,1,60.0,a", "duration"),
    ([PHILLY], "2017-10-01 00:00:00,60.0,1.5,60.0,a", "num_gpus"),
    ([PHILLY], "2017-10-01 00:00:00,60.0,0,60.0,a", "num_gpus"),
    ([PHILLY], "2017-10-01 00:00:00,60.0,10001,60.0,a", "num_gpus"),
    ([PHILLY], "2017-10-01 00:00:00,60.0,many,60.0,a", "num_gpus"),
    ([PHILLY], "2017-10-01 00:00:00,60.0,1,60.0", "line"),
    ([PHILLY], "", "line"),
    ([PHILLY], '2017-10-01 00:00:00,60.0,1,60.0,"a', "line"),
    ([PHILLY], "2017-10-01 00:00:00,60.0,1,60.0,\ufffd", "line"),
    ([GAVEL], GAVEL.replace("\t4\t", "\t0\t"), "scale_factor"),
    ([GAVEL], GAVEL.replace("\t1000\t", "\t-1\t"), "total_steps"),
    ([GAVEL], GAVEL.replace("\t60", "\tsoon"), "arrival_time"),
    ([GAVEL], GAVEL.replace("ResNet-18 (batch size 16)", " "), "job_type"),
    ([GAVEL], GAVEL.replace("\t2\t", "\t-2\t"), "priority_weight"),
    ([GAVEL], "one\ttwo", "line"),
    ([SHOCKWAVE], SHOCKWAVE.replace("gns", "sometimes"), "mode"),
    ([SHOCKWAVE], SHOCKWAVE.replace("1418", "0"), "duration"),
    ([TIRESIAS], "1,8,30,133.5,vgg11,147,23", "iterations"),
    ([TIRESIAS], "1,8,-30,133,vgg11,147,23", "submit_time"),
    ([TIRESIAS, "1,8,30,133,vgg11,147,23"], "1,4,60,133,vgg19,147,23", "job_id"),
    ([HELIOS], "2020-04-01,8,1,8", "total"),
    ([HELIOS], "2020-04-31,8,0,8", "date"),
    ([HELIOS, "2020-04-01,8,0,8"], "2020-04-01,16,0,16", "date"),
    ([HELIOS], "2020-04-01,8,x,8", "b"),
    ([SIA], "104,4,1.5,0.5", "placement"),
    ([SIA], "4,4,1.5,1.5", "sync_time"),
    ([SIA], "٤,4,1.5,0.5", "placement"),
    ([SIA], f"{'1' * 101},4,1.5,0.5", "placement"),
    ([SCALABILITY], "101,101,4,1.5,0.5", "num_nodes"),
    (["m,V100,96,512,8"], "m,V100,96,512,0", "cap_gpu"),
    (["m,V100,96,512,8"], ",V100,96,512,8", "machine"),
    (["m,V100,96,512,8"], "m,T4,96,512,2", "machine"),
    (["m,V100,96,512,8"], "m,V100,96,lots,8", "cap_mem"),
]


@pytest.mark.parametrize(("before", "line", "field"), WRONG)
def test_a_malformed_line_is_reported_by_number_and_field(before: list[str], line: str, field: str) -> None:
    name = recognise(before[0])
    read: Reader = FORMATS[name].read
    rows = list(read([*before, line]))
    assert isinstance(rows[-1], Malformed)
    assert (rows[-1].line, rows[-1].field) == (len(before) + 1, field)
    assert str(rows[-1]).startswith(f"line {len(before) + 1}: {field}: ")


def test_a_quotation_mark_that_does_not_close_costs_one_line() -> None:
    good = "2017-10-01 00:00:00,60.0,1,60.0,"
    trace = read_trace([PHILLY, good + "a", good + '"b', good + '"c,d"'], TraceJob)
    assert [row.tenant for row in trace.rows] == ["a", "c,d"]
    assert [row.line for row in trace.malformed] == [3]


@pytest.mark.parametrize("read", [philly.read, sia.read])
def test_a_heading_of_another_file_is_refused(read: Callable[[list[str]], object]) -> None:
    with pytest.raises(InvalidField, match="columns"):
        read(["a,b", "1,2"])


@pytest.mark.parametrize(("first", "words"), [("\ufffd\ufffdt", "expected UTF-8"), ("", "got an empty first line")])
def test_a_file_without_a_first_line_that_can_be_read_is_reported(first: str, words: str) -> None:
    with pytest.raises(UnknownFormat, match=words):
        recognise(first)


@pytest.mark.parametrize("first", ["", "a,b", "a\tb"])
def test_an_unknown_format_is_refused_and_the_known_are_listed(first: str) -> None:
    with pytest.raises(UnknownFormat, match=r"philly.*sia"):
        recognise(first)


def test_a_trace_of_something_else_is_refused() -> None:
    with pytest.raises(UnknownFormat, match=r"expected a file with jobs, got one with machines \(Alibaba PAI"):
        read_trace(["m,V100,96,512,8"], TraceJob)


def test_a_file_is_known_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "machines.csv"
    content = b"\xef\xbb\xbfm,V100,96,512,8\r\nn\xff,V100,96,512,8\r\n"
    path.write_bytes(content)
    trace = open_trace(path, Machine)
    assert trace.sha256 == hashlib.sha256(content).hexdigest()
    assert trace.source == "machines.csv"
    assert [row.name for row in trace.rows] == ["m"]
    assert [row.line for row in trace.malformed] == [2]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[]", "throughputs"),
        ("{", "throughputs"),
        ("[" * 100_000, "throughputs"),
        ('{"v100": 3}', "throughputs.v100"),
        ('{"v100": {}, "v100": {}}', "throughputs"),
        ('{"v100": {"ResNet": {"null": 1}}}', "throughputs.v100.ResNet"),
        ('{"v100": {"ResNet, 1": {"null": 1}}}', "throughputs.v100.ResNet, 1"),
        ('{"v100": {"(\'R\', 1)": {}}}', "throughputs.v100.('R', 1).null"),
        ('{"v100": {"(\'R\', 1)": {"null": NaN}}}', "throughputs.v100.('R', 1).null"),
        ('{"v100": {"(\'R\', 1)": {"null": 1e-300}}}', "throughputs.v100.('R', 1).null"),
    ],
)
def test_throughputs_of_another_shape_are_refused(text: str, field: str) -> None:
    with pytest.raises(InvalidField) as refused:
        gavel.throughputs(text)
    assert refused.value.field == field


def test_throughputs_of_one_gpu_are_kept_whatever_mark_the_file_begins_with() -> None:
    measured = gavel.throughputs('\ufeff{"k80": {"(\'R\', 1)": {"null": 0.5}, "(\'R\', 2)": {"null": 0.8}}}')
    kept = gavel.on_one_gpu(measured)
    assert kept == {"k80": {"R": 0.5}}
    assert gavel.of_one_gpu(kept) == {"k80": {("R", 1): 0.5}}


@given(st.lists(st.text(alphabet='019-: ,."aNn\t', max_size=40)))
def test_whatever_a_line_holds_it_is_a_job_or_malformed(lines: list[str]) -> None:
    rows = list(philly.read([PHILLY, *lines]))
    assert [row.line for row in rows] == list(range(2, 2 + len(lines)))


@given(st.lists(st.text(max_size=40)))
def test_no_line_of_machines_is_dropped(lines: list[str]) -> None:
    assert [row.line for row in pai.read(lines)] == list(range(1, 1 + len(lines)))
