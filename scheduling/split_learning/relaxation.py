"""Bounds that hold for every plan: the slowest unavoidable path, and a linear program over assignments."""

from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp
from scipy.sparse import coo_array, csr_array, vstack

from scheduling.arrays import Floats, Ints
from scheduling.split_learning.instance import Flags, Instance
from scheduling.split_learning.method import Left

TOLERANCE = 1e-6
METHOD: Literal["highs-ds"] = "highs-ds"
WHOLE = 0.999
"""A client of whom a helper has this much is there whole."""
STALLED = 2.0
"""Seconds in which a bound has to rise"""
RISES = 1.002
"""by this factor."""
EACH_TIME = 3
"""Rows added for a helper at a time."""


Cut = tuple[Ints, Ints, int]
"""Helpers, clients, and how many of those clients each of those helpers has at most."""


@dataclass(frozen=True)
class Solved:
    """An answer of the solver."""

    span: float
    """The least makespan that the rows allow, slots; infinity where they allow none."""
    share: Floats
    """Which part of each client each helper has, I x J."""


class Relaxation:
    """Makespan over assignments: for slots a and t of a helper, what is released at a or later and is over t slots
    before the end has to fit between them.

    A pass of client j counts where its release is at least a and the slots that follow it are at least t; neither
    depends on the makespan, so a row found once holds for all. Rows are found one by one: there are too many of them.
    The instance has no costs of switching (`Instance.uninterrupted`).
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        gap, tail = instance.gap, instance.tail
        self._release = np.hstack([instance.release, instance.release + instance.forward + gap])
        self._after = np.hstack([gap + instance.backward + tail, tail])
        self._work = np.hstack([instance.forward, instance.backward])
        self._path = instance.path
        self._fits = instance.fits
        self._seen: set[tuple[int, int, int]] = set()
        self._rows: list[tuple[int, Ints, Ints]] = []
        self._around: list[int] = []
        self.solved = 0
        """How often the solver was called."""

    def __len__(self) -> int:
        """Rows found so far."""
        return len(self._rows)

    def allowed(self, makespan: int) -> Flags:
        """Which helper each client may have if all has to be over by then, I x J."""
        able: Flags = self._fits & (self._path <= makespan)
        return able

    def least(self, low: int, makespan: int, left: Left) -> Solved | None:
        """The least makespan from `low` to `makespan` of divided clients; None if there is none.

        No plan ends earlier, if none ends before `low`; also if it stops before it found all rows, because no time was
        left or nothing had come of them for a while.
        """
        able = self.allowed(makespan)
        if not able.any(axis=0).all():
            return None
        begun, risen = left(), float(low)
        while True:
            solved = self._solve(able, low, makespan)
            if solved is None:
                return None
            if solved.span > risen * RISES:
                begun, risen = left(), solved.span
            if left() <= max(0.0, begun - STALLED) or not self._separate(solved.share, solved.span):
                return solved

    def whole(self, makespan: int, cuts: list[Cut], seconds: float) -> Ints | bool | None:
        """A helper for each client within memory, the rows so far and cuts, J; None if there is none; False if time is
        up.
        """
        able = self.allowed(makespan)
        if not able.any(axis=0).all():
            return None
        return self._solve_whole(able, makespan, cuts, seconds)

    def add_broken(self, assignment: Ints, makespan: int) -> bool:
        """Add rows that an assignment breaks; whether there were any."""
        share = np.zeros_like(self._path, dtype=np.float64)
        share[assignment, np.arange(len(assignment))] = 1.0
        return self._separate(share, makespan)

    def _solve(self, able: Flags, low: int, makespan: int) -> Solved | None:
        """Minimise the makespan over the rows found so far."""
        columns = np.flatnonzero(able.ravel())
        rows, right = self._matrix(columns, low, makespan)
        clients = len(self.instance.clients)
        once = coo_array(
            (np.ones(len(columns)), (columns % clients, np.arange(len(columns)))), shape=(clients, len(columns) + 1)
        )
        cost = np.zeros(len(columns) + 1)
        cost[-1] = 1.0
        self.solved += 1
        limits = np.zeros((len(columns) + 1, 2))
        limits[:-1, 1] = 1
        limits[-1] = low, makespan
        # The stubs know no sparse matrices here; milp does, and takes several times as long over a linear program.
        equal, unequal = cast(Any, once), cast(Any, rows)
        found = linprog(
            cost, A_ub=unequal, b_ub=right, A_eq=equal, b_eq=np.ones(clients), bounds=cast(Any, limits), method=METHOD
        )
        if found.status == 2:
            return None
        if found.x is None or found.fun is None:
            raise RuntimeError(f"the solver gave up: {found.message}")
        share = np.zeros(able.size)
        share[columns] = found.x[:-1]
        return Solved(float(found.fun), share.reshape(able.shape))

    def _solve_whole(self, able: Flags, makespan: int, cuts: list[Cut], seconds: float) -> Ints | bool | None:
        clients = len(self.instance.clients)
        columns = np.flatnonzero(able.ravel())
        rows, right = self._matrix(columns, makespan, makespan)
        rows, right = rows[:, :-1], right - rows[:, [-1]].toarray()[:, 0] * makespan
        if cuts:
            matrix, most = self._cut_rows(cuts, columns)
            rows, right = vstack([rows, matrix], format="csr"), np.concatenate([right, most])
        once = csr_array(
            coo_array(
                (np.ones(len(columns)), (columns % clients, np.arange(len(columns)))), shape=(clients, len(columns))
            )
        )
        self.solved += 1
        found = milp(
            np.zeros(len(columns)),
            integrality=np.ones(len(columns), dtype=np.int64),
            bounds=Bounds(0, 1),
            constraints=[LinearConstraint(rows, -np.inf, right), LinearConstraint(once, 1, 1)],
            options={"time_limit": max(0.05, seconds)},
        )
        if found.status == 2:
            return None
        if found.x is None:
            return False
        chosen = columns[found.x > 0.5]
        assignment = np.empty(clients, dtype=np.int64)
        assignment[chosen % clients] = chosen // clients
        return assignment

    def rounded(self, share: Floats, low: int, makespan: int, seconds: float) -> Ints | None:
        """Clients whole on one helper there, the others where the rows so far allow the least makespan, J.

        Whole clients are those a solution gives to one helper; None if the solver finds nothing in the time.
        """
        clients = len(self.instance.clients)
        able = self.allowed(makespan)
        whole = share.max(axis=0) >= WHOLE
        able[:, whole] = share[:, whole] >= WHOLE
        columns = np.flatnonzero(able.ravel())
        rows, right = self._matrix(columns, low, makespan)
        shape = (clients, len(columns) + 1)
        once = csr_array(coo_array((np.ones(len(columns)), (columns % clients, np.arange(len(columns)))), shape=shape))
        cost = np.zeros(len(columns) + 1)
        cost[-1] = 1.0
        self.solved += 1
        found = milp(
            cost,
            integrality=np.append(np.ones(len(columns), dtype=np.int64), 0),
            bounds=Bounds(np.append(np.zeros(len(columns)), low), np.append(np.ones(len(columns)), makespan)),
            constraints=[LinearConstraint(rows, -np.inf, right), LinearConstraint(once, 1, 1)],
            options={"time_limit": max(0.05, seconds), "mip_rel_gap": 0.005},
        )
        if found.x is None:
            return None
        chosen = columns[found.x[:-1] > 0.5]
        assignment = np.empty(clients, dtype=np.int64)
        assignment[chosen % clients] = chosen // clients
        return assignment

    def _scarce(self) -> Ints:
        """Helpers whose memory is too small for all clients that fit it."""
        wanted = np.where(self._fits, self.instance.demand[None], 0).sum(axis=1)
        return np.flatnonzero((wanted > self.instance.capacity) & (self.instance.capacity > 0))

    def _matrix(self, columns: Ints, low: int, makespan: int) -> tuple[csr_array, Floats]:
        """Rows of memory, in parts of the helper's, and of intervals; the last column is the makespan.

        A row whose slots a and t are more than `low` would hold the makespan up even if nothing runs between them; with
        `makespan` in place of the makespan it holds for all that are no longer.
        """
        clients = len(self.instance.clients)
        place = np.full(self._path.size, -1, dtype=np.int64)
        place[columns] = np.arange(len(columns))
        at: list[Ints] = [np.empty(0, dtype=np.int64)]
        weight: list[Floats] = [np.empty(0)]
        length: list[int] = []
        right: list[float] = []
        for i in self._scarce():
            mine = place[i * clients : (i + 1) * clients]
            there = np.flatnonzero(mine >= 0)
            at.append(mine[there])
            weight.append(self.instance.demand[there] / self.instance.capacity[i])
            length.append(len(there))
            right.append(1.0)
        for (i, who, slots), around in zip(self._rows, self._around, strict=True):
            mine = place[i * clients + who]
            there = np.flatnonzero(mine >= 0)
            if not len(there):
                continue
            at.append(mine[there])
            weight.append(slots[there].astype(np.float64))
            length.append(len(there))
            right.append(float(makespan - around))
            if around <= low:
                at.append(np.array([len(columns)]))
                weight.append(np.array([-1.0]))
                length[-1] += 1
                right[-1] = -float(around)
        row = np.repeat(np.arange(len(length)), length)
        shape = (len(length), len(columns) + 1)
        matrix = coo_array((np.concatenate(weight), (row, np.concatenate(at))), shape=shape)
        return csr_array(matrix), np.array(right)

    def _cut_rows(self, cuts: list[Cut], columns: Ints) -> tuple[csr_array, Floats]:
        clients = len(self.instance.clients)
        place = np.full(self._path.size, -1, dtype=np.int64)
        place[columns] = np.arange(len(columns))
        at: list[Ints] = []
        row: list[Ints] = []
        most: list[float] = []
        for helpers, who, limit in cuts:
            for i in helpers:
                mine = place[i * clients + who]
                at.append(mine[mine >= 0])
                row.append(np.full(len(at[-1]), len(most)))
                most.append(float(limit))
        where = (np.concatenate(row), np.concatenate(at))
        return csr_array(coo_array((np.ones(len(where[0])), where), shape=(len(most), len(columns)))), np.array(most)

    def _separate(self, share: Floats, span: float) -> bool:
        """Add the rows that a solution breaks most; whether there were any."""
        found = False
        for i, part in enumerate(share):
            work = self._work[i] * np.concatenate([part, part])
            on = work > 1e-9
            if not on.any():
                continue
            release, after = np.unique(self._release[i][on]), np.unique(self._after[i][on])
            load = np.zeros((len(release), len(after)))
            where = np.searchsorted(release, self._release[i][on]), np.searchsorted(after, self._after[i][on])
            np.add.at(load, where, work[on])
            load = load[::-1, ::-1].cumsum(axis=0).cumsum(axis=1)[::-1, ::-1]
            over = np.where(load > 1e-9, load + release[:, None] + after[None] - span, -np.inf)
            for _ in range(EACH_TIME):
                a, t = np.unravel_index(over.argmax(), over.shape)
                if over[a, t] <= TOLERANCE * max(1.0, span):
                    break
                found |= self._add(i, int(release[a]), int(after[t]))
                over[max(0, a - 2) : a + 3, max(0, t - 2) : t + 3] = -np.inf
        return found

    def _add(self, i: int, a: int, t: int) -> bool:
        """One row more, unless it is there."""
        if (i, a, t) in self._seen:
            return False
        self._seen.add((i, a, t))
        counts = self._work[i] * ((self._release[i] >= a) & (self._after[i] >= t))
        slots = counts.reshape(2, -1).sum(axis=0)
        who = np.flatnonzero(slots)
        self._rows.append((i, who, slots[who]))
        self._around.append(a + t)
        return True
