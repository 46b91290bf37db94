"""A cluster's rows as the core's inventory, in a bounded number of queries."""

from fractions import Fraction

import numpy as np

from cluster.database.prepared import Prepared
from cluster.models import Capacity, Cluster, Demand, MachineRole, Resource, Server, ServerKind
from cluster.models import MachineType as MachineTypeRow
from cluster.units import bytes_down
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.validation import MOST_NAMED

_RESOURCES = Prepared(lambda cluster: Resource.objects.filter(cluster=cluster), int)
_SERVERS = Prepared(lambda cluster: Server.objects.filter(cluster=cluster), int)
_CAPACITIES = Prepared(
    lambda cluster: Capacity.objects.filter(server__cluster=cluster).values_list("server_id", "resource_id", "amount"),
    int,
)
_TYPES = Prepared(lambda cluster: MachineTypeRow.objects.filter(cluster=cluster), int)
_DEMANDS = Prepared(
    lambda cluster: Demand.objects.filter(machine_type__cluster=cluster).values_list(
        "machine_type_id", "resource_id", "amount"
    ),
    int,
)


def inventory_of(cluster: Cluster) -> Inventory:
    """Servers, resources and machine types, each in the order of its position.

    Raises
    ------
    scheduling.model.errors.InvalidField
        If the rows are not an inventory, such as a machine type that takes nothing.
    """
    resources = _RESOURCES(cluster.pk)
    servers = _SERVERS(cluster.pk)
    column = {resource.pk: i for i, resource in enumerate(resources)}
    row = {server.pk: i for i, server in enumerate(servers)}
    capacity = np.zeros((len(servers), len(resources)), dtype=np.int64)
    wrong: dict[str, str] = {}
    for server, resource, amount in _CAPACITIES(cluster.pk):
        if resource in column:
            capacity[row[server], column[resource]] = amount
        else:
            problem = "expected capacity of this cluster's resources, got a resource of another cluster"
            wrong[servers[row[server]].name] = problem
    types = _TYPES(cluster.pk)
    names = {machine.pk: machine.name for machine in types}
    demand = {machine.pk: [0] * len(resources) for machine in types}
    for machine_type, resource, amount in _DEMANDS(cluster.pk):
        if resource in column:
            demand[machine_type][column[resource]] = amount
        else:
            problem = "expected demand of this cluster's resources, got a resource of another cluster"
            wrong[names[machine_type]] = problem
    for machine in types:
        if not any(demand[machine.pk]):
            wrong.setdefault(machine.name, "expected a demand of at least one resource, got none")
    refuse_all([InvalidField(name, problem) for name, problem in wrong.items()][:MOST_NAMED])

    def of_role(role: MachineRole) -> tuple[MachineType, ...]:
        return tuple(
            MachineType(name=m.name, demand=tuple(demand[m.pk]), bandwidth_mbps=Fraction(m.bandwidth_mbps))
            for m in types
            if m.role == role
        )

    return Inventory(
        resources=tuple(resource.name for resource in resources),
        servers=tuple(server.name for server in servers),
        cloud=tuple(server.kind == ServerKind.CLOUD for server in servers),
        capacity=capacity,
        workers=of_role(MachineRole.WORKER),
        parameter_servers=of_role(MachineRole.PS),
        storage=_storage(servers),
    )


def _storage(servers: list[Server]) -> tuple[int | None, ...]:
    """Storage of each server, bytes; empty if no server has a limit."""
    limits = tuple(None if s.storage_mb is None else bytes_down(s.storage_mb) for s in servers)
    return limits if any(limit is not None for limit in limits) else ()
