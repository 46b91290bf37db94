"""Instance files of OASiS: worker servers, PS servers, and jobs that each bring a worker and a PS of their own."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import islice
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
    check_positive,
    check_some,
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
from scheduling.model.utility import Constant, Sigmoid, Step, Table, Utility
from scheduling.model.validation import (
    LARGEST_INTEGER,
    MOST_NAMED,
    check_each,
    check_fraction,
    check_integer,
    check_list,
    check_named,
    check_number,
    check_object,
    shown,
)
from scheduling.pricing.paper import L_ARGS, U_ARGS, Bounds, paper_bounds

_REQUIRED = ("T", "slot_seconds", "worker_servers", "ps_servers", "jobs")
_NO_FORMER_NAMES: Mapping[str, str] = {}
_OPTIONAL = ("prices", "initial_worker_usage", "initial_ps_usage", "resources", "u_arg", "l_arg")
_WORK = ("id", "arrival", "epochs", "chunks", "minibatches", "tau", "grad_mb", "utility")
_JOB = (*_WORK, "worker", "ps", "worker_bw_mbps", "ps_bw_mbps")
LARGEST_LOG = 1e6
"""Largest logarithm of a price bound in a file."""


@dataclass(frozen=True)
class OasisInstance:
    """One OASiS instance in core terms. Slots are numbered from 1; a job may still run in slot `T`.

    The 2R resources are those of the worker servers, then those of the PS servers; the H worker servers come first,
    then the K PS servers, each with nothing of the other pool's resources. Each job has a worker type and a PS type of
    its own, and no time to use another's. The file's utilities are of the last active slot; the bids' are of the
    completion, a slot later.
    """

    T: int
    worker_servers: int
    inventory: Inventory
    bids: tuple[Bid, ...]
    ids: tuple[int | str, ...]
    """The jobs' ids as the file writes them."""
    units: tuple[int, ...]
    """Whole units of each resource in one of the file's, 2R numbers: 1 unless the file has fractions."""
    given: Bounds | None
    """The paper's price bounds of one of the file's units of each resource, when the file gives them."""
    u_arg: str
    l_arg: str
    busy: tuple[Placement, ...]
    """Placements in use before the first job, slot by slot."""

    def ledger(self) -> Ledger:
        """A ledger of the slots [1, T] with the initial usage."""
        ledger = Ledger(self.inventory, start=1, slots=self.T)
        ledger.commit(Schedule(start=1, completion=1, placements=self.busy))
        return ledger

    def bounds(self) -> Bounds:
        """The bounds of the file, else those of (23)-(26) for its own jobs, for whole units; may raise InvalidField."""
        if self.given is None:
            return paper_bounds(
                self.bids,
                self.inventory,
                start=1,
                end=self.T + 1,
                units=[1 / unit for unit in self.units],
                for_workers=[r < len(self.units) // 2 for r in range(len(self.units))],
                u_arg=self.u_arg,
                l_arg=self.l_arg,
            )
        logs = [math.log(unit) for unit in self.units]
        low, high = (
            tuple(x - log for x, log in zip(side, logs, strict=True))
            for side in (self.given.log_low, self.given.log_high)
        )
        return Bounds(low, high)


def read_oasis(document: object) -> OasisInstance:
    """Read an instance, bare or under `instance`; raises InvalidField naming the field."""
    root = check_object("", inner_document(document), required=_REQUIRED, optional=_OPTIONAL)
    parts: list[Callable[[], Any]] = [
        partial(check_integer, "T", root["T"], low=1, high=MOST_SLOTS),
        partial(check_positive, "slot_seconds", root["slot_seconds"]),
        partial(check_list, "jobs", root["jobs"]),
        partial(_read_choice, root, "u_arg", U_ARGS, former={"printed": "paper"}),
        partial(_read_choice, root, "l_arg", L_ARGS),
    ]
    slots, slot_seconds, rows, u_arg, l_arg = check_each(parts)
    jobs = check_each(partial(_read_job, f"jobs[{i}]", row, slots) for i, row in enumerate(rows))
    pools = _read_pools(root, jobs, slots)
    wrong = [*repeated_ids([job["id"] for job in jobs]), *early_arrivals([job["arrival"] for job in jobs])]
    refuse_all(wrong[:MOST_NAMED])
    inventory = _inventory(pools, jobs)
    check_cells(slots, inventory)
    bids = tuple(_bids(jobs, inventory, slot_seconds, slots))
    return OasisInstance(
        T=slots,
        worker_servers=len(pools[0].servers),
        inventory=inventory,
        bids=bids,
        ids=tuple(job["id"] for job in jobs),
        units=pools[0].units + pools[1].units,
        given=_read_prices(root, pools),
        u_arg=u_arg,
        l_arg=l_arg,
        busy=tuple(placement for pool in pools for placement in _busy(pool, pools, len(bids))),
    )


@dataclass(frozen=True)
class _Pool:
    """The servers of one role, what each job's machine takes of them, and what is in use, in whole units."""

    role: Role
    units: tuple[int, ...]
    servers: list[list[int]]
    demands: list[list[int]]
    usage: list[list[list[int]]]
    """Units in use, T x servers x R; empty if the file does not state them."""


def _read_job(where: str, row: object, slots: int) -> Json:
    """Check the fields of a job that do not depend on servers; those that do are as the file has them."""
    job = check_object(where, row, required=_JOB)
    parts: dict[str, Callable[[str, Any], Any]] = {
        "id": check_id,
        "arrival": partial(check_integer, low=1, high=slots),
        "epochs": partial(check_integer, low=1),
        "chunks": partial(check_integer, low=1, high=MOST_CHUNKS),
        "minibatches": partial(check_integer, low=1),
        "tau": check_fraction,
        "grad_mb": check_fraction,
        "worker_bw_mbps": check_positive,
        "ps_bw_mbps": check_positive,
        "utility": read_utility,
    }
    return job | check_named({key: partial(check, f"{where}.{key}", job[key]) for key, check in parts.items()})


def _read_pools(root: Json, jobs: list[Json], slots: int) -> tuple[_Pool, _Pool]:
    first = check_list("worker_servers", root["worker_servers"])
    resources = len(check_list("worker_servers[0]", first[0])) if first else 0
    if not resources:
        raise InvalidField("worker_servers", "expected at least one server with at least one resource, got none")
    check_list("resources", root.get("resources", [""] * resources), length=resources)
    workers, pss = check_each(
        partial(_read_pool, root, jobs, slots, resources, role) for role in (Role.WORKER, Role.PS)
    )
    return workers, pss


def _read_pool(root: Json, jobs: list[Json], slots: int, resources: int, role: Role) -> _Pool:
    key, usage_key = f"{role}_servers", f"initial_{role}_usage"
    parts: list[Callable[[], Any]] = [
        partial(_read_table, key, check_some(key, root[key], "server"), resources),
        *(partial(_read_demand, f"jobs[{i}].{role}", job[role], resources) for i, job in enumerate(jobs)),
    ]
    servers, *demands = check_each(parts)
    tables = [] if root.get(usage_key) is None else check_list(usage_key, root[usage_key], length=slots)
    usage = [_read_table(f"{usage_key}[{t}]", table, resources, len(servers)) for t, table in enumerate(tables)]
    refuse_all([*islice(_over_capacity(usage_key, usage, servers), MOST_NAMED)])
    vectors = [*servers, *demands, *(row for table in usage for row in table)]
    units = tuple(math.lcm(*(vector[r].denominator for vector in vectors)) for r in range(resources))

    def whole(vector: tuple[Fraction, ...]) -> list[int]:
        numbers = [int(x * unit) for x, unit in zip(vector, units, strict=True)]
        if max(numbers) > LARGEST_INTEGER:
            raise InvalidField(key, f"expected numbers up to {LARGEST_INTEGER} in whole units, got {max(numbers)}")
        return numbers

    return _Pool(
        role=role,
        units=units,
        servers=[whole(row) for row in servers],
        demands=[whole(row) for row in demands],
        usage=[[whole(row) for row in table] for table in usage],
    )


def _over_capacity(
    key: str, usage: list[list[tuple[Fraction, ...]]], servers: list[tuple[Fraction, ...]]
) -> Iterator[InvalidField]:
    for t, table in enumerate(usage):
        for s, (row, capacity) in enumerate(zip(table, servers, strict=True)):
            for r, (used, most) in enumerate(zip(row, capacity, strict=True)):
                if used > most:
                    problem = f"expected at most {shown(most)}, the capacity, got {shown(used)}"
                    yield InvalidField(f"{key}[{t}][{s}][{r}]", problem)


def _read_table(where: str, rows: object, resources: int, length: int | None = None) -> list[tuple[Fraction, ...]]:
    entries = enumerate(check_list(where, rows, length=length))
    return check_each(partial(check_fractions, f"{where}[{i}]", row, resources) for i, row in entries)


def _read_demand(where: str, row: object, resources: int) -> tuple[Fraction, ...]:
    demand = check_fractions(where, row, resources)
    if not any(demand):
        raise InvalidField(where, "expected a demand of at least one resource, got none")
    return demand


def _inventory(pools: tuple[_Pool, _Pool], jobs: list[Json]) -> Inventory:
    resources, hosts = len(pools[0].units), len(pools[0].servers)
    capacity = np.zeros((hosts + len(pools[1].servers), 2 * resources), dtype=np.int64)
    capacity[:hosts, :resources] = pools[0].servers
    capacity[hosts:, resources:] = pools[1].servers
    return Inventory(
        resources=tuple(f"{pool.role}-{r}" for pool in pools for r in range(resources)),
        servers=tuple(f"{pool.role}-{s}" for pool in pools for s in range(len(pool.servers))),
        cloud=(False,) * len(capacity),
        capacity=capacity,
        workers=_machines(pools[0], jobs, before=0, after=resources),
        parameter_servers=_machines(pools[1], jobs, before=resources, after=0),
    )


def _machines(pool: _Pool, jobs: list[Json], *, before: int, after: int) -> tuple[MachineType, ...]:
    """One type for each job; and, where something is in use, one for a unit of each resource, which no job can use."""
    machines = [
        MachineType(f"{pool.role}-of-{i}", (0,) * before + tuple(demand) + (0,) * after, job[f"{pool.role}_bw_mbps"])
        for i, (job, demand) in enumerate(zip(jobs, pool.demands, strict=True))
    ]
    for r in range(len(pool.units) if pool.usage else 0):
        unit = tuple(int(r == other) for other in range(len(pool.units)))
        machines.append(MachineType(f"{pool.role}-unit-{r}", (0,) * before + unit + (0,) * after, Fraction(1)))
    return tuple(machines)


def _busy(pool: _Pool, pools: tuple[_Pool, _Pool], jobs: int) -> Iterator[Placement]:
    first = 0 if pool is pools[0] else len(pools[0].servers)
    for t, table in enumerate(pool.usage, start=1):
        for s, row in enumerate(table, start=first):
            for kind, count in enumerate(row, start=jobs):
                if count:
                    yield Placement(start=t, end=t + 1, role=pool.role, server=s, type=kind, count=count)


def _bids(jobs: list[Json], inventory: Inventory, slot_seconds: Fraction, slots: int) -> Iterator[Bid]:
    never = Fraction(slots + 1)
    for i, job in enumerate(jobs):
        transfer = 2 * MB_TO_MBIT * job["grad_mb"] / inventory.workers[i].bandwidth_mbps / slot_seconds
        yield Bid(
            id=str(job["id"]),
            arrival=job["arrival"],
            epochs=job["epochs"],
            chunks=job["chunks"],
            minibatches=job["minibatches"],
            worker_time=_only(i, job["tau"], never, len(inventory.workers)),
            ps_time=_only(i, Fraction(0), never, len(inventory.parameter_servers)),
            transfer_time=_only(i, transfer, Fraction(0), len(inventory.workers)),
            delay=(0,) * len(inventory.servers),
            utility=_a_slot_later(job["utility"], slots),
        )


def _only(i: int, own: Fraction, others: Fraction, length: int) -> tuple[Fraction, ...]:
    return (others,) * i + (own,) + (others,) * (length - i - 1)


def _a_slot_later(utility: Utility, slots: int) -> Utility:
    """Return the utility of completion - arrival, from that of (last active slot - arrival), a slot earlier."""
    if isinstance(utility, Constant):
        return utility
    if isinstance(utility, Sigmoid) and utility.g3 + 1 <= LARGEST_INTEGER:
        return Sigmoid(utility.g1, utility.g2, utility.g3 + 1)
    if isinstance(utility, Step) and utility.deadline + 1 <= LARGEST_INTEGER:
        return Step(utility.v, utility.deadline + 1)
    return Table((utility.at(0), *utility.curve(slots + 1).tolist()))


def _read_prices(root: Json, pools: tuple[_Pool, _Pool]) -> Bounds | None:
    """`L1`, `L2`, `U1[R]`, `U2[R]`, or their logarithms as `lnL1` ...; a resource nobody asks for needs no U."""
    if root.get("prices") is None:
        return None
    logs = isinstance(root["prices"], dict) and any(str(key).startswith("ln") for key in root["prices"])
    names = [f"ln{key}" if logs else key for key in ("L1", "L2", "U1", "U2")]
    row = check_object("prices", root["prices"], required=names)

    def read(where: str, value: object) -> float:
        if logs:
            return check_number(where, value, low=-LARGEST_LOG, high=LARGEST_LOG)
        number = check_number(where, value)
        if number <= 0:
            raise InvalidField(where, f"expected more than 0, got {shown(value)}")
        return math.log(number)

    low, high = [], []
    for pool, low_key, high_key in zip(pools, names[:2], names[2:], strict=True):
        least = read(f"prices.{low_key}", row[low_key])
        for r, value in enumerate(check_list(f"prices.{high_key}", row[high_key], length=len(pool.units))):
            where, asked = f"prices.{high_key}[{r}]", any(demand[r] for demand in pool.demands)
            most = read(where, value) if asked or value not in (None, 0) else least
            if asked and most < least:
                raise InvalidField(where, f"expected at least {low_key}, got {shown(value)}")
            low.append(least)
            high.append(max(least, most))
    return Bounds(tuple(low), tuple(high))


def _read_choice(root: Json, key: str, choices: tuple[str, ...], former: Mapping[str, str] = _NO_FORMER_NAMES) -> str:
    """Read one of these choices, or a former name of one; the first choice if the file has none."""
    chosen = root.get(key, choices[0])
    chosen = former.get(chosen, chosen) if isinstance(chosen, str) else chosen
    if chosen not in choices:
        raise InvalidField(key, f"expected one of {', '.join(choices)}, got {shown(chosen)}")
    return str(chosen)
