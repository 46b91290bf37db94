"""Readings of plans for pages, REST and CSV."""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from django.contrib.auth.models import User
from django.db.models import QuerySet

from auctions.domain.errors import WrongState
from cluster.operators import is_operator
from scheduling.model.types import Json
from scheduling.split_learning.plan import Plan as CorePlan
from studies.models import Plan
from studies.split_learning.plans.results import plan_of

LARGE = ("instance", "steps", "result")
"""Large columns that lists do not read."""


def visible_plans(viewer: User) -> "QuerySet[Plan]":
    """Return all plans for an operator, else the user's own."""
    plans = Plan.objects.select_related("owner", "cluster")
    return plans if is_operator(viewer) else plans.filter(owner=viewer.pk)


class NothingYet(WrongState):
    """Raised if there is no plan: it is not computed yet, or it failed; the message says which."""


def result_in(plan: Plan) -> Json:
    """Return the stored result of the plan; raises NothingYet."""
    if plan.result is None:
        raise NothingYet(f"Plan {plan.pk} has no schedule: it is {plan.get_state_display().lower()}.")
    result: Json = plan.result
    return result


def core_plan(plan: Plan) -> CorePlan:
    """Return the plan of a row; raises NothingYet."""
    return plan_of(plan.instance, result_in(plan))


@dataclass(frozen=True)
class Piece:
    """An uninterrupted part of a pass on a helper, slots [start, end)."""

    helper: str
    client: str
    kind: str
    """`forward` or `backward`."""
    start: int
    end: int


@dataclass(frozen=True)
class Client:
    """The times of a client in the batch, slots."""

    client: str
    helper: str
    release: int
    """Slot in which its forward pass arrives at the helper."""
    forward: tuple[tuple[int, int], ...]
    backward: tuple[tuple[int, int], ...]
    gap: int
    """Time from the end of the forward pass to the arrival of the backward pass."""
    tail: int
    completion: int
    slack: int
    """Slots by which it ends before the slowest client."""
    waiting: int
    """Time for which its passes waited or were interrupted."""
    key_forward: int
    key_backward: int
    """Priorities for the helper: of the passes that have arrived, the one with the greatest key runs."""


def names(plan: Plan) -> tuple[list[str], list[str]]:
    """Return the names of helpers and clients."""
    helpers, clients = ([row["name"] for row in plan.instance[kind]] for kind in ("helpers", "clients"))
    return helpers, clients


def clients_of(plan: Plan) -> list[Client]:
    """Return the times of each client in the order of the instance; empty without a plan."""
    result, instance = plan.result, plan.instance
    if result is None:
        return []
    helpers, clients = names(plan)
    return [
        Client(
            client=clients[j],
            helper=helpers[(i := row["helper"])],
            release=instance["release"][i][j],
            forward=_pieces(row["forward"]),
            backward=_pieces(row["backward"]),
            gap=instance["gap"][i][j],
            tail=instance["tail"][i][j],
            **{name: result[name][j] for name in ("completion", "slack", "waiting", "key_forward", "key_backward")},
        )
        for j, row in enumerate(result["schedule"])
    ]


def pieces_of(plan: Plan) -> list[Piece]:
    """Return the parts of passes, helper by helper in order of time."""
    found = [
        Piece(client.helper, client.client, kind, start, end)
        for client in clients_of(plan)
        for kind in ("forward", "backward")
        for start, end in getattr(client, kind)
    ]
    place = {name: i for i, name in enumerate(names(plan)[0])}
    return sorted(found, key=lambda piece: (place[piece.helper], piece.start))


def schedule_rows(plan: Plan) -> Iterator[list[object]]:
    """Return the schedule as CSV: a header, then a row for each piece; times in slots and in seconds."""
    yield ["helper", "client", "pass", "start_slot", "end_slot", "start_s", "end_s"]
    for piece in pieces_of(plan):
        at = [slot * plan.slot_ms / 1000 for slot in (piece.start, piece.end)]
        yield [piece.helper, piece.client, piece.kind, piece.start, piece.end, *at]


def _pieces(rows: list[list[int]]) -> tuple[tuple[int, int], ...]:
    return tuple((start, end) for start, end in rows)


@dataclass(frozen=True)
class Known:
    """The bound and the best makespan after a step, slots."""

    seconds: float
    """Seconds since the start of the computation."""
    lower_bound: int
    makespan: int | None
    """None while there is no plan."""
    note: str


def course_of(plan: Plan) -> list[Known]:
    """Return what was known after each stored step, oldest first."""
    return [Known(*step) for step in plan.steps]


@dataclass(frozen=True)
class Helper:
    """Load of a helper in a plan."""

    helper: str
    clients: int
    memory_gb: float
    """Memory that its clients take."""
    of_gb: float
    busy: int
    """Slots in which it runs passes."""
    idle: int
    """Slots before the end of the batch in which it runs no pass."""


def helpers_of(plan: Plan) -> list[Helper]:
    """Return the load of each helper in the order of the instance; empty without a plan."""
    if plan.result is None:
        return []
    found = []
    for i, helper in enumerate(plan.instance["helpers"]):
        rows = [row for row in plan.result["schedule"] if row["helper"] == i]
        busy = sum(end - start for row in rows for kind in ("forward", "backward") for start, end in row[kind])
        taken = sum(Decimal(plan.instance["clients"][row["client"]]["demand_gb"]) for row in rows)
        idle = plan.result["makespan"] - busy
        found.append(Helper(helper["name"], len(rows), float(taken), float(helper["memory_gb"]), busy, idle))
    return found


@dataclass(frozen=True)
class Change:
    """Effect of a plan that was made again on one client; slots, None if the client is not in a plan."""

    client: str
    helper: str | None
    what: str
    """`kept`, `joined`, `moved` or `dropped`."""
    completion_before: int | None
    completion: int | None

    @property
    def later(self) -> int | None:
        """Slots by which its batch ends later than before; None if the client is missing in one of the plans."""
        if self.completion is None or self.completion_before is None:
            return None
        return self.completion - self.completion_before


def changes_of(plan: Plan) -> list[Change]:
    """Return changes in the order of the new instance, dropped clients last; empty unless the plan was made again."""
    return [Change(**row) for row in (plan.result or {}).get("changes", [])]
