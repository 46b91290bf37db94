"""No job is lost: every policy on every paper's workload, on the first jobs of every trace, on whole traces in turn.

`replay` itself raises NotConserved where a job is not exactly one of done, rejected, running and waiting.

In each run three of the policies meet one whole trace, and another one on the next day: in a soak all policies meet all
traces. `SHADOWPRICE_TURN` sets the turn instead of the day: a whole number, or `all`.
"""

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import ceil
from pathlib import Path

import numpy as np
import pytest

from cluster.traces import gavel
from cluster.traces.formats import open_trace
from cluster.traces.records import TraceJob
from scheduling.model.bid import Architecture
from scheduling.model.errors import InvalidField
from scheduling.registry import POLICIES, make_policy
from studies.workloads.generated.generators import GENERATORS, read_generator
from studies.workloads.simulation.outcome import Conservation
from studies.workloads.simulation.replay import ReplayParameters, horizon_for, replay
from studies.workloads.traces.machines import gpu_cluster
from studies.workloads.traces.mapping import Rules, to_bids
from studies.workloads.traces.profiles import measured_profiles
from studies.workloads.workload import run
from tests.draws import some
from tests.traces import LARGER, OWN, Traces, each

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
    ("preemptive", "oasis"): "a resource for each machine type",
    ("preemptive", "weighted_completion"): "a resource for each machine type",
}
"""Policies whose servers another paper's are not, and what they say of it."""
FEW = 8
"""Jobs of each trace that every policy meets in every run."""
TURN = "SHADOWPRICE_TURN"
MOST_SLOTS = 600
"""Largest horizon; the length of slots follows from it."""
MOST = {"dorm": 300, "drf": 3100, "rrh": 3100, "batch_sche": 3100, "weighted_completion": 3100}
"""Jobs of a published trace in one turn, for policies that look at all jobs at every event; the next turns of the same
trace have the jobs that follow. Every policy meets the samples whole."""


def assert_conserved(jobs: Conservation, submitted: int) -> None:
    assert jobs.submitted == submitted
    assert jobs.later == 0
    assert jobs.completed + jobs.rejected + jobs.running + jobs.planned == submitted
    # Runs end when all is complete: what is left would wait for ever.
    assert (jobs.running, jobs.planned) == (0, 0)


def test_every_generator_has_a_setting_here() -> None:
    assert set(SETTINGS) == set(GENERATORS)


@pytest.mark.thorough
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


@pytest.mark.thorough
@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_conserves_the_first_jobs_of_every_trace(name: str, traces: Traces) -> None:
    for path in traces.jobs:
        rows = open_trace(path, TraceJob).rows[:FEW]
        assert len(rows) == FEW
        assert_rows_conserved(rows, traces, name, Architecture.PS)


@pytest.mark.soak
@pytest.mark.parametrize("name", some(POLICIES, 3))
def test_every_policy_conserves_the_jobs_of_a_whole_trace_in_turn(name: str, traces: Traces) -> None:
    for turn in turns(traces):
        assert_conserved_in_turn(traces, name, turn, Architecture.PS)


@pytest.mark.soak
@pytest.mark.parametrize("name", some(POLICIES, 3))
def test_every_policy_conserves_rings_of_a_whole_trace_in_turn_or_refuses_them_in_words(name: str) -> None:
    for turn in turns(OWN):
        if Architecture.RING in POLICIES[name].architectures:
            assert_conserved_in_turn(OWN, name, turn + 3, Architecture.RING)
            continue
        with pytest.raises(
            InvalidField, match=f"architecture: expected jobs of an architecture that {name} runs, got ring"
        ):
            assert_conserved_in_turn(OWN, name, turn, Architecture.RING)


@pytest.mark.parametrize("traces", each())
def test_each_turn_has_every_trace_and_together_they_have_every_pair(traces: Traces) -> None:
    pairs = {turn: {(name, in_turn(traces, name, turn)) for name in POLICIES} for turn in range(len(traces.jobs))}
    assert all({path for _, path in met} == set(traces.jobs) for met in pairs.values())
    assert set().union(*pairs.values()) == {(name, path) for name in POLICIES for path in traces.jobs}


def test_a_turn_is_of_the_day_or_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TURN, raising=False)
    assert len(turns(OWN)) == 1
    monkeypatch.setenv(TURN, "5")
    assert list(turns(OWN)) == [5]
    monkeypatch.setenv(TURN, "all")
    assert len(turns(OWN)) == len(OWN.jobs)


def test_rows_that_follow_one_another_are_all_met_in_enough_turns() -> None:
    rows = [TraceJob(i, float(i), 1, duration_s=60.0) for i in range(1000)]
    assert {row.line for turn in range(4) for row in portion(rows, 300, turn)} == set(range(1000))
    assert portion(rows, 1000, 7) == rows


def turns(traces: Traces) -> Sequence[int]:
    """Turns of this run."""
    said = os.environ.get(TURN) or str(datetime.now(UTC).toordinal())
    return range(len(traces.jobs)) if said == "all" else [int(said)]


def in_turn(traces: Traces, name: str, turn: int) -> Path:
    """Return the trace of this turn: the traces of the policies follow one another."""
    return traces.jobs[(turn + list(POLICIES).index(name)) % len(traces.jobs)]


def portion(rows: Sequence[TraceJob], most: int, turn: int) -> Sequence[TraceJob]:
    """Return at most this number of rows, from another place in each turn."""
    begin = turn % ceil(len(rows) / most) * most
    return rows[begin : begin + most]


def assert_conserved_in_turn(traces: Traces, name: str, turn: int, architecture: Architecture) -> None:
    path = in_turn(traces, name, turn)
    rows: Sequence[TraceJob] = open_trace(path, TraceJob).rows
    if traces is LARGER:
        rows = portion(rows, MOST.get(name, len(rows)), turn // len(traces.jobs))
    try:
        assert_rows_conserved(rows, traces, name, architecture, gpus=32 if traces is OWN else 320)
    except Exception as error:
        error.add_note(f"{name} on {path.name}: {TURN}={turn}")
        raise


def assert_rows_conserved(
    rows: Sequence[TraceJob], traces: Traces, name: str, architecture: Architecture, *, gpus: int = 8
) -> None:
    inventory = gpu_cluster(gpus, apart=name == "oasis")
    table = gavel.throughputs(traces.throughputs.read_text())
    rules = Rules(slot_s=3600, architecture=architecture, profiles=measured_profiles(table, reference="v100"))
    longest_s = max(to_bids(rows, inventory, rules, np.random.default_rng(1)).runs_s.values())
    rules = replace(rules, slot_s=rules.slot_s * ceil(2 * longest_s / rules.slot_s / MOST_SLOTS))
    traced = to_bids(rows, inventory, rules, np.random.default_rng(1))
    assert not traced.refused
    assert len(traced.bids) == len(rows)
    plan = ReplayParameters(rules.slot_s, horizon_for(traced, slot_s=rules.slot_s))
    outcome = replay(traced, make_policy(name, {}), inventory, plan).outcome
    assert_conserved(outcome.jobs, len(rows))
    assert sum(row.submitted for row in outcome.tenants.values()) == len(rows)
    assert all(0 <= share <= 1 for share in outcome.utilisation.values())
