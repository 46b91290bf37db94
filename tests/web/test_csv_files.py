"""What users wrote is no formula; numbers stay numbers; truth values are words."""

from io import StringIO

import numpy as np
import pytest

from web.csv_files import cells, write_rows


def test_texts_that_begin_like_formulas_are_quoted_and_numbers_are_not() -> None:
    rows: list[list[str | float]] = [["=1+1", "@x", "+a", "-b", "plain", -3, 0.5], [""]]
    assert list(cells(rows)) == [["'=1+1", "'@x", "'+a", "'-b", "plain", -3, 0.5], [""]]


@pytest.mark.parametrize("first", ["\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_what_a_spreadsheet_drops_or_reads_as_the_beginning_of_a_formula_is_quoted(first: str) -> None:
    assert list(cells([[f"{first}=1+1", f"a{first}"]])) == [[f"'{first}=1+1", f"a{first}"]]


def test_truth_values_are_words_and_counts_stay_numbers() -> None:
    file = StringIO()
    write_rows(file, [[True, False, np.bool_(True), np.bool_(False), 1, 0, "=1"]])
    assert file.getvalue() == "yes,no,yes,no,1,0,'=1\n"
