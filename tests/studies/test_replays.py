"""A replay counts every job, measures what can be checked by hand, and gives the same outcome each time."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from cluster.documents import import_cluster
from cluster.traces.formats import open_trace
from cluster.traces.records import TraceJob
from demo.clusters.gpu_servers import gpu_servers_document
from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.model.bid import Architecture
from scheduling.model.decision import canonical
from scheduling.model.errors import InvalidField
from scheduling.policies.base import Policy
from scheduling.policies.baselines.fifo import Fifo
from scheduling.policies.dps import Dps
from scheduling.policies.simulation import Simulation
from scheduling.policies.standing import StandingRule
from scheduling.registry import POLICIES, make_policy
from studies.workloads.simulation.outcome import Conservation, NotConserved, jain, outcome_of
from studies.workloads.simulation.reach import Reach
from studies.workloads.simulation.replay import LONGEST_HORIZON, Replayed, ReplayParameters, horizon_for, replay
from studies.workloads.traces.machines import gpu_cluster
from studies.workloads.traces.mapping import Rules, TracedBids, to_bids
from tests.forks import ROOT
from tests.traces import OWN, Traces

SLOT_S = 600


def bids_of(jobs: Sequence[TraceJob], *, gpus: int = 1, apart: bool = False, slot_s: int = SLOT_S) -> TracedBids:
    return to_bids(jobs, gpu_cluster(gpus, apart=apart), Rules(slot_s=slot_s), np.random.default_rng(1))


def replayed(
    jobs: Sequence[TraceJob], policy: Policy, *, gpus: int = 1, apart: bool = False, slot_s: int = SLOT_S
) -> Replayed:
    traced = bids_of(jobs, gpus=gpus, apart=apart, slot_s=slot_s)
    plan = ReplayParameters(slot_s, horizon_for(traced, slot_s=slot_s))
    return replay(traced, policy, gpu_cluster(gpus, apart=apart), plan)


def two_jobs() -> list[TraceJob]:
    """Both need the one GPU for two slots, a little less for what rounding adds."""
    return [
        TraceJob(2, 0.0, 1, duration_s=1190.0, tenant="a"),
        TraceJob(3, 300.0, 1, duration_s=1190.0, tenant="b"),
    ]


def test_two_jobs_in_line_are_measured_as_by_hand() -> None:
    outcome = replayed(two_jobs(), Fifo()).outcome
    assert outcome.jobs == Conservation(submitted=2, completed=2, rejected=0, running=0, planned=0, later=0)
    # In slots [0, 2) and [2, 4): complete after 1200 s and 2400 s, the second one submitted at 300 s.
    assert outcome.makespan_s == 2400
    assert outcome.mean_jct_s == (1200 + 2100) / 2
    assert outcome.p95_jct_s == pytest.approx(1200 + 0.95 * 900)
    assert outcome.utilisation["gpu"] == 1.0
    assert outcome.revenue == 0
    assert outcome.payoff == outcome.welfare > 0
    assert outcome.acceptance == 1.0
    assert (outcome.preemptions, outcome.rescalings) == (0, 0)
    assert outcome.tenants["a"].slowdown == pytest.approx(1200 / 1190, rel=1e-3)
    assert outcome.tenants["b"].slowdown == pytest.approx(2100 / 1190, rel=1e-3)
    assert outcome.fairness == pytest.approx(jain([1200, 2100]), rel=1e-6)
    assert outcome.starved == 0


def test_a_tenant_of_whose_jobs_none_is_done_is_reported_beside_the_fairness_of_the_others() -> None:
    traced = bids_of([*two_jobs(), TraceJob(4, 600.0, 1, duration_s=9000.0, tenant="c")])
    outcome = replay(traced, Fifo(), gpu_cluster(1), ReplayParameters(SLOT_S, 10)).outcome
    assert outcome.jobs.rejected == 1, "it is longer than the horizon"
    assert outcome.fairness == pytest.approx(jain([1200, 2100]), rel=1e-6)
    assert outcome.starved == 1


def test_makespan_and_utilisation_count_from_slot_0_also_if_the_first_job_comes_later() -> None:
    traced = bids_of(two_jobs())
    later = replace(
        traced,
        bids=tuple(replace(bid, arrival=bid.arrival + 2) for bid in traced.bids),
        submitted_s={name: at + 2 * SLOT_S for name, at in traced.submitted_s.items()},
    )
    outcome = replay(later, Fifo(), gpu_cluster(1), ReplayParameters(SLOT_S, 10)).outcome
    assert outcome.makespan_s == 6 * SLOT_S, "in slots [2, 4) and [4, 6)"
    assert outcome.utilisation["gpu"] == 4 / 6
    assert outcome.mean_jct_s == (1200 + 2100) / 2


def test_a_job_stopped_for_a_shorter_one_is_a_preemption() -> None:
    jobs = [TraceJob(2, 0.0, 1, duration_s=6000.0), TraceJob(3, 600.0, 1, duration_s=590.0)]
    outcome = replayed(jobs, make_policy("srtf", {})).outcome
    assert outcome.jobs.completed == 2
    assert outcome.preemptions == 1
    assert replayed(jobs, Fifo()).outcome.preemptions == 0


def test_a_chunk_left_in_the_middle_is_a_preemption() -> None:
    jobs = [TraceJob(2, 0.0, 1, duration_s=6000.0), TraceJob(3, 600.0, 1, duration_s=590.0)]
    outcome = replayed(jobs, make_policy("preemptive", {})).outcome
    assert outcome.jobs.completed == 2
    assert outcome.preemptions == 1
    assert 0.9 < outcome.utilisation["gpu"] <= 1


def test_bidders_keep_what_they_do_not_pay(traces: Traces) -> None:
    rows = open_trace(traces.philly_day, TraceJob).rows[:150]
    outcome = replayed(rows, Dps(), gpus=4).outcome
    assert outcome.revenue > 0
    assert outcome.payoff == pytest.approx(outcome.welfare - outcome.revenue)
    assert 0 < outcome.jobs.rejected < 150


@pytest.mark.thorough
@pytest.mark.parametrize("name", POLICIES)
def test_the_same_run_gives_the_same_outcome(name: str, traces: Traces) -> None:
    rows = open_trace(traces.philly_day, TraceJob).rows[:40]
    first, second = (replayed(rows, make_policy(name, {}), gpus=8, apart=name == "oasis").outcome for _ in range(2))
    assert canonical(first.to_json()) == canonical(second.to_json())


def test_jobs_that_are_left_are_running_or_waiting_and_those_to_come_are_later() -> None:
    traced = bids_of([*two_jobs(), TraceJob(4, 9e5, 1, duration_s=60.0)])
    run = Simulation(Fifo(), RunningBook(Ledger(gpu_cluster(1), start=0, slots=10)))
    for bid in traced.bids[:2]:
        run.advance(bid.arrival)
        run.arrive(bid)
    outcome = outcome_of(run, traced, slot_s=SLOT_S)
    assert outcome.jobs == Conservation(submitted=2, completed=0, rejected=0, running=1, planned=1, later=1)
    assert (outcome.mean_jct_s, outcome.makespan_s, outcome.timeliness_s, outcome.fairness) == (None, None, None, None)
    assert outcome.on_time == 0


def test_a_lost_job_is_an_error() -> None:
    traced = bids_of(two_jobs())
    run = Simulation(Fifo(), RunningBook(Ledger(gpu_cluster(1), start=0, slots=10)))
    run.arrive(traced.bids[0])
    del run.book.jobs["2"]
    with pytest.raises(NotConserved, match="2"):
        outcome_of(run, traced, slot_s=SLOT_S)
    run.decisions *= 2
    with pytest.raises(NotConserved, match="twice"):
        outcome_of(run, traced, slot_s=SLOT_S)
    with pytest.raises(NotConserved, match="3 submitted"):
        Conservation(submitted=3, completed=1, rejected=1, running=0, planned=0, later=0)


def test_an_empty_trace_has_no_means() -> None:
    found = replayed([], Fifo())
    assert found.outcome.jobs.submitted == 0
    assert found.outcome.acceptance is None
    assert found.timing.jobs_per_cpu_s is None
    json.dumps(found.timing.to_json(), allow_nan=False)


def test_a_policy_that_cannot_run_the_jobs_is_refused() -> None:
    traced = bids_of(two_jobs())
    ring = replace(traced, bids=tuple(replace(bid, architecture=Architecture.RING) for bid in traced.bids))
    with pytest.raises(InvalidField, match="ring"):
        replay(ring, Dps(), gpu_cluster(1), ReplayParameters(SLOT_S, 10))
    with pytest.raises(InvalidField, match="apart"):
        replay(traced, make_policy("oasis", {}), gpu_cluster(1), ReplayParameters(SLOT_S, 10))
    with pytest.raises(InvalidField, match="horizon"):
        ReplayParameters(SLOT_S, 0)


def test_progress_is_reported_for_each_bid() -> None:
    reported: list[tuple[int, int]] = []
    traced = bids_of(two_jobs())
    replay(
        traced,
        Fifo(),
        gpu_cluster(1),
        ReplayParameters(SLOT_S, 10),
        progress=lambda done, all_: reported.append((done, all_)),
    )
    assert reported == [(1, 2), (2, 2)]


def command(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("replay", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_the_command_prints_a_table_that_says_what_is_synthetic(traces: Traces) -> None:
    out, err = command(str(traces.philly_day), "--gpus", "16", "--jobs", "30")
    assert "30 = 30 completed + 0 rejected + 0 running + 0 planned" in out
    tenants = {line.rpartition(",")[2] for line in traces.philly_day.read_text().splitlines()[1:31]}
    assert f"; 0 of {len(tenants)} tenants have no completed job" in out
    assert "values synthetic, arrivals/sizes real (seed 1)" in out
    assert err == ""


def test_rejected_bids_stand_as_in_a_live_market_unless_rejections_are_final(traces: Traces) -> None:
    arguments = [str(traces.philly_day), "--gpus=16", "--jobs=60", "--json"]
    by_policy = {
        name: [json.loads(command(*arguments, f"--policy={name}", *final)[0]) for final in ([], ["--final"])]
        for name in ("dps", "fifo")
    }
    standing, final = by_policy["dps"]
    assert (standing["standing"], final["standing"]) == (StandingRule().to_json(), None)
    assert standing["outcome"]["jobs"]["rejected"] < final["outcome"]["jobs"]["rejected"]
    assert [document["standing"] for document in by_policy["fifo"]] == [None, None]
    assert by_policy["fifo"][0]["outcome"] == by_policy["fifo"][1]["outcome"]
    table = [command(*arguments[:-1], "--policy=dps", *more)[0] for more in ([], ["--final"])]
    assert "stand: tried again every 4 slots" in table[0]
    assert "are not tried again" in table[1]


def test_the_document_is_the_same_but_for_the_timing(traces: Traces) -> None:
    arguments = (str(traces.philly_day), "--gpus", "16", "--jobs", "30", "--policy", "dps", "--json")
    first, second = (json.loads(command(*arguments)[0]) for _ in range(2))
    assert first.pop("timing").keys() == second.pop("timing").keys()
    assert first == second
    assert first["trace"]["sha256"] == open_trace(traces.philly_day, TraceJob).sha256
    assert first["policy"]["name"] == "dps"
    assert first["synthetic"] == ["value", "decay", "target"]


def test_the_command_reports_malformed_lines_and_parameters_reach_the_policy(tmp_path: Path) -> None:
    path = tmp_path / "small.csv"
    path.write_text("timestamp,duration,num_gpus,gpu_time,cluster\nx\n2017-10-01 00:00:00,60.0,1,60.0,a\n")
    out, err = command(str(path), "--gpus", "1", "--set", "blocking=false", "--json")
    assert "small.csv line 2: line: expected 5 cells, got 1" in err
    document = json.loads(out)
    assert document["policy"]["parameters"]["blocking"] is False
    assert [row["line"] for row in document["malformed"]] == [2]


def test_jobs_that_take_longer_than_can_be_planned_are_counted() -> None:
    traced = bids_of([*two_jobs(), TraceJob(4, 600.0, 1, duration_s=7000.0)])
    assert Reach.of(traced, ReplayParameters(SLOT_S, horizon=24)).warning == "", "twice the longest"
    short = Reach.of(traced, ReplayParameters(SLOT_S, horizon=11))
    assert (short.beyond, short.is_cut) == (1, False)
    assert "1 of 3 jobs take longer even alone and are rejected" in short.warning
    assert Reach.of(traced, ReplayParameters(SLOT_S, horizon=1)).beyond == 3


def test_slots_too_short_for_the_longest_run_are_reported_with_slots_that_are_not() -> None:
    traced = bids_of([*two_jobs(), TraceJob(4, 0.0, 1, duration_s=40_000.0)], slot_s=1)
    reach = Reach.of(traced, ReplayParameters(1, horizon_for(traced, slot_s=1)))
    assert (reach.plan.horizon, reach.beyond, reach.is_cut) == (LONGEST_HORIZON, 1, True)
    assert "20,000 slots of 1 s ahead (5.6 h), as far as may be" in reach.warning
    assert "Slots of at least 4 s reach twice the longest run" in reach.warning
    longer = bids_of([TraceJob(4, 0.0, 1, duration_s=40_000.0)], slot_s=4)
    few = bids_of([TraceJob(4, 0.0, 1, duration_s=15_000.0)], slot_s=1)
    assert "None of 1 jobs takes longer alone" in Reach.of(few, ReplayParameters(1, LONGEST_HORIZON)).warning
    assert Reach.of(longer, ReplayParameters(4, horizon_for(longer, slot_s=4))).warning == ""


def test_the_command_warns_of_a_horizon_that_is_too_short(traces: Traces) -> None:
    arguments = (str(traces.philly_day), "--gpus", "16", "--jobs", "30", "--horizon", "1")
    out, err = command(*arguments)
    assert "WARNING" in out
    assert "jobs take longer even alone and are rejected" in err
    document = json.loads(command(*arguments, "--json")[0])
    assert document["outcome"]["jobs"]["rejected"] >= document["reach"]["beyond"] > 20


def test_gavels_trace_needs_its_throughputs(traces: Traces) -> None:
    path, table = traces.gavel_few, traces.throughputs
    reported = StringIO()
    with pytest.raises(
        CommandError,
        match="that can become a job, got none; line 1: model: expected a model with a measured",
    ) as caught:
        call_command("replay", str(path), "--gpus", "16", "--json", stderr=reported)
    assert caught.value.returncode == 2
    assert reported.getvalue().count("expected a model with a measured step time") == 15
    out, err = command(str(path), "--gpus", "16", "--throughputs", str(table), "--json")
    assert json.loads(out)["outcome"]["jobs"]["completed"] == 15
    assert err == ""


def test_throughputs_that_are_no_text_are_refused_by_their_file(tmp_path: Path, traces: Traces) -> None:
    table = tmp_path / "table.json"
    table.write_bytes(b"\xff")
    with pytest.raises(CommandError, match=r"table\.json: expected UTF-8, got other bytes in the first line"):
        command(str(traces.philly_day), "--gpus", "1", "--throughputs", str(table))


def test_the_machines_that_a_trace_lists_are_servers(tmp_path: Path, traces: Traces) -> None:
    machines = tmp_path / "machines.csv"
    machines.write_text("m1,V100,96,512,8\nm2,V100,96,lots,8\nm3,CPU,64,512,0\nm4,T4,96,512,2\n")
    arguments = (str(traces.philly_day), "--jobs", "20", "--json")
    out, err = command(*arguments, "--machines", str(machines))
    assert err.startswith("machines.csv line 2: cap_mem: expected a whole number, got 'lots'")
    document = json.loads(out)
    assert document["cluster"] == "machines.csv"
    assert document["outcome"]["jobs"]["completed"] == 20
    assert set(document["outcome"]["utilisation"]) == {"gpu-V100", "gpu-T4", "vcpu", "memory_gb"}
    out, _ = command(str(traces.tiresias), "--machines", str(traces.nodes), "--policy", "tiresias_l")
    assert "60 = 60 completed" in out


def test_quotas_draw_tenants_and_step_times_of_one_model_stand_for_what_no_line_says(traces: Traces) -> None:
    jobs = str(traces.tiresias)
    out, _ = command(jobs, "--gpus", "64", "--quotas", str(traces.quotas))
    assert "values and tenants synthetic, arrivals/sizes real (seed 1)" in out
    assert "(tenants synthetic)" in out
    steps = str(traces.scalability)
    few = (str(traces.philly_day), "--gpus", "16", "--jobs", "30", "--json")
    plain, measured = (json.loads(command(*few, *more)[0]) for more in ((), ("--step-times", steps)))
    assert plain["declared"] == measured["declared"] == ["epochs", "step time"]
    assert plain["outcome"]["jobs"] == measured["outcome"]["jobs"]
    assert plain["outcome"]["welfare"] != measured["outcome"]["welfare"], "whole mini-batches of another length"


def test_a_plan_that_no_memory_holds_is_refused_with_slots_that_would_do(traces: Traces) -> None:
    words = "for 20,000 slots, 1,250 servers and 2 resources; choose slots of at least 1,500 s, or a shorter"
    with pytest.raises(CommandError, match=words) as caught:
        command(str(traces.philly_day), "--gpus", "10000", "--horizon", "20000")
    assert caught.value.returncode == 2


@pytest.mark.django_db
def test_a_cluster_of_the_installation_gives_servers_slots_and_horizon(traces: Traces) -> None:
    import_cluster(gpu_servers_document(np.random.default_rng(1), name="lab"))
    out, _ = command(str(traces.philly_day), "--cluster", "lab", "--jobs", "30", "--json")
    document = json.loads(out)
    assert document["plan"]["slot_s"] == 3600
    assert document["outcome"]["jobs"]["submitted"] == 30
    assert set(document["outcome"]["utilisation"]) == {"gpu", "vcpu", "bandwidth"}
    with pytest.raises(CommandError, match="apart: expected no value with a cluster, got true"):
        command(str(traces.philly_day), "--cluster", "lab", "--apart")


DAY = str(OWN.philly_day)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("nowhere.csv", "--gpus", "1"), "nowhere.csv"),
        ((str(OWN.root / "README.md"), "--gpus", "1"), "expected a file of a known format"),
        ((DAY, "--gpus", "0"), "gpus"),
        ((DAY, "--gpus", "1", "--policy", "best"), "unknown policy"),
        ((DAY, "--gpus", "1", "--set", "blocking"), "NAME=VALUE"),
        ((DAY, "--gpus", "1", "--set", "blocking=maybe"), "blocking"),
        ((DAY, "--gpus", "1", "--set", "seed=1", "--set", "seed=2"), "expected each name once, got seed twice"),
        ((DAY, "--gpus", "1", "--throughputs", str(OWN.root)), "directory"),
        ((DAY, "--gpus", "1", "--slot", "0"), "slot_s"),
        ((DAY, "--gpus", "1", "--policy", "oasis"), "apart"),
        ((DAY, "--gpus", "1", "--seed", "-1"), "seed"),
        ((DAY, "--cluster", "nowhere"), "nowhere"),
        ((DAY, "--machines", DAY), "expected a file with machines, got one with jobs"),
        ((DAY, "--machines", "nowhere.csv"), "nowhere.csv"),
        (
            (DAY, "--gpus", "1", "--step-times", str(OWN.throughputs)),
            "expected step times of a model that the trace names",
        ),
        ((DAY, "--gpus", "1", "--step-times", DAY), "step_times or throughputs"),
        ((DAY, "--gpus", "1", "--batch", "8"), "expected no batch without --step-times"),
        (
            (DAY, "--gpus", "1", "--quotas", str(OWN.quotas)),
            "quotas: expected no quotas with a trace that names tenants",
        ),
        ((DAY, "--gpus", "1", "--quotas", DAY), "expected a file with quotas"),
    ],
)
def test_wrong_input_is_reported_in_one_line(arguments: tuple[Any, ...], word: str) -> None:
    with pytest.raises(CommandError, match=word) as caught:
        command(*arguments)
    assert caught.value.returncode == 2
    assert "\n" not in str(caught.value)


WITH_CTRL_C = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, sys.orig_argv[:1] +"
    " sys.argv[1:])"
)
"""Runs a command that heeds Ctrl-C, also where these tests run in the background of a shell, which ignores it."""


def test_ctrl_c_ends_the_command_without_a_traceback(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "trace.csv")
    replay = ["manage.py", "replay", str(tmp_path / "trace.csv"), "--gpus", "8"]
    env = os.environ | {"SHADOWPRICE_VAR": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, "-c", WITH_CTRL_C, *replay], cwd=ROOT, env=env, stderr=subprocess.PIPE, text=True
    )
    with process, (tmp_path / "trace.csv").open("w"):  # once the command reads
        for _ in range(6):  # a signal just before a read begins leaves the read waiting
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)
                break
        else:
            process.kill()
        _, error = process.communicate()
    assert (process.returncode, error) == (-signal.SIGINT, "")


def test_a_command_whose_reader_has_ended_ends_without_a_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "manage.py", "version"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    process.stdout.close()  # as `head` does when it has its lines
    _, error = process.communicate()
    assert (process.returncode, error) == (1, "")
