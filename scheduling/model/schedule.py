"""Schedules: the servers and slots in which a job runs."""

from dataclasses import dataclass, replace
from enum import StrEnum

from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Ints, Json


class Role(StrEnum):
    """The role of a machine in its job."""

    WORKER = "worker"
    PS = "ps"


@dataclass(frozen=True, order=True)
class Placement:
    """`count` machines of one type on one server, held in slots `[start, end)`; types and servers are indices.

    Examples
    --------
    >>> from scheduling.model.schedule import Placement, Role
    >>> held = Placement(start=2, end=6, role=Role.WORKER, server=0, type=0, count=3)
    >>> held.until(4).end, held.since(4).start
    (4, 4)
    """

    start: int
    end: int
    role: Role
    server: int
    type: int
    count: int

    def machine(self, inventory: Inventory) -> MachineType:
        """Return the machine type that this placement holds."""
        return (inventory.workers if self.role is Role.WORKER else inventory.parameter_servers)[self.type]

    def demand(self, inventory: Inventory) -> Ints:
        """Return the units of each resource that one of these machines takes, R numbers."""
        demand: Ints = (inventory.worker_demand if self.role is Role.WORKER else inventory.ps_demand)[self.type]
        return demand

    def units(self, inventory: Inventory) -> Ints:
        """Return the units of each resource that these machines take, R numbers."""
        return self.count * self.demand(inventory)

    def until(self, slot: int) -> "Placement":
        """Return the part before `slot`; the placement has to start before `slot`."""
        return self if self.end <= slot else replace(self, end=slot)

    def since(self, slot: int) -> "Placement":
        """Return the part from `slot` on; the placement has to end after `slot`."""
        return self if self.start >= slot else replace(self, start=slot)


@dataclass(frozen=True, order=True)
class Chunks:
    """`count` data chunks of one job in the queue of one shared worker; server, type and worker are indices.

    On a cloud server every chunk has its own worker, and `index` is `CLOUD`.
    """

    server: int
    type: int
    index: int
    count: int


CLOUD = -1
"""Index of the workers of a cloud server, which have no queue."""


@dataclass(frozen=True)
class Schedule:
    """All placements of one job, in sorted order; it starts in slot `start` and is complete at `completion`.

    A rigid schedule holds the same machines all the time; an elastic one has placements with windows of their own.
    A queued one has `chunks` in the queues of workers instead: its start and completion are forecasts, rounded down and
    up to whole slots.

    Examples
    --------
    >>> from scheduling.model.schedule import Placement, Role, Schedule
    >>> workers = Placement(start=0, end=2, role=Role.WORKER, server=0, type=0, count=2)
    >>> ps = Placement(start=0, end=2, role=Role.PS, server=1, type=0, count=1)
    >>> Schedule(start=0, completion=2, placements=(workers, ps)).to_json()["placements"]
    [[0, 2, 'ps', 1, 0, 1], [0, 2, 'worker', 0, 0, 2]]
    """

    start: int
    completion: int
    placements: tuple[Placement, ...]
    chunks: tuple[Chunks, ...] = ()
    handicap: int = 0
    """Added to a queued job's rank when its first chunks join queues, billionths of a slot."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "placements", tuple(sorted(self.placements)))
        object.__setattr__(self, "chunks", tuple(sorted(self.chunks)))

    def to_json(self) -> Json:
        """Return a document of plain integers and strings; `from_json` reads it back."""
        rows = [[p.start, p.end, str(p.role), p.server, p.type, p.count] for p in self.placements]
        document: Json = {"start": self.start, "completion": self.completion, "placements": rows}
        if self.chunks:
            document["chunks"] = [[c.server, c.type, c.index, c.count] for c in self.chunks]
        if self.handicap:
            document["handicap"] = self.handicap
        return document

    @classmethod
    def from_json(cls, document: Json) -> "Schedule":
        """Read what `to_json` wrote."""
        placements = tuple(
            Placement(start=a, end=b, role=Role(role), server=s, type=m, count=n)
            for a, b, role, s, m, n in document["placements"]
        )
        chunks = tuple(Chunks(*row) for row in document.get("chunks", ()))
        return cls(document["start"], document["completion"], placements, chunks, document.get("handicap", 0))
