"""Create plans: for an instance, with other methods, with one more helper, or in other slots; delete them."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import QuerySet

from accounts.rights import check_cluster
from auctions.domain.errors import WrongState
from cluster.clock import now
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.split_learning.document import read_split_learning
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.methods import METHODS
from studies.background.creating import NO_KEY, IdempotencyKey, creating
from studies.job_tables import PLANS
from studies.models import ComparisonKind, Plan
from studies.split_learning.changes import one_more_helper
from studies.split_learning.plans.plan_request import PlanRequest, at_slot
from studies.split_learning.plans.readings import result_in
from studies.split_learning.schemas.instance import LONGEST_SLOT_MS

SLOT_FACTORS: Final = (0.125, 0.25, 0.5, 2.0, 4.0)
"""Slot lengths to compare, as multiples of the plan's own."""


def submit_plan(owner: User, submitted: PlanRequest, key: IdempotencyKey = NO_KEY) -> Plan:
    """Store a plan for a worker; raises TooManyOpen."""
    check_cluster(owner, submitted.cluster)
    return _store(owner, [submitted], of=None, comparison=ComparisonKind.ITSELF, key=key)[0]


def compare_methods(owner: User, plan: Plan) -> list[Plan]:
    """Request the same instance, budget and seed with each method not requested yet; raises TooManyOpen."""
    same = _request_of(plan)
    with locked(owner, plan):
        asked = {plan.method, *plan.others.filter(comparison=ComparisonKind.METHOD).values_list("method", flat=True)}
        others = [replace(same, method=name) for name in METHODS if name not in asked]
        return _store(owner, others, of=plan, comparison=ComparisonKind.METHOD)


def submit_extra_helper(owner: User, plan: Plan, key: IdempotencyKey = NO_KEY) -> Plan:
    """Request a plan with one helper more than the largest one so far; raises TooManyOpen, InvalidField."""
    same = _request_of(plan)
    while True:
        largest = _largest(plan)
        submitted = [replace(same, instance=one_more_helper(read_split_learning(largest.instance)))]
        with locked(owner, plan):
            if _largest(plan).pk == largest.pk:  # no other request came meanwhile
                return _store(owner, submitted, of=plan, comparison=ComparisonKind.HELPER, key=key)[0]


def _largest(plan: Plan) -> Plan:
    """Return the plan itself, or the comparison with the most helpers."""
    return plan.others.filter(comparison=ComparisonKind.HELPER).order_by("-helpers", "-pk").first() or plan


def compare_slot_lengths(owner: User, plan: Plan) -> list[Plan]:
    """Request the same devices in each slot length of SLOT_FACTORS that was not requested yet.

    Lengths beyond LONGEST_SLOT_MS are left out.

    Raises
    ------
    TooManyOpen
        If the owner would have too many open plans.
    InvalidField
        If the times of the instance are given in slots, so that there is nothing to round again, or if the times of
        devices do not fit one of the lengths, which is named.
    """
    if plan.origin is None:
        raise InvalidField("slot_ms", "expected an instance of a scenario or a profile, got one with times in slots")
    there = plan.others.filter(comparison=ComparisonKind.SLOT).values_list("slot_ms", flat=True)
    lengths = sorted({max(1, round(plan.slot_ms * factor)) for factor in SLOT_FACTORS} - {plan.slot_ms, *there})
    same = _request_of(plan)
    found = [_at_slot(plan.origin, length) for length in lengths if length <= LONGEST_SLOT_MS]
    others = [replace(same, instance=instance, origin=origin) for instance, origin in found]
    with locked(owner, plan):
        asked = set(there.all())  # check again: another request may have come meanwhile
        return _store(
            owner, [one for one in others if one.instance.slot_ms not in asked], of=plan, comparison=ComparisonKind.SLOT
        )


def _at_slot(origin: Json, slot_ms: int) -> tuple[Instance, Json]:
    try:
        return at_slot(origin, slot_ms)
    except InvalidField as error:
        raise InvalidField(
            "slot_ms", f"expected a length with which the devices can be planned, got {slot_ms:,} ms: {error}"
        ) from None


def submit_replan(owner: User, plan: Plan, submitted: PlanRequest, key: IdempotencyKey = NO_KEY) -> Plan:
    """Request a plan that keeps the assignments of an existing one; raises TooManyOpen, NothingYet."""
    result_in(plan)
    return _store(owner, [submitted], of=plan, comparison=ComparisonKind.REPLAN, key=key)[0]


def delete_plan(plan: Plan) -> None:
    """Delete it with its comparisons, theirs and all runs; running ones are cancelled. It may be gone already.

    This takes the lock of each of these plans, from the first one down, as a request for a comparison or a run takes
    that of its plan: none is added between the look at what there is and the deletion.
    """
    with transaction.atomic():
        level = list(_lock_of(Plan.objects.filter(pk=plan.pk)))
        while level:
            level = list(_lock_of(Plan.objects.filter(of__in=level)))
        Plan.objects.filter(pk=plan.pk).delete()


def _lock_of(plans: "QuerySet[Plan]") -> "QuerySet[Plan, int]":
    """Return the numbers of these plans, which are locked when they are read."""
    return plans.select_for_update().order_by("pk").values_list("pk", flat=True)


@contextmanager
def locked(owner: User, plan: Plan | None) -> Iterator[None]:
    """Open a transaction that excludes other requests of the same owner or for the same plan.

    Raises WrongState if the plan was deleted.
    """
    with transaction.atomic():
        User.objects.select_for_update().get(pk=owner.pk)
        if plan is not None and not list(_lock_of(Plan.objects.filter(pk=plan.pk))):
            raise WrongState(f"Plan {plan.pk} was deleted.")
        yield


def _request_of(plan: Plan) -> PlanRequest:
    return PlanRequest(
        instance=read_split_learning(plan.instance),
        method=plan.method if plan.method in METHODS else "exact",  # a plan made again has no such method
        seconds=plan.seconds,
        seed=plan.seed,
        label=plan.label,
        cluster=plan.cluster,
    )


def _store(
    owner: User,
    submitted: Sequence[PlanRequest],
    *,
    of: Plan | None,
    comparison: ComparisonKind,
    key: IdempotencyKey = NO_KEY,
) -> list[Plan]:
    with locked(owner, of), creating(PLANS, owner, count=len(submitted)):
        moment = now()
        return [
            Plan.objects.create(
                owner=owner,
                label=one.label,
                cluster=one.cluster,
                of=of,
                comparison=comparison,
                instance=one.document,
                origin=one.origin,
                helpers=len(one.instance.helpers),
                clients=len(one.instance.clients),
                slot_ms=one.instance.slot_ms,
                method=one.method,
                seconds=one.seconds,
                seed=one.seed,
                submitted_at=moment,
                idempotency_key=key.key,
                body_digest=key.digest,
            )
            for one in submitted
        ]
