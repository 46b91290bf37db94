"""Instances with expected answers: the project's own, and those of a larger collection where there is one."""

import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.collection import files, own_files

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

CONVENTIONS = [(window, start) for window in ("half_open", "inclusive") for start in ("ge", "strict")]

dps_cases = partial(files, "cases/dps/*.json")
"""Parameters: instances with exact answers in all four conventions."""
dps_counterexamples = partial(files, "cases/counterexamples/dps_*.json")
"""Parameters: instances on which the printed pseudo-code fails."""
oasis_cases = partial(files, "cases/oasis/*.json")
"""Parameters: instances of OASiS."""
oasis_counterexamples = partial(files, "cases/counterexamples/oasis_*.json")
"""Parameters: instances on which OASiS's printed recursion fails, or a ceiling in doubles would."""
weighted_cases = partial(files, "cases/weighted_completion/*.json")
"""Parameters: instances of the weighted-completion scheduler."""
preemptive_cases = partial(files, "cases/preemptive/*.json")
"""Parameters: instances of preemptive edge-cloud scheduling."""


def load(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def in_every_convention(
    params: "Iterable[ParameterSet]", *, expected: Callable[[dict[str, Any]], bool] = bool
) -> "list[ParameterSet]":
    """Parameters path, window and start: each file in each convention whose expected answers are as asked for."""
    return [
        pytest.param(*param.values, window, start, id=f"{param.id}-{window}-{start}", marks=param.marks)
        for param in params
        for window, start in CONVENTIONS
        if expected(load(Path(str(param.values[0])))["expected"][f"{window}_{start}"])
    ]


def expects(path: Path, *keys: str) -> bool:
    """Whether the expected answers of an instance have these keys."""
    return set(keys) <= set(load(path)["expected"])


def is_sequence(path: Path) -> bool:
    """Whether a weighted-completion instance has expected completions and their optimum."""
    return expects(path, "opt_twct")


def has_optimum(path: Path) -> bool:
    """Whether the least total time of a preemptive instance without migration is known."""
    return load(path)["expected"].get("opt_no_migration") is not None


def own_case(name: str) -> Path:
    """One of the project's own instances, such as `dps/one_server`."""
    (path,) = own_files(f"cases/{name}.json")
    return path
