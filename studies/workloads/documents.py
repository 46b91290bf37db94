"""Inventories as JSON, so that a study can store a cluster's servers at the time of its request."""

from fractions import Fraction

import numpy as np

from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Json


def inventory_document(inventory: Inventory) -> Json:
    """Return the whole inventory as a document that `inventory_of_document` can read."""
    return {
        "resources": list(inventory.resources),
        "servers": list(inventory.servers),
        "cloud": list(inventory.cloud),
        "capacity": inventory.capacity.tolist(),
        "workers": [_machine(one) for one in inventory.workers],
        "parameter_servers": [_machine(one) for one in inventory.parameter_servers],
        "storage": list(inventory.storage),
    }


def inventory_of_document(document: Json) -> Inventory:
    """Read the output of `inventory_document`."""
    shape = len(document["servers"]), len(document["resources"])
    return Inventory(
        resources=tuple(document["resources"]),
        servers=tuple(document["servers"]),
        cloud=tuple(document["cloud"]),
        capacity=np.array(document["capacity"], dtype=np.int64).reshape(shape),
        workers=tuple(_type(row) for row in document["workers"]),
        parameter_servers=tuple(_type(row) for row in document["parameter_servers"]),
        storage=tuple(document["storage"]),
    )


def _machine(machine: MachineType) -> Json:
    return {"name": machine.name, "demand": list(machine.demand), "bandwidth_mbps": str(machine.bandwidth_mbps)}


def _type(row: Json) -> MachineType:
    return MachineType(row["name"], tuple(row["demand"]), Fraction(row["bandwidth_mbps"]))
