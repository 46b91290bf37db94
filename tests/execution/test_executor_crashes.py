"""An executor that is killed between any two writes and calls, with faults of processes and servers: nothing runs
twice, nothing runs outside what its bid holds, nothing is left running, and each exit is recorded once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from auctions.domain.errors import WrongState
from auctions.engine import jobs
from auctions.history.audit import audit_market
from auctions.models import Bid, BidState
from auctions.state import book
from auctions.state.market_snapshot import one_version
from execution import defects, lease, records
from execution.capacity import room_of
from execution.engines.base import Phase
from execution.executor import Executor
from execution.models import Generation, GenerationState, Process, ProcessState
from execution.wanted import held_by_promise, held_in_queues, timeline, wanted_now
from tests import draws
from tests.execution.worlds import World, make_world

pytestmark = pytest.mark.django_db(transaction=True)

CALLS = ("launch", "list", "stop", "kill", "hold", "log", "retire")
POLICIES = ("dps", "oasis", "drf", "weighted_completion", "preemptive", "srtf")


class Killed(BaseException):
    """The executor's process ends here; nothing catches it."""


class Killer:
    """Kills the executor at the n-th place where it could die: before and after each commit and each call."""

    def __init__(self) -> None:
        self.left = 0
        self.kills = 0

    def place(self) -> None:
        if self.left:
            self.left -= 1
            if not self.left:
                self.kills += 1
                raise Killed

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **more: Any) -> Any:
            self.place()
            result = call(*args, **more)
            self.place()
            return result

        return wrapped

    @contextmanager
    def fenced(self, fence: int) -> Iterator[None]:
        self.place()
        with lease.fenced(fence):
            yield
            self.place()  # before the commit: rolled back
        self.place()


class Machine:
    """Random moves, and what holds after each."""

    def __init__(self, world: World, rng: np.random.Generator, killer: Killer) -> None:
        self.world, self.rng, self.killer = world, rng, killer
        self.number = 0
        self.executor = self.next_executor()
        self.former: list[Executor] = []
        self.moves: tuple[Callable[[], None], ...] = (
            self.submit,
            self.go,
            self.go,
            self.go,
            self.exit,
            self.lose,
            self.freeze,
            self.cancel,
            self.refuse,
        )

    def next_executor(self) -> Executor:
        self.number += 1
        return self.world.executor(f"executor {self.number}")

    def submit(self) -> None:
        if Bid.objects.filter(state__in=(BidState.PLANNED, BidState.RUNNING)).count() < 6:
            self.world.submit(float(self.rng.uniform(20, 200)), epochs=int(self.rng.integers(1, 6)))

    def go(self) -> None:
        """Let time pass; the executor may be killed, and an earlier one may go on as if nothing had happened."""
        if self.rng.random() < 0.6:
            self.killer.left = int(self.rng.integers(1, 25))
        try:
            self.world.go(float(self.rng.uniform(1, 40)), executor=self.executor, every=float(self.rng.uniform(1, 6)))
        except Killed:
            self.former.append(self.executor)
            self.world.wall[0] += lease.LASTS_S
            self.executor = self.next_executor()
            assert self.executor.once()
            assert not self.former[-1].once()
        finally:
            self.killer.left = 0

    def exit(self) -> None:
        if alive := self.world.engine.alive():
            code = int(self.rng.choice([0, 1, 143, 137]))
            self.world.engine.exit(str(self.rng.choice(list(alive))), code, output=b"bye\n")

    def lose(self) -> None:
        if alive := self.world.engine.alive():
            self.world.engine.lose(str(self.rng.choice(list(alive))))

    def freeze(self) -> None:
        if alive := self.world.engine.alive():
            one = self.world.engine.processes[str(self.rng.choice(list(alive)))]
            one.frozen = not one.frozen

    def cancel(self) -> None:
        bid = Bid.objects.filter(state__in=(BidState.PLANNED, BidState.RUNNING)).order_by("pk").first()
        if bid is not None and self.rng.random() < 0.4:
            with suppress(WrongState):
                jobs.cancel_job(bid)

    def refuse(self) -> None:
        self.world.engine.refuses = {"edge-0"} if self.rng.random() < 0.5 else set()

    def move(self) -> None:
        self.moves[int(self.rng.integers(len(self.moves)))]()
        self.check()

    def check(self) -> None:
        """What holds at any time, also while no executor runs."""
        engine, market = self.world.engine, self.world.market
        engine.pass_time()
        alive = engine.alive()
        rows = {one.key: one for one in Process.objects.select_related("generation", "server")}
        generations = {rows[key].generation_id for key in alive}
        trainings = list(Generation.objects.filter(pk__in=generations).values_list("training_id", flat=True))
        assert len(trainings) == len(set(trainings)), "two live generations of a job"
        for key in alive:
            assert engine.processes[key].until > self.world.now, "a process outlives its machines"
        with one_version():
            room = room_of(market)
        for server, units in room.capacity.items():
            used = np.zeros(len(units), dtype=int)
            for key in alive:
                row = rows[key]
                if row.server_id == server:
                    used += np.array(room.demands[row.role, row.machine_type_id])
            assert (used <= units).all(), "more runs on a server than it has"

    def settle(self) -> None:
        """Nothing more happens: what runs is what is wanted, and at last nothing."""
        engine = self.world.engine
        engine.refuses = set()
        for one in engine.processes.values():
            one.frozen = False
        self.world.go(60, executor=self.executor, every=2)
        self.check()
        self.compare()
        bids = Bid.objects.filter(state__in=(BidState.PLANNED, BidState.RUNNING))
        for bid in bids:
            with suppress(WrongState):
                jobs.cancel_job(bid)
        self.world.go(40, executor=self.executor, every=2)
        assert engine.alive() == []
        assert not Generation.objects.exclude(state=GenerationState.ENDED).exists()
        exited = {key: one.seen for key, one in engine.processes.items()}
        for row in Process.objects.all():
            seen = exited.get(row.key)
            if seen is None:
                assert row.state == ProcessState.LOST
            else:
                assert (row.state == ProcessState.EXITED) == (seen.phase is Phase.EXITED)
                assert row.code == seen.code
        assert set(exited) <= set(Process.objects.values_list("key", flat=True))
        assert len(engine.launches) == len(set(engine.launches)), "a process was started twice"
        assert [finding for finding in audit_market(self.world.market) if finding.rows] == []

    def compare(self) -> None:
        """What runs is what the bids hold, unless a job waits after a failure or its slots are about to end.

        Workers that ended with success leave the others to end, too.
        """
        market, engine = self.world.market, self.world.engine
        time_ = timeline(market.cluster)
        wanted = wanted_now(held_by_promise(market, time_) + held_in_queues(market, time_), time_)
        running: dict[int, list[tuple[str, int, int]]] = {}
        alive = Process.objects.filter(key__in=engine.alive())
        done = Process.objects.filter(generation__in=alive.values("generation"), code=0)
        for row in (alive | done).select_related("generation__training"):
            place = row.role, row.server_id, row.machine_type_id
            running.setdefault(row.generation.training.bid_id, []).append(place)
        for bid, places in running.items():
            held = [(role, server, kind) for role, server, kind, count in wanted[bid].allocation for _ in range(count)]
            assert sorted(places) == sorted(held)


def unexpected(message: str, *about: object, exc_info: Exception) -> None:
    """Let the executor die of an error that it would log, before it tries again."""
    raise AssertionError(message % about) from exc_info


@pytest.mark.soak
@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_runs_twice_or_outside_its_slots_whenever_the_executor_is_killed(
    policy: str, monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    book.forget()
    world = make_world(monkeypatch, settings, tmp_path, policy=policy)
    killer = Killer()
    for module in (records, defects):
        monkeypatch.setattr(module, "fenced", killer.fenced)
    for name in CALLS:
        monkeypatch.setattr(world.engine, name, killer.around(getattr(world.engine, name)))
    monkeypatch.setattr(defects.log, "error", unexpected)
    world.go(1)
    machine = Machine(world, np.random.default_rng(draws.fresh_seed()), killer)
    for _ in range(draws.rounds(25, longer=32)):
        machine.move()
    machine.settle()
