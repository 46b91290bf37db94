"""Asking for plans: for an instance, for the same one under other methods, for one with another helper."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction

from auctions.domain.errors import QuotaReached, WrongState
from cluster.clock import now
from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.split_learning.document import read_split_learning
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.methods import METHODS
from studies.background import waking
from studies.background.idempotency import NO_KEY, Once
from studies.background.rows import OPEN
from studies.models import Plan, Question
from studies.split_learning.plans.more import one_more_helper
from studies.split_learning.plans.request import Wish, at_slot
from studies.split_learning.plans.stored import result_in

MOST_WAITING: Final = 50
"""Plans of one owner that have not ended."""
LONGEST_SLOT_MS: Final = 10**6
"""Of scenarios and profiles."""
SLOT_FACTORS: Final = (0.125, 0.25, 0.5, 2.0, 4.0)
"""Lengths of slots that are compared, as parts or multiples of the plan's own."""


class TooManyWait(QuotaReached):
    """The owner has as many plans under way as anybody may."""


def ask(owner: User, wish: Wish, request: Once = NO_KEY) -> Plan:
    """Keep a plan to be computed; raises TooManyWait."""
    return _keep(owner, [wish], of=None, question=Question.ITSELF, request=request)[0]


def ask_other_methods(owner: User, plan: Plan) -> list[Plan]:
    """Ask for the same instance, budget and seed under each method that was not asked yet; raises TooManyWait."""
    wish = _wish_of(plan)
    with _one_by_one(owner, plan):
        asked = {plan.method, *plan.others.filter(question=Question.METHOD).values_list("method", flat=True)}
        others = [replace(wish, method=name) for name in METHODS if name not in asked]
        return _keep(owner, others, of=plan, question=Question.METHOD)


def ask_one_more_helper(owner: User, plan: Plan, request: Once = NO_KEY) -> Plan:
    """Ask for it with one helper more than the largest that was asked so far; raises TooManyWait, InvalidField."""
    wish = _wish_of(plan)
    while True:
        largest = _largest(plan)
        wishes = [replace(wish, instance=one_more_helper(read_split_learning(largest.instance)))]
        with _one_by_one(owner, plan):
            if _largest(plan).pk == largest.pk:  # nobody asked meanwhile
                return _keep(owner, wishes, of=plan, question=Question.HELPER, request=request)[0]


def _largest(plan: Plan) -> Plan:
    """The plan itself, or what was asked for beside it with most helpers."""
    return plan.others.filter(question=Question.HELPER).order_by("-helpers", "-pk").first() or plan


def ask_other_slots(owner: User, plan: Plan) -> list[Plan]:
    """Ask for the same devices in slots of each length of SLOT_FACTORS that was not asked yet.

    Lengths beyond LONGEST_SLOT_MS are left out.

    Raises
    ------
    TooManyWait
        If the owner has too many under way for all of them.
    InvalidField
        For an instance that is in slots already: there is nothing to round again. For devices whose times do not fit
        into one of the lengths, which is named.
    """
    if plan.origin is None:
        raise InvalidField("slot_ms", "the times of this instance are given in slots; a scenario or profile has others")
    there = plan.others.filter(question=Question.SLOT).values_list("slot_ms", flat=True)
    lengths = sorted({max(1, round(plan.slot_ms * factor)) for factor in SLOT_FACTORS} - {plan.slot_ms, *there})
    wish = _wish_of(plan)
    found = [_at_slot(plan.origin, length) for length in lengths if length <= LONGEST_SLOT_MS]
    others = [replace(wish, instance=instance, origin=origin) for instance, origin in found]
    with _one_by_one(owner, plan):
        asked = set(there.all())  # again: somebody may have asked meanwhile
        return _keep(
            owner, [one for one in others if one.instance.slot_ms not in asked], of=plan, question=Question.SLOT
        )


def _at_slot(origin: Json, slot_ms: int) -> tuple[Instance, Json]:
    try:
        return at_slot(origin, slot_ms)
    except InvalidField as error:
        raise InvalidField("slot_ms", f"the devices cannot be planned in slots of {slot_ms:,} ms: {error}") from None


def ask_again(owner: User, plan: Plan, wish: Wish, request: Once = NO_KEY) -> Plan:
    """Ask for a plan that keeps the assignments of one that is there; raises TooManyWait, NothingYet."""
    result_in(plan)
    return _keep(owner, [wish], of=plan, question=Question.REPLAN, request=request)[0]


def wake() -> None:
    """Once the open transaction is committed, tell a worker that plans wait."""
    waking.wake("studies.tasks.compute_plans", queue="plans")  # by name: the task calls this module


@contextmanager
def _one_by_one(owner: User, plan: Plan | None) -> Iterator[None]:
    """A transaction in which nobody asks for the same owner, or beside the same plan; raises WrongState if that was
    deleted.
    """
    with transaction.atomic():
        User.objects.select_for_update().get(pk=owner.pk)
        if plan is not None and not list(Plan.objects.select_for_update().filter(pk=plan.pk).values_list("pk")):
            raise WrongState(f"Plan {plan.pk} was deleted.")
        yield


def _wish_of(plan: Plan) -> Wish:
    return Wish(
        instance=read_split_learning(plan.instance),
        method=plan.method if plan.method in METHODS else "exact",  # planning again is none that others compare with
        seconds=plan.seconds,
        seed=plan.seed,
        label=plan.label,
        cluster=plan.cluster,
    )


def _keep(
    owner: User, wishes: Sequence[Wish], *, of: Plan | None, question: Question, request: Once = NO_KEY
) -> list[Plan]:
    with _one_by_one(owner, of):
        under_way = Plan.objects.filter(owner=owner, state__in=OPEN).count()
        if under_way + len(wishes) > MOST_WAITING:
            raise TooManyWait(f"{under_way} plans of yours wait or are computed; at most {MOST_WAITING} may.")
        moment = now()
        kept = [
            Plan.objects.create(
                owner=owner,
                label=wish.label,
                cluster=wish.cluster,
                of=of,
                question=question,
                instance=wish.document,
                origin=wish.origin,
                helpers=len(wish.instance.helpers),
                clients=len(wish.instance.clients),
                slot_ms=wish.instance.slot_ms,
                method=wish.method,
                seconds=wish.seconds,
                seed=wish.seed,
                submitted_at=moment,
                idempotency_key=request.key,
                body_digest=request.digest,
            )
            for wish in wishes
        ]
        wake()
    return kept
