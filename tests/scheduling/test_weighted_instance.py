"""Reading instances of the weighted-completion scheduler, and writing what became of them."""

import copy
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scheduling.instances.fields import parse_document
from scheduling.instances.weighted_completion import read_weighted
from scheduling.model.bid import Architecture
from scheduling.model.errors import InvalidField
from scheduling.model.utility import Constant
from tests.scheduling.cases import load, weighted_cases

PS: dict[str, Any] = {
    "arch": "ps",
    "T": 8,
    "bw": 1,
    "servers": [[4, 10], [2, 6]],
    "workers": [[1, 2]],
    "pss": [[0, 3]],
    "jobs": [{"id": "a", "a": 3, "w": 10, "E": 2, "D": 3, "K": 4, "v": ["1/2"], "U": ["0.25"], "comm": ["1/3"]}],
    "lambda": 50,
    "alpha": 2,
    "tau": 3,
    "beta": [[[1, 2], [0, 0]], [[0, 0], [5, 6]]],
}
RING = PS | {"arch": "ring", "pss": [], "jobs": [PS["jobs"][0] | {"U": "1/8"}], "beta": None}


@pytest.mark.parametrize("path", weighted_cases())
def test_every_case_is_read(path: Path) -> None:
    instance, raw = read_weighted(parse_document(path.read_text())), load(path)
    assert [list(row) for row in instance.inventory.capacity] == raw["servers"]
    assert [bid.utility.value for bid in instance.bids] == [job["w"] for job in raw["jobs"]]
    assert instance.alone == (raw.get("beta") is not None)
    assert instance.lambda_ == raw["lambda"]
    assert instance.alpha == raw["alpha"]


def test_it_reads_a_parameter_server_instance_into_core_terms() -> None:
    instance = read_weighted(PS)
    (bid,), inventory = instance.bids, instance.inventory
    assert (bid.arrival, bid.work, bid.chunks) == (3, 24, 3)
    assert bid.worker_time == (Fraction(1, 2),)
    assert bid.ps_time == (Fraction(1, 4),)
    assert bid.utility == Constant(10.0)
    assert inventory.workers[0].bandwidth_mbps / inventory.parameter_servers[0].bandwidth_mbps == Fraction(2, 3)
    assert instance.ledger().start == 1
    assert instance.ledger().end == 9


def test_it_counts_both_ways_of_a_transfer() -> None:
    assert read_weighted(PS).bids[0].transfer_time == (Fraction(2, 3),)
    assert read_weighted(RING).bids[0].transfer_time == (Fraction(2, 3),)


def test_it_reads_a_ring_without_parameter_servers() -> None:
    bid = read_weighted(RING).bids[0]
    assert bid.architecture is Architecture.RING
    assert bid.reduce_time == Fraction(1, 8)
    assert bid.ps_time == ()


def test_it_reads_what_is_in_use_before_tau() -> None:
    instance = read_weighted(PS)
    assert instance.used is not None
    assert np.array_equal(instance.used, [[[1, 0], [0, 5]], [[2, 0], [0, 6]]])


def test_decimals_are_exact() -> None:
    document = copy.deepcopy(PS)
    document["jobs"][0]["v"] = [Decimal("0.1")]
    assert read_weighted(document).bids[0].worker_time == (Fraction(1, 10),)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("arch", {"arch": "tree"}),
        ("T", {"T": 0}),
        ("bw", {"bw": 2}),
        ("servers", {"servers": []}),
        ("servers[1]", {"servers": [[4, 10], [2]]}),
        ("servers[0][1]", {"servers": [[4, -1], [2, 6]]}),
        ("workers", {"workers": []}),
        ("workers[0]", {"workers": [[0, 0]]}),
        ("workers[0][1]", {"workers": [[1, 0]]}),
        ("pss", {"pss": []}),
        ("lambda", {"lambda": 0.5}),
        ("alpha", {"alpha": 0}),
        ("kappa", {"kappa": 0}),
        ("tau", {"tau": None}),
        ("beta", {"beta": [[[1, 2], [0, 0]]]}),
        ("beta[1]", {"beta": [[[1, 2], [0, 0]], [[0, 0]]]}),
        ("beta[0][0]", {"beta": [[[1], [0, 0]], [[0, 0], [5, 6]]]}),
        ("beta[0][0][1]", {"beta": [[[1, 5], [0, 0]], [[0, 0], [5, 6]]]}),
        ("speed", {"speed": 1}),
    ],
)
def test_a_wrong_field_is_named(field: str, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as error:
        read_weighted(PS | change)
    assert error.value.field == field


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("jobs[0].id", {"id": None}),
        ("jobs[0].a", {"a": 0}),
        ("jobs[0].a", {"a": 9}),
        ("jobs[0].w", {"w": 0}),
        ("jobs[0].D", {"D": 0}),
        ("jobs[0].v", {"v": ["1", "1"]}),
        ("jobs[0].U[0]", {"U": ["-1"]}),
        ("jobs[0].comm[0]", {"comm": ["x"]}),
    ],
)
def test_a_wrong_field_of_a_job_is_named(field: str, change: dict[str, Any]) -> None:
    with pytest.raises(InvalidField) as error:
        read_weighted(PS | {"jobs": [PS["jobs"][0] | change]})
    assert error.value.field == field


def test_a_missing_field_and_a_repeated_id_are_named() -> None:
    with pytest.raises(InvalidField, match="bw: missing"):
        read_weighted({key: value for key, value in PS.items() if key != "bw"})
    with pytest.raises(InvalidField, match=r"jobs\[1\].id"):
        read_weighted(PS | {"jobs": PS["jobs"] * 2})
