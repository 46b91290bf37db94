"""The page that shows how to add a REST shape: its code runs and checks what it says it checks."""

import re
from typing import Any

import pytest

from scheduling.model.errors import InvalidField
from tests.processes import ROOT


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    text = (ROOT / "docs/developers/add-a-rest-shape.md").read_text()
    [code] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    module: dict[str, Any] = {"__name__": "shift"}
    exec(code, module)
    return module


def test_the_shape_of_the_page_reads_and_writes(page: dict[str, Any]) -> None:
    assert page["document"] == {"name": "early", "parts": [{"weekday": "mon", "hours": 8}]}


def test_it_names_every_wrong_missing_and_unknown_field(page: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as refused:
        page["Shift"].read({"parts": [{"weekday": "sun", "hours": "8"}], "color": "red"})
    named = {error.field for error in refused.value.all_wrong}
    assert named == {"name", "color", "parts[0].weekday", "parts[0].hours"}


def test_it_checks_across_fields(page: dict[str, Any]) -> None:
    long = [{"weekday": "mon", "hours": 24}] * 5
    with pytest.raises(InvalidField, match="at most 100 hours"):
        page["Shift"].read({"name": "long", "parts": long})
