"""Results are kept as they were computed, and the tables of the document are made from them."""

from pathlib import Path

import numpy as np
import pytest
from django.core.management import call_command

from studies.papers.figure import SEEDS, Data, Reproduced, Scale, Series, Task
from studies.papers.registry import PAPERS
from studies.papers.results import Result, read_result, read_results, write_result
from studies.papers.tables import with_tables
from tests.processes import ROOT

KEPT = sorted((ROOT / "docs/measurements/reproduction").rglob("*.json"))
DPS = PAPERS["dps"]


def result(most: float = 5.0) -> Result:
    figure = DPS.figure("17")
    value, payment = np.array([[5.0, 4.0], [3.0, 3.0]]), np.array([[most, 2.0], [1.0, 1.0]])
    data = Data((Series("value", (1, 2), value), Series("payment", (1, 2), payment)))
    task = Task(Scale.SMALL, (1, 2))
    done = Reproduced(DPS, figure, task, data, figure.judge(data), 0.75, "0f")
    return Result(done, "manage.py reproduce dps 17", 1.26)


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = write_result(result(), tmp_path)
    assert path == tmp_path / "dps" / "figure-17-small.json"
    again = read_result(path)
    assert again.command == "manage.py reproduce dps 17"
    assert again.processor_s == 1.3
    assert again.reproduced.to_json() == result().reproduced.to_json()
    assert [one.reproduced.figure.number for one in read_results(tmp_path)] == ["17"]


def test_a_table_says_verdict_claim_and_what_is_missing() -> None:
    sections = "".join(f"<!-- begin {key} -->\nold\n<!-- end {key} -->\n" for key in PAPERS)
    made = with_tables(f"# Title\n{sections}", PAPERS.values(), [result(most=6.0)])
    assert "| Figure 17 | not reproduced (2 seeds, 75 %) |" in made
    assert "Claimed: No winner pays more than its value." in made
    assert "**Missing:** no winner pays more than its value." in made
    assert "old" not in made
    assert with_tables(made, PAPERS.values(), [result(most=6.0)]) == made
    assert max(len(line) for line in made.splitlines()) <= 120


def test_a_paper_without_a_section_is_reported() -> None:
    with pytest.raises(ValueError, match="expected the marked sections oasis, dps"):
        with_tables("<!-- begin dps -->\n<!-- end dps -->\n", PAPERS.values(), [])


def test_the_tables_of_the_document_are_those_of_the_results() -> None:
    call_command("reproduction_tables", check=True)


def test_every_figure_was_run_at_the_small_scale() -> None:
    names = {
        f"{paper.key}/{figure.name.lower().replace(' ', '-')}-small.json"
        for paper in PAPERS.values()
        for figure in paper.figures
    }
    assert names <= {f"{path.parent.name}/{path.name}" for path in KEPT}


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_kept_result_has_ten_seeds_if_small_and_the_verdict_that_its_runs_deserve(path: Path) -> None:
    kept = read_result(path)
    done = kept.reproduced
    assert len(done.task.seeds) >= (1 if done.task.scale is Scale.FULL else SEEDS)
    assert all(one.samples.shape == (len(one.x), len(done.task.seeds)) for one in done.data.series)
    assert f'"verdict": "{done.finding.verdict}"' in path.read_text()
    if len(done.task.seeds) > 1:
        assert done.agreement is not None
        assert 0 < done.agreement <= 1
    assert len(done.inputs) == 64
    assert kept.command.startswith(f"manage.py reproduce {done.paper.key} {done.figure.number} --scale")
