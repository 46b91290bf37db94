"""Integer programs find what trying everything finds, and what instances expect."""

from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.preemptive_quality import draw_near
from scheduling.instances.dps import read_instance
from scheduling.instances.fields import parse_document
from scheduling.instances.oasis import read_oasis
from scheduling.instances.preemptive import read_preemptive
from scheduling.instances.weighted_completion import read_weighted
from scheduling.model import example
from scheduling.model.bid import Architecture, Bid
from scheduling.model.errors import InvalidField
from scheduling.offline import Answer, Covers, Kind, OfflineProblem, best_bound, lagrangian
from scheduling.offline.program import Solved, TooLarge
from scheduling.offline.queued_program import queued_optimum
from scheduling.policies.base import Objective
from scheduling.policies.dps import Dps
from scheduling.solvers.milp import same_ceilings
from tests.draws import fresh_seed, rounds
from tests.scheduling.cases import (
    dps_cases,
    has_optimum,
    in_every_convention,
    is_sequence,
    load,
    oasis_cases,
    preemptive_cases,
    weighted_cases,
)
from tests.scheduling.gpu_cluster import gpu_cluster, job
from tests.scheduling.offline.outcomes import forever, holds
from tests.scheduling.twins.offline_exact import most_elastic, most_rigid
from tests.scheduling.twins.preemptive_milp import optimum
from tests.scheduling.twins.weighted_cases import random_instance
from tests.scheduling.twins.weighted_optimum import least_total
from tests.scheduling.worlds import finer, world


def is_proven(expected: dict[str, Any]) -> bool:
    """Whether the greatest welfare in hindsight is known."""
    return expected.get("offline_optimum") is not None


def proven(problem: OfflineProblem) -> float:
    answer = best_bound(problem, forever)
    assert answer.kind is Kind.MILP_OPTIMAL or answer.gap == 0
    assert answer.incumbent is not None
    assert answer.bound == pytest.approx(answer.incumbent, rel=1e-6, abs=1e-6)
    return answer.incumbent


@pytest.mark.thorough
@pytest.mark.parametrize("path", oasis_cases())
def test_welfare_of_elastic_jobs_is_the_expected_optimum(path: Path) -> None:
    instance, expected = read_oasis(parse_document(path.read_text())), load(path)["expected"]
    used = instance.ledger().used.copy()
    problem = OfflineProblem(
        instance.bids, instance.inventory, 1, instance.T + 1, covers=Covers.ELASTIC, open_end=False, used=used
    )
    found = proven(problem)
    if expected.get("offline_optimum") is not None:
        assert found == pytest.approx(expected["offline_optimum"], rel=1e-6)
    assert holds(lagrangian(replace(problem, covers=Covers.ANY), forever, steps=50).answer, problem, found)


@pytest.mark.thorough
@pytest.mark.parametrize(("path", "window", "start"), in_every_convention(dps_cases(), expected=is_proven))
def test_welfare_of_rigid_jobs_is_the_expected_optimum(path: Path, window: str, start: str) -> None:
    instance, expected = read_instance(parse_document(path.read_text())), load(path)["expected"][f"{window}_{start}"]
    policy = Dps(slot_convention=window, start_convention=start)
    ledger = instance.ledger(tail=policy.tail)
    bids = tuple(policy.adjusted(bid) for bid in instance.bids)
    problem = OfflineProblem(
        bids,
        instance.inventory,
        1,
        max(2, ledger.end),
        covers=Covers.RIGID,
        open_end=False,
        used=ledger.used.copy() if ledger.end > 1 else None,
        tail=policy.tail,
    )
    assert proven(problem) == pytest.approx(expected["offline_optimum"], rel=1e-6)


@pytest.mark.parametrize("path", weighted_cases(keep=is_sequence))
def test_weighted_completion_is_the_expected_optimum(path: Path) -> None:
    instance, expected = read_weighted(parse_document(path.read_text())), load(path)["expected"]
    known = expected["rolling_density"]["twct"]
    problem = OfflineProblem(
        instance.bids, instance.inventory, 1, 24, Objective.WEIGHTED_COMPLETION, Covers.RIGID, known=known
    )
    assert proven(problem) == expected["opt_twct"]


@pytest.mark.thorough
@pytest.mark.parametrize("path", preemptive_cases(keep=has_optimum))
def test_total_time_without_migration_is_the_expected_optimum(path: Path) -> None:
    instance, expected = read_preemptive(parse_document(path.read_text())), load(path)["expected"]
    problem = OfflineProblem(
        instance.bids, instance.inventory, 0, 24 * instance.scale, objective=Objective.COMPLETION, covers=Covers.QUEUED
    )
    assert proven(problem) == pytest.approx(expected["opt_no_migration"] * instance.scale)


def test_nothing_that_was_tried_beats_an_optimum_of_rigid_jobs() -> None:
    first = fresh_seed()
    for seed in range(first, first + rounds(2)):
        made = world(seed, bids=3, servers=2, architectures=frozenset({Architecture.RING}))
        if seed % 2:
            made = replace(made, inventory=finer(made.inventory, np.random.default_rng(seed)))
        bids = tuple(replace(bid, chunks=min(bid.chunks, 2)) for bid in made.bids)
        problem = OfflineProblem(bids, made.inventory, 0, 5, covers=Covers.RIGID, open_end=False)
        assert proven(problem) == pytest.approx(most_rigid(bids, made.inventory, slots=5)), f"seed {seed}"


def test_nor_of_elastic_jobs() -> None:
    first = fresh_seed()
    for seed in range(first, first + rounds(4)):
        made = world(seed, bids=2, servers=3, kind="apart")
        if seed % 2:
            made = replace(made, inventory=finer(made.inventory, np.random.default_rng(seed)))
        inventory = replace(
            made.inventory, workers=made.inventory.workers[:1], parameter_servers=made.inventory.parameter_servers[:1]
        )
        bids = tuple(
            replace(
                bid,
                chunks=min(bid.chunks, 3),
                worker_time=bid.worker_time[:1],
                ps_time=bid.ps_time[:1],
                transfer_time=bid.transfer_time[:1],
            )
            for bid in made.bids
        )
        if inventory.workers[0].bandwidth_mbps > inventory.parameter_servers[0].bandwidth_mbps:
            continue
        problem = OfflineProblem(bids, inventory, 0, 5, covers=Covers.ELASTIC, open_end=False)
        assert proven(problem) == pytest.approx(most_elastic(bids, inventory, slots=5)), f"seed {seed}"


@pytest.mark.thorough
@pytest.mark.parametrize(("covers", "seeds"), [(Covers.ELASTIC, (14, 64, 97)), (Covers.RIGID, (1, 3, 12, 36))])
def test_no_optimum_depends_on_how_small_a_unit_is(covers: Covers, seeds: tuple[int, ...]) -> None:
    # Optima that were wrong when the solver got all the digits.
    for seed in seeds:
        made = world(seed, bids=5, servers=3)
        found = [
            proven(OfflineProblem(made.bids, inventory, 0, 6, covers=covers, open_end=False))
            for inventory in (finer(made.inventory, np.random.default_rng(seed), unit) for unit in (10**2, 10**8))
        ]
        assert found[0] == pytest.approx(found[1]), f"seed {seed}"


@pytest.mark.thorough
@pytest.mark.parametrize("covers", [Covers.ELASTIC, Covers.RIGID])
def test_no_optimum_takes_a_ratio_of_bandwidths_for_one_next_to_it(covers: Covers) -> None:
    # With a thousand-millionth more than a PS serves, a worker needs another one.
    ratio = 1 + Fraction(1, 10**9)
    for seed in (68, *np.random.default_rng().integers(2**32, size=5).tolist()):
        made = world(seed, bids=4, servers=3)
        worker, ps = made.inventory.workers[0], made.inventory.parameter_servers[0]
        bids = tuple(
            replace(
                bid,
                worker_time=bid.worker_time[:1],
                ps_time=bid.ps_time[:1],
                transfer_time=bid.transfer_time[:1],
            )
            for bid in made.bids
        )
        most = max(bid.chunks for bid in bids)
        found = []
        for wide in (ratio, same_ceilings(ratio, most)):
            types = replace(worker, bandwidth_mbps=wide), replace(ps, bandwidth_mbps=Fraction(1))
            inventory = replace(made.inventory, workers=types[:1], parameter_servers=types[1:])
            found.append(proven(OfflineProblem(bids, inventory, 0, 6, covers=covers, open_end=False)))
        assert found[0] == pytest.approx(found[1]), f"seed {seed}"


@pytest.mark.parametrize(("covers", "kind"), [(Covers.RIGID, ""), (Covers.ELASTIC, "apart")])
def test_no_optimum_depends_on_how_small_a_unit_of_money_is(covers: Covers, kind: str) -> None:
    # The solver ends within a fixed difference of its optimum, which is more than all of these jobs are worth.
    small = 2.0**-30
    for seed in (1, 2, 5):
        made = world(seed, bids=4, kind=kind)
        cheap = tuple(replace(bid, utility=bid.utility.scaled(small)) for bid in made.bids)
        problems = [OfflineProblem(bids, made.inventory, 0, 5, covers=covers) for bids in (made.bids, cheap)]
        found, scaled = map(proven, problems)
        assert scaled / small == pytest.approx(found), f"seed {seed}"


@pytest.mark.parametrize("architecture", Architecture)
def test_nor_of_weighted_completion(architecture: Architecture) -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    for _ in range(1):
        instance = random_instance(rng, architecture, jobs=3)
        problem = OfflineProblem(
            instance.bids, instance.inventory, 1, 20, objective=Objective.WEIGHTED_COMPLETION, covers=Covers.RIGID
        )
        found = proven(problem)
        assert found == least_total(instance.bids, instance.inventory, at_most=found), f"seed {seed}"
        # What is known drops columns, and never the optimum.
        assert proven(replace(problem, known=found)) == proven(replace(problem, known=1.05 * found)) == found
        assert holds(lagrangian(replace(problem, covers=Covers.ANY), forever).answer, problem, found), f"seed {seed}"


def test_nor_of_total_time_in_queues() -> None:
    seed = fresh_seed()
    rng = np.random.default_rng(seed)
    for _ in range(4):
        document = draw_near(rng)
        instance, best = read_preemptive(document), optimum(document, 24)
        problem = OfflineProblem(instance.bids, instance.inventory, 0, 24, Objective.COMPLETION, Covers.QUEUED)
        assert proven(problem) == pytest.approx(best), f"seed {seed}"
        stopped = queued_optimum(problem, 8_000, lambda: 0.0)
        assert stopped.bound is not None
        assert stopped.incumbent is not None
        # The twin's sum is of the solver's doubles.
        assert stopped.bound - 1e-6 <= best <= stopped.incumbent + 1e-6, f"seed {seed}"


def test_queued_jobs_that_cannot_be_complete_by_the_end_have_no_optimum() -> None:
    made = read_preemptive(draw_near(np.random.default_rng(1)))
    problem = OfflineProblem(made.bids, made.inventory, 0, 2, Objective.COMPLETION, Covers.QUEUED, open_end=False)
    assert queued_optimum(problem, 8_000, forever) == Solved(None, None, optimal=False)
    with pytest.raises(TooLarge, match="pairs of a job and a worker"):
        queued_optimum(problem, 2, forever)


def both_workers(*slots: int) -> tuple[Bid, ...]:
    """Return jobs that the two workers of the example complete in these times, one job after another."""
    zero = (Fraction(0),)
    return tuple(
        replace(example.job(id=f"job-{i}"), epochs=1, worker_time=(Fraction(time),), transfer_time=zero)
        for i, time in enumerate(slots)
    )


def test_a_queued_job_is_complete_no_sooner_than_alone_wherever_the_end_is() -> None:
    problem = OfflineProblem(both_workers(1, 3), example.INVENTORY, 0, 1, Objective.COMPLETION, Covers.QUEUED)
    assert queued_optimum(problem, 8_000, forever) == Solved(4.0, 4.0, optimal=True)
    assert queued_optimum(replace(problem, open_end=False), 8_000, forever) == Solved(None, None, optimal=False)


def test_an_early_end_gives_queued_jobs_no_lower_bound_than_the_linear_program_does() -> None:
    bids = both_workers(2, 2, 2, 2, 2)
    answers = [
        best_bound(OfflineProblem(bids, example.INVENTORY, 0, end, Objective.COMPLETION, Covers.QUEUED), forever)
        for end in (2, 10)
    ]
    assert [(answer.kind, answer.incumbent) for answer in answers] == [(Kind.COMPACT_LP, None), (Kind.MILP_OPTIMAL, 30)]
    assert 25 < answers[0].bound <= answers[1].bound == 30


def test_queued_jobs_of_no_time_have_the_bound_of_the_linear_program() -> None:
    problem = OfflineProblem(both_workers(0, 2), example.INVENTORY, 0, 9, Objective.COMPLETION, Covers.QUEUED)
    answer = best_bound(problem, forever)
    assert answer.kind is Kind.COMPACT_LP
    assert 1 < answer.bound <= 2


def test_a_queued_job_that_no_server_can_host_is_named() -> None:
    workers_only = replace(example.INVENTORY, capacity=np.array([[2, 0], [0, 0]]))
    problem = OfflineProblem(both_workers(1), workers_only, 0, 9, Objective.COMPLETION, Covers.QUEUED)
    with pytest.raises(InvalidField, match="some server can host, got job job-0"):
        best_bound(problem, forever)


def test_rigid_jobs_whose_machines_are_held_beyond_the_end_have_no_optimum() -> None:
    """A job of two slots, whose machines are held for a third one, of which there are two."""
    jobs, servers = (example.job(),), example.INVENTORY
    problem = OfflineProblem(jobs, servers, 0, 2, Objective.COMPLETION, Covers.RIGID, open_end=False, tail=1)
    answer = best_bound(problem, forever)
    assert (answer.kind, answer.incumbent) == (Kind.ALONE, None)
    assert answer.bound == pytest.approx(2.0)
    assert proven(replace(problem, tail=0)) == 2.0


def test_a_program_that_is_stopped_proves_what_it_has() -> None:
    bids = tuple(job(str(i), 1, 2, weight=10 - i) for i in range(6))
    times = iter([5.0] * 3 + [0.0] * 1000)
    problem = OfflineProblem(bids, gpu_cluster(1), 0, 5, covers=Covers.RIGID, open_end=False)
    answer: Answer = best_bound(problem, lambda: next(times))
    assert answer.kind in (Kind.LAGRANGIAN, Kind.ALONE)
    assert answer.bound >= 19


def test_queued_schedules_are_about_completion() -> None:
    with pytest.raises(InvalidField, match="objective"):
        OfflineProblem((job("a", 1, 1),), gpu_cluster(1), 0, 4, covers=Covers.QUEUED)
