"""A cluster in real time on a wall clock that the test moves, with a market, a program and a fake engine."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import User

from auctions.domain.bid_conversion import policy_in_force
from auctions.engine import decision_queue, slots
from auctions.engine.markets import open_market
from auctions.engine.submission import submit_bid
from auctions.models import Bid, Market
from cluster import clock
from cluster.models import ClockKind
from execution.executor import Executor
from execution.models import Execution, Program, Training
from scheduling.policies.base import Objective
from tests.auctions.test_outages import apart
from tests.auctions.worlds import SLOT_S, body, make_cluster, make_user
from tests.execution.fake_engine import FakeEngine

BEGIN_S = 1_800_000_000.0


@dataclass
class World:
    """Everything that a test of the executor moves and looks at."""

    market: Market
    wall: list[float]
    owner: User
    engine: FakeEngine
    executors: list[Executor] = field(default_factory=list)

    @property
    def by_weight(self) -> bool:
        """Whether bids state a weight instead of a value."""
        return policy_in_force(self.market.cluster).objective is not Objective.WELFARE

    @property
    def now(self) -> float:
        return self.wall[0]

    @property
    def slot(self) -> float:
        return (self.now - BEGIN_S) / SLOT_S

    def executor(self, holder: str = "one") -> Executor:
        return Executor(holder, lambda _: self.engine, now=lambda: self.wall[0], tick=lambda: self.wall[0])

    def go(self, seconds: float, *, executor: Executor | None = None, every: float | None = None) -> None:
        """Move the wall clock, and let the market and the executor do what is due every few seconds.

        Unless the test says otherwise these are 5 within a slot, where a job is stopped and started again in several
        rounds of the executor, and 10 for a slot or more.
        """
        executor = executor or self.executor()
        every = every or (5.0 if seconds < SLOT_S else 10.0)
        end = self.now + seconds
        while self.now < end:
            self.wall[0] = min(end, self.now + every)
            slots.pass_slots(self.market.pk)
            decision_queue.process_pending(self.market.pk)
            executor.once()

    def submit(self, value: float = 100.0, *, steps: int | None = None, **changes: Any) -> Bid:
        """Submit and decide a bid that names the program."""
        asked = body(value, program={"name": "train", "arguments": ["--fast"]}, **changes)
        if steps is not None:
            asked["program"]["steps"] = steps
        if self.by_weight:
            del asked["utility"]
            asked["weight"] = 1
        bid = submit_bid(cluster=self.market.cluster, owner=self.owner, body=asked).bid
        decision_queue.process_pending(self.market.pk)
        bid.refresh_from_db()
        return bid

    def training(self, bid: Bid) -> Training:
        return Training.objects.get(bid=bid)


def make_world(
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    tmp_path: Path,
    *,
    policy: str = "dps",
    parameters: dict[str, Any] | None = None,
) -> World:
    """Make it; a slot lasts 100 s, the grace is 10 s."""
    settings.EXECUTION_DIR = tmp_path / "execution"
    wall = [BEGIN_S]
    monkeypatch.setattr(clock, "timezone", SimpleNamespace(now=lambda: datetime.fromtimestamp(wall[0], UTC)))
    made = make_cluster(servers=3 if policy == "oasis" else 2)
    if policy == "oasis":
        apart(made)
    made.clock_kind, made.epoch = ClockKind.REAL, datetime.fromtimestamp(BEGIN_S, UTC)
    made.save()
    market = open_market(made, policy=policy, parameters=parameters or {})
    Execution.objects.create(cluster=made, grace_s=10.0, allow_root=True)
    Program.objects.create(cluster=made, name="train", arguments=["python3", "train.py"], working_directory="/")
    return World(market, wall, make_user("alice"), FakeEngine(lambda: wall[0]))
