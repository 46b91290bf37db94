"""What users wrote is no formula; numbers stay numbers."""

from cluster.spreadsheets import inert


def test_texts_that_begin_like_formulas_are_quoted_and_numbers_are_not() -> None:
    rows: list[list[str | float]] = [["=1+1", "@x", "+a", "-b", "plain", -3, 0.5], [""]]
    assert list(inert(rows)) == [["'=1+1", "'@x", "'+a", "'-b", "plain", -3, 0.5], [""]]
