"""Other parameters of a market on traces, on small workloads."""

import re

import pytest

from benchmarks.market_on_traces.variants import compared, contender, measured, table
from benchmarks.market_on_traces.workloads import BY_SIZE, make_workload
from scheduling.model.errors import InvalidField
from scheduling.model.parameters import read_pairs
from scheduling.policies.standing import StandingRule
from tests.benchmarks.test_market_on_traces import STEADY

WORK = make_workload(STEADY, 4.0, BY_SIZE, 0)


def test_a_variant_has_the_parameters_of_the_base_and_its_own() -> None:
    base = contender("dps", ["price=fluid", "sooner=0"])
    other = contender("dps", ["price=fluid", "sooner=0"], ["refit_every=32", "sooner=0.5"], ["every=1"])
    assert base.parameters == {"price": "fluid", "sooner": 0}
    assert other.parameters == {"price": "fluid", "sooner": 0.5, "refit_every": 32}
    assert (base.standing, other.standing) == (StandingRule(), StandingRule(every=1))


def test_a_policy_is_level_with_itself_and_otherwise_compared_by_welfare() -> None:
    base, dear = contender("dps", []), contender("dps", [], ["initial_low=1e6", "initial_high=1e6"])
    same, _, _ = compared(WORK, base, base)
    assert same == 1.0
    ratio, _, _ = compared(WORK, base, dear)
    assert ratio == measured(WORK, dear)[0] / measured(WORK, base)[0] < 0.98


@pytest.mark.parametrize("policy", ["oasis", "completions", "competition", "srtf"])
def test_every_kind_of_policy_has_a_row_for_each_family_and_load(policy: str) -> None:
    one = contender(policy, [])
    lines = list(table([STEADY], one, one, loads=(2.0,), seeds=1, jobs=5))
    assert len(lines) == 2 + 2
    assert all(re.search(r"\| 1 \| 1\.000 \| 1\.000 \| 1\.000 \| 0 \| \d", line) for line in lines[2:]), lines


def test_pairs_that_are_no_parameters_are_refused() -> None:
    assert read_pairs("--set", ["a=1", "b=x", "c=[true]", "d=a=b"]) == {"a": 1, "b": "x", "c": [True], "d": "a=b"}
    with pytest.raises(InvalidField, match=r"--set: expected NAME=VALUE, got 'price'"):
        contender("dps", [], ["price"])
    with pytest.raises(InvalidField, match="--standing: expected each name once, got every twice"):
        contender("dps", [], [], ["every=1", "every=2"])
    with pytest.raises(InvalidField, match="unknown parameter of dps"):
        contender("dps", [], ["prize=1"])
