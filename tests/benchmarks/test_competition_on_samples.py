"""Competition on samples of traces in which rare steps of it decide."""

from functools import cached_property

import pytest

from benchmarks.market_on_traces.cells import Cell, Place, measure
from benchmarks.market_on_traces.contenders import contenders
from benchmarks.market_on_traces.workloads import BY_SIZE, make_workload, own_sources
from scheduling.competition.contest import Contest, Start
from scheduling.competition.kernel import BROKEN
from scheduling.model.types import Ints
from scheduling.offline import Covers
from scheduling.policies.competition import Round

JOBS = 60


def cell_of(sample: str) -> Cell:
    """The first window of a sample at a load of 4, with values that grow with the size."""
    (source,) = (one for one in own_sources() if one.name == sample)
    (competition,) = (one for one in contenders() if one.name == "competition")
    work = make_workload(source, 4.0, BY_SIZE, 0, seeds=1, jobs=JOBS)
    return measure(source, Place(sample, 4.0, BY_SIZE, 0, JOBS, 1), work, competition, dict.fromkeys(Covers, 1.0))


def test_the_order_of_the_present_plan_keeps_promises_that_the_search_alone_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    search, planned = Contest.__dict__["_plan"].func, Contest.__dict__["_planned"].fget
    totals, asked = [], []

    def watched(contest: Contest) -> object:
        found = search(contest)
        totals.append(found[1])
        return found

    def counted(contest: Contest) -> Ints:
        asked.append(contest)
        order: Ints = planned(contest)
        return order

    plan = cached_property(watched)
    plan.__set_name__(Contest, "_plan")
    monkeypatch.setattr(Contest, "_plan", plan)
    monkeypatch.setattr(Contest, "_planned", property(counted))
    assert cell_of("philly/day.csv").welfare > 0
    assert len(totals) > 100
    assert asked, "the sample no longer has such a case: look for another one"
    assert BROKEN not in totals


def test_a_bid_uses_the_machines_of_one_that_starts_in_the_plan_and_would_not_pay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, is_bought, refused = cell_of("gavel/drawn.trace"), Round._is_bought, []

    def always(round_: Round, start: Start) -> bool:
        if not is_bought(round_, start):
            refused.append(start)
        return True

    monkeypatch.setattr(Round, "_is_bought", always)
    assert cell_of("gavel/drawn.trace").welfare < found.welfare
    assert refused
