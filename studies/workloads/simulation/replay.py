"""The one loop again, watched: each decision timed, and everything counted at the end."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter, process_time

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.policies.simulation import Simulation
from studies.workloads.simulation.outcome import Outcome, outcome_of
from studies.workloads.traces.mapping import TracedBids

Progress = Callable[[int, int], None]
"""Told how many bids are decided and how many there are."""
LONGEST_HORIZON = 20_000
"""Slots: beyond that a ledger of a large cluster fills the memory."""


@dataclass(frozen=True)
class Plan:
    """How a trace is replayed."""

    slot_s: int
    horizon: int
    """Slots from now on that can be planned; a job that cannot be complete in them is impossible."""
    drain: int = 10
    """Horizons after the last arrival at which the run stops, even if jobs are left."""

    def __post_init__(self) -> None:
        for name, high in (("slot_s", 10**9), ("horizon", LONGEST_HORIZON), ("drain", 10**6)):
            if not 1 <= getattr(self, name) <= high:
                raise InvalidField(name, f"expected 1 to {high}, got {getattr(self, name)}")


@dataclass(frozen=True)
class Timing:
    """How fast it went: this differs from run to run."""

    decisions_ms: tuple[float | None, float | None, float | None]
    """p50, p95 and p99 of deciding a bid and entering it in the book, by the clock on the wall."""
    cpu_s: float
    """Of the process, for the whole loop: decisions, plans, completions."""
    jobs_per_cpu_s: float | None
    """Decided."""

    def to_json(self) -> Json:
        """A document of finite numbers and nulls."""
        p50, p95, p99 = self.decisions_ms
        document: Json = asdict(self)
        return document | {"decisions_ms": {"p50": p50, "p95": p95, "p99": p99}}


@dataclass(frozen=True)
class Replayed:
    """What came of it, and how fast."""

    outcome: Outcome
    timing: Timing


def replay(
    traced: TracedBids, policy: Policy, inventory: Inventory, plan: Plan, *, progress: Progress | None = None
) -> Replayed:
    """Run all bids of a trace, in order of arrival, through a policy, and let slots pass until all is complete.

    Raises
    ------
    InvalidField
        If the policy cannot run on these servers, or not jobs of this architecture.
    NotConserved
        If jobs were lost: the policy is wrong.
    """
    policy.check(inventory)
    for bid in traced.bids:
        if bid.architecture not in policy.architectures:
            raise InvalidField("architecture", f"{policy.name} runs no jobs of kind {bid.architecture}")
    run = Simulation(policy, RunningBook(Ledger(inventory, start=0, slots=plan.horizon)))
    last = traced.bids[-1].arrival if traced.bids else 0
    until = last + plan.drain * plan.horizon
    waits = []
    began_cpu = process_time()
    for number, bid in enumerate(traced.bids, 1):
        run.advance(bid.arrival)
        began = perf_counter()
        run.arrive(bid)
        waits.append(perf_counter() - began)
        if progress is not None:
            progress(number, len(traced.bids))
    while run.book.jobs and run.book.now < until:
        run.advance(run.book.now + 1)
    cpu_s = process_time() - began_cpu
    return Replayed(outcome_of(run, traced, slot_s=plan.slot_s), _timing(waits, cpu_s))


def horizon_for(traced: TracedBids, *, slot_s: int, times: float = 2.0, most: int | None = LONGEST_HORIZON) -> int:
    """Slots of the longest run, on its own GPUs, `times` over; at most `most`, as a plan allows no more by default."""
    longest = max(traced.runs_s.values(), default=0.0)
    wanted = max(1, math.ceil(times * longest / slot_s))
    return wanted if most is None else min(most, wanted)


def _timing(waits: list[float], cpu_s: float) -> Timing:
    if not waits:
        return Timing((None, None, None), cpu_s, None)
    p50, p95, p99 = (1e3 * float(np.quantile(waits, share)) for share in (0.5, 0.95, 0.99))
    return Timing((p50, p95, p99), cpu_s, len(waits) / cpu_s if cpu_s > 0 else None)
