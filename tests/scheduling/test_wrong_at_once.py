"""One error names all that is wrong with a document or an object of the core."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from scheduling.model.errors import InvalidField
from scheduling.model.example import INVENTORY, job
from scheduling.model.inventory import MachineType
from scheduling.model.parameters import read_pairs
from scheduling.model.types import Json
from scheduling.model.utility import utility_from_json
from scheduling.pricing.paper import etas_by_resource
from scheduling.registry import make_policy


def named(act: Callable[[], object]) -> list[str]:
    """Names of the fields that an error names."""
    with pytest.raises(InvalidField) as caught:
        act()
    return [one.field for one in caught.value.all_wrong]


@pytest.mark.parametrize(
    ("document", "fields"),
    [
        ({"type": "sigmoid", "g1": -1, "g2": "x", "g3": None}, ["g1", "g2", "g3"]),
        ({"type": "inverse", "a": -1, "work": 1e10, "T": -1}, ["a", "work", "T"]),
        ({"type": "table", "values": [3, -1, 2, None]}, ["values[1]", "values[3]"]),
        ({"type": "table", "values": [3, 4, 2, 5]}, ["values[1]", "values[3]"]),
        ({"type": "piecewise_linear", "value": -1, "points": []}, ["value", "points"]),
        (
            {"type": "piecewise_linear", "value": -1, "points": [[-1, 2], 5]},
            ["value", "points[0][0]", "points[0][1]", "points[1]"],
        ),
        ({"type": "piecewise_linear", "value": -1, "points": [[0, 1], [0, 1]]}, ["value", "points[1][0]"]),
    ],
)
def test_a_utility(document: Json, fields: list[str]) -> None:
    assert named(lambda: utility_from_json(document, "u")) == [f"u.{field}" for field in fields]


def test_a_table_that_rises_everywhere_names_fifty_values() -> None:
    rising = {"type": "table", "values": list(range(1000))}
    assert named(lambda: utility_from_json(rising)) == [f"utility.values[{i}]" for i in range(1, 51)]


def test_a_bid() -> None:
    wrong: dict[str, Any] = {"epochs": 0, "minibatches": 0, "ps_time": (Fraction(-1), Fraction(-2)), "chunk_size": -1}
    fields = ["epochs", "minibatches", "ps_time[0]", "ps_time[1]", "chunk_size"]
    assert named(lambda: replace(job(), **wrong)) == fields


def test_an_inventory() -> None:
    workers = (MachineType("a", (0, 0), Fraction(0)), MachineType("b", (1,), Fraction(-1)))
    wrong = replace(INVENTORY, capacity=INVENTORY.capacity.copy())  # its own array: that of the example is read-only
    fields = ["capacity", "capacity", "cloud", "storage", "storage[0]"]
    types = ["workers[0].demand", "workers[0].bandwidth_mbps", "workers[1].demand", "workers[1].bandwidth_mbps"]
    capacity = np.array([[-1, 0]], dtype=np.int64)
    assert named(lambda: replace(wrong, capacity=capacity, cloud=(), storage=(-1,), workers=workers)) == fields + types


def test_pairs_of_a_command_line() -> None:
    assert named(lambda: read_pairs("--set", ["a", "b=1", "b=2", "c"])) == ["--set"] * 3


@pytest.mark.parametrize(
    ("policy", "parameters", "fields"),
    [
        (
            "oasis",
            {"initial_low": 1.0, "initial_high": 0.5, "reserve_quantile": 1.0, "full_quantile": 0.5}
            | {"log_low": [2, 1, 2], "log_high": [1, 1, 1]},
            ["initial_high", "full_quantile", "log_high[0]", "log_high[2]"],
        ),
        ("oasis", {"initial_low": 1.0, "log_low": [2]}, ["initial_high", "log_high"]),
        ("dps", {"initial_low": 1.0, "eta_ps": [1]}, ["initial_high", "eta_worker"]),
        (
            "weighted_completion",
            {"selection": "jain", "mode": "search", "order": "size", "lambda": 2},
            ["mode", "order", "lambda"],
        ),
    ],
)
def test_parameters_that_do_not_fit_one_another(policy: str, parameters: Json, fields: list[str]) -> None:
    assert named(lambda: make_policy(policy, parameters)) == fields


def test_the_etas_of_both_kinds_of_machines() -> None:
    assert named(lambda: etas_by_resource((1.0, 2.0), (), INVENTORY)) == ["eta_worker", "eta_ps"]
