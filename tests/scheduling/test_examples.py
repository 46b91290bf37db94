"""The examples in the docstrings of the core run and give the results that they show."""

import doctest
import importlib

import pytest

from tests.processes import ROOT

EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "scheduling").rglob("*.py")
    if ">>> " in path.read_text()
)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_a_module_give_what_they_show(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert found.attempted
    assert not found.failed
