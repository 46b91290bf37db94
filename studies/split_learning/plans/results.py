"""Convert a plan to its stored form and back; needs no database, since separate processes compute plans."""

import numpy as np

from scheduling.model.errors import SchedulingError
from scheduling.model.types import Ints, Json
from scheduling.split_learning.check import violations
from scheduling.split_learning.document import plan_document, read_split_learning
from scheduling.split_learning.plan import Pieces, Plan


def result_of(plan: Plan, lower_bound: int) -> Json:
    """Return the plan as a document with the times of each client, in slots; raises an error for an invalid plan."""
    wrong = violations(plan)
    if wrong:
        raise SchedulingError(f"the solver returned an invalid plan: {wrong[0]}")
    return {
        **plan_document(plan, lower_bound),
        "interruptions": plan.interruptions,
        "preemptive": plan.preemptive,
        **{
            name: getattr(plan, name).tolist()
            for name in ("completion", "slack", "waiting", "key_forward", "key_backward")
        },
    }


def plan_of(instance: Json, result: Json) -> Plan:
    """Build the plan from an instance document and the output of `result_of`."""

    def numbers(name: str) -> Ints:
        return np.array(result[name], dtype=np.int64)

    def pieces(name: str) -> tuple[Pieces, ...]:
        return tuple(tuple((start, end) for start, end in one[name]) for one in result["schedule"])

    return Plan(
        instance=read_split_learning(instance),
        assignment=numbers("assignment"),
        forward=pieces("forward"),
        backward=pieces("backward"),
        key_forward=numbers("key_forward"),
        key_backward=numbers("key_backward"),
        preemptive=result["preemptive"],
    )
