"""The cluster: servers with a vector of resources each, and the machine types that they can host."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import islice

import numpy as np

from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Floats, Ints, Json
from scheduling.model.validation import MOST_NAMED


@dataclass(frozen=True)
class MachineType:
    """A kind of worker or of parameter server.

    `demand` is the number of units of each resource that one machine takes, R non-negative integers, not all zero.
    `bandwidth_mbps` is the bandwidth that one machine reserves, in Mbit/s, exact.
    """

    name: str
    demand: tuple[int, ...]
    bandwidth_mbps: Fraction

    def to_json(self) -> Json:
        """Return a document that `from_json` can read."""
        return {"name": self.name, "demand": list(self.demand), "bandwidth_mbps": str(self.bandwidth_mbps)}

    @classmethod
    def from_json(cls, document: Json) -> "MachineType":
        """Read what `to_json` wrote."""
        return cls(document["name"], tuple(document["demand"]), Fraction(document["bandwidth_mbps"]))


@dataclass(frozen=True)
class Inventory:
    """Servers, resources and machine types of one cluster.

    `capacity[s, r]` is a non-negative integer. DPS is the one-hot case: one resource per worker type and per
    PS type, and each type takes one unit of its own (DPS, Section 3.1); physical resources are vectors.

    Raises
    ------
    InvalidField
        If shapes, counts or demands are not as described; it names them all.

    Examples
    --------
    >>> from scheduling.model.example import INVENTORY
    >>> INVENTORY.capacity.tolist()
    [[2, 0], [0, 2]]
    >>> INVENTORY.worker_demand.tolist(), INVENTORY.worker_room
    ([[1, 0]], (2,))
    """

    resources: tuple[str, ...]
    servers: tuple[str, ...]
    cloud: tuple[bool, ...]
    capacity: Ints = field(repr=False)
    workers: tuple[MachineType, ...]
    parameter_servers: tuple[MachineType, ...]
    storage: tuple[int | None, ...] = ()
    """Storage of each server for data chunks, in one unit for all servers (bytes in live clusters); None: no limit.

    Empty if no server has a limit.
    """

    def __post_init__(self) -> None:
        refuse_all(list(islice(self._wrong(), MOST_NAMED)))
        self.capacity.flags.writeable = False

    def _wrong(self) -> Iterator[InvalidField]:
        shape = (len(self.servers), len(self.resources))
        if self.capacity.shape != shape:
            yield InvalidField("capacity", f"expected shape {shape}, got {self.capacity.shape}")
        if self.capacity.dtype != np.int64 or (self.capacity < 0).any():
            yield InvalidField(
                "capacity",
                f"expected non-negative 64-bit integers, got other {self.capacity.dtype} numbers",
            )
        if len(self.cloud) != len(self.servers):
            yield InvalidField("cloud", f"expected {len(self.servers)} flags, got {len(self.cloud)}")
        if self.storage and len(self.storage) != len(self.servers):
            yield InvalidField("storage", f"expected {len(self.servers)} numbers, got {len(self.storage)}")
        for s, limit in enumerate(self.storage):
            if limit is not None and limit < 0:
                yield InvalidField(f"storage[{s}]", f"expected at least 0, got {limit}")
        for kind, types in (("workers", self.workers), ("parameter_servers", self.parameter_servers)):
            for i, machine in enumerate(types):
                yield from self._wrong_type(f"{kind}[{i}]", machine)

    def to_json(self) -> Json:
        """Return a document that `from_json` can read."""
        return {
            "resources": list(self.resources),
            "servers": list(self.servers),
            "cloud": list(self.cloud),
            "capacity": self.capacity.tolist(),
            "workers": [machine.to_json() for machine in self.workers],
            "parameter_servers": [machine.to_json() for machine in self.parameter_servers],
            "storage": list(self.storage),
        }

    @classmethod
    def from_json(cls, document: Json) -> "Inventory":
        """Read what `to_json` wrote."""
        shape = len(document["servers"]), len(document["resources"])
        return cls(
            resources=tuple(document["resources"]),
            servers=tuple(document["servers"]),
            cloud=tuple(document["cloud"]),
            capacity=np.array(document["capacity"], dtype=np.int64).reshape(shape),
            workers=tuple(map(MachineType.from_json, document["workers"])),
            parameter_servers=tuple(map(MachineType.from_json, document["parameter_servers"])),
            storage=tuple(document.get("storage", ())),  # documents written before storage was introduced have none
        )

    def _wrong_type(self, where: str, machine: MachineType) -> Iterator[InvalidField]:
        if len(machine.demand) != len(self.resources):
            yield InvalidField(f"{where}.demand", f"expected {len(self.resources)} numbers, got {len(machine.demand)}")
        elif min(machine.demand) < 0 or not any(machine.demand):
            yield InvalidField(
                f"{where}.demand", f"expected non-negative integers, at least one above 0, got {machine.demand}"
            )
        if machine.bandwidth_mbps <= 0:
            yield InvalidField(f"{where}.bandwidth_mbps", f"expected more than 0, got {machine.bandwidth_mbps}")

    @cached_property
    def worker_demand(self) -> Ints:
        """Demand of every worker type, W x R, read-only."""
        return _demand(self.workers, len(self.resources))

    @cached_property
    def ps_demand(self) -> Ints:
        """Demand of every PS type, P x R, read-only."""
        return _demand(self.parameter_servers, len(self.resources))

    @cached_property
    def total(self) -> Ints:
        """Total capacity of all servers, R numbers, read-only."""
        total: Ints = self.capacity.sum(axis=0)
        total.flags.writeable = False
        return total

    @cached_property
    def unit_shares(self) -> Floats:
        """One unit as a share of the total capacity, R numbers, read-only; 0 where the total is 0."""
        shares: Floats = np.divide(1.0, self.total, out=np.zeros(len(self.total)), where=self.total > 0)
        shares.flags.writeable = False
        return shares

    @cached_property
    def worker_shares(self) -> tuple[float, ...]:
        """Demand of each worker type as shares of the total capacity, summed over resources, W numbers."""
        return tuple(float(demand @ self.unit_shares) for demand in self.worker_demand)

    @cached_property
    def ps_shares(self) -> tuple[float, ...]:
        """Demand of each PS type as shares of the total capacity, summed over resources, P numbers."""
        return tuple(float(demand @ self.unit_shares) for demand in self.ps_demand)

    @cached_property
    def worker_room(self) -> tuple[int, ...]:
        """Number of workers of each type that fit on all servers together, W numbers."""
        return self._room(self.worker_demand)

    @cached_property
    def ps_room(self) -> tuple[int, ...]:
        """Number of PSs of each type that fit on all servers together, P numbers."""
        return self._room(self.ps_demand)

    def _room(self, demands: Ints) -> tuple[int, ...]:
        needed = ((demand, demand > 0) for demand in demands)
        return tuple(int((self.capacity[:, some] // demand[some]).min(axis=1).sum()) for demand, some in needed)


def _demand(types: tuple[MachineType, ...], resources: int) -> Ints:
    demand = np.array([machine.demand for machine in types], dtype=np.int64).reshape(len(types), resources)
    demand.flags.writeable = False
    return demand
