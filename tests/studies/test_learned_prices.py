"""Prices learned in one period and judged in the next: what is kept apart, and what the figures mean."""

import json
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.learned_prices import lines, table
from scheduling.book.ledger import Ledger
from scheduling.model.errors import InvalidField
from scheduling.policies.dps import Dps
from scheduling.policies.oasis import Oasis
from scheduling.policies.simulation import simulate
from studies.papers.learned_prices.comparing import RuleResult, rows_of, summaries, verdicts
from studies.papers.learned_prices.judging import RULES, Pricing, judge, lessons, taught
from studies.papers.learned_prices.settings import Setting, periods

TINY = {
    "dps": Setting("tiny", "dps", 2, horizon=30, period=30, bids=12, contended=True),
    "oasis": Setting("tiny", "oasis", 4, horizon=30, period=30, bids=12, contended=True),
}
EACH = pytest.mark.parametrize("name", TINY)


@EACH
def test_the_periods_share_servers_and_nothing_else(name: str) -> None:
    past, now = periods(TINY[name], learned=1, judged=2)
    assert (past.inventory.capacity == now.inventory.capacity).all()
    assert len(past.bids) == len(now.bids) == TINY[name].bids
    # A DPS worth is one of five: two periods may have some in common, but not one after the other.
    for field in ("arrival", "utility", "epochs", "chunks", "minibatches", "worker_time"):
        assert [getattr(bid, field) for bid in past.bids] != [getattr(bid, field) for bid in now.bids], field
    sizes = {(bid.epochs, bid.chunks, bid.minibatches) for bid in past.bids}
    assert sizes.isdisjoint((bid.epochs, bid.chunks, bid.minibatches) for bid in now.bids)
    again = periods(TINY[name], learned=3, judged=2)[1]
    assert now.bids == again.bids  # what is judged does not depend on what was learned


def test_what_is_judged_is_not_learned_from() -> None:
    with pytest.raises(InvalidField, match="another seed"):
        periods(TINY["dps"], learned=5, judged=5)


def test_a_spread_multiplies_worth_and_keeps_its_mean() -> None:
    setting = replace(TINY["dps"], bids=1000, spread=0.5)
    wide, plain = (periods(one, learned=1, judged=2)[1] for one in (setting, replace(setting, spread=0.0)))
    factors = [w.utility.value / p.utility.value for w, p in zip(wide.bids, plain.bids, strict=True)]
    assert np.mean(factors) == pytest.approx(1.0, abs=0.06)
    assert np.std(np.log(factors)) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("policy", [Dps(refit_every=3), Dps(price="fluid", refit_every=3), Oasis(price="fluid")])
def test_judging_is_what_the_policy_itself_would_have_decided(policy: Pricing) -> None:
    setting = TINY[policy.name]
    now = periods(setting, learned=1, judged=2)[1]
    known = taught(policy, now, horizon=setting.horizon)
    found = judge(policy, now, known, horizon=setting.horizon)
    run = simulate(policy, now.bids, Ledger(now.inventory, start=0, slots=setting.horizon), until=200)
    assert found.welfare == pytest.approx(sum(one.value for one in run.decisions))
    assert found.revenue == pytest.approx(sum(one.payment for one in run.decisions))
    assert found.admitted == sum(one.admitted for one in run.decisions)
    assert [tuple(row) for row in known.densities.tolist()] == [one.density for one in run.decisions]
    assert known.standalone_values.tolist() == [one.standalone_value for one in run.decisions]
    assert known.slots.tolist() == [one.slot for one in run.decisions]


@EACH
def test_the_past_is_known_before_the_first_judged_bid_and_lies_before_it(name: str) -> None:
    setting = TINY[name]
    past, now = periods(setting, learned=1, judged=2)
    policy = RULES["fluid"](setting, past)
    known = lessons(policy, past, now, horizon=setting.horizon, gap=setting.period)
    assert len(known.slots) == len(past.bids) + len(now.bids)
    assert (known.slots[: len(past.bids)] < 0).all()
    assert (known.slots[len(past.bids) :] >= 0).all()
    assert (np.diff(known.slots) >= 0).all()


@pytest.mark.thorough
@EACH
def test_every_rule_is_judged_on_the_same_bids_and_stays_below_the_bound(name: str) -> None:
    rows = list(rows_of(TINY[name], range(2)))
    assert [(row.seed, row.rule) for row in rows] == [(seed, rule) for seed in range(2) for rule in RULES]
    assert all(0 < row.welfare <= row.bound for row in rows)
    assert len({row.bound for row in rows}) == 2
    assert rows == list(rows_of(TINY[name], range(2)))


def test_a_summary_counts_by_seed_and_says_what_is_missed() -> None:
    def row(seed: int, rule: str, welfare: float) -> RuleResult:
        return RuleResult("tiny", seed, rule, welfare, revenue=0.0, admitted=0.5, bound=20.0)

    rows = [row(0, "paper", 10), row(1, "paper", 5), row(0, "fluid", 10), row(1, "fluid", 6)]
    base, fluid = summaries(TINY["dps"], rows)
    assert base.over_paper.mean == 1.0
    assert base.bound_ratio == pytest.approx(3.0)
    assert fluid.over_paper.mean == pytest.approx(1.1)  # of 1 and 1.2, not of 16 / 15
    assert (fluid.least, fluid.most, fluid.missed) == (1.0, 1.2, True)
    assert list(verdicts([base, fluid])) == ["dps, fluid: contended, mean 1.100, wanted 1.2: MISSED"]
    idle = summaries(replace(TINY["dps"], contended=False), rows)
    assert not idle[1].missed
    assert list(verdicts(idle)) == ["dps, fluid: underloaded, least 1.000, wanted 0.95: kept"]


def test_the_table_and_its_rows_report_the_same() -> None:
    setting = TINY["dps"]
    reported = [json.loads(line) for line in lines([setting], range(1))]
    text = list(table([setting], range(1)))
    assert len(text) == 1 + len(RULES) + 2
    ratio = reported[2]["welfare"] / reported[0]["welfare"]
    assert f"{ratio:8.2f}" in text[3]
