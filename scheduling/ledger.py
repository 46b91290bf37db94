"""What is promised: units of every resource of every server in every future slot."""

from collections.abc import Iterable, Iterator

import numpy as np

from scheduling.arrays import Ints
from scheduling.errors import OutsideHorizon, OverCapacity
from scheduling.inventory import Inventory
from scheduling.schedule import Placement, Schedule


class Ledger:
    """`used[T, S, R]` against `capacity[S, R]` for the slots `[start, start + T)`.

    The only way to move it is to commit or release a schedule or to let slots pass; a schedule that does not
    fit raises and changes nothing.
    """

    def __init__(self, inventory: Inventory, *, start: int, slots: int) -> None:
        self.inventory = inventory
        self.start = start
        self._rows: Ints = np.zeros((slots, *inventory.capacity.shape), dtype=np.int64)
        """The horizon is a window of these, which moves on as slots pass; none beyond it was ever written."""
        self._first = 0
        self._used = self._rows
        self.last_start = start
        """No use begins after this slot: from there on ever less is in use."""
        self.last_end = start
        """Nothing is in use from this slot on."""
        self.version = 0
        """Goes up whenever the ledger moves."""
        self.derived: dict[str, object] = {}
        """What a kernel keeps warm about this ledger: derived data, never part of its contents and never copied."""

    @property
    def end(self) -> int:
        """First slot beyond the horizon: every job is complete by then."""
        return self.start + len(self._used)

    @property
    def used(self) -> Ints:
        """Units in use, T x S x R, read-only."""
        view = self._used.view()
        view.flags.writeable = False
        return view

    def copy(self) -> "Ledger":
        """An independent ledger with the same contents."""
        other = Ledger(self.inventory, start=self.start, slots=0)
        other._rows = other._used = self._used.copy()
        other.last_start, other.last_end = self.last_start, self.last_end
        return other

    def without(self, placements: Iterable[Placement]) -> "Ledger":
        """An independent ledger in which these placements, parts of what this one holds, are free from its start on."""
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
            If a server would be over capacity in some slot; nothing is reserved then.
        """
        for placement in schedule.placements:
            if placement.start < self.start or placement.end > self.end:
                raise OutsideHorizon(f"{placement} is not within slots [{self.start}, {self.end})")
        self._add(schedule.placements, sign=1)
        over = [p for p in schedule.placements if self._is_over(p)]
        if over:
            self._add(schedule.placements, sign=-1)
            raise OverCapacity(f"server {self.inventory.servers[over[0].server]} has no room for {over[0]}")

    def release(self, schedule: Schedule, *, from_slot: int) -> None:
        """Give back what a schedule holds from slot `from_slot` on; slots already gone stay gone."""
        cut = max(from_slot, self.start)
        self._add(tuple(_clip(schedule.placements, cut)), sign=-1)

    def advance(self, slot: int) -> None:
        """Let slots pass: the horizon now starts at `slot`, with as many slots as before."""
        passed = min(max(slot - self.start, 0), len(self._used))
        if passed:
            self._move_window(passed)
            self.version += 1
        self.start = max(slot, self.start)

    def restore(self, schedules: Iterable[Schedule]) -> None:
        """Commit the parts of schedules that lie in the horizon: how a ledger is rebuilt from rows."""
        for schedule in schedules:
            rest = tuple(_clip(schedule.placements, self.start))
            self.commit(Schedule(start=schedule.start, completion=schedule.completion, placements=rest))

    def _move_window(self, passed: int) -> None:
        slots = len(self._used)
        self._first += passed
        if self._first + slots > len(self._rows):
            # With a quarter to spare, a slot that passes copies but a few.
            rows = np.zeros((slots + slots // 4 + 1, *self._used.shape[1:]), dtype=np.int64)
            rows[: slots - passed] = self._used[passed:]
            self._rows, self._first = rows, 0
        self._used = self._rows[self._first : self._first + slots]

    def _add(self, placements: tuple[Placement, ...], *, sign: int) -> None:
        self.version += 1
        if sign > 0:
            self.last_start = max(self.last_start, *(p.start for p in placements), self.start)
            self.last_end = max(self.last_end, *(p.end for p in placements), self.start)
        for p in placements:
            demand = np.array(p.machine(self.inventory).demand, dtype=np.int64)
            self._used[p.start - self.start : p.end - self.start, p.server] += sign * p.count * demand

    def _is_over(self, p: Placement) -> bool:
        window = self._used[p.start - self.start : p.end - self.start, p.server]
        return bool((window > self.inventory.capacity[p.server]).any())


def empty_like(ledger: Ledger) -> Ledger:
    """An empty ledger over the same slots, kept beside the ledger so that its kernel stays warm."""
    empty = ledger.derived.get("empty")
    if not isinstance(empty, Ledger) or empty.inventory is not ledger.inventory or empty.start > ledger.start:
        empty = Ledger(ledger.inventory, start=ledger.start, slots=ledger.end - ledger.start)
        ledger.derived["empty"] = empty
    empty.advance(ledger.start)
    return empty


def _clip(placements: Iterable[Placement], cut: int) -> Iterator[Placement]:
    """The parts of placements that lie at or after slot `cut`."""
    return (p.since(cut) for p in placements if p.end > cut)
