"""The inventory as a market's events record it: it defines the positions in schedules and arrays.

Servers may be added, renamed or removed, but a position in a recorded schedule always refers to the snapshot in force
then. Each position carries the key of its row, so positions of one snapshot can be translated to those of another.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from auctions.models import Event, Market, Outage
from cluster.database.prepared import Prepared
from cluster.facts import inventory_of
from cluster.models import Cluster, MachineRole, MachineType, Resource, Server
from scheduling.book.ledger import Ledger
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Placement, Role
from scheduling.model.types import Ints, Json


@dataclass(frozen=True)
class Holding:
    """Machines that are held, by keys of rows: a commitment without its bid."""

    server_id: int
    machine_type_id: int
    count: int
    start: int
    end: int


@dataclass(frozen=True)
class InventorySnapshot:
    """An inventory with its horizon, slot length and upload delays, and with the row keys of its positions."""

    inventory: Inventory
    horizon: int
    slot_seconds: int
    delays_s: tuple[float, ...]
    """Default upload delay of each server, seconds; a bid may state another one."""
    server_ids: tuple[int, ...]
    resource_ids: tuple[int, ...]
    worker_ids: tuple[int, ...]
    ps_ids: tuple[int, ...]
    closed: tuple[int | None, ...] = ()
    """Slot from which on each server takes no new work, or None for a server without one; empty if all have none."""
    out: tuple[tuple[int, ...] | None, ...] = ()
    """Capacity of each server that is out of service, which has no capacity in `inventory`; None for the others.
    Empty if all servers are in service."""

    @property
    def built(self) -> Ints:
        """Capacity of all servers, in service or not, S x R, read-only."""
        if not self.out:
            return self.inventory.capacity
        rows = [own if own is not None else row for own, row in zip(self.out, self.inventory.capacity, strict=True)]
        built = np.array(rows, dtype=np.int64).reshape(self.inventory.capacity.shape)
        built.flags.writeable = False
        return built

    @property
    def out_ids(self) -> frozenset[int]:
        """Keys of the servers that are out of service."""
        return frozenset(key for key, own in zip(self.server_ids, self.out, strict=False) if own is not None)

    def ledger(self, *, start: int) -> Ledger:
        """Return an empty ledger for the horizon from slot `start` on."""
        return Ledger(self.inventory, start=start, slots=self.horizon, closed=self.closed)

    def to_json(self) -> Json:
        """Return the payload of an `opened` or `inventory` event."""
        closed: Json = {"closed": list(self.closed)} if self.closed else {}
        out: Json = {"out": [None if own is None else list(own) for own in self.out]} if self.out else {}
        return {
            **self.inventory.to_json(),
            "horizon": self.horizon,
            "slot_seconds": self.slot_seconds,
            "delays_s": list(self.delays_s),
            "server_ids": list(self.server_ids),
            "resource_ids": list(self.resource_ids),
            "worker_ids": list(self.worker_ids),
            "ps_ids": list(self.ps_ids),
            **closed,
            **out,
        }

    @classmethod
    def from_json(cls, document: Json) -> "InventorySnapshot":
        """Read what `to_json` wrote."""
        return cls(
            inventory=Inventory.from_json(document),
            horizon=document["horizon"],
            slot_seconds=document["slot_seconds"],
            delays_s=tuple(document["delays_s"]),
            server_ids=tuple(document["server_ids"]),
            resource_ids=tuple(document["resource_ids"]),
            worker_ids=tuple(document["worker_ids"]),
            ps_ids=tuple(document["ps_ids"]),
            closed=tuple(document.get("closed", ())),
            out=tuple(None if own is None else tuple(own) for own in document.get("out", ())),
        )

    def holdings(self, placements: Iterable[Placement]) -> tuple[Holding, ...]:
        """Return placements as holdings, by keys of rows."""
        return tuple(
            Holding(
                server_id=self.server_ids[p.server],
                machine_type_id=(self.worker_ids if p.role is Role.WORKER else self.ps_ids)[p.type],
                count=p.count,
                start=p.start,
                end=p.end,
            )
            for p in placements
        )

    def placements(self, holdings: Sequence[Holding]) -> tuple[Placement, ...]:
        """Return holdings as placements, by position; leave out holdings of rows that this snapshot does not have."""
        servers, types = self._positions
        return tuple(
            Placement(
                start=h.start,
                end=h.end,
                role=types[h.machine_type_id][0],
                server=servers[h.server_id],
                type=types[h.machine_type_id][1],
                count=h.count,
            )
            for h in holdings
            if h.server_id in servers and h.machine_type_id in types
        )

    @cached_property
    def _positions(self) -> tuple[dict[int, int], dict[int, tuple[Role, int]]]:
        """The positions of servers, and the roles and positions of machine types, by keys of rows."""
        types = {key: (Role.WORKER, i) for i, key in enumerate(self.worker_ids)}
        types |= {key: (Role.PS, i) for i, key in enumerate(self.ps_ids)}
        return {key: i for i, key in enumerate(self.server_ids)}, types


def align(array: NDArray[Any], *, old: Sequence[int], new: Sequence[int], axis: int) -> NDArray[Any]:
    """Return the array with one axis reordered from old row keys to new ones; 0 where a row is new."""
    if tuple(old) == tuple(new):
        return array
    where = {key: i for i, key in enumerate(old)}
    kept = [(i, where[key]) for i, key in enumerate(new) if key in where]
    source = np.moveaxis(array, axis, 0)
    moved = np.zeros((len(new), *source.shape[1:]), dtype=array.dtype)
    moved[[i for i, _ in kept]] = source[[j for _, j in kept]]
    return np.moveaxis(moved, 0, axis)


_SERVERS = Prepared(lambda cluster: Server.objects.filter(cluster=cluster), int)
_OUTAGES = Prepared(lambda cluster: Outage.objects.filter(server__cluster=cluster, ended_version=None), int)
_RESOURCES = Prepared(lambda cluster: Resource.objects.filter(cluster=cluster).values_list("name", "pk"), int)
_TYPES = Prepared(lambda cluster: MachineType.objects.filter(cluster=cluster).values_list("role", "name", "pk"), int)


def snapshot_of(cluster: Cluster, inventory: Inventory | None = None) -> InventorySnapshot:
    """Return the snapshot of the cluster's present rows, with the servers that are out of service."""
    inventory = inventory_of(cluster) if inventory is None else inventory
    servers = {server.name: server for server in _SERVERS(cluster.pk)}
    rows = [servers[name] for name in inventory.servers]
    said = {row.server_id: row for row in _OUTAGES(cluster.pk)}
    states = [said.get(row.pk) for row in rows]
    closed = tuple(None if row is None or row.out_slot is not None else row.from_slot for row in states)
    gone = [row is not None and row.out_slot is not None for row in states]
    out = tuple(tuple(own) if lost else None for own, lost in zip(inventory.capacity.tolist(), gone, strict=True))
    if any(gone):
        left = np.where(np.array(gone)[:, np.newaxis], 0, inventory.capacity)
        inventory = replace(inventory, capacity=left)
    resources = dict(_RESOURCES(cluster.pk))
    types = {(role, name): key for role, name, key in _TYPES(cluster.pk)}
    return InventorySnapshot(
        inventory=inventory,
        horizon=cluster.horizon_slots,
        slot_seconds=cluster.slot_seconds,
        delays_s=tuple(row.upload_delay_s for row in rows),
        server_ids=tuple(row.pk for row in rows),
        resource_ids=tuple(resources[name] for name in inventory.resources),
        worker_ids=tuple(types[MachineRole.WORKER, m.name] for m in inventory.workers),
        ps_ids=tuple(types[MachineRole.PS, m.name] for m in inventory.parameter_servers),
        closed=closed if any(slot is not None for slot in closed) else (),
        out=out if any(gone) else (),
    )


_RECORDED = Prepared(lambda market, version: Event.objects.filter(market=market, version=version), int, int)


def snapshot_in_force(market: Market) -> InventorySnapshot:
    """Return the snapshot that the market's events put in force last."""
    [event] = _RECORDED(market.pk, market.inventory_version)
    return InventorySnapshot.from_json(event.payload)


def snapshots_at(market_id: int, versions: set[int]) -> dict[int, InventorySnapshot]:
    """Return the snapshots recorded at these versions of the market."""
    if not versions:
        return {}
    events = Event.objects.filter(market=market_id, version__in=versions)
    return {event.version: InventorySnapshot.from_json(event.payload) for event in events}


def units_held(snapshot: InventorySnapshot, holdings: Sequence[Holding], *, start: int, end: int) -> Ints:
    """Return units held in slots [start, end), T x S x R; not checked against capacity."""
    inventory = snapshot.inventory
    # A cumulative sum over changes at both ends needs one pass, however long the windows are.
    steps = np.zeros((end - start + 1, *inventory.capacity.shape), dtype=np.int64)
    demands = {Role.WORKER: inventory.worker_demand, Role.PS: inventory.ps_demand}
    for p in snapshot.placements(holdings):
        first, last = max(p.start, start), min(p.end, end)
        if first < last:
            steps[first - start, p.server] += p.count * demands[p.role][p.type]
            steps[last - start, p.server] -= p.count * demands[p.role][p.type]
    used: Ints = np.cumsum(steps, axis=0)[:-1]
    return used
