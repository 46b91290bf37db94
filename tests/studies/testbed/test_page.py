"""Results are kept as they were recorded, and the page is made from them."""

from pathlib import Path

import pytest

from studies.testbed import page, results
from studies.testbed.records import PolicyRun
from tests.processes import ROOT
from tests.studies.testbed.made_up import generation, outcome, result

DOCUMENT = ROOT / "docs/measurements/testbed.md"
EMPTY = "# Title\n<!-- begin results -->\nold\n<!-- end results -->\nrest\n"


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    half = outcome(None, generations=(generation(2.0, 4.0, ending="promise over"),))
    written = result(PolicyRun("FIFO", (outcome(4.0), half), 0), PolicyRun("DRF", (outcome(5.0),), 1), seed=3)
    results.write(written, tmp_path / "seed-3.json")
    results.write(result(PolicyRun("FIFO", (outcome(4.0),), 0)), tmp_path / "seed-1.json")
    assert results.read(tmp_path / "seed-3.json") == written
    assert [one.seed for one in results.read_all(tmp_path)] == [1, 3]


def test_a_page_has_verdicts_conditions_and_measures() -> None:
    made = page.with_results(
        EMPTY, [result(PolicyRun("FIFO", (outcome(4.0),), 0), PolicyRun("DRF", (outcome(6.0),), 2))]
    )
    assert "| DPS | Figures 6 and 7 | not judged |" in made
    assert "| 2 large | parameter servers | 0.300 |" in made
    assert "The audits of all markets have 2 findings." in made.replace("\n", " ")
    assert "| FIFO | 1 | 1 | -1.00 |" in made
    assert "old" not in made
    assert made.endswith("<!-- end results -->\nrest\n")
    assert (
        page.with_results(made, [result(PolicyRun("FIFO", (outcome(4.0),), 0), PolicyRun("DRF", (outcome(6.0),), 2))])
        == made
    )
    assert max(len(line) for line in made.splitlines()) <= 120


def test_a_page_without_a_place_for_results_is_refused() -> None:
    with pytest.raises(ValueError, match="expected one section"):
        page.with_results("# Title\n", [])


def test_the_page_is_that_of_the_results_that_are_kept() -> None:
    kept = results.read_all(DOCUMENT.with_suffix(""))
    assert kept
    assert page.with_results(DOCUMENT.read_text(), kept) == DOCUMENT.read_text()
