"""The figures by which policies are compared, and their means over seeds with intervals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduling.model.types import Json
from studies.experiments.intervals import half_width

ROUNDING: Final = 1e-12
"""Figures that are equal but for rounding differ by less than this share of them, after sums over many jobs, too."""


@dataclass(frozen=True)
class Ran:
    """The data of a completed run that metrics read."""

    facts: Json
    """Facts about its workload."""
    outcome: Json
    timing: Json
    bound: float | None
    """Upper bound on welfare for its workload and seed; None if it was not computed."""


@dataclass(frozen=True)
class Metric:
    """One figure of a run."""

    title: str
    unit: str
    """Unit of the figure; empty for a plain number or a share."""
    read: Callable[[Ran], float | None]
    better: str = ""
    """`more` or `less`; empty if neither is better."""
    synthetic: bool = False
    """Whether it depends on values or targets, which are drawn from the seed."""
    of_tenants: bool = False
    """Whether it depends on the tenants of jobs, which may be drawn, too."""
    exact: bool = True
    """Whether repeating the run gives the same figure."""
    share: bool = False
    """Whether it is a share of one."""


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its t interval."""

    n: int
    """Number of seeds that have a figure."""
    mean: float
    half: float | None
    """Half of the interval's width; None for a single seed."""

    @property
    def low(self) -> float | None:
        """Lower end of the interval."""
        return None if self.half is None else self.mean - self.half

    @property
    def high(self) -> float | None:
        """Upper end of the interval."""
        return None if self.half is None else self.mean + self.half


def interval(numbers: Sequence[float]) -> Interval | None:
    """Return the mean and the two-sided 95 % t interval of independent figures; None if there are no figures.

    A width that is below ROUNDING of the largest figure is 0.
    """
    if not numbers:
        return None
    mean, half = float(np.mean(numbers)), half_width(np.array(numbers, dtype=np.float64))
    if half is None:
        return Interval(len(numbers), mean, None)
    return Interval(len(numbers), mean, 0.0 if half <= ROUNDING * max(map(abs, numbers)) else float(half))


def _of(name: str) -> Callable[[Ran], float | None]:
    return lambda ran: ran.outcome[name]


def _hours(name: str) -> Callable[[Ran], float | None]:
    return lambda ran: None if ran.outcome[name] is None else ran.outcome[name] / 3600


def _jobs(name: str) -> Callable[[Ran], float | None]:
    return lambda ran: ran.outcome["jobs"][name]


def _decision(name: str) -> Callable[[Ran], float | None]:
    return lambda ran: ran.timing["decisions_ms"][name]


def _ratio(ran: Ran) -> float | None:
    """Return welfare divided by its upper bound."""
    return ran.outcome["welfare"] / ran.bound if ran.bound else None


def _utilisation(ran: Ran) -> float | None:
    """Return the mean utilisation of the resources that workers take."""
    shares = ran.outcome["utilisation"]
    taken = [shares[name] for name in ran.facts["worker_resources"] if name in shares]
    return float(np.mean(taken)) if taken else None


METRICS: Final[Mapping[str, Metric]] = {
    "welfare": Metric("Welfare", "money", _of("welfare"), "more", synthetic=True),
    "ratio": Metric("Welfare over the bound", "", _ratio, "more", synthetic=True, share=True),
    "payoff": Metric("Bidders' payoff", "money", _of("payoff"), "more", synthetic=True),
    "revenue": Metric("Revenue", "money", _of("revenue"), synthetic=True),
    "acceptance": Metric("Acceptance", "", _of("acceptance"), share=True),
    "completed": Metric("Jobs completed", "jobs", _jobs("completed"), "more"),
    "rejected": Metric("Jobs rejected", "jobs", _jobs("rejected")),
    "unfinished": Metric(
        "Jobs running or planned at the end",
        "jobs",
        lambda ran: ran.outcome["jobs"]["running"] + ran.outcome["jobs"]["planned"],
        "less",
    ),
    "mean_jct": Metric("JCT, mean", "h", _hours("mean_jct_s"), "less"),
    "weighted_jct": Metric("JCT, weighted by value", "h", _hours("weighted_jct_s"), "less", synthetic=True),
    "p95_jct": Metric("JCT, p95", "h", _hours("p95_jct_s"), "less"),
    "makespan": Metric("Makespan", "h", _hours("makespan_s"), "less"),
    "utilisation": Metric("Utilisation of what workers take", "", _utilisation, "more", share=True),
    "preemptions": Metric("Preemptions", "", _of("preemptions"), "less"),
    "rescalings": Metric("Rescalings", "", _of("rescalings")),
    "timeliness": Metric("Completion - target, mean", "h", _hours("timeliness_s"), "less", synthetic=True),
    "on_time": Metric("On time", "", _of("on_time"), "more", synthetic=True, share=True),
    "fairness": Metric("Fairness across tenants (Jain)", "", _of("fairness"), "more", of_tenants=True),
    "starved": Metric(
        "Tenants without a completed job", "", _of("starved"), "less", of_tenants=True
    ),
    "decision_p50": Metric("Decision, p50", "ms", _decision("p50"), "less", exact=False),
    "decision_p95": Metric("Decision, p95", "ms", _decision("p95"), "less", exact=False),
    "decision_p99": Metric("Decision, p99", "ms", _decision("p99"), "less", exact=False),
    "speed": Metric(
        "Jobs decided per CPU-second", "", lambda ran: ran.timing["jobs_per_cpu_s"], "more", exact=False
    ),
}  # fmt: skip
"""All metrics in the order of tables. To add one, add a line here."""
