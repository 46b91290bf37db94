"""Instance files: a small cluster and its jobs in order of arrival, as test cases and notebooks write them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.instances.fields import (
    MB_TO_MBIT,
    MOST_CHUNKS,
    MOST_SLOTS,
    check_cells,
    check_fractions,
    check_id,
    check_integers,
    check_positive,
    check_some,
    check_units,
    early_arrivals,
    inner_document,
    read_utility,
    repeated_ids,
)
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.schedule import Placement, Role, Schedule
from scheduling.model.types import Json
from scheduling.model.validation import (
    MOST_NAMED,
    check_each,
    check_flag,
    check_fraction,
    check_integer,
    check_list,
    check_named,
    check_number,
    check_object,
    shown,
)

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
    parts: list[Callable[[], Any]] = [
        partial(check_integer, "T", root["T"], low=1, high=MOST_SLOTS),
        partial(check_positive, "slot_seconds", root["slot_seconds"]),
        partial(_read_inventory, root),
        partial(check_list, "jobs", root["jobs"]),
        partial(_read_conventions, root),
    ]
    slots, slot_seconds, inventory, jobs, conventions = check_each(parts)
    check_cells(slots, inventory)
    parts = [partial(_read_job, f"jobs[{i}]", job, inventory, slot_seconds, slots) for i, job in enumerate(jobs)]
    parts += [partial(_read_etas, root, inventory), partial(_read_usage, root, inventory, slots)]
    *read, etas, busy = check_each(parts)
    bids, ids = tuple(bid for bid, _ in read), tuple(name for _, name in read)
    refuse_all([*repeated_ids(ids), *early_arrivals([bid.arrival for bid in bids])][:MOST_NAMED])
    return DpsInstance(
        T=slots,
        inventory=inventory,
        bids=bids,
        ids=ids,
        etas=etas,
        conventions=conventions,
        busy=busy,
    )


def _read_inventory(root: Json) -> Inventory:
    kinds = {"worker_types": "type", "ps_types": "type", "servers": "server"}
    rows = check_named({key: partial(check_some, key, root[key], word) for key, word in kinds.items()})
    workers, pss = len(rows["worker_types"]), len(rows["ps_types"])
    places = [(key, i, row) for key in ("worker_types", "ps_types") for i, row in enumerate(rows[key])]
    parts: list[Callable[[], Any]] = [partial(_read_bandwidth, f"{key}[{i}]", row) for key, i, row in places]
    parts += [partial(_read_server, f"servers[{s}]", row, workers, pss) for s, row in enumerate(rows["servers"])]
    read = check_each(parts)
    machines = tuple(
        MachineType(f"{key[0]}{i}", tuple(int(r == own) for r in range(len(places))), read[own])
        for own, (key, i, _) in enumerate(places)
    )
    capacity, cloud = zip(*read[len(places) :], strict=True)
    return Inventory(
        resources=tuple(machine.name for machine in machines),
        servers=tuple(str(s) for s in range(len(capacity))),
        cloud=cloud,
        capacity=np.array(capacity, dtype=np.int64),
        workers=machines[:workers],
        parameter_servers=machines[workers:],
    )


def _read_bandwidth(where: str, row: object) -> Fraction:
    return check_positive(f"{where}.bw_mbps", check_object(where, row, required=("bw_mbps",))["bw_mbps"])


def _read_server(where: str, row: object, workers: int, pss: int) -> tuple[list[int], bool]:
    """Machines of each worker type and each PS type, and whether the server is a cloud."""
    server = check_object(where, row, required=("workers", "pss"), optional=("cloud",))
    parts: list[Callable[[], Any]] = [
        partial(check_integers, f"{where}.workers", server["workers"], workers),
        partial(check_integers, f"{where}.pss", server["pss"], pss),
        partial(check_flag, f"{where}.cloud", server.get("cloud", False)),
    ]
    for_workers, for_pss, cloud = check_each(parts)
    return for_workers + for_pss, cloud


def _read_job(
    where: str, row: object, inventory: Inventory, slot_seconds: Fraction, slots: int
) -> tuple[Bid, int | str]:
    job = check_object(where, row, required=_JOB)
    parts: dict[str, Callable[[str, Any], Any]] = {
        "id": check_id,
        "arrival": partial(check_integer, low=1, high=slots),
        "epochs": partial(check_integer, low=1),
        "chunks": partial(check_integer, low=1, high=MOST_CHUNKS),
        "minibatches": partial(check_integer, low=1),
        "worker_time": partial(check_fractions, length=len(inventory.workers)),
        "ps_time": partial(check_fractions, length=len(inventory.parameter_servers)),
        "grad_mb": check_fraction,
        "delay": partial(check_integers, length=len(inventory.servers)),
        "utility": read_utility,
    }
    read = check_named({key: partial(check, f"{where}.{key}", job[key]) for key, check in parts.items()})
    # Gradients are pushed and parameters pulled: twice the size (DPS, eq. 1).
    transfer = tuple(
        2 * MB_TO_MBIT * read["grad_mb"] / machine.bandwidth_mbps / slot_seconds for machine in inventory.workers
    )
    bid = Bid(
        id=str(read["id"]),
        arrival=read["arrival"],
        epochs=read["epochs"],
        chunks=read["chunks"],
        minibatches=read["minibatches"],
        worker_time=read["worker_time"],
        ps_time=read["ps_time"],
        transfer_time=transfer,
        delay=tuple(read["delay"]),
        utility=read["utility"],
    )
    return bid, read["id"]


def _read_etas(root: Json, inventory: Inventory) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    if root.get("prices") is None:
        return None
    row = check_object("prices", root["prices"], required=("eta_w", "eta_p"))

    def read(key: str, length: int) -> tuple[float, ...]:
        etas = check_list(f"prices.{key}", row[key], length=length)
        return tuple(check_each(partial(check_number, f"prices.{key}[{i}]", x, low=1.0) for i, x in enumerate(etas)))

    both = (("eta_w", len(inventory.workers)), ("eta_p", len(inventory.parameter_servers)))
    workers, pss = check_each(partial(read, key, length) for key, length in both)
    return workers, pss


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


def _read_usage(root: Json, inventory: Inventory, slots: int) -> tuple[Placement, ...]:
    return tuple(_placements(root, inventory, slots))


def _placements(root: Json, inventory: Inventory, slots: int) -> Iterator[Placement]:
    workers = len(inventory.workers)
    kinds = (
        ("initial_worker_usage", Role.WORKER, inventory.capacity[:, :workers].tolist()),
        ("initial_ps_usage", Role.PS, inventory.capacity[:, workers:].tolist()),
    )
    for key, role, capacity in kinds:
        if root.get(key) is None:
            continue
        for t, table in enumerate(check_list(key, root[key], length=slots)):
            for s, row in enumerate(check_list(f"{key}[{t}]", table, length=len(inventory.servers))):
                for m, count in enumerate(check_units(f"{key}[{t}][{s}]", row, capacity[s])):
                    if count:
                        yield Placement(start=t + 1, end=t + 2, role=role, server=s, type=m, count=count)
