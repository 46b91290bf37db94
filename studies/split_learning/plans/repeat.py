"""Requests to make a plan again: the current plan and the changed instance."""

from scheduling.model.errors import InvalidField
from scheduling.model.types import Json
from scheduling.model.validation import check_object
from scheduling.split_learning.document import read_split_learning
from studies.models import Plan
from studies.split_learning.plans.changes import changed
from studies.split_learning.plans.replanned import METHOD
from studies.split_learning.plans.request import (
    MOST_PAIRS,
    Wish,
    checked_label,
    checked_seconds,
    checked_seed,
    read_instance,
)


def wish_again(plan: Plan, body: Json) -> Wish:
    """Read the body of a request; raises InvalidField naming the field, and the helper or client."""
    check_object("", body, required=(), optional=("instance", "changes", "seconds", "seed", "label"))
    if ("instance" in body) == ("changes" in body):
        raise InvalidField("changes", "expected either changes or instance")
    if "instance" in body:
        instance = read_instance(body["instance"], plan.cluster)
    else:
        try:
            instance = changed(read_split_learning(plan.instance), body["changes"])
        except InvalidField as error:
            raise InvalidField(f"changes.{error.field}" if error.field else "changes", error.problem) from None
    if len(instance.helpers) * len(instance.clients) > MOST_PAIRS:
        raise InvalidField("changes.join", f"expected helpers x clients of at most {MOST_PAIRS}")
    return Wish(
        instance=instance,
        method=METHOD,
        seconds=checked_seconds(body.get("seconds", plan.seconds)),
        seed=checked_seed(body.get("seed", plan.seed)),
        label=checked_label(body.get("label", plan.label)),
        cluster=plan.cluster,
    )
