"""Admitted jobs really train: the example trainer on this machine, in slots of some seconds."""

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from auctions.domain.bid_conversion import policy_in_force
from auctions.engine import decision_queue, slots
from auctions.engine.markets import open_market
from auctions.engine.submission import submit_bid
from auctions.history.audit import audit_market
from auctions.models import Bid, BidState, Commitment, Market
from auctions.state import book
from cluster.models import ClockKind, Cluster, ModelProfile, Server, StepTime
from execution.executor import Executor, engine_of
from execution.models import Ending, Execution, Generation, Process, Program, Training, TrainingState
from scheduling.policies.base import Objective
from tests.auctions.test_outages import apart
from tests.auctions.worlds import SLOT_S, body, make_cluster, make_user
from tests.processes import ROOT, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

SECONDS = 3
"""Length of a slot; the clusters of other tests have slots of 100 s."""


@pytest.fixture
def executing(settings: Any, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster with slots of some seconds, whose jobs run the example trainer."""
    book.forget()
    settings.EXECUTION_DIR = tmp_path / "files of jobs"
    cluster = make_cluster(servers=3)
    cluster.clock_kind, cluster.slot_seconds, cluster.epoch = ClockKind.REAL, SECONDS, timezone.now()
    cluster.save()
    for step in StepTime.objects.all():
        step.seconds *= SECONDS / SLOT_S
        step.save()
    Server.objects.update(upload_delay_s=F("upload_delay_s") * SECONDS / SLOT_S)
    ModelProfile.objects.update(gradient_mb=0.1)
    Execution.objects.create(cluster=cluster, grace_s=0.8)
    command = [sys.executable, str(ROOT / "examples" / "train.py"), "--step-s", "0.1", "--hidden", "32"]
    Program.objects.create(
        cluster=cluster,
        name="train",
        arguments=command,
        working_directory=str(tmp_path),
        environment={"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    yield cluster
    engine = engine_of(Execution.objects.get())
    for key in engine.list():
        engine.kill(key)


class Running:
    """A market whose jobs run while the test looks at them."""

    def __init__(self, cluster: Cluster, policy: str, **parameters: Any) -> None:
        if policy == "oasis":
            apart(cluster)
        self.market: Market = open_market(cluster, policy=policy, parameters=parameters)
        self.owner = make_user()
        self.executor = Executor("test", engine_of)
        self.engine = self.executor.engine(Execution.objects.get())
        self.outside: list[str] = []

    def submit(self, *, steps: int, epochs: int = 1, **changes: Any) -> Bid:
        asked = body(100.0, epochs=epochs, program={"name": "train", "steps": steps}, **changes)
        if policy_in_force(self.market.cluster).objective is not Objective.WELFARE:
            del asked["utility"]
            asked["weight"] = 1
        bid = submit_bid(cluster=self.market.cluster, owner=self.owner, body=asked).bid
        decision_queue.process_pending(self.market.pk)
        bid.refresh_from_db()
        return bid

    def once(self) -> None:
        slots.pass_slots(self.market.pk)
        self.executor.once()

    def until(self, what: Any, *, seconds: float = 60.0) -> None:
        """Let the market and the executor go on until something holds."""

        def holds() -> bool:
            self.once()
            return bool(what())

        wait_until(holds, what="what the test waits for", seconds=seconds, every=0.2)

    def is_over(self, bid: Bid) -> bool:
        found = Training.objects.filter(bid=bid).first()
        return found is not None and found.state in ("finished", "stopped", "failed")


def losses(bid: Bid) -> list[float]:
    rows = Generation.objects.filter(training__bid=bid, progress__loss__isnull=False)
    found = rows.order_by("progress__step").values_list("progress__loss", flat=True)
    return [loss for loss in found if loss is not None]


RING = {"architecture": "ring", "reduce_step_s": 0.01}


@pytest.mark.parametrize(
    ("policy", "changes"), [("dps", {}), ("weighted_completion", {}), ("weighted_completion", RING)]
)
def test_a_job_trains_on_its_machines_and_ends_early(executing: Cluster, policy: str, changes: dict[str, Any]) -> None:
    market = Running(executing, policy)
    bid = market.submit(steps=15, epochs=3, **changes)
    market.until(lambda: market.is_over(bid))
    training = Training.objects.get(bid=bid)
    assert (training.state, training.step) == (TrainingState.FINISHED, 15), training.reason
    assert losses(bid)[-1] < losses(bid)[0]
    [generation] = training.generations.all()
    assert generation.ending == Ending.FINISHED
    assert placed(generation) == held_in(bid, generation.slot)
    bid.refresh_from_db()
    assert bid.state == BidState.COMPLETED
    market.until(lambda: not market.engine.list(), seconds=10)
    assert [finding for finding in audit_market(market.market) if finding.rows] == []


def placed(generation: Generation) -> list[tuple[int, int]]:
    """Return the server and the machine type of each process."""
    return sorted(generation.processes.values_list("server_id", "machine_type_id"))


def held_in(bid: Bid, slot: int) -> list[tuple[int, int]]:
    """Return the server and the type of each machine that a bid held in a slot."""
    rows = Commitment.objects.filter(bid=bid, start__lte=slot, end__gt=slot)
    return sorted((row.server_id, row.machine_type_id) for row in rows for _ in range(row.count))


@pytest.mark.parametrize("policy", ["oasis", "preemptive"])
def test_jobs_whose_machines_change_go_on_where_they_were(executing: Cluster, policy: str) -> None:
    """Under OASiS a job may have other machines in each slot; from queues, a job of fewer chunks takes its workers."""
    market = Running(executing, policy)
    bids = [market.submit(steps=100_000, epochs=epochs) for epochs in (4, 4, 4)]
    market.until(lambda: Generation.objects.count() > 1)
    bids += [market.submit(steps=100_000, epochs=epochs) for epochs in (1,)]
    ran = [bid for bid in bids if bid.state != BidState.REJECTED]
    market.until(lambda: all(market.is_over(bid) for bid in ran), seconds=120)
    for bid in ran:
        generations = list(Generation.objects.filter(training__bid=bid).order_by("number"))
        steps = [list(one.progress.order_by("step").values_list("step", flat=True)) for one in generations]
        for earlier, later in pairwise(steps):
            if earlier and later:
                assert later[0] > earlier[-1] - 1, "work was lost that a checkpoint had"
        if policy == "oasis":
            for one in generations:
                assert placed(one) == held_in(bid, one.slot)
    assert Generation.objects.filter(ending__in=("fault", "lost")).count() == 0, reasons()
    assert any(Generation.objects.filter(training__bid=bid).count() > 1 for bid in ran)
    assert [finding for finding in audit_market(market.market) if finding.rows] == []


def reasons() -> list[str]:
    return list(Process.objects.exclude(reason="").values_list("reason", flat=True))


def test_a_job_that_is_not_done_is_stopped_with_a_checkpoint_when_its_promise_is_over(executing: Cluster) -> None:
    market = Running(executing, "dps")
    bid = market.submit(steps=100_000)
    market.until(lambda: market.is_over(bid))
    training = Training.objects.get(bid=bid)
    assert training.state == TrainingState.STOPPED
    assert training.reason.startswith("0% done: step ")
    [generation] = training.generations.all()
    assert generation.ending == Ending.PROMISE_OVER
    assert generation.checkpoints.get(step=training.step).step > 5
    end = executing.epoch.timestamp() + SECONDS * (bid.completion_slot or 0)
    assert all(process.ended_at.timestamp() <= end + 0.5 for process in Process.objects.all() if process.ended_at)


def test_a_killed_worker_restarts_its_job_from_the_newest_checkpoint(executing: Cluster) -> None:
    market = Running(executing, "dps")
    bid = market.submit(steps=60, epochs=4)
    market.until(lambda: losses(bid))
    training = Training.objects.get(bid=bid)
    key = Process.objects.filter(role="worker").latest("rank").key
    market.until(lambda: training.generations.get(number=0).checkpoints.exists())
    market.engine.kill(key)
    market.until(lambda: market.is_over(bid))
    training.refresh_from_db()
    assert (training.state, training.step) == (TrainingState.FINISHED, 60), training.reason
    first, second = training.generations.all()
    assert first.ending == Ending.FAULT
    assert second.resumed_from is not None
    assert second.progress.earliest("step").step > 0
