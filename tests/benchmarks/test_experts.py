"""A market that follows the better price rule, on a small workload."""

from collections.abc import Mapping
from functools import cache

import pytest

from benchmarks.market_on_traces.experts import RULES, compared, followed, table, welfare
from benchmarks.market_on_traces.workloads import BY_SIZE, make_workload
from tests.benchmarks.test_market_on_traces import STEADY

WORK = make_workload(STEADY, 2.0, BY_SIZE, 0)


@cache
def alone(rule: str) -> tuple[float, int]:
    """Welfare of the market with one rule, and its switches."""
    run, switches = followed(WORK, (rule,), margin=0.0)
    return welfare(run), switches


@cache
def row() -> Mapping[str, float]:
    return compared(WORK)


def test_with_one_rule_the_market_is_that_of_the_rule_and_never_switches() -> None:
    earned, switches = alone("fluid")
    assert switches == 0
    assert earned == pytest.approx(row()["fluid"] * alone("quantile")[0])


def test_a_market_whose_rules_are_the_same_never_switches() -> None:
    run, switches = followed(WORK, ("quantile", "quantile"), margin=0.0)
    assert switches == 0
    assert welfare(run) == alone("quantile")[0]


def test_the_better_rule_is_at_least_as_good_as_each_of_both() -> None:
    assert row()["better"] >= max(1.0, row()["fluid"])
    assert len(list(table([STEADY], jobs=10))) == 2 + 2 * 3
    assert set(RULES) == {"quantile", "fluid"}
