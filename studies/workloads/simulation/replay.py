"""Replays: the common simulation loop, with each decision timed and all jobs counted at the end."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import process_time

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.book.running import RunningBook
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory
from scheduling.model.types import Json
from scheduling.policies.base import Policy
from scheduling.policies.posted_price import PostedPricePolicy
from scheduling.policies.simulation import Simulation
from scheduling.policies.standing import StandingRule, rule_for
from studies.workloads.simulation.outcome import Outcome, outcome_of
from studies.workloads.traces.mapping import TracedBids

Progress = Callable[[int, int], None]
"""Called with the number of decided bids and the number of all bids."""
LONGEST_HORIZON = 20_000
"""Largest horizon, slots: a longer ledger of a large cluster would fill the memory."""


@dataclass(frozen=True)
class ReplayParameters:
    """Parameters of a replay."""

    slot_s: int
    horizon: int
    """Number of slots from now on that can be planned; a job that needs more is impossible."""
    drain: int = 10
    """Horizons after the last arrival at which the run stops, even if jobs are left."""

    def __post_init__(self) -> None:
        for name, high in (("slot_s", 10**9), ("horizon", LONGEST_HORIZON), ("drain", 10**6)):
            if not 1 <= getattr(self, name) <= high:
                raise InvalidField(name, f"expected 1 to {high}, got {getattr(self, name)}")


@dataclass(frozen=True)
class Timing:
    """Computation times, which differ from run to run."""

    decisions_ms: tuple[float | None, float | None, float | None]
    """p50, p95 and p99 of the processor time of a decision and its entry in the book."""
    cpu_s: float
    """CPU-seconds of the process for the whole loop: decisions, plans, completions."""
    jobs_per_cpu_s: float | None
    """Decided jobs per CPU-second."""
    between_ms: float | None
    """Processor time for each bid in which slots pass: plans, completions, retries of standing bids."""

    def to_json(self) -> Json:
        """Return a document of finite numbers and nulls."""
        p50, p95, p99 = self.decisions_ms
        document: Json = asdict(self)
        del document["between_ms"]
        return document | {"decisions_ms": {"p50": p50, "p95": p95, "p99": p99}}


@dataclass(frozen=True)
class Replayed:
    """The outcome of a replay and its computation times."""

    outcome: Outcome
    timing: Timing
    standing: StandingRule | None = None
    """The rule by which rejected bids were tried again; None if rejections were final."""


def live_rule(policy: Policy) -> StandingRule | None:
    """Return the rule by which bids stand in live markets under this policy; None if it posts no prices."""
    return rule_for(policy) if isinstance(policy, PostedPricePolicy) else None


def replay(
    traced: TracedBids,
    policy: Policy,
    inventory: Inventory,
    plan: ReplayParameters,
    *,
    progress: Progress | None = None,
    standing: StandingRule | None = None,
) -> Replayed:
    """Run all bids of a trace through a policy as `run_trace` does, and measure the outcome.

    Raises
    ------
    InvalidField
        If the policy cannot run on these servers, or cannot run jobs of this architecture.
    NotConserved
        If jobs were lost: the policy is wrong.
    """
    run, timing = run_trace(traced, policy, inventory, plan, progress=progress, standing=standing)
    return Replayed(outcome_of(run, traced, slot_s=plan.slot_s), timing, standing)


def run_trace(
    traced: TracedBids,
    policy: Policy,
    inventory: Inventory,
    plan: ReplayParameters,
    *,
    progress: Progress | None = None,
    standing: StandingRule | None = None,
) -> tuple[Simulation, Timing]:
    """Run all bids of a trace, in order of arrival, through a policy, and let slots pass until all is complete.

    Raises
    ------
    InvalidField
        If the policy cannot run on these servers, or cannot run jobs of this architecture.
    """
    policy.check(inventory)
    for bid in traced.bids:
        if bid.architecture not in policy.architectures:
            raise InvalidField(
                "architecture", f"expected jobs of an architecture that {policy.name} runs, got {bid.architecture}"
            )
    run = Simulation(policy, RunningBook(Ledger(inventory, start=0, slots=plan.horizon)), rule=standing)
    last = traced.bids[-1].arrival if traced.bids else 0
    until = last + plan.drain * plan.horizon
    waits = []
    began_all = process_time()
    for number, bid in enumerate(traced.bids, 1):
        run.advance(bid.arrival)
        began = process_time()
        run.arrive(bid)
        waits.append(process_time() - began)
        if progress is not None:
            progress(number, len(traced.bids))
    while (run.book.jobs or run.standing) and run.book.now < until:
        run.advance(run.book.now + 1)
    return run, _timing(waits, process_time() - began_all)


def horizon_for(traced: TracedBids, *, slot_s: int, most: int | None = LONGEST_HORIZON) -> int:
    """Return twice the slots of the longest run on its own GPUs, at most `most`, the default limit of a plan."""
    longest = max(traced.runs_s.values(), default=0.0)
    wanted = max(1, math.ceil(2.0 * longest / slot_s))
    return wanted if most is None else min(most, wanted)


def _timing(waits: list[float], cpu_s: float) -> Timing:
    if not waits:
        return Timing((None, None, None), cpu_s, None, None)
    p50, p95, p99 = (1e3 * float(np.quantile(waits, share)) for share in (0.5, 0.95, 0.99))
    between_ms = 1e3 * (cpu_s - sum(waits)) / len(waits)
    return Timing((p50, p95, p99), cpu_s, len(waits) / cpu_s if cpu_s > 0 else None, between_ms)
