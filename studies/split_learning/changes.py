"""Changed instances: by a short document of changes since a plan was made, or by one more helper (Fig. 8).

{"drop": ["phone"], "gone": ["laptop"], "slower": {"camera": 1.5}, "slower_helpers": {"vm": 2},
 "times": [{"client": "tablet", "helper": "vm", "tail": 9}],
 "join": [{"name": "phone-2", "like": "phone"}]}
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from math import ceil
from typing import Final

import numpy as np

from scheduling.model.errors import InvalidField, refuse_all
from scheduling.model.types import Ints, Json
from scheduling.model.validation import MOST_NAMED, check_each, shown
from scheduling.split_learning.instance import GIGABYTE, LARGEST_SLOTS, MOST_HELPERS, TIMES, Instance

OF_CLIENTS: Final = ("release", "gap", "tail")
"""The times of a client and its link, which the factor of a slower client multiplies."""
OF_HELPERS: Final = ("forward", "backward")


def changed(instance: Instance, changes: Json) -> Instance:
    """Return the instance after the changes, which `schemas.changes.ChangesIn` has checked.

    Factors apply first, then single times, then clients that join (as copies of changed clients, which may drop out),
    and at last clients that drop out and helpers that are gone. Times are rounded up to whole slots.

    Raises
    ------
    InvalidField
        If a name is unknown, a new client has the name of another one, nobody is left, or the changed instance is
        invalid. The error names the change, and the client or helper.
    """
    draft = _Draft.of(instance)
    for j, factor in _factors("slower", changes, draft.clients):
        for name in OF_CLIENTS:
            draft.times[name][:, j] = _scaled(draft.times[name][:, j], factor)
    for i, factor in _factors("slower_helpers", changes, draft.helpers):
        for name in OF_HELPERS:
            draft.times[name][i] = _scaled(draft.times[name][i], factor)
    for n, row in enumerate(changes.get("times", [])):
        draft.set_times(f"times[{n}]", row)
    out, gone = (_indices(key, changes, names) for key, names in (("drop", draft.clients), ("gone", draft.helpers)))
    draft.gone |= gone
    joining = changes.get("join", [])
    draft.make_room(len(joining))
    for n, row in enumerate(joining):
        draft.join(f"join[{n}]", row)
    rows = [i for i in range(len(draft.helpers.known)) if i not in gone]
    columns = [j for j in range(len(draft.clients.known)) if j not in out]
    if not rows:
        raise InvalidField("gone", "expected at least one helper to be left, got none")
    if not columns:
        raise InvalidField("drop", "expected at least one client to be left, got none")
    return draft.part(rows, columns)


def best_helper(instance: Instance) -> int:
    """Return the fastest helper: least slots of passes over all clients; of equals most memory, then the first."""
    passes = (instance.forward + instance.backward).sum(axis=1)
    return int(np.lexsort((-instance.capacity, passes))[0])


def one_more_helper(instance: Instance) -> Instance:
    """Return the instance with a copy of its best helper, links and memory; raises InvalidField if it is full."""
    if len(instance.helpers) >= MOST_HELPERS:
        raise InvalidField("helpers", f"expected fewer than {MOST_HELPERS}, got {len(instance.helpers)}")
    best = best_helper(instance)
    rows = [*range(len(instance.helpers)), best]
    times = {name: getattr(instance, name)[rows] for name in TIMES}
    return replace(
        instance,
        **times,
        capacity=instance.capacity[rows],
        switch=instance.switch[rows],
        helpers=(*instance.helpers, _new_name(instance.helpers[best], instance.helpers)),
    )


def _new_name(name: str, taken: tuple[str, ...]) -> str:
    """Return an unused name such as `vm-1 copy 2`."""
    base = name.partition(" copy ")[0][:80]
    return next(f"{base} copy {n}" for n in range(1, MOST_HELPERS + 1) if f"{base} copy {n}" not in taken)


@dataclass
class _Names:
    """An index of clients or helpers by name."""

    kind: str
    known: list[str]

    def __post_init__(self) -> None:
        self._place = {name: n for n, name in enumerate(self.known)}

    def __contains__(self, name: str) -> bool:
        return name in self._place

    def index(self, field: str, name: str) -> int:
        """Return the index of this name; raises InvalidField for an unknown name."""
        if name not in self._place:
            there = ", ".join(self.known[:10]) + (", ..." if len(self.known) > 10 else "")
            raise InvalidField(field, f"expected a {self.kind} ({there}), got {shown(name)}")
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
    gone: set[int] = field(default_factory=set)
    """Helpers that are gone: a client that joins needs no times with them."""

    @classmethod
    def of(cls, instance: Instance) -> "_Draft":
        times = {name: getattr(instance, name).copy() for name in TIMES}
        clients, helpers = _Names("client", [*instance.clients]), _Names("helper", [*instance.helpers])
        return cls(instance, clients, helpers, times, instance.demand.tolist())

    def set_times(self, field: str, row: Json) -> None:
        """Set some times of a client, with one helper or with all."""
        j = self.clients.index(f"{field}.client", row["client"])
        where = slice(None) if "helper" not in row else self.helpers.index(f"{field}.helper", row["helper"])
        for name in TIMES:
            if name in row:
                self.times[name][where, j] = row[name]

    def make_room(self, more: int) -> None:
        """Add columns for new clients."""
        there = len(self.clients.known)
        for kind in TIMES:
            wider = np.zeros((len(self.helpers.known), there + more), dtype=np.int64)
            wider[:, :there] = self.times[kind]
            self.times[kind] = wider

    def join(self, field: str, row: Json) -> None:
        """Add a client: a copy of another one, or one with its own demand and its times with each helper by name."""
        name = row["name"]
        if name in self.clients:
            raise InvalidField(f"{field}.name", f"expected a name that no client has, got {name}")
        if "like" in row:
            like = self.clients.index(f"{field}.like", row["like"])
            columns = {kind: self.times[kind][:, like] for kind in TIMES}
            demand = self.demand[like]
        else:
            columns = self._columns(f"{field}.times", row["times"])
            demand = ceil(row["demand_gb"] * GIGABYTE)
        self.demand.append(demand)
        for kind in TIMES:
            self.times[kind][:, len(self.clients.known)] = columns[kind]
        self.clients.add(name)

    def _columns(self, where: str, by_helper: Mapping[str, Json]) -> dict[str, Ints]:
        """Return the times of a new client with each helper; 0 with one that is gone, if none are given."""
        needed = [name for i, name in enumerate(self.helpers.known) if i not in self.gone]
        absent = [InvalidField(f"{where}.{name}", "missing") for name in needed if name not in by_helper]
        refuse_all(absent[:MOST_NAMED])
        check_each(partial(self.helpers.index, f"{where}.{name[:60]}", name) for name in by_helper)
        rows = [by_helper.get(name, dict.fromkeys(TIMES, 0)) for name in self.helpers.known]
        return {kind: np.array([row[kind] for row in rows], dtype=np.int64) for kind in TIMES}

    def part(self, rows: list[int], columns: list[int]) -> Instance:
        """Return the instance of these helpers and clients.

        Raises InvalidField about all changes together: a request has no fields of the new instance.
        """
        try:
            return Instance(
                **{name: self.times[name][np.ix_(rows, columns)] for name in TIMES},
                demand=np.array(self.demand, dtype=np.int64)[columns],
                capacity=self.before.capacity[rows],
                switch=self.before.switch[rows],
                helpers=tuple(self.helpers.known[i] for i in rows),
                clients=tuple(self.clients.known[j] for j in columns),
                slot_ms=self.before.slot_ms,
            )
        except InvalidField as error:
            raise error.at("") from None


def _indices(key: str, changes: Json, names: _Names) -> set[int]:
    named = enumerate(changes.get(key, []))
    return set(check_each(partial(names.index, f"{key}[{n}]", name) for n, name in named))


def _factors(key: str, changes: Json, names: _Names) -> Iterable[tuple[int, Fraction]]:
    factors = changes.get(key, {})
    found = check_each(partial(names.index, f"{key}.{name[:60]}", name) for name in factors)
    return zip(found, factors.values(), strict=True)


def _scaled(times: Ints, factor: Fraction) -> Ints:
    """Return scaled times, rounded up to whole slots; the check of the instance refuses times that are too large."""
    return np.array([min(ceil(slots * factor), 2 * LARGEST_SLOTS) for slots in times.tolist()], dtype=np.int64)
