"""Instance files of preemptive edge-cloud scheduling: workers on servers, a cloud, jobs of like chunks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import lcm
from typing import Any

import numpy as np

from scheduling.instances.fields import check_fractions, check_id, inner_document, repeated_ids
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.schedule import CLOUD
from scheduling.model.types import Ints, Json
from scheduling.model.utility import Constant
from scheduling.model.validation import (
    MOST_NAMED,
    check_each,
    check_flag,
    check_fraction,
    check_integer,
    check_list,
    check_named,
    check_object,
    shown,
)

MOST_MACHINES = 100_000
LARGEST_SCALE = 10**6
_JOB = ("id", "r", "D", "delta")
_PARTS = ("E", "B", "m", "G", "qb")
"""The parts of p0 and p1, for a job that states neither."""
_JOB_OPTIONAL = ("worker_type", "ps_types", "p0", "p1", *_PARTS, "delta_cloud", "chunk_size", "gang")


@dataclass(frozen=True)
class PreemptiveInstance:
    """One instance in core terms; the cloud, where there is one, is the last server.

    Times of bids and of the inventory count in units of 1 / `scale` slots: whole numbers, so that all is exact.
    """

    inventory: Inventory
    bids: tuple[Bid, ...]
    """Bids in the order of the file."""
    ids: tuple[int | str, ...]
    types: tuple[int, ...]
    """Worker type of each job: the only one it can use."""
    numbers: tuple[int, ...]
    """The number in the file of each worker of the edge, in the order in which queues number them."""
    scale: int

    def number(self, worker: int) -> int:
        """The number in the file of a worker of queues; -1 for the cloud."""
        return worker if worker == CLOUD else self.numbers[worker]


@dataclass(frozen=True)
class _Times:
    """The times of one job, slots."""

    arrival: Fraction
    with_transfer: Fraction
    without: Fraction
    delays: tuple[Fraction, ...]

    def scale(self) -> int:
        return lcm(*(t.denominator for t in (self.arrival, self.with_transfer, self.without, *self.delays)))


@dataclass(frozen=True)
class _Server:
    """One server."""

    workers: list[int]
    """The type of each worker."""
    storage: Fraction | None
    """None: no limit."""


@dataclass(frozen=True)
class _Job:
    """One job as the file states it."""

    id: int | str
    chunks: int
    type: int
    chunk_size: Fraction
    times: _Times


def read_preemptive(document: object) -> PreemptiveInstance:
    """Read an instance, bare or under `instance`; raises InvalidField naming the field."""
    root = check_object(
        "",
        inner_document(document),
        required=("servers", "cloud", "jobs"),
        optional=("name", "note", "paper", "expected"),
    )
    parts: list[Callable[[], Any]] = [
        partial(check_flag, "cloud", root["cloud"]),
        partial(check_list, "servers", root["servers"]),
        partial(check_list, "jobs", root["jobs"]),
    ]
    cloud, rows, jobs = check_each(parts)
    parts = [partial(_read_server, f"servers[{s}]", row) for s, row in enumerate(rows)]
    parts += [partial(_read_job, f"jobs[{j}]", job, len(rows), cloud) for j, job in enumerate(jobs)]
    read = check_each(parts)
    servers, jobs = read[: len(rows)], read[len(rows) :]
    refuse_all([*repeated_ids([job.id for job in jobs])][:MOST_NAMED])
    scale = lcm(*(job.times.scale() for job in jobs)) if jobs else 1
    if scale > LARGEST_SCALE:
        raise InvalidField("jobs", f"expected times with a common denominator of at most {LARGEST_SCALE}, got {scale}")
    machines, numbers = _machines(
        [server.workers for server in servers], max((job.type for job in jobs), default=0) + 1
    )
    storage, sizes = _storage([server.storage for server in servers], [job.chunk_size for job in jobs])
    inventory = _inventory(machines, sum(job.chunks for job in jobs), cloud=cloud, storage=storage)
    return PreemptiveInstance(
        inventory=inventory,
        bids=tuple(
            replace(_bid(f"#{j}", job.times, job.chunks, job.type, machines.shape[1], scale), chunk_size=sizes[j])
            for j, job in enumerate(jobs)
        ),
        ids=tuple(job.id for job in jobs),
        types=tuple(job.type for job in jobs),
        numbers=numbers,
        scale=scale,
    )


def _storage(limits: list[Fraction | None], sizes: list[Fraction]) -> tuple[list[int | None], list[int]]:
    """Return the storage of each server, and the storage of a chunk of each job, in the common denominator of all."""
    unit = lcm(*(number.denominator for number in (*limits, *sizes) if number is not None))
    return [None if limit is None else int(limit * unit) for limit in limits], [int(size * unit) for size in sizes]


def _read_server(where: str, row: object) -> _Server:
    server = check_object(where, row, required=("workers", "pss"), optional=("storage",))
    parts: dict[str, Callable[[str, Any], Any]] = {"workers": _check_types, "pss": _check_types}
    if "storage" in server:
        parts["storage"] = check_fraction
    read = check_named({key: partial(check, f"{where}.{key}", server[key]) for key, check in parts.items()})
    return _Server(read["workers"], read.get("storage"))


def _check_types(where: str, kinds: object) -> list[int]:
    entries = enumerate(check_list(where, kinds))
    return check_each(partial(check_integer, f"{where}[{i}]", kind, high=99) for i, kind in entries)


def _read_job(where: str, row: object, servers: int, cloud: bool) -> _Job:
    job = check_object(where, row, required=(*_JOB, *["delta_cloud"] * cloud), optional=_JOB_OPTIONAL)
    parts: list[Callable[[], Any]] = [
        partial(check_id, f"{where}.id", job["id"]),
        partial(check_fraction, f"{where}.r", job["r"]),
        partial(check_integer, f"{where}.D", job["D"], low=1, high=10**6),
        partial(check_integer, f"{where}.worker_type", job.get("worker_type", 0), high=99),
        partial(check_fraction, f"{where}.chunk_size", job.get("chunk_size", 0)),
        partial(_processing, where, job),
        partial(check_fractions, f"{where}.delta", job["delta"], servers),
        *[partial(check_fraction, f"{where}.delta_cloud", job.get("delta_cloud"))] * cloud,
    ]
    name, arrival, chunks, kind, size, (slow, fast), delays, *to_cloud = check_each(parts)
    return _Job(name, chunks, kind, size, _Times(arrival, slow, fast, (*delays, *to_cloud)))


def _processing(where: str, job: Json) -> tuple[Fraction, Fraction]:
    """p0 and p1, slots: given, or E B (m + G) slots with qb more for each mini-batch's communication."""
    whole = "p0" in job or "p1" in job
    keys = ("p0", "p1") if whole else _PARTS
    wrong = [InvalidField(f"{where}.{key}", "missing") for key in keys if key not in job]
    beside = [key for key in _PARTS if key in job] if whole else []
    if beside:
        problem = f"expected no {', '.join(_PARTS)} beside p0 and p1, got {', '.join(beside)}"
        wrong.append(InvalidField(f"{where}.{beside[0]}", problem))
    refuse_all(wrong)
    read = check_each(partial(check_fraction, f"{where}.{key}", job[key]) for key in keys)
    slow, fast = read if whole else _by_batches(*read)
    if fast <= 0 and not whole:
        raise InvalidField(f"{where}.E", "expected E, B and m + G above 0, got a product of 0")
    if slow <= 0:
        raise InvalidField(f"{where}.p0", "expected more than 0, got 0")
    if fast <= 0:
        raise InvalidField(f"{where}.p1", "expected more than 0, got 0")
    if fast > slow:
        raise InvalidField(f"{where}.p1", f"expected at most p0 = {slow}, got {shown(fast)}")
    return slow, fast


def _by_batches(
    epochs: Fraction, batches: Fraction, process: Fraction, update: Fraction, transfer: Fraction
) -> tuple[Fraction, Fraction]:
    return epochs * batches * (process + update + transfer), epochs * batches * (process + update)


def _machines(rows: list[list[int]], types: int) -> tuple[Ints, tuple[int, ...]]:
    """Workers of each type on each server, and each worker's number in the file, by server, type and index."""
    listed = [
        (s, kind, number) for number, (s, kind) in enumerate((s, kind) for s, row in enumerate(rows) for kind in row)
    ]
    if len(listed) > MOST_MACHINES:
        raise InvalidField("servers", f"expected at most {MOST_MACHINES} workers, got {len(listed)}")
    machines = np.zeros((len(rows), max([types, *(kind + 1 for _, kind, _ in listed)])), dtype=np.int64)
    for s, kind, _ in listed:
        machines[s, kind] += 1
    return machines, tuple(number for _, _, number in sorted(listed))


def _inventory(machines: Ints, chunks: int, *, cloud: bool, storage: list[int | None]) -> Inventory:
    """Each type's workers are a resource of their own; PSs are not counted here: the decisions ignore them."""
    servers, types = machines.shape
    capacity = np.hstack([machines, np.full((servers, 1), max(1, chunks))])
    if cloud:
        capacity = np.vstack([capacity, np.full((1, types + 1), max(1, chunks))])
    units = np.eye(types + 1, dtype=np.int64)
    names = [f"s{s}" for s in range(servers)] + ["cloud"] * cloud
    return Inventory(
        resources=(*(f"worker{m}" for m in range(types)), "ps"),
        servers=tuple(names),
        cloud=tuple(s >= servers for s in range(len(names))),
        capacity=capacity,
        workers=tuple(MachineType(f"w{m}", tuple(units[m].tolist()), Fraction(1)) for m in range(types)),
        parameter_servers=(MachineType("ps", tuple(units[types].tolist()), Fraction(1)),),
        storage=(*storage, *[None] * cloud),
    )


def _bid(name: str, times: _Times, chunks: int, kind: int, types: int, scale: int) -> Bid:
    never = times.with_transfer * scale * 2 + 1
    steps = [never] * types
    steps[kind] = times.without * scale
    transfers = [Fraction(0)] * types
    transfers[kind] = (times.with_transfer - times.without) * scale
    return Bid(
        id=name,
        arrival=int(times.arrival * scale),
        epochs=1,
        chunks=chunks,
        minibatches=1,
        worker_time=tuple(steps),
        ps_time=(Fraction(0),),
        transfer_time=tuple(transfers),
        delay=tuple(int(delay * scale) for delay in times.delays),
        utility=Constant(1.0),
    )
