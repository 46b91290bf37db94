"""Instances and plans as JSON: the format of instance files, uploads and the command line."""

from collections.abc import Callable
from functools import partial
from math import ceil, floor
from typing import Any, TypeVar

import numpy as np

from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Ints, Json
from scheduling.model.validation import (
    MOST_NAMED,
    check_each,
    check_fraction,
    check_integer,
    check_list,
    check_named,
    check_object,
    shown,
)
from scheduling.split_learning.instance import (
    GIGABYTE,
    LARGEST_SLOTS,
    MOST_CLIENTS,
    MOST_HELPERS,
    TIMES,
    Instance,
    gigabytes,
)
from scheduling.split_learning.plan import Plan

T = TypeVar("T")

LARGEST_GB = 10**8
LONGEST_NAME = 100
TABLES = tuple(name for name in TIMES if name != "gap")
_PARTS = ("tail_forward", "head_backward")
"""l and l', which may be there beside or instead of their sum, the gap."""


def read_split_learning(document: object) -> Instance:
    """Read an instance, bare or under `instance`; raises InvalidField naming the field.

    Memory in GB (10^9 bytes): a demand is rounded up and a capacity down to whole bytes.
    """
    if isinstance(document, dict) and "instance" in document:
        document = document["instance"]
    there = document if isinstance(document, dict) else {}
    parts: list[Callable[[], Any]] = [
        partial(
            check_object,
            "",
            document,
            required=("helpers", "clients", "release", "forward", "backward", "tail"),
            optional=("name", "note", "paper", "expected", "slot_ms", "gap", *_PARTS, "meta"),
        ),
        partial(_rows, "helpers", there.get("helpers", []), required="memory_gb", optional=("name", "switch")),
        partial(_rows, "clients", there.get("clients", []), required="demand_gb", optional=("name",)),
        partial(check_integer, "slot_ms", there.get("slot_ms", 1), low=1, high=10**9),
    ]
    root, helpers, clients, slot_ms = check_each(parts)
    for name, rows, most in (("helpers", helpers, MOST_HELPERS), ("clients", clients, MOST_CLIENTS)):
        if not 1 <= len(rows) <= most:
            raise InvalidField(name, f"expected 1 to {most}, got {len(rows)}")
    helper_names, client_names = check_each([partial(_names, "helper", helpers), partial(_names, "client", clients)])
    names = (helper_names, client_names)
    gap, demand, capacity, switch, *times = check_each(
        [
            partial(_gap, root, names),
            partial(_memory, "clients", "demand_gb", clients, names[1]),
            partial(_memory, "helpers", "memory_gb", helpers, names[0]),
            partial(_switch, helpers, names[0]),
            *(partial(_matrix, name, root[name], names) for name in TABLES),
        ]
    )
    return Instance(
        **dict(zip(TABLES, times, strict=True)),
        gap=gap,
        demand=demand,
        capacity=capacity,
        switch=switch,
        helpers=names[0],
        clients=names[1],
        slot_ms=slot_ms,
    )


def plan_document(plan: Plan, lower_bound: int) -> Json:
    """The result format of instance files; helpers and clients by number."""
    rows = [
        {
            "client": j,
            "helper": i,
            "forward": [list(piece) for piece in plan.forward[j]],
            "backward": [list(piece) for piece in plan.backward[j]],
        }
        for j, i in enumerate(plan.assignment.tolist())
    ]
    return {
        "makespan": plan.makespan,
        "lower_bound": lower_bound,
        "assignment": plan.assignment.tolist(),
        "schedule": rows,
    }


def instance_document(instance: Instance) -> Json:
    """The instance in the format `read_split_learning` reads."""
    return {
        "slot_ms": instance.slot_ms,
        "helpers": [
            {"name": name, "memory_gb": gigabytes(capacity), "switch": switch}
            for name, capacity, switch in zip(
                instance.helpers, instance.capacity.tolist(), instance.switch.tolist(), strict=True
            )
        ],
        "clients": [
            {"name": name, "demand_gb": gigabytes(demand)}
            for name, demand in zip(instance.clients, instance.demand.tolist(), strict=True)
        ],
        **{name: getattr(instance, name).tolist() for name in TIMES},
    }


def _rows(name: str, rows: object, *, required: str, optional: tuple[str, ...]) -> list[Json]:
    """Objects with these keys."""
    found = enumerate(check_list(name, rows))
    return check_each(
        partial(check_object, f"{name}[{n}]", row, required=(required,), optional=optional) for n, row in found
    )


def _names(kind: str, rows: list[Json]) -> tuple[str, ...]:
    def read(n: int, name: object) -> str:
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME:
            raise InvalidField(f"{kind}s[{n}].name", f"expected 1 to {LONGEST_NAME} characters, got {shown(name)}")
        return name

    return tuple(check_each(partial(read, n, row.get("name", f"{kind}-{n + 1}")) for n, row in enumerate(rows)))


def _switch(rows: list[Json], who: tuple[str, ...]) -> Ints:
    """Slots."""
    check = partial(check_integer, high=LARGEST_SLOTS)
    found = check_each(
        partial(_check_of, who[n], check, f"helpers[{n}].switch", row.get("switch", 0)) for n, row in enumerate(rows)
    )
    return np.array(found, dtype=np.int64)


def _memory(name: str, key: str, rows: list[Json], who: tuple[str, ...]) -> Ints:
    """Bytes."""
    check = partial(check_fraction, high=LARGEST_GB, as_written=True)
    found = check_each(partial(_check_of, who[n], check, f"{name}[{n}].{key}", row[key]) for n, row in enumerate(rows))
    whole = ceil if key == "demand_gb" else floor
    return np.array([whole(amount * GIGABYTE) for amount in found], dtype=np.int64)


def _check_of(who: str, check: Callable[[str, object], T], field: str, value: object) -> T:
    """Check a value; an error says whose it is."""
    try:
        return check(field, value)
    except InvalidField as error:
        raise InvalidField(error.field, f"{error.problem} ({who})") from None


def _gap(root: Json, names: tuple[tuple[str, ...], tuple[str, ...]]) -> Ints:
    """Slots between a forward pass and the backward one: given, or the sum of its two parts; if both, they agree."""
    there = [name for name in _PARTS if name in root]
    if len(there) == 1:
        missing = next(name for name in _PARTS if name not in root)
        raise InvalidField(missing, f"missing; {there[0]} needs it")
    if not there:
        if "gap" not in root:
            raise InvalidField("gap", "missing")
        return _matrix("gap", root["gap"], names)
    given = (*_PARTS, "gap") if "gap" in root else _PARTS
    tables = check_named({name: partial(_matrix, name, root[name], names) for name in given})
    parts: Ints = tables[_PARTS[0]] + tables[_PARTS[1]]
    wrong = np.argwhere(tables.get("gap", parts) != parts)[:MOST_NAMED].tolist()
    whole = " + ".join(_PARTS)
    refuse_all(
        [InvalidField(f"gap[{i}][{j}]", f"expected {whole} = {parts[i, j]}, got another number") for i, j in wrong]
    )
    return parts


def _matrix(name: str, rows: object, names: tuple[tuple[str, ...], tuple[str, ...]]) -> Ints:
    """Slots, helpers x clients."""
    helpers, clients = names
    found = np.zeros((len(helpers), len(clients)), dtype=np.int64)

    def read(i: int, row: object) -> None:
        wrong = list[InvalidField]()
        for j, cell in enumerate(check_list(f"{name}[{i}]", row, length=len(clients))):
            if isinstance(cell, int) and not isinstance(cell, bool) and 0 <= cell <= LARGEST_SLOTS:
                found[i, j] = cell
            elif len(wrong) < MOST_NAMED:
                who = f"(helper {helpers[i]}, client {clients[j]})"
                problem = f"expected 0 to {LARGEST_SLOTS} whole slots, got {shown(cell)} {who}"
                wrong.append(InvalidField(f"{name}[{i}][{j}]", problem))
        refuse_all(wrong)

    check_each(partial(read, i, row) for i, row in enumerate(check_list(name, rows, length=len(helpers))))
    return found
