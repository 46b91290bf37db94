"""What users wrote is no formula; numbers stay numbers."""

import pytest

from web.csv_files import inert


def test_texts_that_begin_like_formulas_are_quoted_and_numbers_are_not() -> None:
    rows: list[list[str | float]] = [["=1+1", "@x", "+a", "-b", "plain", -3, 0.5], [""]]
    assert list(inert(rows)) == [["'=1+1", "'@x", "'+a", "'-b", "plain", -3, 0.5], [""]]


@pytest.mark.parametrize("first", ["\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_what_a_spreadsheet_drops_or_reads_as_the_beginning_of_a_formula_is_quoted(first: str) -> None:
    assert list(inert([[f"{first}=1+1", f"a{first}"]])) == [[f"'{first}=1+1", f"a{first}"]]
