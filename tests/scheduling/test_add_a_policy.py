"""The page that shows how to add a policy: its code runs, and keeps what every policy has to keep."""

import re
from typing import Any

import pytest

from scheduling import registry
from scheduling.book.ledger import Ledger
from scheduling.policies.base import Policy
from scheduling.policies.simulation import simulate
from scheduling.registry import make_policy
from tests.processes import ROOT
from tests.scheduling.test_every_policy import arriving
from tests.scheduling.worlds import SLOTS, world_for


@pytest.fixture
def flat(monkeypatch: pytest.MonkeyPatch) -> Policy:
    page = (ROOT / "docs/developers/add-a-policy.md").read_text()
    code, line = re.findall(r"```(?:python|text)\n(.*?)```", page, re.DOTALL)
    module: dict[str, Any] = {"__name__": "flat"}
    exec(code, module)
    name, kind = re.fullmatch(r'\s*"(\w+)": (\w+),\s*', line).groups()  # type: ignore[union-attr]
    monkeypatch.setitem(registry.POLICIES, name, module[kind])
    return make_policy(name, {"price": 0.5})


@pytest.mark.parametrize("seed", range(8))
def test_the_policy_of_the_page_sells_at_its_price_and_loses_no_bid(seed: int, flat: Policy) -> None:
    drawn = world_for(flat, seed)
    bids = arriving(drawn, seed)
    ended = simulate(flat, bids, Ledger(drawn.inventory, start=0, slots=SLOTS), until=400)
    admitted = [decision for decision in ended.decisions if decision.admitted]
    assert sorted(ended.done) == sorted(decision.bid_id for decision in admitted)
    for decision in admitted:
        assert decision.schedule is not None
        units = sum(
            p.count * (p.end - p.start) * sum(p.machine(drawn.inventory).demand) for p in decision.schedule.placements
        )
        assert decision.payment == pytest.approx(0.5 * units)
        assert decision.value > decision.payment


def test_the_page_needs_at_most_forty_lines_of_code() -> None:
    page = (ROOT / "docs/developers/add-a-policy.md").read_text()
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    assert len([line for line in code.splitlines() if line.strip()]) <= 40
