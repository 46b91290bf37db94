"""An instance: the slots of each client's batch with each helper, and memory."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from scheduling.model.errors import InvalidField
from scheduling.model.types import Ints

Flags = NDArray[np.bool_]

GIGABYTE = 10**9
LARGEST_SLOTS = 10**9
"""No time may exceed it, so that no sum of times can overflow."""
LARGEST_BYTES = 10**18 // 2
MOST_CLIENTS = 5_000
MOST_HELPERS = 500
NAMED = 3
"""Clients and helpers that are named where all together are at fault."""
TIMES = ("release", "forward", "gap", "backward", "tail")


@dataclass(frozen=True, eq=False)
class Instance:
    """Clients and helpers of one batch (parallel split learning, Section III). Times in slots, I helpers x J clients.

    A client's forward pass reaches helper i after `release` slots (r) and takes `forward` slots there (p); its backward
    pass is there `gap` slots after that is complete (l + l') and takes `backward` (p'); `tail` slots later (r') the
    batch is over. Raises InvalidField naming the field and the helper or client.
    """

    release: Ints
    forward: Ints
    gap: Ints
    backward: Ints
    tail: Ints
    demand: Ints
    """Memory a client takes on its helper, bytes, J."""
    capacity: Ints
    """Memory of each helper, bytes, I."""
    helpers: tuple[str, ...]
    clients: tuple[str, ...]
    slot_ms: int
    switch: Ints
    """Slots that each start and each stop of a pass adds to its completion on a helper (mu, Section VI), I."""

    def __post_init__(self) -> None:
        for name, most in (("helpers", MOST_HELPERS), ("clients", MOST_CLIENTS)):
            self._check_names(name, most)
        shape = (len(self.helpers), len(self.clients))
        for name in TIMES:
            self._check_times(name, shape)
        self._check_row("demand", self.clients, LARGEST_BYTES, "bytes")
        self._check_row("capacity", self.helpers, LARGEST_BYTES, "bytes")
        self._check_row("switch", self.helpers, LARGEST_SLOTS, "slots")
        self._check_switches()
        if self.slot_ms < 1:
            raise InvalidField("slot_ms", f"expected at least 1, got {self.slot_ms}")
        self._check_memory()

    @property
    def fits(self) -> Flags:
        """Whether the client alone fits the helper's memory, I x J."""
        room: Flags = self.demand[None] <= self.capacity[:, None]
        return room

    @property
    def path(self) -> Ints:
        """Slots each client takes with each helper if it never waits and is never interrupted, I x J."""
        once = 2 * self.switch[:, None]
        return self.release + self.forward + once + self.gap + self.backward + once + self.tail

    @property
    def horizon(self) -> int:
        """T of Section III: no sensible plan ends later, slots."""
        around = (self.path - self.forward - self.backward).max()
        return int(around + (self.forward + self.backward).max(axis=0).sum())

    def uninterrupted(self) -> "Instance":
        """The same with the switches of a pass that runs at one go in `gap` and `tail`, and no other cost of switching.

        Its plans never end later than the same plans here, so its bounds hold here.
        """
        once = 2 * self.switch[:, None]
        return replace(self, gap=self.gap + once, tail=self.tail + once, switch=np.zeros_like(self.switch))

    def part(self, helpers: Sequence[int], clients: Sequence[int]) -> "Instance":
        """These helpers and clients alone, in this order."""
        rows = np.asarray(helpers, dtype=np.int64)
        columns = np.asarray(clients, dtype=np.int64)
        times = {name: getattr(self, name)[np.ix_(rows, columns)] for name in TIMES}
        return replace(
            self,
            demand=self.demand[columns],
            capacity=self.capacity[rows],
            switch=self.switch[rows],
            helpers=tuple(self.helpers[i] for i in rows),
            clients=tuple(self.clients[j] for j in columns),
            **times,
        )

    def _check_names(self, name: str, most: int) -> None:
        names = getattr(self, name)
        if not 1 <= len(names) <= most:
            raise InvalidField(name, f"expected 1 to {most}, got {len(names)}")
        if len(set(names)) < len(names):
            twice = next(one for one in names if names.count(one) > 1)
            raise InvalidField(name, f"expected unique names, got {twice} more than once")

    def _check_times(self, name: str, shape: tuple[int, int]) -> None:
        times = getattr(self, name)
        if times.shape != shape or times.dtype != np.int64:
            raise InvalidField(name, f"expected {shape[0]} x {shape[1]} 64-bit integers, got {times.shape}")
        wrong = np.argwhere((times < 0) | (times > LARGEST_SLOTS))
        if len(wrong):
            i, j = (int(x) for x in wrong[0])
            raise InvalidField(
                f"{name}[{i}][{j}]",
                f"expected 0 to {LARGEST_SLOTS} slots, got {times[i, j]} (helper {self.helpers[i]}, client"
                f" {self.clients[j]})",
            )
        times.flags.writeable = False

    def _check_row(self, name: str, who: tuple[str, ...], most: int, unit: str) -> None:
        row = getattr(self, name)
        if row.shape != (len(who),) or row.dtype != np.int64:
            raise InvalidField(name, f"expected {len(who)} 64-bit integers, got {row.shape}")
        wrong = np.flatnonzero((row < 0) | (row > most))
        if len(wrong):
            n = int(wrong[0])
            raise InvalidField(f"{name}[{n}]", f"expected 0 to {most} {unit}, got {row[n]} ({who[n]})")
        row.flags.writeable = False

    def _check_switches(self) -> None:
        """A gap or a tail with the switches of a pass is a time of `uninterrupted`."""
        longest = np.maximum(self.gap, self.tail).max(axis=1)
        wrong = np.flatnonzero(longest + 2 * self.switch > LARGEST_SLOTS)
        if len(wrong):
            i = int(wrong[0])
            raise InvalidField(
                f"helpers[{i}].switch",
                f"expected at most {(LARGEST_SLOTS - longest[i]) // 2} slots with a gap or tail of {longest[i]}, got"
                f" {self.switch[i]} ({self.helpers[i]})",
            )

    def _check_memory(self) -> None:
        homeless = np.flatnonzero(~self.fits.any(axis=0))
        if len(homeless):
            j = int(homeless[0])
            raise InvalidField(
                f"clients[{j}].demand_gb",
                f"expected at most {gigabytes(self.capacity.max())} GB, the largest memory of a helper, got"
                f" {gigabytes(self.demand[j])} GB (client {self.clients[j]})",
            )
        needed, there = sum(self.demand.tolist()), sum(self.capacity.tolist())
        if needed > there:
            raise InvalidField(
                "clients",
                f"expected a demand of at most {gigabytes(there)} GB of all clients together"
                f" ({_largest(self.helpers, self.capacity)}), got {gigabytes(needed)} GB"
                f" ({_largest(self.clients, self.demand)})",
            )


def gigabytes(amount: int) -> str:
    """Return a number of bytes in GB, exactly."""
    whole, rest = divmod(int(amount), GIGABYTE)
    return f"{whole}.{rest:09d}".rstrip("0").rstrip(".")


def _largest(names: tuple[str, ...], amounts: Ints) -> str:
    """Return the names with the largest amounts, in GB, and the number of the others."""
    first = np.argsort(-amounts, kind="stable")[:NAMED]
    others = len(names) - len(first)
    return ", ".join(f"{names[n]} {gigabytes(amounts[n])}" for n in first) + (f" and {others} more" if others else "")
