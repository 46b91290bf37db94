"""The machine room of a history: virtual time, messages, and processes that faults happen to."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

import numpy as np
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections

from auctions import tasks
from auctions.domain import policy_errors, waking
from auctions.engine import claims, decide, decision_queue
from auctions.readings import certificates
from auctions.runtime import stay, task_errors
from cluster import clock
from tests.auctions.worlds import SLOT_S
from tests.histories.nodes import Node
from tests.histories.points import FAULTS, Injected, Killed, Point, Threat, clean_up, watched
from tests.histories.policies import TEXT

EPOCH: Final = datetime(2030, 1, 1, tzinfo=UTC)
DEEPEST: Final = 2
"""Largest number of processes that stand still in the middle of their work while another one runs."""
STAY: Final = {
    "LINGER_S": 15.0,
    "LONGEST_S": 200.0,
    "POLL_S": 2.0,
    "EMBEDDED_POLL_S": 2.0,
    "BATCH_EVERY_S": 3.0,
    "SLOTS_EVERY_S": 60.0,
}
"""Times of a worker's stay in a simulation, where a slot takes 100 s; there are a few looks for bids in a stay."""
TASKS: Final[dict[str, Any]] = {
    decision_queue.TASK: tasks.decide_market,
    "sweep": tasks.sweep,
    "certify": tasks.certify,
}


@dataclass
class Rates:
    """Probabilities, which each history draws."""

    fault: float
    """A process gets a fault when it begins to work."""
    lost: float
    """A message is lost."""
    twice: float
    """A message is delivered twice."""
    late: float
    """A message is delivered much later."""
    between: float
    """Another process works before a transaction begins."""

    @classmethod
    def drawn(cls, rng: np.random.Generator) -> "Rates":
        """Draw rates: some histories have many faults, and some none of a kind."""
        highest = np.array([0.5, 0.4, 0.4, 0.4, 0.2])
        return cls(*map(float, highest * rng.random(5) * (rng.random(5) < 0.8)))


@dataclass
class Running:
    """A process at work, and what may happen to it."""

    node: Node
    threat: Threat | None


@dataclass
class Simulation:
    """Virtual time in which processes of one installation work one after another, and sometimes in between."""

    rng: np.random.Generator
    rates: Rates
    now: float = 0.0
    """Time since the simulation began, seconds; it never goes back."""
    ahead: float = 0.0
    """Difference between the machine's clock and that time, seconds."""
    faults: Counter[str] = field(default_factory=Counter)
    """Number of faults that happened, by kind."""
    log: list[str] = field(default_factory=list)
    """What happened, in order."""
    unexpected: list[str] = field(default_factory=list)
    """Errors that no fault explains."""
    is_calm: bool = False
    """Whether faults are over."""
    after_step: Callable[[], object] = bool
    """Called after what happened while no process is at work."""

    def __post_init__(self) -> None:
        self.web = [Node("web-1"), Node("web-2")]
        self.workers = [Node("worker-1"), Node("worker-2")]
        self._due: list[tuple[float, int, str, Callable[[], object]]] = []
        self._scheduled = 0
        self._running: list[Running] = []
        self._claims: dict[int, str] = {}
        self._claims_hold = bool(self.rng.random() < 0.7)

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Let the project's code of the block run in this simulation."""
        wall = SimpleNamespace(now=lambda: EPOCH + timedelta(seconds=max(0.0, self.now + self.ahead)))
        monotonic = self._monotonic
        replaced: list[tuple[Any, dict[str, Any]]] = [
            (clock, {"timezone": wall}),
            (waking, {"carry": self._publish, "monotonic": monotonic}),
            (stay, {"monotonic": monotonic, "sleep": self._rest, **STAY}),
            (claims, {"take": self._take, "release": self._release}),
            (decide, {"perf_counter": monotonic}),
            (decision_queue, {"perf_counter": monotonic, "LARGEST_BATCH": int(self.rng.integers(1, 9))}),
            (certificates, {"perf_counter": monotonic, "thread_time": monotonic}),
            (settings, {"WAITING_BIDS": int(self.rng.choice([4, 1000]))}),
        ]
        with ExitStack() as stack:
            for target, values in replaced:
                stack.enter_context(patch.multiple(target, **values))
            for module in (task_errors, policy_errors):
                stack.enter_context(self._errors_kept(module.log))
            stack.enter_context(watched(self._reach))
            yield

    def at(self, delay: float, what: str, run: Callable[[], object]) -> None:
        """Let something happen after this time, seconds."""
        self._scheduled += 1
        heappush(self._due, (self.now + delay, self._scheduled, what, run))

    def step(self) -> bool:
        """Let the next thing happen; False if nothing is left."""
        if not self._due:
            return False
        at, _, what, run = heappop(self._due)
        self.now = max(self.now, at)
        self.log.append(f"{self.now:8.1f} {'  ' * len(self._running)}{what}")
        run()
        if not self._running:
            self.after_step()
        return True

    def run_in(self, node: Node, work: Callable[[], Any], *, refusals: tuple[type[Exception], ...] = ()) -> Any:
        """Let a process work; return the result, a refusal, Killed if it died, or Injected if its database failed."""
        running = Running(node, self._threat())
        kinds: tuple[type[Exception], ...] = (Injected, *refusals)
        self._running.append(running)
        with node.running():
            try:
                result = work()
            except Killed as killed:
                result = killed
            except kinds as error:
                result = error
            finally:
                self._running.pop()
        if running.threat is not None and running.threat.happened:
            clean_up(is_killed=isinstance(result, Killed))
            self.faults[str(running.threat)] += 1
            self.log.append(f"{'':8} {'  ' * len(self._running)}{node.name}: {running.threat}")
        if isinstance(result, Killed):
            node.restart()
            self._claims = {market: by for market, by in self._claims.items() if by != node.name}
        return result

    def free(self, nodes: Sequence[Node]) -> Node | None:
        """Return a process that does nothing now, None without one."""
        found = [node for node in nodes if not node.is_busy]
        return found[int(self.rng.integers(len(found)))] if found else None

    def send(self, task: str, *arguments: int) -> None:
        """Send a message to the workers: it may be lost, come late or twice."""
        if self.is_calm:
            self.at(0.01, f"{task}{arguments}", lambda: self._deliver(task, arguments))
            return
        lost, twice, late = self.rng.random(3) < (self.rates.lost, self.rates.twice, self.rates.late)
        if lost:
            self.faults["message lost"] += 1
            return
        for again in range(1 + int(twice)):
            self.faults["message repeated"] += again
            self.faults["message late"] += int(late)
            delay = float(self.rng.uniform(0, 4 * SLOT_S)) if late else 0.01 + again
            self.at(delay, f"{task}{arguments}", lambda: self._deliver(task, arguments))

    def _deliver(self, task: str, arguments: tuple[int, ...]) -> None:
        worker = self.free(self.workers)
        if worker is None:
            self.at(1.0, f"{task}{arguments} again", lambda: self._deliver(task, arguments))
            return
        result = self.run_in(worker, lambda: TASKS[task].run(*arguments))
        if isinstance(result, Killed):
            # Celery delivers a task of a lost worker again if the broker still has it.
            for number in range(int(self.rng.integers(3))):
                self.faults["task delivered again"] += 1
                self.at(float(self.rng.uniform(0, SLOT_S)) * number, task, lambda: self._deliver(task, arguments))
        elif isinstance(result, Injected):
            self.unexpected.append(f"{task} raised {result!r}")

    def _publish(self, task: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        self.send(task, *arguments)

    def _threat(self) -> Threat | None:
        if self.is_calm or self.rng.random() >= self.rates.fault:
            return None
        fault, point, most = FAULTS[int(self.rng.integers(len(FAULTS)))]
        # Early points are more frequent than late ones: short runs pass few.
        return Threat(fault, point, int(most * self.rng.random() ** 2))

    def _reach(self, point: Point) -> None:
        """Let a fault happen, or another process work, at a point of the process at work."""
        if not self._running:
            return
        if point is Point.BEGIN:
            self._work_between()
        threat = self._running[-1].threat
        if threat is not None:
            threat.reach(point)

    def _work_between(self) -> None:
        connection: Any = connections[DEFAULT_DB_ALIAS]
        may = connection.transaction_mode == "IMMEDIATE" and len(self._running) <= DEEPEST and not self.is_calm
        if may and self._due and self.rng.random() < self.rates.between:
            self.faults["other process between"] += 1
            self.step()

    def _monotonic(self) -> float:
        self.now += 1e-6  # so that no loop with an end in time is endless
        return self.now

    def _rest(self, seconds: float) -> None:
        """Let this time pass for a worker that rests; others work meanwhile."""
        until = self.now + seconds
        while self._due and self._due[0][0] <= until and len(self._running) <= DEEPEST:
            self.step()
        self.now = max(self.now, until)

    def _take(self, market_id: int) -> bool:
        """Take the claim on a market; in some histories claims do not exclude others, and decisions are as right."""
        me = self._running[-1].node.name
        if not self._claims_hold:
            return True
        return self._claims.setdefault(market_id, me) == me

    def _release(self, market_id: int) -> None:
        if self._running and self._claims.get(market_id) == self._running[-1].node.name:
            del self._claims[market_id]

    @contextmanager
    def _errors_kept(self, log: logging.Logger) -> Iterator[None]:
        """Note each logged error that is neither a fault nor a failure that the policy was made to have."""
        handler = logging.Handler(logging.ERROR)
        handler.emit = self._note_error  # type: ignore[method-assign]
        log.addHandler(handler)
        was, log.propagate = log.propagate, False
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.propagate = was

    def _note_error(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, Injected) and TEXT not in str(error):
            self.unexpected.append(f"{record.getMessage()}: {error!r}")
