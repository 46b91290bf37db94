"""The page that shows how to add a policy: its code runs, and keeps what every policy has to keep."""

import re
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from scheduling import kernels, registry
from scheduling.book.ledger import Ledger
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.policies.simulation import simulate
from scheduling.registry import make_policy
from tests.processes import ROOT
from tests.scheduling.test_every_policy import arriving
from tests.scheduling.test_standing import test_some_bids_are_admitted_when_they_are_tried_again as some_are_later
from tests.scheduling.worlds import SLOTS, world_for


@dataclass(frozen=True)
class Page:
    """What the page says to write."""

    code: str
    line: str
    """In the registry."""
    case: str
    """In `needed_by`."""
    settings: str


@pytest.fixture
def page() -> Page:
    text = (ROOT / "docs/developers/add-a-policy.md").read_text()
    return Page(*re.findall(r"```(?:python|text)\n(.*?)```", text, re.DOTALL))


@pytest.fixture
def module(page: Page, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The module of the page, whose policy is registered."""
    module: dict[str, Any] = {"__name__": "flat"}
    exec(page.code, module)
    for name, kind in eval(f"{{{page.line}}}", module).items():
        monkeypatch.setitem(registry.POLICIES, name, kind)
    return module


@pytest.fixture
def flat(module: dict[str, Any]) -> Policy:
    return make_policy("flat", {"price": 0.5})


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


def test_the_kernels_that_the_page_names_are_those_of_the_policy(
    page: Page, module: dict[str, Any], flat: Policy
) -> None:
    scope = {**vars(kernels), **module}  # the registered class may be another
    exec(f"def needed_by(policy):\n    match policy:\n{page.case}", scope)
    assert scope["needed_by"](flat) == kernels.needed_by(make_policy("dps", {}))  # whose kernel it has, too


@pytest.mark.usefixtures("module")
def test_under_the_settings_of_the_page_some_standing_bids_are_admitted_later(page: Page) -> None:
    settings: dict[str, list[Json]] = eval(f"{{{page.settings}}}")
    for name, many in settings.items():
        for parameters in many:
            some_are_later(name, parameters)


def test_the_code_of_the_page_passes_the_linter_as_it_stands(page: Page) -> None:
    for words in (["check"], ["format", "--check"]):
        name = "scheduling/policies/flat.py"
        ran = subprocess.run(
            [sys.executable, "-m", "ruff", *words, "--stdin-filename", name, "-"],
            input=page.code,
            capture_output=True,
            text=True,
            cwd=ROOT,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_page_needs_at_most_forty_lines_of_code(page: Page) -> None:
    lines = [line for line in page.code.splitlines() if line.strip() and '"""' not in line]
    assert len(lines) <= 40
