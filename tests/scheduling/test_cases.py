"""DPS instances in all four conventions: every payoff, and every sequence that ties cannot change."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scheduling.__main__ import main
from scheduling.book.state import Book
from scheduling.instances.answer_dps import to_document
from scheduling.instances.dps import DpsInstance, read_instance
from scheduling.instances.families import decide_in_order
from scheduling.instances.fields import parse_document
from scheduling.model.decision import Decision
from scheduling.policies.dps import Dps
from tests.data.make.dps import random_instance
from tests.draws import fresh_seed
from tests.scheduling.cases import CONVENTIONS, dps_cases, dps_counterexamples, in_every_convention, load
from tests.scheduling.twins.documents import dps as twin
from tests.scheduling.twins.dual_bound import dual_bound

DRAWN = 6


def ties_change_no_payoff(expected: dict[str, Any]) -> bool:
    """Whether a sequence is known whose payoffs are the same whatever way ties are broken."""
    return "online_exact" in expected and bool(expected["online_exact"]["tie_robust"]["payoffs"])


names = ("path", "window", "start")
each_case = pytest.mark.parametrize(names, in_every_convention(dps_cases()))
each_sequence = pytest.mark.parametrize(names, in_every_convention(dps_cases(), expected=ties_change_no_payoff))
each_counterexample = pytest.mark.parametrize("path", dps_counterexamples())


def read(path: Path) -> DpsInstance:
    return read_instance(parse_document(path.read_text()))


def policy_for(instance: DpsInstance, window: str, start: str) -> Dps:
    bare = Dps(slot_convention=window, start_convention=start)
    etas = instance.etas or bare.paper_etas(instance.bids, instance.inventory, end=instance.T)
    return Dps(price="paper", eta_worker=etas[0], eta_ps=etas[1], slot_convention=window, start_convention=start)


def alone(instance: DpsInstance, policy: Dps, job: int) -> Decision:
    ledger = instance.ledger(tail=policy.tail)
    book = Book(now=1, ledger=ledger, history=np.zeros((0, len(instance.inventory.resources))), decided=0)
    return policy.decide(instance.bids[job], book)


@pytest.mark.thorough
@each_case
def test_every_job_alone_earns_the_proven_optimum(path: Path, window: str, start: str) -> None:
    instance, expected = read(path), load(path)["expected"][f"{window}_{start}"]
    policy = policy_for(instance, window, start)
    assert policy.eta_worker == pytest.approx(expected.get("eta_w", policy.eta_worker), rel=1e-9)
    assert policy.eta_ps == pytest.approx(expected.get("eta_p", policy.eta_ps), rel=1e-9)
    for job, row in enumerate(expected["isolated"]):
        assert alone(instance, policy, job).payoff == pytest.approx(row["payoff"], rel=1e-6, abs=1e-9)


@each_sequence
def test_a_sequence_that_ties_cannot_change_is_the_expected_one(path: Path, window: str, start: str) -> None:
    instance, expected = read(path), load(path)["expected"][f"{window}_{start}"]["online_exact"]
    policy = policy_for(instance, window, start)
    decisions = decide_in_order(policy, instance.bids, instance.ledger(tail=policy.tail))
    rows = to_document(instance, decisions)["jobs"]
    for row, want in zip(rows, expected["jobs"], strict=True):
        assert row["accept"] == want["accept"]
        assert row["payoff"] == pytest.approx(want["payoff"], rel=1e-6, abs=1e-9)
        if expected["tie_robust"]["t_hat"]:
            assert row["t_hat"] == want["t_hat"]


@pytest.mark.parametrize(("window", "start"), CONVENTIONS)
def test_every_decision_of_a_fresh_sequence_is_the_best_that_trying_everything_finds(window: str, start: str) -> None:
    first = fresh_seed()
    for seed in range(first, first + DRAWN):
        document = random_instance(seed)
        instance = read_instance(document)
        policy = policy_for(instance, window, start)
        rows = to_document(instance, decide_in_order(policy, instance.bids, instance.ledger(tail=policy.tail)))["jobs"]
        cluster = twin.Cluster(document, twin.Convention(window, start))
        used = cluster.first_usage()
        for job, row in zip(document["jobs"], rows, strict=True):
            best = cluster.choices(job, used)
            most = max(0.0, float(best[0].payoff)) if best else 0.0
            assert row["payoff"] == pytest.approx(most, rel=1e-9, abs=1e-9), f"seed {seed}, job {job['id']}"
            used = twin.add(used, cells_of(row["schedule"], tail=policy.tail))


def cells_of(schedule: dict[str, Any] | None, *, tail: int) -> list[tuple[twin.Cell, int]]:
    """What a schedule of the result format has in use."""
    if schedule is None:
        return []
    slots = range(schedule["a"], schedule["a"] + schedule["d"] + tail)
    return [
        ((t, int(s), role, schedule[role]), n)
        for role, counts in (("w", schedule["y"]), ("p", schedule["z"]))
        for s, n in counts.items()
        for t in slots
    ]


@each_case
def test_bounds_hold_over_the_offline_optimum_and_the_online_welfare(path: Path, window: str, start: str) -> None:
    instance, expected = read(path), load(path)["expected"][f"{window}_{start}"]
    policy = policy_for(instance, window, start)
    decisions = decide_in_order(policy, instance.bids, instance.ledger(tail=policy.tail))
    best = max(sum(decision.value for decision in decisions), expected.get("offline_optimum") or 0.0)
    ledger = instance.ledger(tail=policy.tail)
    bids = [policy.adjusted(bid) for bid in instance.bids]
    free = policy.at_prices(instance.inventory, np.zeros(ledger.used.shape), start=1)
    standalone_values = [free.term(bid) for bid in bids]
    assert [decision.standalone_value for decision in decisions] == pytest.approx(standalone_values)
    assert sum(standalone_values) >= best * (1 - 1e-9)
    idle = Book(now=1, ledger=ledger, history=np.zeros((0, len(instance.inventory.resources))), decided=0)
    busy_ledger = instance.ledger(tail=policy.tail)
    for decision in decisions:
        if decision.schedule is not None:
            busy_ledger.commit(decision.schedule)
    busy = Book(now=1, ledger=busy_ledger, history=idle.history, decided=0)
    for book in (idle, busy):
        prices = policy.prices(book)
        terms = policy.at_prices(instance.inventory, prices, start=1)
        assert dual_bound(bids, instance.inventory, prices=prices, terms=terms) >= best * (1 - 1e-9)


@each_counterexample
def test_where_the_printed_algorithms_fail_the_exact_response_does_not(path: Path) -> None:
    instance = read(path)
    policy = policy_for(instance, instance.conventions["slot_convention"], instance.conventions["start_convention"])
    want = load(path)["optimal_payoff_21"]
    assert alone(instance, policy, 0).payoff == pytest.approx(want, rel=1e-6, abs=1e-9)


@each_counterexample
def test_the_command_takes_the_conventions_from_the_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decide", str(path)]) == 0
    row = json.loads(capsys.readouterr().out)["jobs"][0]
    assert row["payoff"] == pytest.approx(load(path)["optimal_payoff_21"], rel=1e-6, abs=1e-9)
