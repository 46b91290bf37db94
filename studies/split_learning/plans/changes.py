"""Changes since a plan was made, as a short document instead of a whole instance.

{"drop": ["phone"], "gone": ["laptop"], "slower": {"camera": 1.5}, "slower_helpers": {"vm": 2},
 "times": [{"client": "tablet", "helper": "vm", "tail": 9}],
 "join": [{"name": "phone-2", "like": "phone"}]}
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Final

import numpy as np

from scheduling.model.errors import InvalidField
from scheduling.model.types import Ints, Json
from scheduling.model.validation import check_fraction, check_integer, check_list, check_object, shown
from scheduling.split_learning.document import GIGABYTE
from scheduling.split_learning.instance import LARGEST_SLOTS, MOST_CLIENTS, TIMES, Instance

KEYS: Final = ("drop", "gone", "slower", "slower_helpers", "times", "join")
OF_CLIENTS: Final = ("release", "gap", "tail")
"""Times of a client and its link. The factor of a slower client multiplies each of them."""
OF_HELPERS: Final = ("forward", "backward")
LARGEST_FACTOR: Final = 1000
LARGEST_GB: Final = 10**8


def changed(instance: Instance, changes: object) -> Instance:
    """Return the instance after the changes; raises InvalidField naming the change, and the client or helper.

    Factors apply first, then single times, then clients that join (as copies of changed clients, which may drop out),
    and at last clients that drop out and helpers that are gone. Times are rounded up to whole slots.
    """
    known = check_object("", changes, required=(), optional=KEYS)
    if not any(known.values()):
        raise InvalidField("", f"expected at least one of {', '.join(KEYS)}")
    draft = _Draft.of(instance)
    for j, factor in _factors("slower", known, draft.clients):
        for name in OF_CLIENTS:
            draft.times[name][:, j] = _scaled(draft.times[name][:, j], factor)
    for i, factor in _factors("slower_helpers", known, draft.helpers):
        for name in OF_HELPERS:
            draft.times[name][i] = _scaled(draft.times[name][i], factor)
    for n, row in enumerate(check_list("times", known.get("times", []))):
        draft.set_times(f"times[{n}]", row)
    out, gone = (_numbers(name, known, names) for name, names in (("drop", draft.clients), ("gone", draft.helpers)))
    joining = check_list("join", known.get("join", []))
    draft.make_room("join", len(joining))
    for n, row in enumerate(joining):
        draft.join(f"join[{n}]", row)
    rows = [i for i in range(len(draft.helpers.known)) if i not in gone]
    columns = [j for j in range(len(draft.clients.known)) if j not in out]
    if not rows:
        raise InvalidField("gone", "no helper is left")
    if not columns:
        raise InvalidField("drop", "no client is left")
    return draft.part(rows, columns)


@dataclass
class _Names:
    """An index of clients or helpers by name."""

    kind: str
    known: list[str]

    def __post_init__(self) -> None:
        self._place = {name: n for n, name in enumerate(self.known)}

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def number(self, field: str, name: object) -> int:
        """Return the number of this name; raises InvalidField if there is none."""
        if not isinstance(name, str) or name not in self._place:
            there = ", ".join(self.known[:10]) + (", ..." if len(self.known) > 10 else "")
            raise InvalidField(field, f"there is no {self.kind} {shown(name)}; there are {there}")
        return self._place[name]

    def add(self, name: str) -> None:
        """Add a name at the end."""
        self._place[name] = len(self.known)
        self.known.append(name)


@dataclass
class _Draft:
    """An instance during the changes; it is checked only at the end."""

    before: Instance
    clients: _Names
    helpers: _Names
    times: dict[str, Ints]
    demand: list[int]

    @classmethod
    def of(cls, instance: Instance) -> "_Draft":
        times = {name: getattr(instance, name).copy() for name in TIMES}
        clients, helpers = _Names("client", [*instance.clients]), _Names("helper", [*instance.helpers])
        return cls(instance, clients, helpers, times, instance.demand.tolist())

    def set_times(self, field: str, row: object) -> None:
        """Set some times of a client, with one helper or with all."""
        given = check_object(field, row, required=("client",), optional=("helper", *TIMES))
        j = self.clients.number(f"{field}.client", given["client"])
        where = slice(None) if "helper" not in given else self.helpers.number(f"{field}.helper", given["helper"])
        for name in TIMES:
            if name in given:
                self.times[name][where, j] = check_integer(f"{field}.{name}", given[name], high=LARGEST_SLOTS)

    def make_room(self, field: str, more: int) -> None:
        """Add columns for new clients; raises InvalidField for more clients than an instance may have."""
        there = len(self.clients.known)
        if more > MOST_CLIENTS:
            raise InvalidField(field, f"expected at most {MOST_CLIENTS} entries, got {more}")
        for kind in TIMES:
            wider = np.zeros((len(self.helpers.known), there + more), dtype=np.int64)
            wider[:, :there] = self.times[kind]
            self.times[kind] = wider

    def join(self, field: str, row: object) -> None:
        """Add a client: a copy of another one, or one with its own demand and its times with each helper by name."""
        given = check_object(field, row, required=("name",), optional=("like", "demand_gb", "times"))
        name = given["name"]
        if not isinstance(name, str) or not 1 <= len(name) <= 100:
            raise InvalidField(f"{field}.name", f"expected 1 to 100 characters, got {shown(name)}")
        if name in self.clients:
            raise InvalidField(f"{field}.name", f"client {name} is there already")
        if ("like" in given) == ("times" in given) or ("times" in given) != ("demand_gb" in given):
            raise InvalidField(field, f"expected either like, or demand_gb and times, of client {name}")
        if "like" in given:
            like = self.clients.number(f"{field}.like", given["like"])
            columns = {kind: self.times[kind][:, like] for kind in TIMES}
            demand = self.demand[like]
        else:
            columns = self._columns(f"{field}.times", given["times"], name)
            demand = ceil(check_fraction(f"{field}.demand_gb", given["demand_gb"], high=LARGEST_GB) * GIGABYTE)
        self.demand.append(demand)
        for kind in TIMES:
            self.times[kind][:, len(self.clients.known)] = columns[kind]
        self.clients.add(name)

    def _columns(self, field: str, given: object, client: str) -> dict[str, Ints]:
        by_helper = check_object(field, given, required=self.helpers.known)
        rows = [check_object(f"{field}.{name}", by_helper[name], required=TIMES) for name in self.helpers.known]
        return {
            kind: np.array(
                [
                    check_integer(f"{field}.{helper}.{kind}", row[kind], high=LARGEST_SLOTS)
                    for helper, row in zip(self.helpers.known, rows, strict=True)
                ],
                dtype=np.int64,
            )
            for kind in TIMES
        }

    def part(self, rows: list[int], columns: list[int]) -> Instance:
        """Return the instance of these helpers and clients; raises InvalidField."""
        return Instance(
            **{name: self.times[name][np.ix_(rows, columns)] for name in TIMES},
            demand=np.array(self.demand, dtype=np.int64)[columns],
            capacity=self.before.capacity[rows],
            switch=self.before.switch[rows],
            helpers=tuple(self.helpers.known[i] for i in rows),
            clients=tuple(self.clients.known[j] for j in columns),
            slot_ms=self.before.slot_ms,
        )


def _numbers(field: str, changes: Json, names: _Names) -> set[int]:
    rows = check_list(field, changes.get(field, []))
    return {names.number(f"{field}[{n}]", name) for n, name in enumerate(rows)}


def _factors(field: str, changes: Json, names: _Names) -> Iterable[tuple[int, Fraction]]:
    given = changes.get(field, {})
    if not isinstance(given, dict):
        raise InvalidField(field, f"expected an object of factors by name, got {shown(given)}")
    for name, factor in given.items():
        number = names.number(f"{field}.{str(name)[:60]}", name)
        yield number, check_fraction(f"{field}.{name[:60]}", factor, high=LARGEST_FACTOR)


def _scaled(times: Ints, factor: Fraction) -> Ints:
    """Return scaled times, rounded up to whole slots; the check of the instance refuses times that are too large."""
    return np.array([min(ceil(slots * factor), 2 * LARGEST_SLOTS) for slots in times.tolist()], dtype=np.int64)
