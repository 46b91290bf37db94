"""Build plans of the core from rows."""

from auctions.domain.errors import WrongState
from scheduling.split_learning.plan import Plan
from studies.models import Plan as Row
from studies.split_learning.plans.results import plan_of


class NothingYet(WrongState):
    """Raised if there is no plan: it is not computed yet, or it failed; the message says which."""


def core_plan(row: Row) -> Plan:
    """Return the plan of a row; raises NothingYet."""
    return plan_of(row.instance, result_in(row))


def result_in(row: Row) -> dict[str, object]:
    """Return the stored result of the plan; raises NothingYet."""
    if row.result is None:
        raise NothingYet(f"Plan {row.pk} has no schedule: it is {row.get_state_display().lower()}.")
    result: dict[str, object] = row.result
    return result
