"""`manage.py reproduce` draws every figure of every paper, judges it, and asks no other host for anything."""

import csv
import json
import math
import re
from html import unescape
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from frontend.presenters.reproduction import write_figure, write_index
from studies.papers.dps_cases import drawn, ran
from studies.papers.figure import Scale, Task, Verdict, reproduce
from studies.papers.registry import PAPERS
from studies.papers.results import read_results
from tests.draws import SOAK, some
from tests.processes import ROOT

KEPT = ROOT / "docs/measurements/reproduction"
ADDRESS = re.compile(r"(?:src|href)=\"([^\"]*)\"|url\(|@import|https?://")


def numbers_in(document: Any) -> list[float]:
    """Every number in a document."""
    if isinstance(document, dict):
        return [n for value in document.values() for n in numbers_in(value)]
    if isinstance(document, list):
        return [n for value in document for n in numbers_in(value)]
    return [document] if isinstance(document, int | float) else []


WHOLE = "preemptive"
"""A paper of which each run draws all figures, as the command does where no number is named."""


def chosen(key: str) -> list[str]:
    """Return numbers of figures: half of those of a paper, others in each run; none, which means all, in a soak."""
    numbers = [figure.number for figure in PAPERS[key].figures]
    return [] if SOAK or key == WHOLE else some(numbers, len(numbers) // 2)


@pytest.mark.soak
@pytest.mark.thorough
@pytest.mark.parametrize("key", [WHOLE, *some([key for key in PAPERS if key != WHOLE], 1)])
def test_every_figure_of_a_paper_is_drawn_and_judged(key: str, tmp_path: Path) -> None:
    out, numbers = StringIO(), chosen(key)
    call_command("reproduce", key, *numbers, seeds=1, out=tmp_path, stdout=out)
    paper, folder = PAPERS[key], tmp_path / key
    index = (folder / "index.html").read_text()
    for figure in map(paper.figure, numbers) if numbers else paper.figures:
        name = figure.name.lower().replace(" ", "-")
        document = json.loads((folder / f"{name}.json").read_text())
        assert document["verdict"] in set(Verdict)
        assert document["measured"]
        assert f"{figure.name}, {figure.title}: {document['verdict']}" in out.getvalue()
        assert f'href="{name}.html"' in index
        assert all(math.isfinite(n) for n in numbers_in(document))
        runs = sum(len(samples) for series in document["series"] for samples in series["samples"])
        rows = list(csv.reader((folder / f"{name}.csv").read_text().splitlines()))
        assert rows[0] == ["series", "x", "seed", "value"]
        assert len(rows) == 1 + runs
        assert len(document["plotly"]["data"]) == len(document["series"])
        page = (folder / f"{name}.html").read_text()
        assert document["verdict"].capitalize() in page
        asked = {match.group(1) for match in ADDRESS.finditer(page)}
        assert asked <= {"plotly.min.js", "data:,", "index.html", f"{name}.csv", f"{name}.json"}
    assert (folder / "plotly.min.js").stat().st_size > 10**6


@pytest.mark.parametrize("key", PAPERS)
def test_a_page_shows_intervals_how_firm_the_verdict_is_and_what_is_missing(key: str, tmp_path: Path) -> None:
    kept = (one.reproduced for one in read_results(KEPT) if one.reproduced.paper.key == key)
    results = [done for done in kept if done.task.scale is Scale.SMALL]
    assert any(done.finding.missing for done in results)
    for done in results:
        page = write_figure(done, tmp_path)
        text, document = unescape(page.read_text()), json.loads(page.with_suffix(".json").read_text())
        assert all(f"<li>{part}</li>" in text for part in done.finding.missing)
        for one, trace in zip(document["series"], document["plotly"]["data"], strict=True):
            assert trace["error_y"]["array"] == pytest.approx(one["half_width"], rel=1e-3, abs=1e-9)
        assert f"Means over {len(done.task.seeds)} seeds; whiskers are 95 % intervals" in text
        assert done.agreement is not None
        assert f"{100 * done.agreement:.0f} % of 1,000 bootstrap samples" in text
    index = write_index(PAPERS[key], tmp_path).read_text()
    assert f"{results[0].finding.verdict} ({100 * (results[0].agreement or 0):.0f} %)" in index
    assert "10 seeds" in index


def test_a_figure_of_one_seed_has_no_intervals(tmp_path: Path) -> None:
    figure = PAPERS["dps"].figure("17")
    page = write_figure(reproduce(PAPERS["dps"], figure, Task(seeds=(4,))), tmp_path)
    assert "One seed, so no intervals." in page.read_text()
    assert all("error_y" not in trace for trace in json.loads(page.with_suffix(".json").read_text())["plotly"]["data"])


def test_several_figures_at_once(tmp_path: Path) -> None:
    call_command("reproduce", "dps", "17", "18", seeds=1, out=tmp_path, stdout=StringIO())
    index = (tmp_path / "dps" / "index.html").read_text()
    assert re.findall(r'href="(figure[^"]*)"', index) == ["figure-17.html", "figure-18.html"]


def test_the_same_seed_gives_the_same_bytes() -> None:
    paper = PAPERS["dps"]
    figure = paper.figure("17")
    again = []
    for _ in range(2):
        ran.cache_clear()
        drawn.cache_clear()
        again.append(json.dumps(reproduce(paper, figure, Task(seeds=(4,))).to_json()))
    assert again[0] == again[1]
    assert json.dumps(reproduce(paper, figure, Task(seeds=(5,))).to_json()) != again[0]


def test_one_figure_alone_and_another_seed(tmp_path: Path) -> None:
    call_command("reproduce", "oasis", "6", seed=7, seeds=1, out=tmp_path, stdout=StringIO())
    assert json.loads((tmp_path / "oasis" / "figure-6.json").read_text())["seeds"] == [7]
    index = (tmp_path / "oasis" / "index.html").read_text()
    assert re.findall(r'href="(figure[^"]*)"', index) == ["figure-6.html"]


def test_without_a_paper_all_are_listed() -> None:
    out = StringIO()
    call_command("reproduce", stdout=out)
    for paper in PAPERS.values():
        assert f"{paper.key}: {paper.title}" in out.getvalue()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nobody"], "expected one of oasis"),
        (["oasis", "99"], "of oasis, got '99'"),
        (["oasis", "--seeds", "-1"], "--seeds: expected 1"),
        (["oasis", "--seeds", "0"], "--seeds: expected 1"),
        (["oasis", "--seed", "0"], "--seed: expected 1"),
        (["oasis", "--out", __file__], "--out: expected a folder that can be written, got [Errno"),
    ],
)
def test_wrong_input_is_reported(arguments: list[str], message: str) -> None:
    with pytest.raises(CommandError, match=re.escape(message)) as error:
        call_command("reproduce", *arguments)
    assert error.value.returncode == 2


@pytest.mark.parametrize("key", PAPERS)
def test_the_document_has_a_verdict_on_every_figure_and_no_other(key: str) -> None:
    text = (ROOT / "docs/measurements/reproduction.md").read_text()
    section = text.split(f"(`{key}`)", 1)[1].split("\n## ", 1)[0]
    verdicts = "|".join(Verdict)
    rows = re.findall(rf"^\| (?:Figure|Table) (\w+) \| (?:{verdicts}) \(\d+ %\) \|", section, re.M)
    assert rows == [figure.number for figure in PAPERS[key].figures]
