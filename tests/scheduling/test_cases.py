"""The shared DPS instances, in all four conventions: every payoff, and every sequence that ties cannot change."""

import json
from pathlib import Path

import numpy as np
import pytest

from scheduling.__main__ import main
from scheduling.answer_dps import to_document
from scheduling.certificate import dual_bound
from scheduling.decision import Decision
from scheduling.dps import Dps
from scheduling.families import decide_in_order
from scheduling.instance import DpsInstance, parse_document, read_instance
from scheduling.policy import Book
from tests.scheduling.cases import CONVENTIONS, dps_cases, dps_counterexamples, load

CASES = [(path, window, start) for path in dps_cases() for window, start in CONVENTIONS]
BY_NAME = [f"{path.stem}-{window}-{start}" for path, window, start in CASES]
each_case = pytest.mark.parametrize(("path", "window", "start"), CASES, ids=BY_NAME)


def read(path: Path) -> DpsInstance:
    return read_instance(parse_document(path.read_text()))


def policy_for(instance: DpsInstance, window: str, start: str) -> Dps:
    bare = Dps(window=window, start=start)
    etas = instance.etas or bare.printed_etas(instance.bids, instance.inventory, end=instance.T)
    return Dps(price="printed", eta_worker=etas[0], eta_ps=etas[1], window=window, start=start)


def alone(instance: DpsInstance, policy: Dps, job: int) -> Decision:
    ledger = instance.ledger(tail=policy.tail)
    book = Book(now=1, ledger=ledger, history=np.zeros((0, len(instance.inventory.resources))), decided=0)
    return policy.decide(instance.bids[job], book)


def test_the_shared_cases_are_there() -> None:
    assert len(dps_cases()) >= 25
    assert len(dps_counterexamples()) >= 9


@each_case
def test_every_job_alone_earns_the_proven_optimum(path: Path, window: str, start: str) -> None:
    instance, expected = read(path), load(path)["expected"][f"{window}_{start}"]
    policy = policy_for(instance, window, start)
    assert policy.eta_worker == pytest.approx(expected.get("eta_w", policy.eta_worker), rel=1e-9)
    assert policy.eta_ps == pytest.approx(expected.get("eta_p", policy.eta_ps), rel=1e-9)
    for job, row in enumerate(expected["isolated"]):
        assert alone(instance, policy, job).payoff == pytest.approx(row["payoff"], rel=1e-6, abs=1e-9)


@each_case
def test_a_sequence_that_ties_cannot_change_is_the_expected_one(path: Path, window: str, start: str) -> None:
    instance, expected = read(path), load(path)["expected"][f"{window}_{start}"].get("online_exact")
    if expected is None:
        return
    policy = policy_for(instance, window, start)
    decisions = decide_in_order(policy, instance.bids, instance.ledger(tail=policy.tail))
    rows = to_document(instance, decisions)["jobs"]
    for row, want in zip(rows, expected["jobs"], strict=True):
        if expected["tie_robust"]["payoffs"]:
            assert row["accept"] == want["accept"]
            assert row["payoff"] == pytest.approx(want["payoff"], rel=1e-6, abs=1e-9)
        if expected["tie_robust"]["t_hat"]:
            assert row["t_hat"] == want["t_hat"]


@each_case
def test_bounds_hold_over_the_offline_optimum_and_the_online_welfare(path: Path, window: str, start: str) -> None:
    instance, expected = read(path), load(path)["expected"][f"{window}_{start}"]
    policy = policy_for(instance, window, start)
    decisions = decide_in_order(policy, instance.bids, instance.ledger(tail=policy.tail))
    best = max(sum(decision.value for decision in decisions), expected.get("offline_optimum") or 0.0)
    ledger = instance.ledger(tail=policy.tail)
    bids = [policy.waiting(bid) for bid in instance.bids]
    free = policy.at_prices(instance.inventory, np.zeros(ledger.used.shape), start=1)
    ceilings = [free.term(bid) for bid in bids]
    assert [decision.ceiling for decision in decisions] == pytest.approx(ceilings)
    assert sum(ceilings) >= best * (1 - 1e-9)
    idle = Book(now=1, ledger=ledger, history=np.zeros((0, len(instance.inventory.resources))), decided=0)
    busy_ledger = instance.ledger(tail=policy.tail)
    for decision in decisions:
        if decision.schedule is not None:
            busy_ledger.commit(decision.schedule)
    busy = Book(now=1, ledger=busy_ledger, history=idle.history, decided=0)
    for book in (idle, busy):
        prices = policy.prices(book)
        terms = policy.at_prices(instance.inventory, prices, start=1)
        bound = dual_bound(bids, instance.inventory, prices=prices, terms=terms)
        assert bound.value >= best * (1 - 1e-9)
        assert bound.value == pytest.approx(sum(bound.bid_terms) + bound.capacity_term)


@pytest.mark.parametrize("path", dps_counterexamples(), ids=lambda path: path.stem)
def test_where_the_printed_algorithms_fail_the_exact_response_does_not(path: Path) -> None:
    instance = read(path)
    policy = policy_for(instance, instance.conventions["window"], instance.conventions["start"])
    want = load(path)["optimal_payoff_21"]
    assert alone(instance, policy, 0).payoff == pytest.approx(want, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("path", dps_counterexamples(), ids=lambda path: path.stem)
def test_the_command_takes_the_conventions_from_the_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decide", str(path)]) == 0
    row = json.loads(capsys.readouterr().out)["jobs"][0]
    assert row["payoff"] == pytest.approx(load(path)["optimal_payoff_21"], rel=1e-6, abs=1e-9)
