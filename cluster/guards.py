"""Checks and listeners for changes of a cluster; this package does not import the packages that register them.

Higher packages register checks and listeners when Django starts. `checked_change` runs a change in a transaction: if a
check finds a problem, nothing is stored; otherwise every listener is called before the commit.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

from django.db import transaction

from cluster import clock
from cluster.facts import inventory_of
from cluster.models import Cluster
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory

Check = Callable[[Cluster, Inventory], list[str]]
Listener = Callable[[Cluster], None]
History = Callable[[Cluster], bool]
Begun = Callable[[Cluster], int | None]

LARGEST_LEDGER: Final = 30_000_000
"""Slots x servers x resources: a ledger and its prices must fit in the memory of every process that decides."""

_checks: Final[list[Check]] = []
_listeners: Final[list[Listener]] = []
_histories: Final[list[History]] = []
_begun: Final[list[Begun]] = []


class ChangeRefused(Exception):
    """A change that is refused; `problems` holds the messages."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


def register(*, check: Check, listener: Listener) -> None:
    """Register a check and a listener that are called at every change of a cluster."""
    if check not in _checks:
        _checks.append(check)
        _listeners.append(listener)


def register_history(history: History) -> None:
    """Register a function that says whether records depend on a cluster's time line, which is then fixed."""
    if history not in _histories:
        _histories.append(history)


def register_begun(begun: Begun) -> None:
    """Register a function that returns the last slot that began for what runs on a cluster; None if nothing runs."""
    if begun not in _begun:
        _begun.append(begun)


@contextmanager
def checked_change(cluster: Cluster) -> Iterator[None]:
    """Run the block's writes; raises ChangeRefused, and stores nothing, if a check finds a problem."""
    with transaction.atomic():
        before = Cluster.objects.filter(pk=cluster.pk).first()
        yield
        cluster.refresh_from_db()
        consult(cluster, before=before)


def consult(cluster: Cluster, *, before: Cluster | None) -> None:
    """Check the rows in the open transaction and call the listeners; `before` is the row before the change.

    Raises ChangeRefused, with all problems, if the rows are no inventory or a check finds a problem.
    """
    # First of all: a market is locked after its cluster's row, never before.
    Cluster.objects.filter(pk=cluster.pk).update(revision=uuid4())
    try:
        inventory = inventory_of(cluster)
    except InvalidField as error:
        raise ChangeRefused([f"{one}." for one in error.all_wrong]) from error
    problems = [*_time_line_problems(cluster, before), *_size_problems(cluster, inventory)]
    problems += [problem for check in _checks for problem in check(cluster, inventory)]
    if problems:
        raise ChangeRefused(problems)
    for listener in _listeners:
        listener(cluster)


def _time_line_problems(cluster: Cluster, before: Cluster | None) -> list[str]:
    if before is None:
        return []
    changed = {
        "epoch": before.epoch != cluster.epoch,
        "kind of clock": before.clock_kind != cluster.clock_kind,
        "slot length": before.slot_seconds != cluster.slot_seconds,
    }
    if not any(changed.values()):
        return []
    if any(history(cluster) for history in _histories):
        because = "recorded bids and schedules count in slots of this time line"
        # The room above names the slot length.
        return [f"The {what} cannot change: {because}." for what in ("epoch", "kind of clock") if changed[what]]
    now = clock.read(cluster).slot
    return [
        f"The market has begun slot {slot}, and slots do not begin again: expected a time line that is in this slot or"
        f" a later one, got one in slot {now}."
        for slot in (begun(cluster) for begun in _begun)
        if slot is not None and now < slot
    ]


def _size_problems(cluster: Cluster, inventory: Inventory) -> list[str]:
    cells = cluster.horizon_slots * inventory.capacity.size
    if cells <= LARGEST_LEDGER:
        return []
    shape = " x ".join(f"{n:,}" for n in (cluster.horizon_slots, *inventory.capacity.shape))
    return [
        f"{shape} (slots x servers x resources) make {cells:,} prices; at most {LARGEST_LEDGER:,}: shorten the horizon."
    ]
