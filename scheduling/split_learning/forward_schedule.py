"""The first step of Algorithm 1: forward slots on helpers, without memory and without asking for whole passes."""

from dataclasses import dataclass, replace

import numpy as np

from scheduling.model.types import Floats, Ints
from scheduling.solvers.milp import NEAR, IntegerProgram
from scheduling.solvers.time_limit import Left
from scheduling.split_learning.backward import Free, Pass, largest_tail_first
from scheduling.split_learning.instance import Instance


@dataclass(frozen=True)
class ForwardSlots:
    """Slots of each client on each helper, and the last completion. Jackson's rule gives the order."""

    slots: Ints
    """I x J."""
    shares: Floats
    """Share of each client's pass on each helper, I x J; it differs from slots / p only if p is 0."""
    makespan: int
    """max over clients of c^f (13)."""
    cost: float
    """makespan + sum of price x slots."""
    optimal: bool
    """Whether the solver ended in time."""


def schedule(instance: Instance, after: Ints, price: Floats, start: Ints, left: Left) -> ForwardSlots:
    """Minimise max_j (phi_j + after_j) + sum of price x slots subject to (1), (12) to (14) and (20).

    The paper's program has a binary for each client, helper and slot. Here a helper's slots are only counted: those
    n_ij are feasible for a makespan C if and only if, for each slot a and each tail b, the clients that come at a or
    later and have at least b after them take at most C - b - a slots, or none. Such rows are added as Jackson's rule
    finds them violated, so both programs have the same optimum; theirs grows with the number of slots, and this does
    not. As (20) is printed a client may run on several helpers, even at once.

    Parameters
    ----------
    after
        Slots from the end of a client's forward pass to c^f, J: those of the helper it has, 0 while it has none.
    price
        Of each slot on each helper, I x J.
    start
        The assignment so far, I x J, each client once or none at all; a first solution.

    Notes
    -----
    When no time is left, the best schedule so far is completed and `optimal` is False.
    """
    program = _Program(instance, after, price, start)
    before = None
    while True:
        answer = program.rows.solve(left)
        if answer.values is None:
            return program.fallback
        found = program.read(answer.values, optimal=answer.optimal)
        if found.makespan <= program.claimed(answer.values) + NEAR or not answer.optimal or left() <= 0:
            return found
        if before is not None and (found.slots == before).all():
            # Rows that are violated by less than the solver's tolerance, with passes of millions of slots.
            return replace(found, optimal=False)
        before = found.slots
        program.cut(found.slots)


class _Program:
    """Columns: the makespan C, slots n, and whether a helper has any (z) where rows depend on it."""

    def __init__(self, instance: Instance, after: Ints, price: Floats, start: Ints) -> None:
        self.instance, self.after, self.price = instance, after, price
        self.release, self.length = instance.release, instance.forward
        self.fallback = self._simple()
        if start.any():
            given = self._timed(start * self.length, start.astype(np.float64), optimal=False)
            self.fallback = min(self.fallback, given, key=lambda one: one.cost)
        self.least = self._least()
        # No better solution has a larger makespan than one whose slots cost as little as can be.
        cheapest = (price * self.length).min(axis=0).sum()
        self.most = int(np.floor(self.fallback.cost - cheapest + NEAR))
        self.rows = IntegerProgram()
        self.top = self.rows.column(self.least, max(self.most, self.least), cost=1.0)
        self.n: dict[tuple[int, int], int] = {}
        self.z: dict[tuple[int, int], int] = {}
        for j in range(len(after)):
            self._add_client(j)

    def read(self, values: Floats, *, optimal: bool) -> ForwardSlots:
        """Return the slots of a solution, with its true makespan."""
        slots = np.zeros_like(self.length)
        shares = np.zeros(self.length.shape)
        for (i, j), column in self.n.items():
            slots[i, j] = round(values[column])
            whole = self.length[i, j]
            shares[i, j] = slots[i, j] / whole if whole else values[self.z[i, j]]
        return self._timed(slots, shares, optimal=optimal)

    def claimed(self, values: Floats) -> float:
        """The makespan a solution has by the rows so far."""
        return float(values[self.top])

    def cut(self, slots: Ints) -> None:
        """Add rows for the busiest stretch of each helper: clients in it, and what begins and ends it."""
        for i in range(len(slots)):
            stretch = self._stretch(i, slots[i])
            if stretch is not None:
                self._limit(i, *stretch)

    def _add_client(self, j: int) -> None:
        # (20) times what makes its largest coefficient 1: the solver's tolerance is absolute.
        shortest = min((int(p) for p in self.length[:, j] if p), default=1)
        share = []
        for i in range(len(self.length)):
            whole, soonest = int(self.length[i, j]), int(self.release[i, j] + self.after[j])
            if soonest + (whole > 0) > self.most:
                continue
            self.n[i, j] = self.rows.column(0, whole, cost=float(self.price[i, j]))
            if soonest > self.least or not whole:
                self.z[i, j] = self.rows.column()
                self.rows.row([(self.z[i, j], whole), (self.n[i, j], -1)], low=0)
            share.append((self.n[i, j], shortest / whole) if whole else (self.z[i, j], float(shortest)))
            if soonest + whole > self.least:
                self._limit(i, int(self.release[i, j]), int(self.after[j]), only=j)
        self.rows.row(share, shortest, shortest)

    def _limit(self, i: int, start: int, tail: int, only: int | None = None) -> None:
        """Add the row that clients with release `start` or later and tail `tail` or more end by C, if there are any.

        Where even none of their slots fit before the least makespan, the row holds once one of them has a slot: C
        exceeds the least by as much as they have slots in any case, and by start + tail - least more if z is 1.
        """
        there = (self.release[i] >= start) & (self.after >= tail)
        members = [j for j in np.flatnonzero(there).tolist() if (i, j) in self.n and only in (None, j)]
        terms = [(self.top, 1.0), *((self.n[i, j], -1.0) for j in members)]
        beyond = start + tail - self.least
        if beyond <= 0:
            self.rows.row(terms, low=start + tail)
            return
        for j in members:
            self.rows.row([*terms, (self.z[i, j], -beyond)], low=self.least)

    def _least(self) -> int:
        """No makespan is smaller: each client alone, on all helpers at once."""
        low, high = 0, self.fallback.makespan
        while low < high:
            middle = (low + high) // 2
            room = np.maximum(middle - self.after - self.release, -1)
            share = np.where(
                self.length > 0, np.minimum(np.maximum(room, 0) / np.maximum(self.length, 1), 1), room >= 0
            )
            if (share.sum(axis=0) >= 1 - NEAR).all():
                high = middle
            else:
                low = middle + 1
        return low

    def _simple(self) -> ForwardSlots:
        """Each client where it is cheapest and soonest, one after the other."""
        slots = np.zeros_like(self.length)
        free = np.zeros(len(self.length), dtype=np.int64)
        chosen = np.zeros(self.length.shape)
        for j in np.argsort(-self.after, kind="stable"):
            ends = np.maximum(free, self.release[:, j]) + self.length[:, j]
            i = int(np.argmin(ends + self.price[:, j] * self.length[:, j]))
            slots[i, j], chosen[i, j] = self.length[i, j], 1.0
            free[i] = ends[i]
        return self._timed(slots, chosen, optimal=False)

    def _timed(self, slots: Ints, shares: Floats, *, optimal: bool) -> ForwardSlots:
        ends = [end + int(self.after[j]) for i in range(len(slots)) for j, _, end in self._jackson(i, slots[i])]
        here = (slots == 0) & (shares > NEAR)
        ends += (self.release + self.after)[here].tolist()
        makespan = max(ends)
        return ForwardSlots(slots, shares, makespan, makespan + float((self.price * slots).sum()), optimal)

    def _jackson(self, i: int, slots: Ints) -> list[tuple[int, int, int]]:
        """Client, start and end of what helper i runs, in order of time."""
        release, after = self.release[i].tolist(), self.after.tolist()
        passes = [Pass(release[j], release[j], int(slots[j]), after[j], j) for j in np.flatnonzero(slots).tolist()]
        return list(largest_tail_first(passes, Free(())))

    def _stretch(self, i: int, slots: Ints) -> tuple[int, int] | None:
        """Return the begin of the last busy stretch and the least tail in it; all its clients arrive in it."""
        pieces = self._jackson(i, slots)
        if not pieces:
            return None
        last = max(range(len(pieces)), key=lambda k: pieces[k][2] + int(self.after[pieces[k][0]]))
        tail = int(self.after[pieces[last][0]])
        first = last
        while first and pieces[first - 1][2] == pieces[first][1] and self.after[pieces[first - 1][0]] >= tail:
            first -= 1
        return pieces[first][1], tail
