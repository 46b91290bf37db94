"""No job is lost: every policy on every paper's workload, and on a slice of every shared trace of jobs.

`replay` itself raises NotConserved where a job is not exactly one of done, rejected, running and waiting.
"""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from cluster.traces import gavel
from cluster.traces.formats import open_trace
from cluster.traces.records import TraceJob
from scheduling.bid import Architecture
from scheduling.errors import InvalidField
from scheduling.registry import POLICIES, make_policy
from studies.replays.outcome import Conservation
from studies.replays.replay import Plan, horizon_for, replay
from studies.traces.machines import gpu_cluster
from studies.traces.mapping import Rules, to_bids
from studies.traces.profiles import measured_profiles
from studies.workloads.generators import GENERATORS, read_generator
from studies.workloads.workload import run
from tests import traces

SETTINGS = {
    "dps": {"jobs": 8, "servers": 4, "types": 2, "chunks": [2, 30]},
    "oasis": {"jobs": 8, "servers": 5},
    "preemptive": {"jobs": 8, "servers": 4, "span": 10, "types": [2, 2]},
    "weighted_completion": {"jobs": 6, "servers": 4, "slots": 20},
}
REFUSED = {
    ("oasis", "dps"): "workers and PSs apart",
    ("oasis", "preemptive"): "workers and PSs apart",
    ("oasis", "weighted_completion"): "workers and PSs apart",
    ("preemptive", "oasis"): "shared by several machine types",
    ("preemptive", "weighted_completion"): "shared by several machine types",
}
"""Policies whose servers another paper's are not, and what they say of it."""
JOBS = (
    traces.PHILLY_DAY,
    traces.PHILLY_WEEK,
    traces.PHILLY_VC,
    *(traces.gavel(name) for name in traces.GAVEL),
    *traces.SHOCKWAVE,
    traces.ROOT / "tiresias" / "60_job.csv",
)
SLICE = 8
SLOT_S = 3600


def assert_conserved(jobs: Conservation, submitted: int) -> None:
    assert jobs.submitted == submitted
    assert jobs.later == 0
    assert jobs.done + jobs.rejected + jobs.running + jobs.waiting == submitted
    # Runs end when all is complete: what is left would wait for ever.
    assert (jobs.running, jobs.waiting) == (0, 0)


def test_every_generator_has_a_setting_here() -> None:
    assert set(SETTINGS) == set(GENERATORS)


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_conserves_the_jobs_of_every_generator(name: str, generator: str) -> None:
    document = {"generator": generator, "setting": SETTINGS[generator]}
    workload, policy = read_generator(document, "workload").draw(5), make_policy(name, {})
    if (name, generator) in REFUSED:
        with pytest.raises(InvalidField, match=REFUSED[name, generator]):
            run(workload, policy)
        return
    assert_conserved(run(workload, policy).outcome.jobs, len(workload.jobs.bids))


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_conserves_the_jobs_of_every_trace(name: str) -> None:
    for path in JOBS:
        assert_slice_conserved(path, name, Architecture.PS)


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_conserves_rings_or_refuses_them_in_words(name: str) -> None:
    if Architecture.RING in POLICIES[name].architectures:
        assert_slice_conserved(traces.PHILLY_DAY, name, Architecture.RING)
        return
    with pytest.raises(InvalidField, match=f"architecture: {name} runs no jobs of kind ring"):
        assert_slice_conserved(traces.PHILLY_DAY, name, Architecture.RING)


@cache
def first_rows(path: Path) -> tuple[TraceJob, ...]:
    return open_trace(path, TraceJob).rows[:SLICE]


def assert_slice_conserved(path: Path, name: str, architecture: Architecture) -> None:
    inventory = gpu_cluster(8, apart=name == "oasis")
    table = gavel.throughputs(traces.THROUGHPUTS.read_text())
    rules = Rules(slot_s=SLOT_S, architecture=architecture, profiles=measured_profiles(table, reference="v100"))
    traced = to_bids(first_rows(path), inventory, rules, np.random.default_rng(1))
    assert len(traced.bids) + len(traced.refused) == SLICE
    plan = Plan(SLOT_S, horizon_for(traced, slot_s=SLOT_S))
    outcome = replay(traced, make_policy(name, {}), inventory, plan).outcome
    assert_conserved(outcome.jobs, len(traced.bids))
    assert sum(row.submitted for row in outcome.tenants.values()) == len(traced.bids)
    assert all(0 <= share <= 1 for share in outcome.utilisation.values())
