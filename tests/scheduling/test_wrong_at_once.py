"""One error names all that is wrong with a document or an object of the core."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from scheduling.instances.dps import read_instance
from scheduling.instances.fields import inner_document
from scheduling.instances.oasis import read_oasis
from scheduling.instances.preemptive import read_preemptive
from scheduling.instances.weighted_completion import read_weighted
from scheduling.model.errors import InvalidField
from scheduling.model.example import INVENTORY, job
from scheduling.model.inventory import MachineType
from scheduling.model.parameters import read_pairs
from scheduling.model.types import Json
from scheduling.model.utility import utility_from_json
from scheduling.pricing.paper import etas_by_resource
from scheduling.registry import make_policy
from tests.scheduling.cases import load, own_case


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


def instance(name: str) -> dict[str, Any]:
    document = inner_document(load(own_case(name)))
    assert isinstance(document, dict)
    return document


INSTANCES: list[tuple[str, Callable[[object], object], dict[str, Any], list[str]]] = [
    (
        "dps/types_differ",
        read_instance,
        {"epochs": 0, "chunks": 10**6, "worker_time": ["x"], "delay": None, "utility": {"type": "constant", "v": -1}},
        ["epochs", "chunks", "worker_time", "delay", "utility.v"],
    ),
    (
        "oasis/one_server",
        read_oasis,
        {"epochs": 0, "tau": -1, "worker_bw_mbps": 0, "utility": {"type": "constant", "v": -1}},
        ["epochs", "tau", "worker_bw_mbps", "utility.v"],
    ),
    ("weighted_completion/one_job", read_weighted, {"w": 0, "E": 0, "v": ["x"], "comm": 5}, ["w", "E", "v[0]", "comm"]),
    (
        "preemptive/equal_in_everything",
        read_preemptive,
        {"r": -1, "D": 0, "p0": 0, "p1": 0, "delta": 5},
        ["r", "D", "p0", "delta"],
    ),
]


@pytest.mark.parametrize(("name", "read", "wrong", "fields"), INSTANCES, ids=[row[0] for row in INSTANCES])
def test_every_job_of_an_instance_file(
    name: str, read: Callable[[object], object], wrong: dict[str, Any], fields: list[str]
) -> None:
    document = instance(name)
    jobs = [document["jobs"][0] | wrong] * 2
    assert sorted(named(lambda: read(document | {"jobs": jobs}))) == sorted(
        f"jobs[{i}].{field}" for i in range(2) for field in fields
    )


@pytest.mark.parametrize(("name", "read"), [row[:2] for row in INSTANCES], ids=[row[0] for row in INSTANCES])
def test_every_id_that_an_instance_file_has_again(name: str, read: Callable[[object], object]) -> None:
    document = instance(name)
    jobs = [document["jobs"][0]] * 3
    assert named(lambda: read(document | {"jobs": jobs})) == ["jobs[1].id", "jobs[2].id"]


def test_every_part_of_an_instance_file() -> None:
    dps, oasis, weighted, preemptive = (instance(name) for name, *_ in INSTANCES)
    servers = [{"workers": [-1], "pss": 5, "cloud": 1}]
    assert named(lambda: read_instance(dps | {"T": 0, "slot_seconds": 0, "servers": []})) == [
        "T", "slot_seconds", "servers",
    ]  # fmt: skip
    one_type = {"worker_types": [{"bw_mbps": 0}], "ps_types": [{"bw_mbps": "x"}], "servers": servers}
    assert named(lambda: read_instance(dps | one_type)) == [
        "worker_types[0].bw_mbps", "ps_types[0].bw_mbps", "servers[0].workers[0]", "servers[0].pss", "servers[0].cloud",
    ]  # fmt: skip
    assert named(lambda: read_oasis(oasis | {"T": 0, "slot_seconds": 0, "u_arg": 1})) == ["T", "slot_seconds", "u_arg"]
    assert named(lambda: read_oasis(oasis | {"worker_servers": [["x"]], "ps_servers": []})) == [
        "worker_servers[0][0]", "ps_servers",
    ]  # fmt: skip
    assert named(lambda: read_weighted(weighted | {"T": 0, "servers": [], "alpha": 0, "kappa": 0})) == [
        "T", "servers", "alpha", "kappa",
    ]  # fmt: skip
    assert named(lambda: read_preemptive(preemptive | {"cloud": 1, "jobs": 1})) == ["cloud", "jobs"]
    wrong = {"workers": [-1, 0, "x"], "pss": 5, "storage": -1}
    assert named(lambda: read_preemptive(preemptive | {"servers": [wrong], "jobs": []})) == [
        "servers[0].workers[0]", "servers[0].workers[2]", "servers[0].pss", "servers[0].storage",
    ]  # fmt: skip
