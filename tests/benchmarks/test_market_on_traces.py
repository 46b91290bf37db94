"""The benchmark of markets on traces: workloads, cells, verdicts on made-up cells, the file of results, the picture."""

import argparse
import gzip
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.arguments import trace_of_jobs
from benchmarks.market_on_traces.__main__ import main
from benchmarks.market_on_traces.archive import COMMITTED, OWN_CELLS, Archive, read_archive, write_archive
from benchmarks.market_on_traces.cells import Cell, Place, cells_of
from benchmarks.market_on_traces.contenders import QUEUES, STATED, Contender, contenders
from benchmarks.market_on_traces.page import run_of, with_sections
from benchmarks.market_on_traces.picture import picture
from benchmarks.market_on_traces.report import rules_table, table
from benchmarks.market_on_traces.results import Results, run
from benchmarks.market_on_traces.targets import Verdict, possible_lead, verdicts
from benchmarks.market_on_traces.unsold import unsold
from benchmarks.market_on_traces.workloads import (
    BY_SIZE,
    EQUAL,
    LONGEST,
    TUNING,
    Source,
    equal_values,
    make_workload,
    own_sources,
)
from cluster.traces.records import TraceJob
from scheduling.policies.standing import StandingRule
from scheduling.registry import POLICIES

HOUR = 3600.0
DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT, PICTURE = DOCS / "measurements/market-on-traces.md", DOCS / "images/market-on-traces.svg"


def source(*jobs: tuple[float, int, float]) -> Source:
    """A trace of jobs: hour of submission, GPUs, hours."""
    rows = [TraceJob(line, at * HOUR, gpus, hours * HOUR) for line, (at, gpus, hours) in enumerate(jobs, 1)]
    return Source("made/up.csv", "0" * 64, tuple(rows), {})


STEADY = source(*((float(hour), 1, 2.0) for hour in range(20)))
PLACE = Place("made/up.csv", 1.0, BY_SIZE, 0, 200, 1)


def test_every_sample_to_tune_on_is_there() -> None:
    assert tuple(sorted(one.name for one in own_sources())) == TUNING


def test_a_cluster_has_as_many_gpus_as_the_load_says() -> None:
    # Nine of ten jobs have ended at 19.1 hours. By then 18 jobs ran for two hours, one for 1.1 and the last for 0.1.
    work = make_workload(STEADY, 0.5, BY_SIZE, 0)
    assert (work.gpus, work.left_out) == (4, 0)
    assert work.load == pytest.approx((18 * 2 + 1.1 + 0.1) / 19.1 / 4, rel=1e-4)
    assert work.plan.horizon <= LONGEST


def test_jobs_that_no_cluster_of_that_size_can_hold_are_left_out_and_lower_the_load() -> None:
    work = make_workload(source((0.0, 1, 4.0), (1.0, 1, 4.0), (2.0, 8, 4.0)), 4.0, BY_SIZE, 0)
    assert work.left_out == 1
    assert len(work.traced.bids) == 2
    assert work.load < 4.0


def test_a_long_trace_is_cut_to_windows_that_are_spread_and_thinned() -> None:
    long = source(*((hour / 4, 1, 1.0) for hour in range(4 * 24 * 10)))
    windows = [long.window(number, windows=3, jobs=50) for number in range(3)]
    assert [len(window) for window in windows] == [48, 48, 48]
    spans = [(window[-1].submitted_s - window[0].submitted_s) / HOUR for window in windows]
    assert spans == [47.0, 47.0, 47.0]
    assert windows[0][0].submitted_s == 0.0
    assert windows[2][-1].submitted_s >= (240 - 2) * HOUR
    assert long.window(0, windows=1, jobs=1000) == long.rows


def test_equal_values_do_not_grow_with_the_size() -> None:
    traced = make_workload(source((0.0, 1, 1.0), (0.0, 8, 10.0)), 0.1, BY_SIZE, 0).traced
    equal = equal_values(traced)
    before, after = ([bid.utility.value for bid in one.bids] for one in (traced, equal))
    assert before[1] / 80 == pytest.approx(after[1] / 40.5, rel=1e-4)
    assert before[0] == pytest.approx(after[0] / 40.5, rel=1e-4)


def test_every_policy_is_a_contender() -> None:
    assert {one.policy for one in contenders()} == set(POLICIES)


def test_queues_schedule_jobs_of_other_values_alike_and_policies_that_look_at_values_do_not() -> None:
    # Of four jobs that come at once to two GPUs, the longest is worth the most by size.
    jobs = source((0.0, 2, 1.0), (0.0, 1, 2.0), (0.0, 2, 4.0), (0.0, 1, 8.0))
    chosen = [one for one in contenders() if one.policy in (*QUEUES, *STATED)]
    by_size, equal = (
        {cell.contender: (cell.mean_jct_h, cell.acceptance) for cell in cells_of(jobs, place, chosen)}
        for place in (replace(PLACE, load=4.0, family=family) for family in (BY_SIZE, EQUAL))
    )
    assert {name for name in by_size if by_size[name] != equal[name]} == set(STATED)


FEW = [one for one in contenders() if one.name in ("dps", "oasis", "srtf")]


@pytest.mark.parametrize("family", [BY_SIZE, EQUAL])
def test_on_an_idle_cluster_queues_and_the_bound_agree_and_nothing_is_idle_while_wanted(family: str) -> None:
    (cell,) = cells_of(STEADY, replace(PLACE, load=0.2, family=family), [Contender("srtf", "srtf", {})])
    assert cell.over_bound == pytest.approx(1.0, rel=1e-9)
    assert (cell.acceptance, cell.idle_while_wanted) == (1.0, 0.0)
    assert cell.mean_jct_h == pytest.approx(2.0)


def test_no_welfare_is_above_its_bound_and_equal_settings_run_once() -> None:
    twice = [*FEW, replace(FEW[0], name="again")]
    cells = {cell.contender: cell for cell in cells_of(STEADY, PLACE, twice)}
    assert {name: 0 < cell.over_bound <= 1 for name, cell in cells.items()} == dict.fromkeys(cells, True)
    assert cells["again"] == replace(cells["dps"], contender="again")
    assert Cell.from_json(cells["dps"].to_json()) == cells["dps"]


def test_gpus_are_idle_while_wanted_where_a_job_was_rejected_that_would_have_fitted() -> None:
    # A price of a thousand turns everybody away.
    dear = Contender("dear", "dps", {"initial_low": 1000.0, "initial_high": 1000.0, "refit_every": 200})
    (cell,) = cells_of(STEADY, replace(PLACE, load=0.5), [dear])
    assert cell.acceptance == 0.0
    assert cell.idle_while_wanted == pytest.approx(1.0, rel=1e-4)


def test_gpus_that_process_queued_chunks_are_not_idle() -> None:
    # The chunks of the last job wait two hours for both GPUs, more than the job takes.
    jobs = source((0.0, 2, 1.0), (0.0, 2, 1.0), (0.0, 2, 1.5))
    (cell,) = cells_of(jobs, replace(PLACE, load=4.0), [Contender("preemptive", "preemptive", {})])
    assert (cell.gpus, cell.acceptance, cell.idle_while_wanted) == (2, 1.0, 0.0)


def test_what_idle_machines_could_be_sold_for_is_nothing_where_every_job_is_admitted() -> None:
    work = make_workload(source(*((0.0, 1, 1.0) for _ in range(4))), 0.25, BY_SIZE, 0)
    assert unsold(work, "dps") == 0.0
    with pytest.raises(ValueError, match="got 'oasis'"):
        unsold(work, "oasis")


def made_up(load: float, family: str, figures: Mapping[str, float], **more: float) -> list[Cell]:
    """Cells of one place with these welfares and a bound of 1."""
    jct = more.get("jct", 1.0)
    return [
        Cell(
            place=replace(PLACE, load=load, family=family), contender=name, settings={}, sha256="", submitted=100,
            left_out=0, gpus=8, slot_s=60, horizon=100, reached_load=load, bound_any=1.0, bound=1.0, welfare=welfare,
            revenue=0.1, acceptance=more.get("acceptance", 1.0), mean_jct_h=1.0 if name == "srtf" else jct,
            p95_jct_h=2.0, idle_while_wanted=more.get("idle", 0.0), p50_ms=more.get("p50", 1.0), p99_ms=2.0,
            between_ms=1.0, tries=0,
        )
        for name, welfare in figures.items()
    ]  # fmt: skip


GOOD = {"dps": 1.0, "dps before": 0.9, "srtf": 0.8, "fifo": 0.3}


def judged(cells: list[Cell]) -> dict[str, Verdict]:
    """Verdicts on the first market by a part of their text."""
    return {one.text: one for one in verdicts(cells) if one.market == "dps"}


def test_a_market_that_leads_everywhere_meets_every_target() -> None:
    cells = [*made_up(0.2, BY_SIZE, GOOD), *made_up(2.0, BY_SIZE, GOOD), *made_up(1.0, EQUAL, GOOD)]
    assert [text for text, one in judged(cells).items() if not one.met] == []


@pytest.mark.parametrize(
    ("load", "family", "figures", "more", "missed"),
    [
        (0.5, BY_SIZE, GOOD | {"dps": 0.98, "fifo": 1.0}, {}, {"best policy", "bound"}),
        (2.0, BY_SIZE, GOOD | {"srtf": 0.9}, {}, {"best queue"}),
        (2.0, BY_SIZE, GOOD | {"rrh": 1.1}, {}, {"best policy"}),
        (2.0, BY_SIZE, GOOD | {"dps before": 1.004}, {}, {"that before"}),
        (2.0, EQUAL, {"dps": 0.9, "srtf": 0.96}, {}, {"equal"}),
        (0.5, EQUAL, GOOD, {"acceptance": 0.97}, {"admitted"}),
        (0.2, BY_SIZE, GOOD, {"jct": 1.4}, {"JCT"}),
        (1.0, BY_SIZE, GOOD, {"p50": 6.0}, {"p50"}),
        (1.0, BY_SIZE, GOOD, {"idle": 0.01}, {"idle while wanted"}),
    ],
)
def test_one_cell_that_falls_short_misses_its_target(
    load: float, family: str, figures: Mapping[str, float], more: Mapping[str, float], missed: set[str]
) -> None:
    verdict = judged(made_up(load, family, figures, **more))
    found = {text for text, one in verdict.items() if one.figures and not one.met}
    assert len(found) == len(missed)
    assert all(any(part in text for text in found) for part in missed)


def test_no_lead_is_possible_beyond_the_bound_over_the_best_queue() -> None:
    cells = [*made_up(0.5, BY_SIZE, GOOD), *made_up(2.0, EQUAL, GOOD)]
    assert possible_lead(cells) is None, "a lead is asked for at high load, of values by size"
    assert possible_lead([*cells, *made_up(2.0, BY_SIZE, GOOD)]) == pytest.approx(1 / 0.8)


def test_a_target_without_cells_is_not_met() -> None:
    (equal,) = (one for text, one in judged(made_up(2.0, BY_SIZE, GOOD)).items() if text.startswith("equal"))
    assert (equal.met, equal.line) == (False, f"dps: {equal.text}: no cell to judge by")


def test_a_second_run_computes_only_what_is_missing_or_has_other_settings(tmp_path: Path) -> None:
    path = tmp_path / "cells.jsonl"

    def new(*among: Contender) -> int:
        return sum(count for _, count in run([STEADY], [PLACE], among, Results(path), processes=1))

    fifo, srtf = Contender("fifo", "fifo", {}), Contender("srtf", "srtf", {})
    assert new(fifo) == 1
    assert new(fifo, srtf) == 1
    assert new(fifo, srtf) == 0
    market = Contender("dps", "dps", {})
    assert new(market) == 1
    assert new(replace(market, parameters={"full_quantile": 0.9})) == 1
    assert new(replace(market, standing=StandingRule())) == 1
    path.write_text(path.read_text(encoding="utf-8") + '{"place"', encoding="utf-8")
    assert new(fifo, srtf, market) == 0


@pytest.mark.thorough
def test_two_processes_find_the_same_cells(tmp_path: Path) -> None:
    places = [PLACE, replace(PLACE, load=2.0)]
    contender = Contender("srtf", "srtf", {})
    found = []
    for processes in (1, 2):
        results = Results(tmp_path / f"{processes}.jsonl")
        assert sum(count for _, count in run([STEADY], places, [contender], results, processes=processes)) == 2
        cells = [results.get(place, STEADY.sha256, contender) for place in places]
        found.append([(cell.welfare, cell.mean_jct_h) for cell in cells if cell])
    assert found[0] == found[1]


def test_the_table_and_the_picture_show_every_load() -> None:
    cells = [*made_up(0.2, BY_SIZE, GOOD), *made_up(2.0, BY_SIZE, GOOD), *made_up(2.0, EQUAL, GOOD)]
    lines = list(table(cells))
    assert lines[2].startswith("| by_size | dps | 1.000 | 1.000 | 100% |")
    assert lines[-1].startswith("| equal | fifo | - | 0.300 |")
    drawn = ElementTree.fromstring(picture(cells))
    assert len(drawn.findall("{http://www.w3.org/2000/svg}polyline")) == 8


PAGE = "a\n<!-- begin run -->\n<!-- end run -->\n<!-- begin targets -->\nold\n<!-- end targets -->\n"
RULES = "<!-- begin rules -->\n<!-- end rules -->\n"
TABLE = "<!-- begin table -->\n<!-- end table -->\nb\n"


def test_the_sections_of_the_document_are_made_from_the_cells() -> None:
    cells = [*made_up(0.2, BY_SIZE, GOOD), *made_up(2.0, BY_SIZE, GOOD | {"dps": 0.79})]
    text = with_sections(PAGE + RULES + TABLE, cells)
    assert text.startswith("a\n<!-- begin run -->\n8 cells, 2 workloads, seeds 0:\n")
    assert text.endswith("<!-- end table -->\nb\n")
    assert "| dps | load <= 0.5: admitted | >= 0.98 | 1.000 | 1.000 (up, 0.2) | 1 of 1 | **met** |" in text
    assert "| 1 of 2 | **not met** |" in text
    assert "old" not in text
    assert with_sections(text, cells) == text


def test_the_document_says_in_how_many_workloads_the_load_is_not_reached() -> None:
    full, short = made_up(2.0, BY_SIZE, GOOD), made_up(4.0, BY_SIZE, GOOD)
    assert "that is reached" not in run_of(full)
    text = run_of([*full, *(replace(cell, reached_load=3.1, gpus=1) for cell in short)])
    assert "\nIn 1 of 2 workloads the load that is reached is below 0.8 of the one in the\n" in text
    assert text.endswith("is 3.10 at\n4 (`made/up.csv`, 1 GPU).")


def test_completions_had_no_former_defaults_and_are_judged_by_those_of_the_other_markets() -> None:
    cells = made_up(2.0, BY_SIZE, {"dps before": 0.4, "oasis before": 0.5, "completions": 0.45})
    found, other = (one for one in verdicts(cells) if one.text == "by size: welfare / best before")
    assert (found.market, found.figures, found.met) == ("completions", (0.9,), False)
    assert (other.market, other.figures) == ("competition", ())
    alone = made_up(2.0, BY_SIZE, {"dps before": 0.4, "completions": 0.45})
    assert "| completions | by size: welfare / best before | - | - | - | 0 of 0 | not judged: nothing" in (
        with_sections(PAGE + RULES + TABLE, alone)
    )


def test_the_document_and_its_picture_are_what_the_committed_cells_give() -> None:
    archive = read_archive(COMMITTED)
    page = DOCUMENT.read_text(encoding="utf-8")
    assert with_sections(page, archive.cells) == page
    assert picture(archive.cells) == PICTURE.read_text(encoding="utf-8")
    assert archive.command in page
    assert COMMITTED.stat().st_size < 10**6


def test_the_page_of_own_samples_is_what_its_cells_give() -> None:
    archive, document = read_archive(OWN_CELLS), DOCUMENT.with_name("market-on-own-samples.md")
    page = document.read_text(encoding="utf-8")
    assert with_sections(page, archive.cells) == page
    assert archive.command in page
    assert {cell.place.trace for cell in archive.cells} == set(TUNING)


@pytest.mark.parametrize("path", [COMMITTED, OWN_CELLS])
def test_the_committed_cells_are_of_the_defaults_of_now(path: Path) -> None:
    now = {one.name: one.to_json() for one in contenders()}
    assert [cell for cell in read_archive(path).cells if cell.settings != now[cell.contender]] == []


def test_an_archive_gives_the_cells_back_and_says_what_made_them(tmp_path: Path) -> None:
    path = tmp_path / "new" / "cells.jsonl.gz"
    archive = Archive("python -m x", "abc", tuple(made_up(2.0, BY_SIZE, GOOD)))
    write_archive(path, archive)
    assert read_archive(path) == archive
    before = path.read_bytes()
    write_archive(path, archive)
    assert path.read_bytes() == before
    path.write_bytes(gzip.compress(b"".join(gzip.decompress(before).splitlines(keepends=True)[:-1])))
    with pytest.raises(ValueError, match="expected 4 cells, got 3"):
        read_archive(path)


def test_the_command_reports_archived_cells_without_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "a.gz", tmp_path / "b.gz"
    write_archive(first, Archive("python -m x", "abc", tuple(made_up(2.0, BY_SIZE, GOOD))))
    monkeypatch.setattr("sys.argv", ["x", "--archived", str(first), "--archive", str(second)])
    with pytest.raises(SystemExit):
        main()
    assert "--archive needs --commit" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["x", "--archived", str(first), "--archive", str(second), "--commit", "def"])
    main()
    assert "| by_size | dps | 1.000 |" in capsys.readouterr().out
    assert read_archive(second) == replace(read_archive(first), command=read_archive(second).command, commit="def")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--traces", "nowhere"], "--traces: expected a folder with traces of jobs, got nowhere, which has none"),
        (["--only", "nobody"], "expected cells to report, got none"),
        (["--trace", "nothing"], "expected cells to report, got none"),
        (["--jobs", "0"], "argument --jobs: expected a whole number of at least 1, got '0'"),
        (["--seeds", "two"], "argument --seeds: expected a whole number of at least 1, got 'two'"),
    ],
)
def test_a_run_of_nothing_is_refused_and_leaves_the_document_as_it_is(
    options: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / "page.md"
    page.write_text(DOCUMENT.read_text())
    monkeypatch.setattr("benchmarks.market_on_traces.__main__.make_ready", lambda: None)
    files = ["--results", str(tmp_path / "cells.jsonl"), "--page", str(page)]
    monkeypatch.setattr("sys.argv", ["x", *files, "--known", *options])
    with pytest.raises(SystemExit) as refused:
        main()
    assert refused.value.code == 2
    assert expected in capsys.readouterr().err
    assert page.read_text() == DOCUMENT.read_text()


def test_a_market_that_ran_alone_is_not_judged_against_queues() -> None:
    found = judged([*made_up(2.0, BY_SIZE, {"dps": 0.9}), *made_up(0.2, EQUAL, {"dps": 0.9})])
    against = ("by size, load >= 1: best queue", "equal: welfare / best queue", "load <= 0.5: JCT / SRTF")
    assert [found[text].figures for text in against] == [(), (), ()]
    assert found["load <= 0.5: admitted"].figures == (1.0,)


def test_the_better_price_rule_of_each_cell_is_known_in_hindsight_only() -> None:
    cells = [
        *made_up(2.0, BY_SIZE, GOOD | {"dps": 0.5, "dps fluid": 0.7}),
        *made_up(4.0, BY_SIZE, GOOD | {"dps": 0.6, "dps fluid": 0.4}),
    ]
    lines = list(rules_table(cells))
    assert lines[2:] == [
        "| by_size | dps | 2 | 0.500 | 0.700 | 0.700 | 1 of 1 |",
        "| by_size | dps | 4 | 0.600 | 0.400 | 0.600 | 0 of 1 |",
    ]


def test_a_document_without_the_sections_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the marked sections run, targets, rules, table, got run, targets"):
        with_sections(PAGE, made_up(0.2, BY_SIZE, GOOD))


@pytest.mark.thorough
def test_the_command_prints_the_table_and_the_verdicts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("benchmarks.market_on_traces.__main__.own_sources", lambda: [STEADY])
    monkeypatch.setattr("benchmarks.market_on_traces.__main__.LOADS", (2.0,))
    # These policies load the few kernels that they need.
    monkeypatch.setattr("benchmarks.market_on_traces.__main__.make_ready", lambda: None)
    options = ("--processes", "1", "--only", "dps,fifo,srtf", "--jobs", "8")
    command = ["x", *options, "--results", str(tmp_path / "cells.jsonl")]
    monkeypatch.setattr("sys.argv", [*command, "--picture", str(tmp_path / "a.svg")])
    main()
    printed = capsys.readouterr().out
    assert "| by_size | dps | " in printed
    assert "dps: by size: welfare / best policy >= 0.99 in every cell:" in printed
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg")


def other_files() -> dict[str, bytes | None]:
    """Contents of files that have no cells; None for one that is missing."""
    lines = {"no line of JSON": b"x\n", "a list": b"[]\n", "another document": b"{}\n"}
    packed = {f"{name}, compressed": gzip.compress(content) for name, content in lines.items()}
    head = b'{"command": "x", "commit": "y", "cells": 1}\n'
    packed["a cell of another form"] = gzip.compress(head + b'{"place": {}}\n')
    packed["a file that was cut off"] = COMMITTED.read_bytes()[:1000]
    return {"nothing": None, "not compressed": head, **packed}


OTHERS = other_files()


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_without_cells_is_named_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cells.gz"
    if (content := OTHERS[name]) is not None:
        file.write_bytes(content)
    monkeypatch.setattr(sys, "argv", ["market_on_traces", "--archived", str(file)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "expected" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(("content", "words"), [(None, "expected a file"), (b"a,b\n", "expected a trace of jobs")])
def test_a_trace_that_is_missing_or_of_another_form_is_named(tmp_path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / "day").write_bytes(content)
    with pytest.raises(argparse.ArgumentTypeError, match=words):
        trace_of_jobs(str(tmp_path / "day"))
