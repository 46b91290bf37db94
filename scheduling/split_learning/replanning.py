"""Make a plan again after changes: clients stay on the helpers that hold their memory, and orders change."""

from dataclasses import dataclass

import numpy as np

from scheduling.model.types import Ints
from scheduling.split_learning.balanced_greedy import no_room
from scheduling.split_learning.insertion import insert, orders
from scheduling.split_learning.instance import Instance
from scheduling.split_learning.method import NoPlan
from scheduling.split_learning.one_helper import NODES, Order, in_time, soonest
from scheduling.split_learning.plan import Plan, by_priority, largest_path_first
from scheduling.split_learning.state import NOBODY, assigned
from scheduling.split_learning.switching import charged


@dataclass(frozen=True)
class Change:
    """The effect of a new plan on one client; slots, None if the client is not in a plan."""

    client: str
    helper: str | None
    """None for one who dropped out."""
    what: str
    """kept, joined, moved (its helper is gone) or dropped."""
    completion_before: int | None
    completion: int | None


@dataclass(frozen=True)
class Replanned:
    """A new plan and what it changes."""

    plan: Plan
    changes: tuple[Change, ...]
    """Changes in the order of the new instance's clients; dropped clients come last."""

    @property
    def summary(self) -> str:
        """Counts in words, such as "3 kept, 1 joined"."""
        effects = [change.what for change in self.changes]
        return ", ".join(
            f"{effects.count(one)} {one}" for one in ("kept", "joined", "moved", "dropped") if one in effects
        )


def replan(before: Plan, instance: Instance) -> Replanned:
    """Make a plan for a changed instance; clients and helpers are the same if their names are.

    Clients whose helper still exists stay there. Other clients are inserted where the makespan is then the least, and
    each helper gets the best order that `in_time` finds.

    Parameters
    ----------
    before
        The plan so far.
    instance
        The clients, helpers, times (slots) and memory (bytes) as they are now.

    Raises
    ------
    NoPlan
        If a client fits no helper, or the kept clients of a helper no longer fit its memory; names the client or
        helper.
    """
    old = dict(zip(before.instance.clients, before.assignment.tolist(), strict=True))
    where = {name: i for i, name in enumerate(instance.helpers)}
    kept = np.full(len(instance.clients), NOBODY, dtype=np.int64)
    for j, name in enumerate(instance.clients):
        if name in old:
            kept[j] = where.get(before.instance.helpers[old[name]], NOBODY)
    _check_room(instance, kept)
    flat = instance.uninterrupted()
    state = assigned(flat, kept)
    new = np.flatnonzero(kept == NOBODY)
    attempts = [state.copy() for _ in range(3)]
    done = [a for a, order in zip(attempts, orders(state, new), strict=True) if insert(a, order)]
    if not done:
        left = instance.capacity - state.load
        raise no_room(instance, int(new[np.argmax(instance.demand[new])]), left)
    best = min(done, key=lambda attempt: attempt.makespan)
    plan = charged(best_orders(flat, best.assignment), instance)
    return Replanned(plan, _changes(before, plan, kept))


def best_orders(instance: Instance, assignment: Ints, nodes: int = NODES) -> Plan:
    """The plan in which each helper's clients are over as soon as `in_time` finds; switching costs nothing here.

    At least as good as the largest path first, helper by helper. `nodes`: orders looked at for each makespan, at most.
    """
    plain = largest_path_first(instance, assignment)
    first, second = plain.key_forward.copy(), plain.key_backward.copy()
    for i in range(len(instance.helpers)):
        members = np.flatnonzero(assignment == i)
        if not len(members):
            continue
        low = max(int(instance.path[i, members].max()), soonest(instance, i, members))
        high = int(plain.completion[members].max())
        while low < high:
            middle = (low + high) // 2
            order = in_time(instance, i, members, middle, nodes)
            if isinstance(order, Order):
                high = middle
                first[members] = -order.forward
                second[members] = instance.tail[i, members] - middle
            else:
                low = middle + 1
    return by_priority(instance, assignment, first, second)


def _check_room(instance: Instance, kept: Ints) -> None:
    for i, name in enumerate(instance.helpers):
        taken = sum(instance.demand[kept == i].tolist())
        if taken > instance.capacity[i]:
            raise NoPlan(f"helper {name} has {instance.capacity[i]} bytes, and the clients it keeps need {taken}")


def _changes(before: Plan, plan: Plan, kept: Ints) -> tuple[Change, ...]:
    earlier = dict(zip(before.instance.clients, before.completion.tolist(), strict=True))
    now = plan.instance
    rows = []
    for j, name in enumerate(now.clients):
        known = name in earlier
        what = ("kept" if kept[j] != NOBODY else "moved") if known else "joined"
        helper = now.helpers[int(plan.assignment[j])]
        rows.append(Change(name, helper, what, earlier.get(name), int(plan.completion[j])))
    gone = [name for name in before.instance.clients if name not in set(now.clients)]
    return (*rows, *(Change(name, None, "dropped", earlier[name], None) for name in gone))
