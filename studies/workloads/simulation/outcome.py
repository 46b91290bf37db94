"""Outcome of a replay, in numbers that are checked against one another."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np

from scheduling.book.state import Job
from scheduling.model.errors import SchedulingError
from scheduling.model.progress import constellations
from scheduling.model.types import Json
from scheduling.policies.simulation import Simulation
from scheduling.preemptive.workers import TICKS
from studies.workloads.traces.mapping import TracedBids


class NotConserved(SchedulingError):
    """Raised when jobs were lost or counted twice: the policy or the loop is wrong, so no figure is valid."""


@dataclass(frozen=True)
class Conservation:
    """Number of jobs in each state: submitted = completed + rejected + running + planned."""

    submitted: int
    completed: int
    rejected: int
    running: int
    """Jobs that began and were not complete when the run stopped."""
    planned: int
    """Admitted jobs that did not begin."""
    later: int
    """Jobs not submitted when the run stopped; they do not count as submitted."""

    def __post_init__(self) -> None:
        if self.submitted != self.completed + self.rejected + self.running + self.planned:
            raise NotConserved(
                f"{self.submitted} submitted, but {self.completed} completed + {self.rejected} rejected"
                f" + {self.running} running + {self.planned} planned"
            )


@dataclass(frozen=True)
class Tenant:
    """Figures of the jobs of one tenant."""

    submitted: int
    completed: int
    mean_jct_s: float | None
    """Mean time from submission to completion, seconds."""
    slowdown: float | None
    """Mean of that time divided by the run time of the job alone on its own GPUs."""


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run, the same bytes each time. Means are over completed jobs; None if there are none."""

    jobs: Conservation
    welfare: float
    """Sum of the values of completions, money. Values of traces are synthetic."""
    revenue: float
    """Sum of the payments of admitted bids."""
    payoff: float
    """Welfare - revenue: the payoff of the bidders."""
    acceptance: float | None
    """Admitted over decided."""
    mean_jct_s: float | None
    """Mean seconds from submission to completion."""
    weighted_jct_s: float | None
    """The same, weighted by the amplitude of the job's utility."""
    p95_jct_s: float | None
    makespan_s: float | None
    """Time from the beginning of slot 0 to the last completion, seconds. The first job of a trace is submitted there;
    that of a generator may come later."""
    utilisation: Mapping[str, float]
    """Share of the unit-slots held from slot 0 to the last completion, for each resource with capacity."""
    preemptions: int
    """Number of times that a running job was stopped before completion, or a worker interrupted a chunk."""
    rescalings: int
    """Number of times that a running job changed its machines without a break, planned or not."""
    timeliness_s: float | None
    """Mean of completion - target over jobs with a target; below 0 is early."""
    on_time: float | None
    """Share of submitted jobs with a target that were complete by their target."""
    fairness: float | None
    """Jain's index of the mean slowdowns of tenants with a completed job: 1 if all are equal, 1 / tenants if one
    tenant has all the slowdown; None for fewer than two tenants."""
    starved: int
    """Tenants without a completed job: they have no slowdown and do not enter the fairness index. 0 if no tenant is
    known."""
    tenants: Mapping[str, Tenant]

    def to_json(self) -> Json:
        """Return a document of finite numbers, strings and nulls."""
        document: Json = asdict(self)
        return document


def outcome_of(run: Simulation, traced: TracedBids, *, slot_s: int) -> Outcome:
    """Measure a run of all bids of a trace.

    Raises
    ------
    NotConserved
        If a bid has no decision, or more than one, or an admitted one is neither complete nor in the book.
    """
    jobs = _conservation(run, traced)
    bids = {bid.id: bid for bid in traced.bids}
    ends = {name: job.completion for name, job in run.done.items() if job.completion is not None}
    ends_s = {name: end * slot_s for name, end in ends.items()}
    jct_s = {name: end - traced.submitted_s[name] for name, end in ends_s.items()}
    late_s = [end - traced.targets_s[name] for name, end in ends_s.items() if name in traced.targets_s]
    aimed = sum(decision.bid_id in traced.targets_s for decision in run.decisions)
    welfare = sum(bids[name].utility.at(end - bids[name].arrival) for name, end in ends.items())
    revenue = sum(decision.payment for decision in run.decisions)
    tenants = _tenants(run, traced, jct_s)
    slowdowns = [row.slowdown for row in tenants.values() if row.slowdown is not None]
    weights = [bids[name].utility.value for name in jct_s]
    times = list(jct_s.values())
    last = max(ends.values(), default=0)
    return Outcome(
        jobs=jobs,
        welfare=welfare,
        revenue=revenue,
        payoff=welfare - revenue,
        acceptance=(jobs.submitted - jobs.rejected) / jobs.submitted if jobs.submitted else None,
        mean_jct_s=_mean(times),
        weighted_jct_s=float(np.average(times, weights=weights)) if sum(weights) > 0 else None,
        p95_jct_s=float(np.quantile(times, 0.95)) if times else None,
        makespan_s=max(ends_s.values(), default=None),
        utilisation=_utilisation(run, until=last),
        preemptions=_preemptions(run),
        rescalings=sum(_rescalings(job) for job in _jobs(run)),
        timeliness_s=_mean(late_s),
        on_time=sum(late <= 0 for late in late_s) / aimed if aimed else None,
        fairness=jain(slowdowns) if len(slowdowns) > 1 else None,
        starved=sum(row.completed == 0 for name, row in tenants.items() if name),
        tenants=tenants,
    )


def jain(numbers: Iterable[float]) -> float:
    """Return Jain's index of fairness of positive numbers: (sum x)^2 / (n sum x^2)."""
    x = np.array(list(numbers), dtype=np.float64)
    return float(x.sum() ** 2 / (len(x) * (x @ x)))


def _conservation(run: Simulation, traced: TracedBids) -> Conservation:
    decided = [decision.bid_id for decision in run.decisions]
    admitted = {decision.bid_id for decision in run.decisions if decision.admitted}
    kept = [*run.done, *run.book.jobs]
    known = {bid.id for bid in traced.bids}
    if len(set(decided)) != len(decided) or not set(decided) <= known:
        raise NotConserved("a bid was decided twice, or is not of this trace")
    if len(set(kept)) != len(kept) or set(kept) != admitted:
        lost = sorted(admitted.symmetric_difference(kept))[:5]
        raise NotConserved(f"admitted jobs are not those complete or in the book: {', '.join(lost)}")
    running = sum(job.started(run.book.now) for job in run.book.jobs.values())
    return Conservation(
        submitted=len(decided),
        completed=len(run.done),
        rejected=len(decided) - len(admitted),
        running=running,
        planned=len(run.book.jobs) - running,
        later=len(traced.bids) - len(decided),
    )


def _tenants(run: Simulation, traced: TracedBids, jct_s: Mapping[str, float]) -> dict[str, Tenant]:
    names: dict[str, list[str]] = {}
    for decision in run.decisions:
        names.setdefault(traced.tenants[decision.bid_id], []).append(decision.bid_id)
    rows = {}
    for tenant, jobs in sorted(names.items()):
        done = [name for name in jobs if name in jct_s]
        slowdown = _mean([jct_s[name] / traced.runs_s[name] for name in done if name in traced.runs_s])
        rows[tenant] = Tenant(len(jobs), len(done), _mean([jct_s[name] for name in done]), slowdown)
    return rows


def _utilisation(run: Simulation, *, until: int) -> dict[str, float]:
    """Return the share held in slots [0, until) for each resource with capacity."""
    inventory = run.book.ledger.inventory
    held = np.zeros(len(inventory.resources))
    for job in _jobs(run):
        for p in job.held:
            slots = max(0, min(p.end, until) - p.start)
            held += slots * p.units(inventory)
    for segment in (segment for ran in run.book.ran for segment in ran.segments):
        ticks = max(0, min(segment.end, until * TICKS) - segment.start)
        held += ticks / TICKS * segment.count * np.array(inventory.workers[segment.type].demand)
    total = inventory.capacity.sum(axis=0) * until
    return {name: float(held[r] / total[r]) for r, name in enumerate(inventory.resources) if total[r] > 0}


def _preemptions(run: Simulation) -> int:
    """Count jobs that moves stopped, by the slots of these moves, and chunks that were interrupted."""
    jobs = {job.bid.id: job for job in _jobs(run)}
    stopped = {(slot, move.job) for slot, move in run.moves if move.job in jobs and _stopped(jobs[move.job], slot)}
    return len(stopped) + sum(len(ran.preemptions) for ran in run.book.ran)


def _stopped(job: Job, slot: int) -> bool:
    """Return whether the job held machines until this slot, holds none in it and is not complete."""
    ended = any(p.end == slot for p in job.held)
    return ended and job.completion != slot and not any(p.start <= slot < p.end for p in job.held)


def _rescalings(job: Job) -> int:
    """Count the changes of the machines that a job holds from one slot to the next without a break."""
    stretches = list(constellations(job.held))
    return sum(before[1] == after[0] for before, after in pairwise(stretches))


def _jobs(run: Simulation) -> list[Job]:
    return [*run.done.values(), *run.book.jobs.values()]


def _mean(numbers: list[float]) -> float | None:
    return float(np.mean(numbers)) if numbers else None
