"""The programs that bids may name."""

from collections.abc import Mapping

from django.contrib.auth.models import User

from cluster.models import Cluster
from execution.models import Execution, Program
from scheduling.model.types import Json


def problems(cluster: Cluster, bidder: User | None, program: Json) -> Mapping[str, str]:
    """Return what is wrong with the program of a bid, by field; empty if it may be used on this cluster."""
    if not Execution.objects.filter(cluster=cluster).exists():
        return {"": f"expected no program: jobs of {cluster.name} are not run by this service"}
    names = list(Program.objects.filter(cluster=cluster, is_open=True).values_list("name", flat=True))
    if program["name"] in names:
        return {}
    known = f"one of {', '.join(names)}" if names else "a registered program, of which this cluster has none yet"
    return {"name": f"expected {known}, got {program['name']!r}"}
