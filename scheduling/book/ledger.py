"""The ledger: units of every resource that are reserved on every server in every future slot."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count

import numpy as np
from numpy.typing import NDArray

from scheduling.model.errors import OutsideHorizon, OverCapacity
from scheduling.model.inventory import Inventory
from scheduling.model.schedule import Placement, Schedule
from scheduling.model.types import Ints

_versions = count(1)


class Ledger:
    """`used[T, S, R]` against `capacity[S, R]` for the slots `[start, start + T)`.

    It changes only when a schedule is committed or released or when slots pass. Committing a schedule that does not fit
    raises an exception and changes nothing.

    Parameters
    ----------
    closed
        For each server, the slot from which it takes no new work, or None; empty if all are in service. Existing
        reservations on a closed server stay. For all other jobs the server counts as full, so no kernel sells it.

    Examples
    --------
    >>> from scheduling.book.ledger import Ledger
    >>> from scheduling.model.example import INVENTORY
    >>> from scheduling.model.schedule import Placement, Role, Schedule
    >>> ledger = Ledger(INVENTORY, start=0, slots=4)
    >>> schedule = Schedule(0, 2, (Placement(0, 2, Role.WORKER, 0, 0, 2),))
    >>> ledger.commit(schedule)
    >>> ledger.used[:, 0, 0].tolist()
    [2, 2, 0, 0]
    >>> ledger.commit(schedule)
    Traceback (most recent call last):
    ...
    scheduling.model.errors.OverCapacity: server a has no room for ...
    >>> ledger.advance(1)
    >>> ledger.start, ledger.end, ledger.used[:, 0, 0].tolist()
    (1, 5, [2, 0, 0, 0])
    """

    def __init__(self, inventory: Inventory, *, start: int, slots: int, closed: Sequence[int | None] = ()) -> None:
        self.inventory = inventory
        self.start = start
        self.closed = {s: slot for s, slot in enumerate(closed) if slot is not None}
        """First slot without new work, by the index of each closed server."""
        self._rows: Ints = np.zeros((slots, *inventory.capacity.shape), dtype=np.int64)
        """Reserved units. The horizon is a window of these rows, which moves forward as slots pass; later rows are
        zero."""
        self._first = 0
        self._held = self._rows
        self._used = self._with_closed_full()
        """Reserved units, with closed servers full; the same array as `_held` while no server is closed."""
        self._last_start = self._last_end = start
        self.version = next(_versions)
        """A number of these contents, which no other ledger of this process has; another one after every change."""
        self.derived: dict[str, object] = {}
        """Caches that kernels keep for this ledger: derived data, not part of its contents and never copied."""
        self.tables: dict[str, object] = {}
        """Tables of kernels, brought up to date before each use: any ledger of these servers and slots may go on with
        them, but one at a time."""

    @property
    def end(self) -> int:
        """First slot after the horizon; every job is complete by then."""
        return self.start + len(self._used)

    @property
    def used(self) -> Ints:
        """Units that are not available, T x S x R, read-only: reserved ones, and all units of closed servers."""
        return _read_only(self._used)

    @property
    def held(self) -> Ints:
        """Units reserved by schedules, T x S x R, read-only."""
        return _read_only(self._held)

    @property
    def last_start(self) -> int:
        """Slot after which no use begins: from there on, use never increases."""
        return max((self._last_start, *self.closed.values()))

    @property
    def last_end(self) -> int:
        """First slot from which nothing is in use; a closed server is in use until the end of the horizon."""
        return max(self._last_end, self.end) if self.closed else self._last_end

    def is_closed(self) -> NDArray[np.bool_]:
        """Return whether each server is closed in each slot, T x S flags."""
        flags = np.zeros(self._held.shape[:2], dtype=np.bool_)
        for server, slot in self.closed.items():
            flags[max(0, slot - self.start) :, server] = True
        return flags

    def sold(self, slots: int) -> tuple[Ints, Ints]:
        """Return reserved and sellable unit-slots of each resource in the first `slots` slots, R numbers each.

        Closed servers count in neither number: they are not demand.
        """
        capacity = self.inventory.capacity
        # Sum over slots first: the rows of all servers are contiguous in memory.
        held: Ints = self._used[:slots].sum(axis=0).sum(axis=0)
        sellable: Ints = min(slots, len(self._used)) * capacity.sum(axis=0)
        for server, slot in self.closed.items():
            shut = max(0, min(slots, len(self._used)) - max(0, slot - self.start)) * capacity[server]
            held, sellable = held - shut, sellable - shut
        return held, sellable

    def opened(self) -> "Ledger":
        """Return an independent ledger with the same reservations, as if no server were closed."""
        other = self.copy()
        other.closed = {}
        other._used = other._held
        return other

    def sellable(self, placements: Iterable[Placement]) -> Iterator[Placement]:
        """Yield the parts of placements in the horizon that can be sold again if they are released.

        A server that is closed takes nothing from its slot on, so what is released there stays unsold.
        """
        for p in _clip(placements, self.start):
            end = min(p.end, self.closed.get(p.server, p.end))
            if end > p.start:
                yield p.until(end)

    def copy(self) -> "Ledger":
        """Return an independent ledger with the same contents."""
        other = Ledger(self.inventory, start=self.start, slots=0)
        other.closed = dict(self.closed)
        other._rows = other._held = self._held.copy()
        other._used = self._used.copy() if self.closed else other._held
        other._last_start, other._last_end = self._last_start, self._last_end
        return other

    def without(self, placements: Iterable[Placement]) -> "Ledger":
        """Return an independent ledger in which these placements, all reserved here, are free from its start on."""
        other = self.copy()
        other._add(tuple(_clip(placements, other.start)), sign=-1)
        return other

    def commit(self, schedule: Schedule) -> None:
        """Reserve a schedule's machines.

        Raises
        ------
        OutsideHorizon
            If a placement uses a slot the ledger does not hold.
        OverCapacity
            If a server would be over capacity or is closed in some slot; then nothing is reserved.
        """
        for p in schedule.placements:
            if p.server in self.closed and p.end > self.closed[p.server]:
                name = self.inventory.servers[p.server]
                raise OverCapacity(f"server {name} takes no new work from slot {self.closed[p.server]} on: {p}")
        self._reserve(schedule)

    def _reserve(self, schedule: Schedule) -> None:
        """Reserve machines, also on closed servers."""
        for placement in schedule.placements:
            if placement.start < self.start or placement.end > self.end:
                raise OutsideHorizon(f"{placement} is not within slots [{self.start}, {self.end})")
        self._add(schedule.placements, sign=1)
        over = [p for p in schedule.placements if self._is_over(p)]
        if over:
            self._add(schedule.placements, sign=-1)
            raise OverCapacity(f"server {self.inventory.servers[over[0].server]} has no room for {over[0]}")

    def release(self, schedule: Schedule, *, from_slot: int) -> None:
        """Release what a schedule holds from slot `from_slot` on; past slots do not change."""
        cut = max(from_slot, self.start)
        self._add(tuple(_clip(schedule.placements, cut)), sign=-1)

    def advance(self, slot: int) -> None:
        """Move the horizon forward to start at `slot`; its length stays the same."""
        passed = min(max(slot - self.start, 0), len(self._held))
        if passed:
            self._move_window(passed)
            self.version = next(_versions)
        self.start = max(slot, self.start)
        if passed:
            self._used = self._with_closed_full()

    def restore(self, schedules: Iterable[Schedule]) -> None:
        """Reserve the parts of schedules that lie in the horizon, to rebuild a ledger from database rows.

        Schedules on closed servers are accepted: they were granted before the server was closed.

        Raises
        ------
        OutsideHorizon
            If a schedule uses slots after the horizon.
        OverCapacity
            If a server would be over capacity in some slot. The schedules before that one are reserved then.
        """
        for schedule in schedules:
            rest = tuple(_clip(schedule.placements, self.start))
            self._reserve(Schedule(start=schedule.start, completion=schedule.completion, placements=rest))

    def _move_window(self, passed: int) -> None:
        slots = len(self._held)
        self._first += passed
        if self._first + slots > len(self._rows):
            # Spare rows of a quarter of the horizon: rows are copied only when they run out.
            rows = np.zeros((slots + slots // 4 + 1, *self._held.shape[1:]), dtype=np.int64)
            rows[: slots - passed] = self._held[passed:]
            self._rows, self._first = rows, 0
        self._held = self._rows[self._first : self._first + slots]

    def _with_closed_full(self) -> Ints:
        """Return the reserved units, with closed servers full."""
        if not self.closed:
            return self._held
        used = self._held.copy()
        for server, slot in self.closed.items():
            used[max(0, slot - self.start) :, server] = self.inventory.capacity[server]
        return used

    def _add(self, placements: tuple[Placement, ...], *, sign: int) -> None:
        self.version = next(_versions)
        if sign > 0:
            self._last_start = max(self._last_start, *(p.start for p in placements), self.start)
            self._last_end = max(self._last_end, *(p.end for p in placements), self.start)
        for p in placements:
            units = sign * p.units(self.inventory)
            window = self._held[p.start - self.start : p.end - self.start, p.server]
            window += units
            if self.closed:
                last = min(p.end, max(self.closed.get(p.server, p.end), p.start))
                self._used[p.start - self.start : last - self.start, p.server] += units

    def _is_over(self, p: Placement) -> bool:
        window = self._held[p.start - self.start : p.end - self.start, p.server]
        return bool(np.count_nonzero(window > self.inventory.capacity[p.server]))


def empty_like(ledger: Ledger) -> Ledger:
    """Return an empty ledger over the same slots, cached with the ledger so that its kernel caches stay valid."""
    empty = ledger.tables.get("empty")
    if not isinstance(empty, Ledger) or empty.inventory is not ledger.inventory or empty.start > ledger.start:
        empty = Ledger(ledger.inventory, start=ledger.start, slots=ledger.end - ledger.start)
        ledger.tables["empty"] = empty
    empty.advance(ledger.start)
    return empty


def _read_only(array: Ints) -> Ints:
    view = array.view()
    view.flags.writeable = False
    return view


def _clip(placements: Iterable[Placement], cut: int) -> Iterator[Placement]:
    """Return the parts of placements at or after slot `cut`."""
    return (p.since(cut) for p in placements if p.end > cut)
