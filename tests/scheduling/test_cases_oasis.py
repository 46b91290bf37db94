"""OASiS instances: prices, every payoff, and every sequence that ties cannot change."""

from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from scheduling.best_response.elastic.kernel import ElasticKernel
from scheduling.best_response.elastic.type_pairs import type_pairs
from scheduling.book.running import RunningBook
from scheduling.instances.answer_oasis import to_document
from scheduling.instances.families import decide_in_order
from scheduling.instances.fields import parse_document
from scheduling.instances.oasis import OasisInstance, read_oasis
from scheduling.model.decision import Decision
from scheduling.policies.oasis import Oasis
from tests.data.make.oasis import random_instance
from tests.draws import fresh_seed
from tests.scheduling.cases import load, oasis_cases, oasis_counterexamples
from tests.scheduling.twins.documents import oasis as twin
from tests.scheduling.twins.dual_bound import dual_bound

MODELS = {"worker": "payoff", "chunk": "payoff_chunk_dp"}
DRAWN = 6


def ties_change_no_payoff(path: Path, model: str) -> bool:
    """Whether a sequence is known whose payoffs are the same whatever way ties are broken."""
    expected = load(path)["expected"]
    return f"online_{model}" in expected and bool(expected[f"online_{model}"]["tie_robust"]["payoffs"])


each_case = pytest.mark.parametrize("path", oasis_cases())
each_model = pytest.mark.parametrize("model", MODELS)
each_counterexample = pytest.mark.parametrize("path", oasis_counterexamples())
each_sequence = pytest.mark.parametrize(
    ("model", "path"),
    [
        pytest.param(model, *param.values, id=f"{model}-{param.id}", marks=param.marks)
        for model in MODELS
        for param in oasis_cases(keep=partial(ties_change_no_payoff, model=model))
    ],
)


def policy_for(instance: OasisInstance, model: str) -> Oasis:
    bounds = instance.bounds()
    return Oasis(price="paper", model=model, log_low=bounds.log_low, log_high=bounds.log_high)


def alone(instance: OasisInstance, policy: Oasis, job: int) -> Decision:
    return policy.decide(instance.bids[job], RunningBook(instance.ledger()).view())


def read(path: Path) -> OasisInstance:
    return read_oasis(parse_document(path.read_text()))


@each_case
def test_every_job_needs_the_worker_slots_that_are_expected(path: Path) -> None:
    instance = read(path)
    for bid, row in zip(instance.bids, load(path)["expected"]["isolated"], strict=True):
        found = list(type_pairs(bid, instance.inventory, slots=instance.T))
        assert [way.worker_slots for way in found] == [row["worker_slots"]] * len(found)
        for way in found:
            assert way.step * bid.minibatches == Fraction(row["rho"])


@each_case
def test_the_price_bounds_are_the_expected_ones(path: Path) -> None:
    instance, expected = read(path), load(path)["expected"]["ln_prices"]
    bounds, count = instance.bounds(), len(instance.units) // 2
    scale = np.log(instance.units)
    low, high = bounds.log_low + scale, bounds.log_high + scale
    assert low == pytest.approx([expected["lnL1"]] * count + [expected["lnL2"]] * count, rel=1e-9)
    assert high == pytest.approx(expected["lnU1"] + expected["lnU2"], rel=1e-9)


@each_case
@each_model
def test_every_job_alone_earns_the_proven_optimum(path: Path, model: str) -> None:
    instance = read(path)
    policy = policy_for(instance, model)
    for job, row in enumerate(load(path)["expected"]["isolated"]):
        decision = alone(instance, policy, job)
        assert decision.payoff == pytest.approx(row[MODELS[model]], rel=1e-6, abs=1e-9)
        if model == "worker" and decision.schedule is not None:
            assert decision.schedule.completion - 1 == row["t_hat"]


@each_case
def test_a_job_that_has_to_run_earns_what_is_expected(path: Path) -> None:
    instance = read(path)
    policy = policy_for(instance, "worker")
    for job, row in enumerate(load(path)["expected"]["isolated"]):
        book = RunningBook(instance.ledger()).view()
        forced = ElasticKernel(book.ledger, policy.price_function(book)).best(instance.bids[job], above=-np.inf)
        assert (forced is not None) == row["feasible"]
        if forced is not None:
            assert forced.payoff == pytest.approx(row["best_value_if_forced"], rel=1e-6, abs=1e-9)


@each_sequence
def test_a_sequence_that_ties_cannot_change_is_the_expected_one(model: str, path: Path) -> None:
    instance, expected = read(path), load(path)["expected"][f"online_{model}"]
    decisions = decide_in_order(policy_for(instance, model), instance.bids, instance.ledger())
    document = to_document(instance, decisions)
    for row, want in zip(document["jobs"], expected["jobs"], strict=True):
        assert row["accept"] == want["accept"]
        assert row["payoff"] == pytest.approx(want["payoff"], rel=1e-6, abs=1e-9)
        if expected["tie_robust"]["t_hat"]:
            assert row["t_hat"] == want["t_hat"]
    assert document["welfare"] == pytest.approx(expected["total_utility"], rel=1e-6, abs=1e-9)


@each_model
def test_every_decision_of_a_fresh_sequence_is_the_best_that_trying_everything_finds(model: str) -> None:
    first = fresh_seed()
    for seed in range(first, first + DRAWN):
        document = random_instance(seed)
        instance, cluster = read_oasis(document), twin.Cluster(document)
        rows = to_document(instance, decide_in_order(policy_for(instance, model), instance.bids, instance.ledger()))[
            "jobs"
        ]
        used = cluster.first_usage()
        for job, row in zip(document["jobs"], rows, strict=True):
            payoffs = [float(payoff) for payoff, *_ in cluster.plans(job, used, chunks=model == "chunk")]
            where = f"seed {seed}, job {job['id']}"
            assert row["payoff"] == pytest.approx(max([0.0, *payoffs]), rel=1e-9, abs=1e-9), where
            used = cluster.after(job, used, row["schedule"] or [])


@each_case
def test_every_bound_holds_over_the_offline_optimum_and_the_online_welfare(path: Path) -> None:
    instance, expected = read(path), load(path)["expected"]
    policy, ledger = policy_for(instance, "worker"), instance.ledger()
    idle = RunningBook(instance.ledger()).view()
    decisions = decide_in_order(policy, instance.bids, ledger)
    best = max(sum(decision.value for decision in decisions), expected.get("offline_optimum") or 0.0)
    assert sum(decision.standalone_value for decision in decisions) >= best * (1 - 1e-9)
    for book in (idle, RunningBook(ledger).view()):
        prices = policy.prices(book)
        terms = policy.at_prices(instance.inventory, prices, start=1)
        assert dual_bound(instance.bids, instance.inventory, prices=prices, terms=terms) >= best * (1 - 1e-9)


@each_counterexample
def test_where_the_printed_recursion_fails_the_elastic_response_does_not(path: Path) -> None:
    instance, raw = read(path), load(path)
    exact, printed = (alone(instance, policy_for(instance, model), 0) for model in MODELS)
    assert exact.payoff == pytest.approx(raw["optimal_payoff_27"], rel=1e-6)
    assert printed.payoff == pytest.approx(raw["alg2_printed_payoff"], rel=1e-6)
    assert to_document(instance, [exact])["jobs"][0]["t_hat"] == raw["optimal_t_hat"]
