"""Comparisons of a plan: other methods, more helpers (Fig. 8), other slots (Fig. 6)."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from studies.background.models import JobState
from studies.models import ComparisonKind, Plan, share_above
from studies.split_learning.plans.readings import LARGE


@dataclass(frozen=True)
class Compared:
    """A plan in a table of compared plans."""

    plan: Plan
    above: float | None
    """Largest possible excess over the optimum, as a share of the best bound of all compared plans."""
    saved_slots: int | None
    """Slots by which it is shorter than the plan before."""


@dataclass(frozen=True)
class Length:
    """The same devices and links in slots of one length."""

    plan: int
    """Number of the plan."""
    slot_ms: int
    makespan: int | None
    """Slots; None until the plan is completed, as are the next two."""
    lower_bound: int | None
    compute_s: float | None
    """Seconds until the method had finished."""

    @classmethod
    def of(cls, plan: Plan) -> "Length":
        """Return the figures of a plan, if they are final."""
        if plan.state != JobState.COMPLETED:
            return cls(plan.pk, plan.slot_ms, None, None, None)
        compute_s = plan.steps[-1][0] if plan.steps else None
        return cls(plan.pk, plan.slot_ms, plan.makespan, plan.lower_bound, compute_s)

    @property
    def makespan_ms(self) -> int | None:
        """Makespan in milliseconds, so that lengths can be compared."""
        return None if self.makespan is None else self.makespan * self.slot_ms

    @property
    def bound_ms(self) -> int | None:
        """Lower bound in milliseconds."""
        return None if self.lower_bound is None else self.lower_bound * self.slot_ms


def others_of(plan: Plan, comparison: ComparisonKind) -> list[Plan]:
    """Return the plans requested for this kind of comparison: fewer helpers first, then in order of request."""
    found = plan.others.filter(comparison=comparison).select_related("owner", "cluster").defer(*LARGE)
    return list(found.order_by("helpers", "pk"))


def compared(plan: Plan, others: Sequence[Plan]) -> list[Compared]:
    """Return the plan and those compared with it; empty if there are no others."""
    if not others:
        return []
    plans = [plan, *others]
    bound = max((one.lower_bound for one in plans if one.lower_bound is not None), default=None)
    before = [None, *itertools.starmap(_saved, pairwise(plans))]
    return [
        Compared(one, share_above(one.makespan, bound), saved_slots)
        for one, saved_slots in zip(plans, before, strict=True)
    ]


def _saved(before: Plan, plan: Plan) -> int | None:
    return None if before.makespan is None or plan.makespan is None else before.makespan - plan.makespan


def lengths_of(plan: Plan) -> list[Length]:
    """Return the plan and those with other slot lengths, the shortest slots first; empty if there are no others."""
    others = plan.others.filter(comparison=ComparisonKind.SLOT).select_related("owner", "cluster")
    found = list(others.defer("instance", "result"))
    return [Length.of(one) for one in sorted([plan, *found], key=lambda one: one.slot_ms)] if found else []


@dataclass(frozen=True)
class Comparisons:
    """All plans that are compared with one plan, by the kind of comparison."""

    methods: list[Compared]
    helpers: list[Compared]
    slots: list[Length]
    replanned: list[Plan]


def of_plan(plan: Plan) -> Comparisons:
    """Return all comparisons of the plan."""
    methods, helpers = (others_of(plan, comparison) for comparison in (ComparisonKind.METHOD, ComparisonKind.HELPER))
    return Comparisons(
        methods=compared(plan, methods),
        helpers=compared(plan, helpers),
        slots=lengths_of(plan),
        replanned=others_of(plan, ComparisonKind.REPLAN),
    )
