"""A row of a trace as a bid: what is real stays as it is, what is drawn is named, and no row is lost."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from cluster.traces import gavel
from cluster.traces.formats import open_trace
from cluster.traces.records import Machine, Quota, StepTime, TraceJob
from cluster.units import exact
from scheduling.model.bid import Architecture
from scheduling.model.errors import InvalidField
from scheduling.policies.baselines.gang import ideal_gang
from scheduling.policies.oasis import Oasis
from studies.workloads.traces.machines import PSS, gpu_cluster, machine_cluster
from studies.workloads.traces.mapping import SYNTHETIC, Rules, TracedBids, Values, to_bids
from studies.workloads.traces.profiles import DECLARED, Profile, StepTimes, measured_profiles, nearest
from studies.workloads.traces.tenants import shares_of
from tests.traces import Traces, files_of

INVENTORY = gpu_cluster(16)
MINUTE = Rules(slot_s=60)


def mapped(*jobs: TraceJob, rules: Rules = MINUTE, seed: int = 1) -> TracedBids:
    return to_bids(jobs, INVENTORY, rules, np.random.default_rng(seed))


@pytest.mark.parametrize("gpus", [1, 2, 8])
@pytest.mark.parametrize("duration_s", [1.0, 60.0, 4_600_000.0])
@pytest.mark.parametrize("architecture", list(Architecture))
@pytest.mark.parametrize("epochs", [(1, 1), (50, 200)])
@pytest.mark.parametrize("elastic", [False, True])
def test_a_job_lasts_what_the_trace_says_on_its_own_gpus(
    gpus: int, duration_s: float, architecture: Architecture, epochs: tuple[int, int], elastic: bool
) -> None:
    rules = replace(MINUTE, architecture=architecture, epochs=epochs, elastic=elastic)
    (bid,) = mapped(TraceJob(2, 0.0, gpus, duration_s=duration_s), rules=rules).bids
    gang = ideal_gang(bid, INVENTORY, gpus)
    assert gang is not None
    lasts_s = bid.work * gang.pace(spread=False) / gpus * 60
    assert bid.chunks == (2 * gpus if elastic else gpus)
    step = DECLARED.step_s + DECLARED.sync_s
    assert abs(lasts_s - exact(duration_s)) <= max(step, bid.epochs * step * bid.chunks / gpus / 2)


def test_jobs_arrive_in_the_slot_that_begins_when_they_are_submitted_or_later() -> None:
    jobs = [TraceJob(2 + i, at_s, 1, duration_s=60.0) for i, at_s in enumerate((100.0, 160.0, 161.0, 220.5))]
    found = mapped(*jobs)
    assert [bid.arrival for bid in found.bids] == [0, 1, 2, 3]
    assert list(found.submitted_s.values()) == [0.0, 60.0, 61.0, 120.5]


def test_rows_out_of_order_are_put_in_order() -> None:
    late, soon = TraceJob(2, 100.0, 1, duration_s=60.0), TraceJob(3, 40.0, 1, duration_s=60.0)
    assert [bid.id for bid in mapped(late, soon).bids] == ["3", "2"]


def test_what_is_drawn_and_what_is_declared_is_named() -> None:
    job = TraceJob(2, 0.0, 1, duration_s=60.0)
    assert mapped(job).synthetic == ("value", "decay", "target")
    assert mapped(job).declared == ("epochs", "step time")
    drawn = mapped(job, rules=replace(MINUTE, epochs=(2, 3)))
    assert (drawn.synthetic, drawn.declared) == (("value", "decay", "target", "epochs"), ("step time",))
    measured = replace(job, steps=100)
    assert mapped(measured).declared == ("epochs",)


def test_the_same_generator_gives_the_same_bids_and_another_other_values() -> None:
    jobs = [TraceJob(2 + i, float(i), 1, duration_s=600.0) for i in range(20)]
    first, again, other = mapped(*jobs), mapped(*jobs), mapped(*jobs, seed=2)
    assert first == again
    assert [replace(a, utility=b.utility) for a, b in zip(first.bids, other.bids, strict=True)] == list(other.bids)
    assert first.bids != other.bids


def test_targets_leave_time_for_the_run_and_values_grow_with_size() -> None:
    values = Values(rate=(2.0, 2.0), stretch=(3.0, 3.0))
    small, large = mapped(
        TraceJob(2, 0.0, 1, duration_s=3600.0),
        TraceJob(3, 0.0, 4, duration_s=3600.0),
        rules=replace(MINUTE, values=values),
    ).bids
    assert small.utility.value == pytest.approx(2.0, rel=1e-4)
    assert large.utility.value == pytest.approx(8.0, rel=1e-4)
    found = mapped(TraceJob(2, 0.0, 1, duration_s=3600.0), rules=replace(MINUTE, values=values))
    assert found.targets_s["2"] == 3 * 3600 + 60
    assert found.runs_s["2"] == pytest.approx(3600, abs=0.05)


def test_an_slo_of_the_trace_is_the_target() -> None:
    found = mapped(TraceJob(2, 0.0, 1, duration_s=3600.0, slo=1.2))
    assert found.targets_s["2"] == 1.2 * 3600 + 60


def test_a_row_without_a_step_time_is_refused_by_its_line() -> None:
    known = TraceJob(1, 0.0, 1, model="a", steps=100)
    unknown, none = TraceJob(2, 0.0, 1, model="b", steps=100), TraceJob(3, 0.0, 1, duration_s=60.0)
    rules = replace(MINUTE, profiles={"a": Profile(Fraction(1))}, profile=None)
    found = mapped(known, unknown, none, rules=rules)
    assert [bid.id for bid in found.bids] == ["1"]
    assert [(row.line, row.field) for row in found.refused] == [(2, "model"), (3, "model")]


def test_a_refused_row_does_not_change_what_is_drawn_for_the_next() -> None:
    job, bad = TraceJob(3, 0.0, 1, duration_s=60.0), TraceJob(2, 0.0, 1, model="b", steps=100)
    good = replace(bad, duration_s=50.0)
    assert mapped(bad, job).bids[-1] == mapped(good, job).bids[-1]


def test_gavels_jobs_take_their_measured_throughput_on_each_gpu_type(traces: Traces) -> None:
    table = gavel.throughputs(traces.throughputs.read_text())
    profiles = measured_profiles(table, reference="v100")
    jobs = open_trace(traces.gavel_steady, TraceJob).rows
    found = mapped(*jobs, rules=replace(MINUTE, profiles=profiles, profile=None))
    assert len(found.bids) == traces.of(traces.gavel_steady)["records"]
    assert found.declared == ("epochs",)
    job, bid = jobs[0], found.bids[0]
    assert job.steps is not None
    assert bid.worker_time[0] * 60 == 1 / exact(table["v100"][job.model, 1])
    assert abs(bid.work - job.steps) <= job.gpus / 2
    with pytest.raises(InvalidField, match="reference"):
        measured_profiles(table, reference="a100")


@pytest.mark.parametrize(("traces", "path"), files_of(lambda traces: traces.shockwave))
def test_shockwaves_jobs_take_their_measured_time(traces: Traces, path: Path) -> None:
    jobs = open_trace(path, TraceJob).rows
    assert len(jobs) == traces.of(path)["records"]
    found = mapped(*jobs)
    assert len(found.bids) == len(jobs)
    assert found.declared == ("epochs",)
    by_id = {str(job.line): job for job in jobs}
    for bid in found.bids:
        job = by_id[bid.id]
        assert job.steps is not None
        assert abs(bid.work - job.steps) <= job.gpus / 2


def test_the_nearest_measurement_is_by_gpus_then_batch() -> None:
    measured = [
        StepTime(2, (1,), 32, 0.4, 0.1),
        StepTime(3, (4,), 32, 0.5, 0.2),
        StepTime(4, (2, 2), 32, 0.75, 0.25),
        StepTime(5, (4,), 128, 1.5, 0.5),
    ]
    assert [nearest(measured, gpus=gpus, batch=batch).line for gpus, batch in ((5, 40), (4, 100), (1, 1))] == [3, 5, 2]
    with pytest.raises(InvalidField, match="measured"):
        nearest([], gpus=1, batch=1)
    assert StepTimes.of(measured, batch=40).steps == ((1, 0.4, 0.1), (4, 0.5, 0.2))
    assert StepTimes.of(measured).steps == ((1, 0.4, 0.1), (4, 1.5, 0.5)), "the largest batch"
    assert StepTimes.of(measured).by_gpus()[4] == Profile(Fraction(1), Fraction(1, 2))


def test_step_times_of_one_model_stand_for_jobs_of_none_at_the_nearest_number_of_gpus(traces: Traces) -> None:
    rows = open_trace(traces.placements, StepTime).rows
    table = StepTimes.of(rows)
    assert StepTimes.from_json(json.loads(json.dumps(table.to_json()))) == table
    by_gpus = table.by_gpus()
    jobs = [TraceJob(2 + i, 0.0, gpus, duration_s=3600.0) for i, gpus in enumerate((1, 3, 500))]
    known = TraceJob(9, 0.0, 1, duration_s=3600.0, steps=7200)
    found = mapped(*jobs, known, rules=replace(MINUTE, by_gpus=by_gpus))
    near = [1, 3 if 3 in by_gpus else 4, max(by_gpus)]
    assert [bid.ps_time[0] * 60 for bid in found.bids] == [*(by_gpus[gpus].sync_s for gpus in near), 0]
    assert found.bids[0].worker_time[0] * 60 == by_gpus[1].step_s
    assert all(found.runs_s[bid.id] == pytest.approx(3600.0, rel=1e-3) for bid in found.bids)
    assert "step time" in found.declared, "which model stands for them is the study's choice"


@pytest.mark.thorough
def test_tenants_are_drawn_by_quotas_and_nothing_else_changes(traces: Traces) -> None:
    quotas = open_trace(traces.quotas, Quota).rows
    shares = shares_of(quotas)
    assert sum(shares.values()) == sum(row.gpus for row in quotas)
    assert 0 not in shares.values()
    jobs = [TraceJob(2 + i, float(i), 1, duration_s=600.0) for i in range(2000)]
    plain, drawn = mapped(*jobs), mapped(*jobs, rules=replace(MINUTE, shares=shares))
    reordered = mapped(*jobs, rules=replace(MINUTE, shares=dict(reversed(shares.items()))))
    assert drawn.bids == plain.bids
    assert drawn.tenants == reordered.tenants
    assert set(plain.tenants.values()) == {""}
    assert (plain.synthetic, drawn.synthetic) == (SYNTHETIC, (*SYNTHETIC, "tenant"))
    largest = max(shares, key=lambda tenant: shares[tenant])
    count, share = list(drawn.tenants.values()).count(largest), shares[largest] / sum(shares.values())
    assert abs(count / 2000 - share) < 4 * (share * (1 - share) / 2000) ** 0.5
    with pytest.raises(InvalidField, match="quotas"):
        shares_of([Quota(2, "2020-04-01", "a", 0)])


def test_a_worker_of_a_gpu_that_was_measured_is_as_fast_however_its_name_is_written() -> None:
    machines = machine_cluster([Machine(1, "m", "P100", 96, 512, 8), Machine(2, "n", "T4", 96, 512, 8)])
    profiles = measured_profiles({"v100": {("R", 1): 4.0}, "p100": {("R", 1): 2.0}}, reference="v100")
    job = TraceJob(1, 0.0, 1, model="R", steps=100)
    (bid,) = to_bids([job], machines, replace(MINUTE, profiles=profiles), np.random.default_rng(1)).bids
    assert [time * 60 for time in bid.worker_time] == [Fraction(1, 2), Fraction(1, 4)]


@pytest.mark.parametrize("gpus", [1, 8, 20, 160])
def test_a_cluster_has_as_many_gpus_as_asked_for(gpus: int) -> None:
    inventory = gpu_cluster(gpus)
    assert inventory.capacity[:, 0].sum() == gpus
    assert (inventory.capacity[:, 1] == PSS * inventory.capacity[:, 0]).all()
    Oasis().check(gpu_cluster(gpus, apart=True))


def test_the_machines_of_pai_host_a_worker_for_each_gpu(traces: Traces) -> None:
    machines = open_trace(traces.machines, Machine).rows
    inventory = machine_cluster(machines)
    facts = traces.of(traces.machines)
    assert len(inventory.servers) == facts["machines"]
    assert [machine.name for machine in inventory.workers] == ["MISC", "P100", "T4", "V100", "V100M32"]
    assert inventory.capacity[:, :5].sum() == facts["gpus"]
    for k, worker in enumerate(inventory.workers):
        having = inventory.capacity[inventory.capacity[:, k] > 0]
        assert (having >= having[:, k, None] * np.array(worker.demand)).all()


def test_servers_of_a_tiresias_cluster_are_so_many(traces: Traces) -> None:
    machines = open_trace(traces.nodes, Machine).rows
    inventory = machine_cluster(machines)
    nodes = traces.of(traces.nodes)["machines"]
    assert inventory.capacity[:, 0].tolist() == [4] * nodes
    assert len(set(inventory.servers)) == nodes


@pytest.mark.parametrize("field", ["slot_s", "epochs", "rate", "stretch", "gpus", "step_s", "machines"])
def test_rules_out_of_range_are_named(field: str) -> None:
    wrong: dict[str, Callable[[], object]] = {
        "slot_s": lambda: Rules(slot_s=0),
        "epochs": lambda: Rules(slot_s=60, epochs=(2, 1)),
        "rate": lambda: Values(rate=(2.0, 1.0)),
        "stretch": lambda: Values(stretch=(0.5, 1.0)),
        "gpus": lambda: gpu_cluster(0),
        "step_s": lambda: Profile(Fraction(0)),
        "machines": lambda: machine_cluster([Machine(1, "m", "CPU", 96, 512, 0)]),
    }
    with pytest.raises(InvalidField) as caught:
        wrong[field]()
    assert caught.value.field == field


def test_more_machines_than_may_be_are_refused_before_they_fill_the_memory() -> None:
    with pytest.raises(InvalidField, match="machines: expected at most 10,000, got 1,000,000,000,000"):
        machine_cluster([Machine(1, "m", "", 96, 512, 8, count=10**12)])


def test_more_types_and_counts_than_may_be_are_refused_before_they_fill_the_memory() -> None:
    with pytest.raises(InvalidField, match="machines: expected at most 50 types of GPU, got 51"):
        machine_cluster([Machine(1 + i, f"m{i}", f"T{i}", 96, 512, 8) for i in range(51)])
    with pytest.raises(InvalidField, match="step_times: expected at most 200 numbers of GPUs, got 201"):
        StepTimes.of([StepTime(2 + i, (1 + i,), 32, 0.5, 0.1) for i in range(201)])


def test_the_whole_philly_day_becomes_bids(traces: Traces) -> None:
    rows = open_trace(traces.philly_day, TraceJob).rows
    found = mapped(*rows, rules=Rules(slot_s=600))
    assert len(found.bids) == traces.of(traces.philly_day)["records"] == len({bid.id for bid in found.bids})
    assert not found.refused
    assert all(before.arrival <= after.arrival for before, after in pairwise(found.bids))
