"""`benchmarks.market_decisions` measures each decision and each slot of every market."""

import pytest

from benchmarks import market_decisions
from benchmarks.market_decisions import POLICIES, drawn, measure, quantiles

BIDS = 6


@pytest.mark.parametrize("policy", POLICIES)
def test_each_decision_and_each_slot_is_measured(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(market_decisions, "SERVERS", 10)
    work = drawn(policy, BIDS, 1)
    decisions, slots, admitted = measure(policy, work)
    assert len(decisions) == BIDS
    assert len(slots) == max(bid.arrival for bid in work.bids)
    assert min(decisions) > 0
    assert 0 < admitted <= BIDS


def test_quantiles_are_the_median_the_99th_of_100_and_the_most() -> None:
    assert quantiles(list(range(101))) == (50, 99, 100)
