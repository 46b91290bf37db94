"""The paper's Algorithms 2 to 4 as printed, beside the exact response."""

from pathlib import Path

import numpy as np
import pytest

from scheduling.dps import Dps
from scheduling.instance import DpsInstance
from scheduling.policy import Book
from tests.scheduling.cases import dps_counterexamples, load
from tests.scheduling.test_cases import CASES, alone, each_case, policy_for, read
from tests.scheduling.twins.dps_printed import Printed, best_schedule


def printed(instance: DpsInstance, policy: Dps, job: int) -> Printed | None:
    ledger = instance.ledger(tail=policy.tail)
    book = Book(now=1, ledger=ledger, history=np.zeros((0, len(instance.inventory.resources))), decided=0)
    bid = policy.waiting(instance.bids[job])
    return best_schedule(
        bid, instance.inventory, start=1, used=ledger.used, prices=policy.prices(book), tail=policy.tail
    )


@each_case
def test_the_twin_reports_and_earns_what_the_printed_algorithms_do(path: Path, window: str, start: str) -> None:
    instance, expected = read(path), load(path)["expected"][f"{window}_{start}"]
    policy = policy_for(instance, window, start)
    for job, row in enumerate(expected["isolated"]):
        found = printed(instance, policy, job)
        reported, true = (0.0, 0.0) if found is None else (found.reported, found.true)
        assert reported == pytest.approx(row["payoff_alg2_printed"], rel=1e-6, abs=1e-9)
        assert true == pytest.approx(row["true_payoff_alg2_printed"], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("path", dps_counterexamples(), ids=lambda path: path.stem)
def test_the_twin_fails_on_every_counterexample_as_the_paper_does(path: Path) -> None:
    instance = read(path)
    policy = policy_for(instance, instance.conventions["window"], instance.conventions["start"])
    found, want = printed(instance, policy, 0), load(path)["results"]["printed"]
    assert (0.0 if found is None else found.reported) == pytest.approx(want["reported_payoff"])
    assert (0.0 if found is None else found.true) == pytest.approx(want["true_payoff"])


def test_the_exact_response_never_earns_less_and_often_earns_more() -> None:
    better = lost = 0
    for path, window, start in CASES:
        instance = read(path)
        policy = policy_for(instance, window, start)
        for job in range(len(instance.bids)):
            exact, found = alone(instance, policy, job), printed(instance, policy, job)
            true = 0.0 if found is None else found.true
            assert exact.payoff >= true - 1e-6
            better += exact.payoff > true + 1e-6
            lost += true < -1e-6
    # Of 220 jobs the printed algorithms earn less on 40, and make a loss on 3 while reporting a profit.
    assert better == 40
    assert lost == 3
