"""Instance files: a small cluster and its jobs in order of arrival, as test cases and notebooks write them."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.instances.fields import (
    MB_TO_MBIT,
    MOST_SLOTS,
    check_cells,
    check_fractions,
    check_id,
    check_integers,
    check_new_id,
    check_positive,
    inner_document,
)
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField, OverCapacity
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Json
from scheduling.model.utility import utility_from_json
from scheduling.model.validation import check_fraction, check_integer, check_list, check_number, check_object, shown

_CONVENTIONS = {
    "slot_convention": ("window", ("half_open", "inclusive")),
    "start_convention": ("start", ("ge", "strict")),
}
"""Former name and choices of each convention, by its name."""
_REQUIRED = ("T", "slot_seconds", "worker_types", "ps_types", "servers", "jobs")
_OPTIONAL = ("prices", "initial_worker_usage", "initial_ps_usage", "conventions")
_JOB = ("id", "arrival", "epochs", "chunks", "minibatches", "worker_time", "ps_time", "grad_mb", "delay", "utility")


@dataclass(frozen=True)
class DpsInstance:
    """One DPS instance in core terms. Slots are numbered from 1; every job is complete by slot `T`."""

    T: int
    inventory: Inventory
    bids: tuple[Bid, ...]
    ids: tuple[int | str, ...]
    """The jobs' ids as the file writes them."""
    etas: tuple[tuple[float, ...], tuple[float, ...]] | None
    """Paper eta of each worker type and each PS type, when the file gives them."""
    conventions: Json
    """`window` and `start`, when the file says which it is about."""
    busy: tuple[Placement, ...]
    """Placements in use before the first job, slot by slot."""

    def ledger(self, *, tail: int) -> Ledger:
        """A ledger with the initial usage: slots [1, T), and `tail` more that jobs hold beyond completion."""
        ledger = Ledger(self.inventory, start=1, slots=self.T - 1 + tail)
        ledger.commit(Schedule(start=1, completion=1, placements=tuple(p for p in self.busy if p.end <= ledger.end)))
        return ledger


def read_instance(document: object) -> DpsInstance:
    """Read an instance, bare or under `instance`; raises InvalidField naming the field."""
    root = check_object("", inner_document(document), required=_REQUIRED, optional=_OPTIONAL)
    slots = check_integer("T", root["T"], low=1, high=MOST_SLOTS)
    slot_seconds = check_positive("slot_seconds", root["slot_seconds"])
    inventory = _read_inventory(root)
    check_cells(slots, inventory)
    jobs = check_list("jobs", root["jobs"])
    ids: list[int | str] = []
    bids: list[Bid] = []
    for i, job in enumerate(jobs):
        bid, name = _read_job(f"jobs[{i}]", job, inventory, slot_seconds, slots)
        check_new_id(f"jobs[{i}].id", name, ids)
        if bids and bid.arrival < bids[-1].arrival:
            raise InvalidField(
                f"jobs[{i}].arrival",
                f"expected at least {bids[-1].arrival}, the arrival of the job before, got {bid.arrival}",
            )
        bids.append(bid)
        ids.append(name)
    instance = DpsInstance(
        T=slots,
        inventory=inventory,
        bids=tuple(bids),
        ids=tuple(ids),
        etas=_read_etas(root, inventory),
        conventions=_read_conventions(root),
        busy=tuple(_read_usage(root, inventory, slots)),
    )
    _check_usage(instance)
    return instance


def _read_inventory(root: Json) -> Inventory:
    kinds = ("worker_types", "ps_types")
    rows = {kind: check_list(kind, root[kind]) for kind in kinds}
    for kind in kinds:
        if not rows[kind]:
            raise InvalidField(kind, "expected at least one type, got none")
    count = sum(len(types) for types in rows.values())
    machines: dict[str, tuple[MachineType, ...]] = {}
    position = 0
    for kind in kinds:
        types = []
        for i, row in enumerate(rows[kind]):
            where = f"{kind}[{i}]"
            bandwidth = check_positive(f"{where}.bw_mbps", check_object(where, row, required=("bw_mbps",))["bw_mbps"])
            demand = tuple(int(r == position) for r in range(count))
            types.append(MachineType(name=f"{kind[0]}{i}", demand=demand, bandwidth_mbps=bandwidth))
            position += 1
        machines[kind] = tuple(types)
    servers = check_list("servers", root["servers"])
    if not servers:
        raise InvalidField("servers", "expected at least one server, got none")
    capacity, cloud = [], []
    for s, row in enumerate(servers):
        where = f"servers[{s}]"
        server = check_object(where, row, required=("workers", "pss"), optional=("cloud",))
        counts = check_integers(f"{where}.workers", server["workers"], len(rows["worker_types"]))
        capacity.append(counts + check_integers(f"{where}.pss", server["pss"], len(rows["ps_types"])))
        cloud.append(server.get("cloud", False))
        if not isinstance(cloud[-1], bool):
            raise InvalidField(f"{where}.cloud", f"expected true or false, got {shown(cloud[-1])}")
    return Inventory(
        resources=tuple(machine.name for kind in kinds for machine in machines[kind]),
        servers=tuple(str(s) for s in range(len(servers))),
        cloud=tuple(cloud),
        capacity=np.array(capacity, dtype=np.int64),
        workers=machines["worker_types"],
        parameter_servers=machines["ps_types"],
    )


def _read_job(
    where: str, row: object, inventory: Inventory, slot_seconds: Fraction, slots: int
) -> tuple[Bid, int | str]:
    job = check_object(where, row, required=_JOB)
    name = check_id(f"{where}.id", job["id"])
    gradients = check_fraction(f"{where}.grad_mb", job["grad_mb"])
    # Gradients are pushed and parameters pulled: twice the size (DPS, eq. 1).
    transfer = tuple(
        2 * MB_TO_MBIT * gradients / machine.bandwidth_mbps / slot_seconds for machine in inventory.workers
    )
    counts = {key: check_integer(f"{where}.{key}", job[key], low=1) for key in ("epochs", "chunks", "minibatches")}
    # More workers than machines exist are never placed, so this bound changes no result and limits memory.
    check_integer(f"{where}.chunks", counts["chunks"], low=1, high=100_000)
    bid = Bid(
        id=str(name),
        arrival=check_integer(f"{where}.arrival", job["arrival"], low=1, high=slots),
        epochs=counts["epochs"],
        chunks=counts["chunks"],
        minibatches=counts["minibatches"],
        worker_time=check_fractions(f"{where}.worker_time", job["worker_time"], len(inventory.workers)),
        ps_time=check_fractions(f"{where}.ps_time", job["ps_time"], len(inventory.parameter_servers)),
        transfer_time=transfer,
        delay=tuple(check_integers(f"{where}.delay", job["delay"], len(inventory.servers))),
        utility=utility_from_json(job["utility"], f"{where}.utility"),
    )
    return bid, name


def _read_etas(root: Json, inventory: Inventory) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    if root.get("prices") is None:
        return None
    row = check_object("prices", root["prices"], required=("eta_w", "eta_p"))

    def read(key: str, length: int) -> tuple[float, ...]:
        etas = check_list(f"prices.{key}", row[key], length=length)
        return tuple(check_number(f"prices.{key}[{i}]", eta, low=1.0) for i, eta in enumerate(etas))

    return read("eta_w", len(inventory.workers)), read("eta_p", len(inventory.parameter_servers))


def _read_conventions(root: Json) -> Json:
    """Return the conventions by their present names; `window` and `start`, the former names, are still read."""
    keys = [(key, name) for name, (former, _) in _CONVENTIONS.items() for key in (name, former)]
    row = check_object("conventions", root.get("conventions", {}), required=(), optional=tuple(key for key, _ in keys))
    conventions: Json = {}
    for key, name in keys:
        if key not in row:
            continue
        known = _CONVENTIONS[name][1]
        if row[key] not in known:
            raise InvalidField(f"conventions.{key}", f"expected one of {', '.join(known)}, got {shown(row[key])}")
        if name in conventions:
            raise InvalidField(f"conventions.{key}", f"expected it once, got {name} too")
        conventions[name] = row[key]
    return conventions


def _read_usage(root: Json, inventory: Inventory, slots: int) -> Iterator[Placement]:
    kinds = (
        ("initial_worker_usage", Role.WORKER, inventory.workers),
        ("initial_ps_usage", Role.PS, inventory.parameter_servers),
    )
    for key, role, types in kinds:
        if root.get(key) is None:
            continue
        for t, table in enumerate(check_list(key, root[key], length=slots)):
            for s, row in enumerate(check_list(f"{key}[{t}]", table, length=len(inventory.servers))):
                for m, count in enumerate(check_integers(f"{key}[{t}][{s}]", row, len(types))):
                    if count:
                        yield Placement(start=t + 1, end=t + 2, role=role, server=s, type=m, count=count)


def _check_usage(instance: DpsInstance) -> None:
    try:
        instance.ledger(tail=1)
    except OverCapacity as error:
        raise InvalidField(
            "initial_worker_usage", f"expected no more than the capacity with initial_ps_usage, got more: {error}"
        ) from None
