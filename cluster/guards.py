"""How a change of a cluster is refused or made known, without this room knowing who asks.

A room above registers checks and listeners when Django starts. `checked_change` runs a change in a transaction:
if any check finds a problem nothing is stored, otherwise every listener hears of it before the commit.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from django.db import transaction

from cluster.facts import inventory_of
from cluster.models import Cluster
from scheduling.errors import InvalidField
from scheduling.inventory import Inventory

Check = Callable[[Cluster, Inventory], list[str]]
Listener = Callable[[Cluster], None]

_checks: Final[list[Check]] = []
_listeners: Final[list[Listener]] = []


class ChangeRefused(Exception):
    """A change that would break something; `problems` says what, in words."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


def register(*, check: Check, listener: Listener) -> None:
    """Ask to be consulted before, and told after, every change of a cluster."""
    if check not in _checks:
        _checks.append(check)
        _listeners.append(listener)


@contextmanager
def checked_change(cluster: Cluster) -> Iterator[None]:
    """Run the block's writes; raises ChangeRefused, and stores nothing, if the result would break something."""
    with transaction.atomic():
        yield
        cluster.refresh_from_db()
        consult(cluster)


def consult(cluster: Cluster) -> None:
    """Check the rows as they stand in the open transaction and tell the listeners."""
    try:
        inventory = inventory_of(cluster)
    except InvalidField as error:
        raise ChangeRefused([str(error)]) from error
    problems = [problem for check in _checks for problem in check(cluster, inventory)]
    if problems:
        raise ChangeRefused(problems)
    for listener in _listeners:
        listener(cluster)
