"""Instance files of preemptive edge-cloud scheduling: workers on servers, a cloud, jobs of like chunks."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import lcm

import numpy as np

from scheduling.instances.fields import check_fractions, check_id, inner_document
from scheduling.model.bid import Bid
from scheduling.model.errors import InvalidField
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.schedule import CLOUD
from scheduling.model.types import Ints, Json
from scheduling.model.utility import Constant
from scheduling.model.validation import check_fraction, check_integer, check_list, check_object, shown

MOST_MACHINES = 100_000
LARGEST_SCALE = 10**6
_JOB = ("id", "r", "D", "delta")
_JOB_OPTIONAL = ("worker_type", "ps_types", "p0", "p1", "E", "B", "m", "G", "qb", "delta_cloud", "chunk_size", "gang")


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


def read_preemptive(document: object) -> PreemptiveInstance:
    """Read an instance, bare or under `instance`; raises InvalidField naming the field."""
    root = check_object(
        "",
        inner_document(document),
        required=("servers", "cloud", "jobs"),
        optional=("name", "note", "paper", "expected"),
    )
    if not isinstance(root["cloud"], bool):
        raise InvalidField("cloud", f"expected true or false, got {shown(root['cloud'])}")
    rows = [
        check_object(f"servers[{s}]", row, required=("workers", "pss"), optional=("storage",))
        for s, row in enumerate(check_list("servers", root["servers"]))
    ]
    jobs = [
        check_object(f"jobs[{j}]", row, required=_JOB, optional=_JOB_OPTIONAL)
        for j, row in enumerate(check_list("jobs", root["jobs"]))
    ]
    times = [_times(f"jobs[{j}]", job, len(rows), cloud=root["cloud"]) for j, job in enumerate(jobs)]
    scale = lcm(*(t.scale() for t in times)) if times else 1
    if scale > LARGEST_SCALE:
        raise InvalidField("jobs", f"expected times with a common denominator of at most {LARGEST_SCALE}, got {scale}")
    types = [check_integer(f"jobs[{j}].worker_type", job.get("worker_type", 0), high=99) for j, job in enumerate(jobs)]
    machines, numbers = _machines(rows, max(types, default=0) + 1)
    chunks = [check_integer(f"jobs[{j}].D", job["D"], low=1, high=10**6) for j, job in enumerate(jobs)]
    storage, sizes = _storage(rows, jobs)
    inventory = _inventory(machines, sum(chunks), cloud=root["cloud"], storage=storage)
    return PreemptiveInstance(
        inventory=inventory,
        bids=tuple(
            replace(_bid(f"#{j}", t, chunks[j], types[j], machines.shape[1], scale), chunk_size=sizes[j])
            for j, t in enumerate(times)
        ),
        ids=tuple(check_id(f"jobs[{j}].id", job["id"]) for j, job in enumerate(jobs)),
        types=tuple(types),
        numbers=numbers,
        scale=scale,
    )


def _storage(rows: list[Json], jobs: list[Json]) -> tuple[list[int | None], list[int]]:
    """Return the storage of each server, and the storage of a chunk of each job, in the common denominator of all."""
    limits = [
        check_fraction(f"servers[{s}].storage", row["storage"]) if "storage" in row else None
        for s, row in enumerate(rows)
    ]
    sizes = [check_fraction(f"jobs[{j}].chunk_size", job.get("chunk_size", 0)) for j, job in enumerate(jobs)]
    unit = lcm(*(number.denominator for number in (*limits, *sizes) if number is not None))
    return [None if limit is None else int(limit * unit) for limit in limits], [int(size * unit) for size in sizes]


def _times(field: str, job: Json, servers: int, *, cloud: bool) -> _Times:
    times = [*check_fractions(f"{field}.delta", job["delta"], servers)]
    if cloud:
        if "delta_cloud" not in job:
            raise InvalidField(f"{field}.delta_cloud", "missing")
        times.append(check_fraction(f"{field}.delta_cloud", job["delta_cloud"]))
    slow, fast = _processing(field, job)
    if slow <= 0:
        raise InvalidField(f"{field}.p0", "expected more than 0, got 0")
    if fast > slow:
        raise InvalidField(f"{field}.p1", f"expected at most p0 = {slow}, got {shown(fast)}")
    return _Times(check_fraction(f"{field}.r", job["r"]), slow, fast, tuple(times))


def _processing(field: str, job: Json) -> tuple[Fraction, Fraction]:
    """p0 and p1, slots: given, or E B (m + G) slots with q b more for each mini-batch's communication."""
    keys = ("p0", "p1") if "p0" in job or "p1" in job else ("E", "B", "m", "G", "qb")
    for key in keys:
        if key not in job:
            raise InvalidField(f"{field}.{key}", "missing")
    read = [check_fraction(f"{field}.{key}", job[key]) for key in keys]
    if len(read) == 2:
        return read[0], read[1]
    epochs, batches, process, update, transfer = read
    return epochs * batches * (process + update + transfer), epochs * batches * (process + update)


def _machines(rows: list[Json], types: int) -> tuple[Ints, tuple[int, ...]]:
    """Workers of each type on each server, and each worker's number in the file, by server, type and index."""
    listed: list[tuple[int, int, int]] = []
    for s, row in enumerate(rows):
        for i, kind in enumerate(check_list(f"servers[{s}].workers", row["workers"])):
            listed.append((s, check_integer(f"servers[{s}].workers[{i}]", kind, high=99), len(listed)))
        for i, kind in enumerate(check_list(f"servers[{s}].pss", row["pss"])):
            check_integer(f"servers[{s}].pss[{i}]", kind, high=99)
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
