"""Interval rows: passes released at slot a of a helper or later, and over t slots before the end, fit between them.

A row counts the passes whose release is at least a and that have at least t slots after them. Neither depends on the
makespan, so a row holds for every makespan. There are too many rows, so violated ones are separated one by one.

Rounded rows are stronger for whole clients. If all clients take u slots of a helper, the slots between a and t hold a
whole number of clients, and the remainder is lost (Gomory rounding: both sides of the row in whole units of u). Rows of
memory are rounded in the same way. If clients of few kinds almost fill a helper, as measured devices do, this raises
the bound by some slots.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

import numpy as np
import scipy

from scheduling.model.types import Floats, Ints
from scheduling.split_learning.columns import Columns
from scheduling.split_learning.instance import Instance

TOLERANCE = 1e-6
LEAST = 1e-9
"""Least share of a client or of work that is not ignored."""
EACH_TIME = 3
"""Rows added for a helper at a time."""
LOST = 0.02
"""Least violation of a rounded row that is added, units."""
KINDS = 4
"""Largest number of lengths of clients by which rows of a helper are rounded."""
MOST_UNITS = 10_000
"""Largest number of units of memory on a helper: more units gain little, and are too large for the solver."""
FINEST = 10_000
"""Number of units of the largest client in a row for the solver. With finer units the solver merged close numbers and
reported that sufficient memory was too small."""
MOST_TIMES = 1_000
"""Largest number of releases, and of following slots, that are evaluated together. If there are more, a sample is
evaluated, then all values near the best one."""
TIMES_A_UNIT = 3
"""Rows of memory are rounded by a client's memory, and by the half and the third of it."""


class HelperRow(NamedTuple):
    """The use of a helper by clients, and its limit, in whole units."""

    helper: int
    who: Ints
    taken: Ints
    around: int | None
    """a + t slots of an interval; None for memory."""
    unit: int
    """1 for an interval that is not rounded."""
    room: int = 0
    """Units of memory."""

    def moves(self, low: int) -> bool:
        """Whether there is more as the makespan grows from `low`, slot by slot."""
        return self.unit == 1 and self.around is not None and self.around <= low

    def free(self, makespan: int) -> int:
        """Return the limit in whole units."""
        return self.room if self.around is None else (makespan - self.around) // self.unit * self.unit


class IntervalRows:
    """Rows of an instance without costs of switching (`Instance.uninterrupted`), and those of memory."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        gap, tail = instance.gap, instance.tail
        self._release = np.hstack([instance.release, instance.release + instance.forward + gap])
        self._after = np.hstack([gap + instance.backward + tail, tail])
        self._work = np.hstack([instance.forward, instance.backward])
        self._seen: set[tuple[int, ...]] = set()
        self._rows: list[HelperRow] = []

    def __len__(self) -> int:
        """Rows found so far."""
        return len(self._rows)

    def __iter__(self) -> Iterator[HelperRow]:
        return iter(self._rows)

    def matrix(
        self, columns: Columns, low: int, makespan: int, *, whole: bool
    ) -> "tuple[scipy.sparse.csr_array, Floats]":
        """Rows of memory, for `whole` clients rounded, and of intervals, for plans of `low` to `makespan` slots.

        The last columns are the makespan and slots by which the others may be more. A row whose slots a and t are more
        than `low` would hold the makespan up even if nothing runs between them, and a rounded one is no line; with
        `makespan` in place of the makespan they hold for all that are no longer.
        """
        at: list[Ints] = [np.empty(0, dtype=np.int64)]
        weight: list[Floats] = [np.empty(0)]
        length: list[int] = []
        right: list[float] = []
        for i in self._scarce():
            there = np.flatnonzero(columns.place[i] >= 0)
            at.append(columns.place[i][there])
            demand, capacity = self.instance.demand[there], int(self.instance.capacity[i])
            # Rounded down, all that fits does so, and a little more, which `overbooked` finds.
            unit = max(1, ceil(int(demand.max(initial=0)) / FINEST))
            weight.append((demand // unit).astype(np.float64) if whole else demand / capacity)
            length.append(len(there))
            right.append(float(capacity // unit) if whole else 1.0)
        for row in self._rows:
            mine = columns.place[row.helper][row.who]
            there = np.flatnonzero(mine >= 0)
            if not len(there):
                continue
            at += [mine[there], np.array([len(columns) + (not row.moves(low))])]
            weight += [row.taken[there].astype(np.float64), np.array([-1.0])]
            length.append(len(there) + 1)
            right.append(float(row.free(0 if row.moves(low) else makespan)))
        number = np.repeat(np.arange(len(length)), length)
        shape = (len(length), len(columns) + 2)
        matrix = scipy.sparse.coo_array((np.concatenate(weight), (number, np.concatenate(at))), shape=shape)
        return scipy.sparse.csr_array(matrix), np.array(right)

    def separate(self, share: Floats, span: float, makespan: int) -> bool:
        """Add the rows that a solution breaks most; whether there were any.

        `share`: I x J; `span`: its makespan; `makespan`: what whole clients are tested for.
        """
        found = False
        for i, part in enumerate(share):
            twice = np.concatenate([part, part])
            found |= self._separate(i, self._work[i] * twice, self._release[i], self._after[i], span, 1)
            whole = self.instance.forward[i] + self.instance.backward[i]
            kinds, many = np.unique(whole[part > LEAST], return_counts=True)
            for unit in kinds[np.argsort(-many, kind="stable")][:KINDS]:
                if unit > 1:
                    units = whole // unit * part
                    release, after = self.instance.release[i], self.instance.tail[i]
                    found |= self._separate(i, units, release, after, makespan, int(unit))
            found |= self._separate_memory(i, part)
        return found

    def _separate_memory(self, i: int, part: Floats) -> bool:
        """Add rounded rows of helper i's memory; the unit is a client's memory divided by a small number."""
        demand, capacity = self.instance.demand, int(self.instance.capacity[i])
        found = False
        for size in np.unique(demand[(part > LEAST) & (demand > capacity // MOST_UNITS)]):
            for times in range(1, TIMES_A_UNIT + 1):
                taken, room = times * demand // size, times * capacity // int(size)
                if (i, int(size), times) in self._seen or taken @ part <= room + LOST:
                    continue
                self._seen.add((i, int(size), times))
                who = np.flatnonzero(taken)
                self._rows.append(HelperRow(i, who, taken[who], None, int(size), room))
                found = True
        return found

    def _separate(self, i: int, work: Floats, releases: Ints, afters: Ints, span: float, unit: int) -> bool:
        """Add the rows of helper i that `work`, in units, breaks most."""
        on = work > LEAST
        if not on.any():
            return False
        load = _Load(work[on], releases[on], afters[on], span, unit)
        release, after = load.times()
        over = load.over(release, after)
        least = TOLERANCE * max(1.0, span) if unit == 1 else LOST
        found = False
        for _ in range(EACH_TIME):
            a, t = (int(at) for at in np.unravel_index(over.argmax(), over.shape))
            most, start, tail = float(over[a, t]), int(release[a]), int(after[t])
            if MOST_TIMES in over.shape:
                most, start, tail = load.near(release, after, a, t)
            if most <= least:
                break
            found |= self._add(i, start, tail, unit)
            over[max(0, a - 2) : a + 3, max(0, t - 2) : t + 3] = -np.inf
        return found

    def _scarce(self) -> Ints:
        """Helpers whose memory is too small for all clients that fit it."""
        # As doubles: whole numbers would overflow.
        wanted = np.where(self.instance.fits, self.instance.demand[None], 0).sum(axis=1, dtype=np.float64)
        return np.flatnonzero((wanted > self.instance.capacity) & (self.instance.capacity > 0))

    def _add(self, i: int, a: int, t: int, unit: int) -> bool:
        """One row more, unless it is there."""
        if (i, a, t, unit) in self._seen:
            return False
        self._seen.add((i, a, t, unit))
        counts = self._work[i] * ((self._release[i] >= a) & (self._after[i] >= t))
        slots = counts.reshape(2, -1).sum(axis=0) // unit * unit
        who = np.flatnonzero(slots)
        self._rows.append(HelperRow(i, who, slots[who], a + t, unit))
        return True


@dataclass(frozen=True)
class _Load:
    """Work of one helper, in units, with its times: an entry for each pass, or for each client if it is rounded."""

    work: Floats
    releases: Ints
    afters: Ints
    span: float
    unit: int

    def times(self) -> tuple[Ints, Ints]:
        """Releases and slots that follow at which a row may begin and end; of very many only some."""
        return _some(np.unique(self.releases)), _some(np.unique(self.afters))

    def over(self, release: Ints, after: Ints) -> Floats:
        """Return the violation of the rows of these times; -inf for a row without clients."""
        begin = np.searchsorted(release, self.releases, side="right") - 1
        end = np.searchsorted(after, self.afters, side="right") - 1
        counts = (begin >= 0) & (end >= 0)
        load = np.zeros((len(release), len(after)))
        np.add.at(load, (begin[counts], end[counts]), self.work[counts])
        load = load[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
        free = self.span - release[:, None] - after[None]
        return np.where(load > LEAST, load - (free if self.unit == 1 else free // self.unit), -np.inf)

    def near(self, release: Ints, after: Ints, a: int, t: int) -> tuple[float, int, int]:
        """The row that is broken most at release[a] and after[t], or at times left out around them: by how much, its
        release, and the slots that follow it.
        """
        begin, end = _around(np.unique(self.releases), release, a), _around(np.unique(self.afters), after, t)
        over = self.over(begin, end)
        x, y = np.unravel_index(over.argmax(), over.shape)
        return float(over[x, y]), int(begin[x]), int(end[y])


def _some(times: Ints) -> Ints:
    """Return at most MOST_TIMES of them, evenly spaced, with the first and the last."""
    if len(times) <= MOST_TIMES:
        return times
    some: Ints = times[np.linspace(0, len(times) - 1, MOST_TIMES).astype(np.int64)]
    return some


def _around(times: Ints, some: Ints, at: int) -> Ints:
    """Those of `times` between the neighbours of some[at], neighbours left out, or some[at] alone if all are there."""
    low = some[at - 1] if at else some[at] - 1
    high = some[at + 1] if at + 1 < len(some) else some[at] + 1
    between: Ints = times[(times > low) & (times < high)]
    return between
