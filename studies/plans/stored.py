"""Plans as the core knows them, from what is kept of them."""

import numpy as np

from scheduling.arrays import Ints
from scheduling.split_learning.document import read_split_learning
from scheduling.split_learning.plan import Pieces, Plan
from studies.models import Plan as Row


class NothingYet(LookupError):
    """There is no plan: it is not computed yet, or it failed; the message says so."""


def core_plan(row: Row) -> Plan:
    """The plan of a row; raises NothingYet."""
    result = row.result
    if result is None:
        raise NothingYet(f"Plan {row.pk} has no schedule: it is {row.get_state_display().lower()}.")

    def numbers(name: str) -> Ints:
        return np.array(result[name], dtype=np.int64)

    def pieces(name: str) -> tuple[Pieces, ...]:
        return tuple(tuple((start, end) for start, end in one[name]) for one in result["schedule"])

    return Plan(
        instance=read_split_learning(row.instance),
        assignment=numbers("assignment"),
        forward=pieces("forward"),
        backward=pieces("backward"),
        key_forward=numbers("key_forward"),
        key_backward=numbers("key_backward"),
        preemptive=result["preemptive"],
    )
