"""Programs that bids name; this package does not import the package that runs them.

A package above registers, when Django starts, who may use which program. Until one does, no bid may name a program.
"""

from collections.abc import Callable, Mapping
from typing import Final

from django.contrib.auth.models import User

from cluster.models import Cluster
from scheduling.model.types import Json

Check = Callable[[Cluster, User | None, Json], Mapping[str, str]]
"""Takes a cluster, the bidder, and of the program of a bid `name` and `continues`, which have the right form; returns
problems by field.

The bidder is None if a quote is asked for nobody. The field "" is the program as a whole.
"""

NOT_RUN: Final = "expected no program: this service does not run the jobs of this cluster"

_checks: Final[list[Check]] = []


def register(check: Check) -> None:
    """Register the function that checks programs of bids."""
    if check not in _checks:
        _checks.append(check)


def problems(cluster: Cluster, bidder: User | None, program: Json) -> Mapping[str, str]:
    """Return what is wrong with the program of a bid, by field; empty if the bidder may use it on this cluster."""
    if not _checks:
        return {"": NOT_RUN}
    return {field: problem for check in _checks for field, problem in check(cluster, bidder, program).items()}
