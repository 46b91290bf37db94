"""No policy is better than a bound, whatever the objective and wherever the bound stops to look slot by slot."""

import numpy as np
import pytest
from hypothesis import example, given, settings

from cluster.traces.formats import open_trace
from cluster.traces.records import TraceJob
from scheduling.model.bid import Bid
from scheduling.model.inventory import Inventory
from scheduling.model.types import Json
from scheduling.offline import Covers, OfflineProblem, best_bound, dual_at_prices, lagrangian
from scheduling.policies.base import Objective
from scheduling.registry import make_policy
from studies.workloads.generated import dps, oasis, preemptive, weighted_completion
from studies.workloads.traces.machines import gpu_cluster
from studies.workloads.traces.mapping import Rules, to_bids
from tests.draws import fresh_seed, integers, rounds
from tests.scheduling.offline.outcomes import ends_of, finished, forever, holds, outcomes
from tests.scheduling.policy_settings import each_auction, each_policy
from tests.scheduling.test_every_policy import run
from tests.traces import Traces

seeds = integers(0, 2**32 - 1)


@each_policy
@settings(max_examples=rounds(1, longer=90))
@given(seed=seeds, level=integers(0, 2000).map(lambda hundredths: hundredths / 100))
@example(seed=928, level=0.0)  # PSs on a server to which data takes longer than to the workers
def test_none_beats_a_bound_for_any_schedule(name: str, parameters: Json, seed: int, level: float) -> None:
    drawn, bids, going = run(make_policy(name, parameters), seed)
    done = list(going.done.values())
    last = ends_of(done)
    for objective, served, total in outcomes(bids, done):
        for end in {1 + last // 2, last} - {0}:
            problem = OfflineProblem(served, drawn.inventory, 0, end, objective, open_end=end < last)
            assert holds(lagrangian(problem, forever, steps=40).answer, problem, total)
            prices = np.random.default_rng(seed).uniform(0, level, (end, len(drawn.inventory.resources)))
            assert holds(dual_at_prices(problem, prices), problem, total)


@each_auction
@settings(max_examples=rounds(1, longer=120))
@given(seed=seeds)
def test_no_elastic_auction_beats_a_bound_for_elastic_schedules(name: str, parameters: Json, seed: int) -> None:
    policy = make_policy(name, parameters)
    drawn, bids, going = run(policy, seed)
    covers = Covers.ELASTIC if name == "oasis" else Covers.RIGID
    for objective, served, total in outcomes(bids, list(going.done.values())):
        problem = OfflineProblem(served, drawn.inventory, 0, 6, objective, covers)
        assert holds(lagrangian(problem, forever, steps=40).answer, problem, total)


def workload(kind: str, rng: np.random.Generator) -> tuple[Inventory, tuple[Bid, ...], int]:
    """A small one by the settings of a paper, and a horizon."""
    if kind == "dps":
        drawn = dps.draw(dps.Setting(servers=4, slots=20, jobs=12, types=2, chunks=(2, 6), epochs=(2, 6)), rng)
        return drawn.inventory, drawn.bids, 20
    if kind == "oasis":
        market = oasis.draw(oasis.Setting(servers=4, slots=20, jobs=12), rng)
        return market.inventory, market.bids, 20
    if kind == "preemptive":
        edge = preemptive.draw(preemptive.Setting(jobs=12, servers=6, span=10, types=(2, 2)), rng)
        return edge.inventory, edge.bids, 400
    setting = weighted_completion.Setting(servers=6, slots=40, jobs=12)
    weighted = weighted_completion.draw(setting, rng)
    return weighted.inventory, weighted.bids, 400


@pytest.mark.parametrize(
    ("kind", "policy"),
    [
        ("dps", "dps"),
        ("dps", "fifo"),
        ("oasis", "oasis"),
        ("preemptive", "preemptive"),
        ("preemptive", "srtf"),
        ("weighted", "weighted_completion"),
        ("weighted", "drf"),
    ],
)
def test_nor_on_workloads_of_the_papers(kind: str, policy: str) -> None:
    seed = fresh_seed()
    inventory, bids, slots = workload(kind, np.random.default_rng(seed))
    done = finished(make_policy(policy, {}), bids, inventory, slots=slots)
    for objective, served, total in outcomes(bids, done):
        problem = OfflineProblem(served, inventory, 0, max(1, min(60, ends_of(done))), objective)
        assert holds(best_bound(problem, forever), problem, total), f"seed {seed}"


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["fifo", "dps", "drf", "tiresias", "weighted_completion"])
def test_nor_on_a_slice_of_a_trace(policy: str, traces: Traces) -> None:
    rows = [job for job in open_trace(traces.philly_day, TraceJob).rows if (job.duration_s or 0) < 6 * 3600][:60]
    inventory = gpu_cluster(16)
    bids = to_bids(rows, inventory, Rules(slot_s=1800), np.random.default_rng(1)).bids
    done = finished(make_policy(policy, {}), bids, inventory, slots=60)
    for objective, served, total in outcomes(bids, done):
        problem = OfflineProblem(served, inventory, 0, 40, objective)
        answer = best_bound(problem, forever)
        assert holds(answer, problem, total)
        assert answer.covers is Covers.ANY
        if objective is Objective.WELFARE:
            assert answer.bound < 1.6 * total, "the bound is worth something"
