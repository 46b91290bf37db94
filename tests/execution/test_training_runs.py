"""Admitted jobs really train: the example trainer on `local` and on `slurm`, in slots of some seconds.

All jobs of an engine run at the same time, in a market for each policy, and the tests look at what they left.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.db.models import F, QuerySet
from django.test import override_settings
from pytest_django import DjangoDbBlocker

from auctions.domain.bid_conversion import policy_in_force
from auctions.engine import decision_queue, slots
from auctions.engine.markets import open_market
from auctions.engine.servers import drain_server
from auctions.engine.submission import submit_bid
from auctions.history.audit import audit_market
from auctions.models import Bid, BidState, Commitment, Market
from auctions.state import book
from cluster.models import Capacity
from execution.engines import small_slurm
from execution.engines.files import FilesEngine
from execution.executor import Executor, engine_of
from execution.models import Checkpoint, Ending, Execution, Generation, Process, Training, TrainingState
from scheduling.policies.base import Objective
from tests.auctions.worlds import body, make_user
from tests.execution import examples
from tests.execution.benches import LIVES
from tests.execution.clusters import OF_TRAINER, executing_cluster
from tests.execution.leftovers import adopted, below, program_of
from tests.execution.promises import assert_ran_as_held
from tests.processes import wait_until
from tests.rows import taken_back

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.clocked]

SLOT_S = {"local": 7.0, "slurm": 8.0}
"""Slurm starts a program a second after it was submitted. Ten jobs start at once beside other tests, so it is long."""
GRACE_S = 1.4
STEP_S = 0.17
UNITS = {"dps": 4, "weighted_completion": 4, "oasis": 2, "preemptive": 2}
"""Room of a server: in some markets jobs have to make way for others."""
RING = {"architecture": "ring", "reduce_step_s": 0.01}
STEPS = 60
"""Steps of the jobs that are compared: with two workers they take more than a slot."""
SAME = ("undisturbed", "killed", "moved")
"""Jobs with the same steps, seed and number of workers."""
ENDLESS = 100_000
BATCH = 96
"""Samples of a step of the trainer."""


@dataclass
class Runs:
    """The markets of one engine, and what ran."""

    markets: dict[str, Market]
    bids: dict[str, Bid] = field(default_factory=dict)
    """Bids by the names that the tests have for their jobs."""
    left: frozenset[int] = frozenset()
    """Processes that are still there although all jobs are over."""

    def __post_init__(self) -> None:
        self.owner = make_user()
        self.executor = Executor("test", engine_of)

    def submit(self, name: str, policy: str, *, steps: int, epochs: int, **changes: Any) -> None:
        market = self.markets[policy]
        asked = body(100.0, epochs=epochs, program={"name": "train", "steps": steps}, **changes)
        if policy_in_force(market.cluster).objective is not Objective.WELFARE:
            del asked["utility"]
            asked["weight"] = 1
        self.bids[name] = submit_bid(cluster=market.cluster, owner=self.owner, body=asked).bid
        decision_queue.process_pending(market.pk)

    def until(self, what: Callable[[], bool], *, seconds: float = 120.0) -> None:
        """Let the markets and the executor go on until something holds."""

        def holds() -> bool:
            for market in self.markets.values():
                slots.pass_slots(market.pk)
            self.executor.once()
            return what()

        wait_until(holds, what="what the test waits for", seconds=seconds, every=0.1)

    def slot(self) -> float:
        cluster = self.markets["dps"].cluster
        return (time.time() - cluster.epoch.timestamp()) / cluster.slot_seconds

    def training(self, name: str) -> Training:
        return Training.objects.select_related("bid__market__cluster").get(bid=self.bids[name])

    def generations(self, name: str) -> list[Generation]:
        return list(self.training(name).generations.order_by("number"))

    def is_over(self) -> bool:
        done = Training.objects.filter(state__in=("finished", "stopped", "failed"))
        return done.count() == len(self.bids) and not Generation.objects.exclude(state="ended").exists()

    def last_checkpoint(self, name: str) -> Path:
        newest = max(self.generations(name)[-1].checkpoints.all(), key=lambda one: one.step)
        return Path(newest.path)


@pytest.fixture(scope="module", params=SLOT_S)
def runs(
    request: pytest.FixtureRequest,
    django_db_setup: None,
    django_db_blocker: DjangoDbBlocker,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Runs]:
    """Jobs under four policies that have run to their ends: one of them was killed, one moved, one rescaled."""
    slurm = request.getfixturevalue("slurm_configuration") if request.param == "slurm" else None
    book.forget()
    place = override_settings(EXECUTION_DIR=tmp_path_factory.mktemp("execution"))
    with django_db_blocker.unblock(), taken_back(), place, adopted():
        before = below()
        markets = {}
        for number, (policy, units) in enumerate(UNITS.items()):
            cluster = executing_cluster(
                policy.replace("_", "-"),
                slot_s=SLOT_S[request.param],
                grace_s=GRACE_S,
                step_s=STEP_S,
                slurm=slurm,
                units=units,
                loopback=10 * (1 + (slurm is not None)) + number,
            )
            if policy == "oasis":  # workers and parameter servers on servers of their own
                here = Capacity.objects.filter(server__cluster=cluster)
                here.filter(server__name="edge-2", resource__name="gpu").update(amount=0)
                here.exclude(server__name="edge-2").filter(resource__name="ps").update(amount=0)
            markets[policy] = open_market(cluster, policy=policy, parameters={})
        found = Runs(markets)
        try:
            run_all(found)
            found.left = wait_for_end(before)
            yield found
        finally:
            for execution in Execution.objects.all():
                engine = found.executor.engine(execution)
                for key, seen in engine.list().items():
                    if seen.phase in LIVES:
                        engine.kill(key)
    book.forget()


def run_all(runs: Runs) -> None:
    """Run all jobs to their ends."""
    runs.submit("not done", "dps", steps=ENDLESS, epochs=3)
    runs.submit("ring", "weighted_completion", steps=30, epochs=3, **RING)
    for name in SAME:
        runs.submit(name, "weighted_completion", steps=STEPS, epochs=5)
    for name in ("rescaled", "rescaled, too"):
        runs.submit(name, "oasis", steps=ENDLESS, epochs=2)
    for name in ("queued", "queued second", "queued third"):
        runs.submit(name, "preemptive", steps=ENDLESS, epochs=2)
    runs.until(lambda: Checkpoint.objects.filter(generation__training__bid=runs.bids["killed"]).exists())
    worker = Process.objects.filter(generation__training__bid=runs.bids["killed"], role="worker").latest("rank")
    engine = runs.executor.engine(runs.markets["weighted_completion"].cluster.execution)
    assert isinstance(engine, FilesEngine)
    os.kill(program_of(engine.files.live.parent, worker.key), signal.SIGKILL)
    runs.until(lambda: runs.slot() > 1.5)
    runs.submit("preempting", "preemptive", steps=ENDLESS, epochs=1)
    server = Commitment.objects.filter(bid=runs.bids["moved"]).latest("pk").server
    drain_server(server, deadline=int(runs.slot()) + 1, reason="a test", by=None)
    runs.until(runs.is_over)
    for bid in runs.bids.values():
        bid.refresh_from_db()


def wait_for_end(before: frozenset[int]) -> frozenset[int]:
    """Wait a little for shims and Slurm's watchers of jobs, which end by themselves; what is there still."""
    deadline = time.monotonic() + 5
    while (left := below(leave=before) - before) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def test_what_runs_when_and_where_is_what_bids_hold(runs: Runs) -> None:
    for bid in runs.bids.values():
        assert_ran_as_held(bid)
    roles = Process.objects.filter(generation__training__bid=runs.bids["not done"]).values_list("role", flat=True)
    assert set(roles) == {"worker", "ps"}
    assert runs.left == frozenset()
    for market in runs.markets.values():
        assert [finding for finding in audit_market(market) if finding.rows] == []


@pytest.mark.parametrize("runs", ["slurm"], indirect=True)
def test_slurm_ran_each_process_on_its_server(runs: Runs, slurm_configuration: Path) -> None:
    """Slurm knows its jobs for some minutes after their ends."""
    environment = {"PATH": small_slurm.SYSTEM, "SLURM_CONF": str(slurm_configuration)}
    command = ["scontrol", "show", "jobs", "--oneliner"]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    jobs = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in said.splitlines()]
    nodes = {job["JobName"]: job["NodeList"] for job in jobs}
    rows = Process.objects.exclude(started_at=None).select_related("server__cluster")
    servers = {f"{row.server.cluster.name}-{row.key}": row.server.name for row in rows}
    assert len(servers) > 20
    assert {name: nodes.get(name) for name in servers} == servers


ALTERED: dict[str, Callable[[Bid], object]] = {
    "commitments are a slot earlier": lambda bid: bid.commitments.update(start=F("start") - 1, end=F("end") - 1),
    "commitments are a slot longer": lambda bid: bid.commitments.update(end=F("end") + 1),
    "commitments are a slot shorter": lambda bid: bid.commitments.update(end=F("end") - 1),
    "one more is held": lambda bid: bid.commitments.filter(machine_type__role="worker").update(count=F("count") + 1),
    "one more has run": lambda bid: bid.commitments.filter(machine_type__role="worker").update(count=F("count") - 1),
    "it ran elsewhere": lambda bid: one_of(bid).update(server=bid.market.cluster.servers.get(name="edge-2")),
    "it was of another role": lambda bid: one_of(bid).update(role="ps"),
    "it ended half a slot earlier": lambda bid: one_of(bid).update(ended_slot=F("ended_slot") - 0.5),
    "it ended half a slot later": lambda bid: one_of(bid).update(ended_slot=F("ended_slot") + 0.5),
}


def one_of(bid: Bid) -> QuerySet[Process]:
    """A worker of a bid."""
    return Process.objects.filter(generation__training__bid=bid, role="worker", rank=1)


@pytest.mark.parametrize("name", ALTERED)
def test_the_check_finds_what_is_not_as_held(runs: Runs, name: str) -> None:
    bid = runs.bids["not done"]
    ALTERED[name](bid)
    with pytest.raises(AssertionError, match="expected"):
        assert_ran_as_held(bid)


def test_losses_fall_and_jobs_that_are_done_end_early(runs: Runs) -> None:
    for name in ("ring", "undisturbed", "killed", "moved"):
        bid, training = runs.bids[name], runs.training(name)
        assert (training.state, training.step) == (TrainingState.FINISHED, training.steps), training.reason
        assert bid.state == BidState.COMPLETED
        assert bid.ended_slot is not None
        assert bid.completion_slot is not None
        assert bid.ended_slot < bid.completion_slot, name
    for name in runs.bids:
        losses = [loss for one in runs.generations(name) for _, loss in points(one)]
        assert losses[-1] < losses[0], name


def points(generation: Generation) -> list[tuple[int, float]]:
    """Steps that a generation reported, with their losses."""
    rows = generation.progress.order_by("step").values_list("step", "loss")
    return [(step, loss) for step, loss in rows if loss is not None]


def test_jobs_that_are_not_done_are_stopped_with_a_checkpoint_when_their_promise_is_over(runs: Runs) -> None:
    for name in ("not done", "rescaled", "queued", "preempting"):
        training, last = runs.training(name), runs.generations(name)[-1]
        assert training.state == TrainingState.STOPPED
        assert training.reason.startswith("0% done: step ")
        assert last.ending == Ending.PROMISE_OVER
        assert last.checkpoints.filter(step=training.step).exists()


def test_a_job_goes_on_where_it_was_when_its_machines_change(runs: Runs) -> None:
    for name, ending in (("moved", Ending.CHANGED), ("rescaled", Ending.CHANGED), ("queued", Ending.PROMISE_OVER)):
        generations = runs.generations(name)
        assert generations[0].ending == ending, name
        for earlier, later in pairwise(generations):
            assert points(later)[0][0] == points(earlier)[-1][0] + 1, f"{name}: work was lost that a checkpoint had"


def test_a_killed_or_moved_job_ends_with_the_weights_of_one_that_was_neither(runs: Runs) -> None:
    assert [one.ending for one in runs.generations("undisturbed")] == [Ending.FINISHED]
    assert next(one.ending for one in runs.generations("killed")) == Ending.FAULT
    assert [one.ending for one in runs.generations("moved")] == [Ending.CHANGED, Ending.FINISHED]
    worlds = {one.processes.filter(role="worker").count() for name in SAME for one in runs.generations(name)}
    assert worlds == {2}
    undisturbed, *others = [runs.last_checkpoint(name) for name in SAME]
    assert undisturbed.name == f"step-{STEPS}"
    for other in others:
        assert (other / "weights.npy").read_bytes() == (undisturbed / "weights.npy").read_bytes()


def test_a_rescaled_job_ends_with_the_weights_of_one_that_was_not_up_to_rounding(runs: Runs, tmp_path: Path) -> None:
    """All have seen the same samples; with other worlds, gradients are added in another order."""
    worlds = [one.processes.filter(role="worker").count() for one in runs.generations("rescaled")]
    assert len(set(worlds)) > 1
    for name in (*SAME, "rescaled"):
        folder = runs.last_checkpoint(name)
        assert json.loads((folder / "state.json").read_text())["samples"] == BATCH * runs.training(name).step
    steps = runs.training("rescaled").step
    with examples.started(tmp_path / "alone", *OF_TRAINER, workers=1, steps=steps) as alone:
        assert alone.codes() == [0], alone.said()
    rescaled = np.load(runs.last_checkpoint("rescaled") / "weights.npy")
    np.testing.assert_allclose(rescaled, examples.weights(tmp_path / "alone"), rtol=1e-9, atol=1e-12)
