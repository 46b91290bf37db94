"""Instance files of the weighted-completion scheduler: typed machines on servers with physical resources."""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from scheduling.book.ledger import Ledger
from scheduling.instances.fields import (
    MOST_CELLS,
    MOST_CHUNKS,
    MOST_SLOTS,
    check_cells,
    check_fractions,
    check_id,
    check_integers,
    check_some,
    inner_document,
    repeated_ids,
)
from scheduling.model.bid import Architecture, Bid
from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.inventory import Inventory, MachineType
from scheduling.model.types import Ints, Json
from scheduling.model.utility import Constant
from scheduling.model.validation import (
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

_REQUIRED = ("arch", "T", "servers", "workers", "jobs")
_OPTIONAL = ("bw", "pss", "tau", "beta", "lambda", "alpha", "kappa", "name", "note", "paper", "expected")
_JOB = ("id", "a", "w", "E", "D", "K", "v", "U", "comm")
LARGEST_LAMBDA = 1e15


@dataclass(frozen=True)
class WeightedInstance:
    """One instance in core terms. Slots are numbered from 1."""

    T: int
    architecture: Architecture
    inventory: Inventory
    bids: tuple[Bid, ...]
    """Bids in the order of the file, which may differ from that of arrival; each utility is the constant weight."""
    ids: tuple[int | str, ...]
    """The jobs' ids as the file writes them."""
    tau: int | None
    """Slot by which a job alone has to be complete."""
    used: Ints | None
    """`beta`, what is in use in the slots [1, tau), tau - 1 x S x R."""
    lambda_: float
    """Base of the price (11)."""
    alpha: int
    """Rounds of a batch, and the stretch of the intervals."""
    kappa: float
    """Scale of the price (11)."""

    @property
    def alone(self) -> bool:
        """Whether it asks for each job alone against what is in use."""
        return self.tau is not None and self.used is not None

    def ledger(self, *, times: int = 1) -> Ledger:
        """An empty ledger of `times` T slots, from slot 1."""
        cells = times * self.T * self.inventory.capacity.size
        if cells > MOST_CELLS:
            raise InvalidField(
                "T", f"expected at most {MOST_CELLS} cells of {times} T x servers x resources, got {cells}"
            )
        return Ledger(self.inventory, start=1, slots=times * self.T)


def read_weighted(document: object) -> WeightedInstance:
    """Read an instance, bare or under `instance`; raises InvalidField naming the field."""
    root = check_object("", inner_document(document), required=_REQUIRED, optional=_OPTIONAL)
    if root["arch"] not in tuple(Architecture):
        raise InvalidField("arch", f"expected ps or ring, got {shown(root['arch'])}")
    architecture = Architecture(root["arch"])
    tau = root.get("tau")
    parts: list[Callable[[], Any]] = [
        partial(check_integer, "T", root["T"], low=1, high=MOST_SLOTS),
        partial(_read_inventory, root, architecture),
        partial(check_list, "jobs", root["jobs"]),
        lambda: None if tau is None else check_integer("tau", tau, low=1, high=MOST_SLOTS),
        partial(check_number, "lambda", root.get("lambda", 1), low=1.0, high=LARGEST_LAMBDA),
        partial(check_integer, "alpha", root.get("alpha", 4), low=1, high=MOST_SLOTS),
        partial(check_number, "kappa", root.get("kappa", 1), low=1e-9, high=1e9),
    ]
    slots, inventory, jobs, tau, base, alpha, kappa = check_each(parts)
    last = max(slots, tau or 1)
    check_cells(last, inventory)
    parts = [partial(_read_job, f"jobs[{i}]", job, inventory, architecture, last) for i, job in enumerate(jobs)]
    parts.append(partial(_read_usage, root, inventory, tau))
    *read, used = check_each(parts)
    bids, ids = tuple(bid for bid, _ in read), tuple(name for _, name in read)
    refuse_all([*repeated_ids(ids)][:MOST_NAMED])
    return WeightedInstance(
        T=slots,
        architecture=architecture,
        inventory=inventory,
        bids=bids,
        ids=ids,
        tau=tau,
        used=used,
        lambda_=base,
        alpha=alpha,
        kappa=kappa,
    )


def _read_inventory(root: Json, architecture: Architecture) -> Inventory:
    servers = check_some("servers", root["servers"], "server")
    resources = len(check_some("servers[0]", servers[0], "resource"))
    ring = architecture is Architecture.RING
    if not ring and "bw" not in root:
        raise InvalidField("bw", "missing")
    bandwidth = None if ring else check_integer("bw", root["bw"], high=resources - 1)

    def read(kind: str) -> tuple[MachineType, ...]:
        rows = check_list(kind, root.get(kind) or [])
        if not rows and not (ring and kind == "pss"):
            raise InvalidField(kind, "expected at least one type, got none")
        return tuple(check_each(partial(_read_type, kind, i, row, resources, bandwidth) for i, row in enumerate(rows)))

    parts: list[Callable[[], Any]] = [
        *(partial(check_integers, f"servers[{s}]", row, resources) for s, row in enumerate(servers)),
        *(partial(read, kind) for kind in ("workers", "pss")),
    ]
    *capacity, workers, pss = check_each(parts)
    return Inventory(
        resources=tuple(f"r{r}" for r in range(resources)),
        servers=tuple(str(s) for s in range(len(servers))),
        cloud=(False,) * len(servers),
        capacity=np.array(capacity, dtype=np.int64),
        workers=workers,
        parameter_servers=pss,
    )


def _read_type(kind: str, i: int, row: object, resources: int, bandwidth: int | None) -> MachineType:
    demand = tuple(check_integers(f"{kind}[{i}]", row, resources))
    if not any(demand):
        raise InvalidField(f"{kind}[{i}]", "expected a demand of at least one resource, got none")
    if bandwidth is not None and not demand[bandwidth]:
        raise InvalidField(f"{kind}[{i}][{bandwidth}]", "expected a bandwidth above 0, got 0")
    # A ring reserves no bandwidth towards servers, so what its workers have matters nowhere.
    rate = Fraction(1) if bandwidth is None else Fraction(demand[bandwidth])
    return MachineType(name=f"{kind[0]}{i}", demand=demand, bandwidth_mbps=rate)


def _read_job(
    where: str, row: object, inventory: Inventory, architecture: Architecture, last: int
) -> tuple[Bid, int | str]:
    job = check_object(where, row, required=_JOB)
    workers, ring = len(inventory.workers), architecture is Architecture.RING
    update = check_fraction if ring else partial(check_fractions, length=len(inventory.parameter_servers))
    parts: dict[str, Callable[[str, Any], Any]] = {
        "id": check_id,
        "w": _check_weight,
        "a": partial(check_integer, low=1, high=last),
        "E": partial(check_integer, low=1),
        "D": partial(check_integer, low=1, high=MOST_CHUNKS),
        "K": partial(check_integer, low=1),
        "v": partial(check_fractions, length=workers),
        "U": update,
        "comm": partial(check_fractions, length=workers),
    }
    read = check_named({key: partial(check, f"{where}.{key}", job[key]) for key, check in parts.items()})
    bid = Bid(
        id=str(read["id"]),
        arrival=read["a"],
        epochs=read["E"],
        chunks=read["D"],
        minibatches=read["K"],
        worker_time=read["v"],
        ps_time=() if ring else read["U"],
        # One transfer is given; gradients are pushed and parameters pulled (eq. 1).
        transfer_time=tuple(2 * time for time in read["comm"]),
        delay=(0,) * len(inventory.servers),
        utility=Constant(read["w"]),
        architecture=architecture,
        reduce_time=read["U"] if ring else Fraction(0),
    )
    return bid, read["id"]


def _check_weight(where: str, value: object) -> float:
    weight = check_number(where, value)
    if weight <= 0:
        raise InvalidField(where, f"expected more than 0, got {shown(value)}")
    return weight


def _read_usage(root: Json, inventory: Inventory, tau: int | None) -> Ints | None:
    """Return the use before slot `tau`, from `beta[server][resource][slot]`."""
    if root.get("beta") is None:
        return None
    if tau is None:
        raise InvalidField("tau", "missing; beta states the use before slot tau")
    used = np.zeros((tau - 1, *inventory.capacity.shape), dtype=np.int64)
    for s, table in enumerate(check_list("beta", root["beta"], length=len(inventory.servers))):
        for r, row in enumerate(check_list(f"beta[{s}]", table, length=len(inventory.resources))):
            where, capacity = f"beta[{s}][{r}]", int(inventory.capacity[s, r])
            units = check_list(where, row)
            if len(units) < tau - 1:
                raise InvalidField(where, f"expected at least tau - 1 = {tau - 1} slots, got {len(units)}")
            used[:, s, r] = [
                check_integer(f"{where}[{t}]", unit, high=capacity) for t, unit in enumerate(units[: tau - 1])
            ]
    return used
