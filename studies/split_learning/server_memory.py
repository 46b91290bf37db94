"""Helpers that are servers of a cluster: their names are checked, and their memory is filled in."""

from typing import Final

from cluster.models import Capacity, Cluster, Server
from scheduling.model.errors import InvalidField
from scheduling.model.validation import shown

MEMORY: Final = "memory"
"""Name of the cluster resource that sets the memory of helpers."""
GIGABYTES: Final = {"GB": 1.0, "MB": 1e-3, "TB": 1e3}
"""GB for one unit of each name."""


def with_server_memory(document: object, cluster: Cluster | None) -> object:
    """Return an instance or profile, with the memory of servers for helpers that do not state their memory.

    The document is not checked yet; a wrong shape is left for the check that follows.

    Raises
    ------
    InvalidField
        If a helper is no server of the cluster, or neither states its memory.
    """
    if cluster is None or not isinstance(document, dict) or not isinstance(document.get("helpers"), list):
        return document
    servers = {server.name: server for server in Server.objects.filter(cluster=cluster)}
    rows = [_with_memory(f"helpers[{i}]", row, servers) for i, row in enumerate(document["helpers"])]
    return {**document, "helpers": rows}


def _with_memory(field: str, row: object, servers: dict[str, Server]) -> object:
    if not isinstance(row, dict):
        return row
    name = row.get("name")
    server = servers.get(name) if isinstance(name, str) else None
    if server is None:
        known = ", ".join(list(servers)[:10]) or "none"
        raise InvalidField(f"{field}.name", f"expected a server of the cluster, got {shown(name)}; there are {known}")
    if row.get("memory_gb") is not None:
        return row
    amount = Capacity.objects.filter(server=server, resource__name=MEMORY).select_related("resource").first()
    if amount is None or amount.resource.unit not in GIGABYTES:
        raise InvalidField(f"{field}.memory_gb", f"missing; server {server.name} has no {MEMORY} in GB or MB")
    return {**row, "memory_gb": str(amount.amount * GIGABYTES[amount.resource.unit])}
