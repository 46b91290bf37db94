"""The shared OASiS instances: prices, every payoff, and every sequence that ties cannot change."""

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from scheduling.elastic_ways import ways
from scheduling.instance import parse_document
from scheduling.instance_oasis import OasisInstance, read_oasis
from tests.scheduling.cases import load, oasis_cases, oasis_counterexamples

each_case = pytest.mark.parametrize("path", oasis_cases(), ids=lambda path: path.stem)
each_counterexample = pytest.mark.parametrize("path", oasis_counterexamples(), ids=lambda path: path.stem)


def read(path: Path) -> OasisInstance:
    return read_oasis(parse_document(path.read_text()))


def test_the_shared_cases_are_there() -> None:
    assert len(oasis_cases()) >= 25
    assert len(oasis_counterexamples()) >= 5


@each_case
def test_every_job_needs_the_worker_slots_that_are_expected(path: Path) -> None:
    instance = read(path)
    for bid, row in zip(instance.bids, load(path)["expected"]["isolated"], strict=True):
        found = list(ways(bid, instance.inventory, slots=instance.T))
        assert [way.worker_slots for way in found] == [row["worker_slots"]] * len(found)
        for way in found:
            assert way.step * bid.minibatches == Fraction(row["rho"])


@each_case
def test_the_price_bounds_are_the_expected_ones(path: Path) -> None:
    instance, expected = read(path), load(path)["expected"]["ln_prices"]
    bounds, count = instance.bounds(), len(instance.units) // 2
    scale = np.log(instance.units)
    low, high = bounds.log_low + scale, bounds.log_high + scale
    assert low == pytest.approx([expected["lnL1"]] * count + [expected["lnL2"]] * count, rel=1e-9)
    assert high == pytest.approx(expected["lnU1"] + expected["lnU2"], rel=1e-9)
