"""Whether whole machines can have elastic jobs complete by given slots."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scheduling.arrays import Floats, Ints
from scheduling.offline.elastic_machines import SideBySide
from scheduling.offline.elastic_patterns import CLOSE, SLOT_S, Patterns
from scheduling.offline.elastic_shares import Group, Shares, Without, pattern_columns
from scheduling.offline.elastic_whole import Whole
from scheduling.offline.question import Left
from scheduling.rows import Rows

NEAR = 1e-6
"""Of what is compared."""
WHOLE_S = 0.5
"""For whole patterns."""


class Kept(NamedTuple):
    """What was found out."""

    verdict: bool | None
    """None: nothing, in the time there was."""
    rules: list[SideBySide]
    """That no schedule follows which keeps these slots; none where it takes more than rules to tell."""


def can_keep(known: Patterns, ends: dict[int, int], left: Left) -> Kept:
    """Whether these jobs can all be complete by these slots, counted from the start; the other jobs do not run.

    Parameters
    ----------
    known
        Patterns and rules of the system, to which more are added.

    Notes
    -----
    In which order a group of slots has its patterns makes no difference, so what is decided is how many slots have
    which. Shares of patterns are found by prices (Dantzig and Wolfe): those say which pattern is wanted most, and what
    it comes to is a rule for all others. Where no shares do the work, rules say so. Where shares do, whole patterns
    are tried, and then whole numbers that follow the rules (`elastic_whole`).
    """
    return _Keeping(known, ends, left).answer()


class _Keeping:
    def __init__(self, known: Patterns, ends: dict[int, int], left: Left) -> None:
        self._known, self._left = known, left
        self._all = known.machines.runs
        self._ends = ends
        self._runs = [r for r, run in enumerate(self._all) if run.job in ends]
        self._work = np.array([run.way.worker_slots for run in self._all])
        self._groups = list(self._grouped(ends))
        self._shares = Shares(known, self._groups, list(ends))
        self._next = 0
        """The group to look at next."""

    def _grouped(self, ends: dict[int, int]) -> Iterator[Group]:
        slots = self._known.slots
        found: list[list[int]] = []
        live = {}
        for t in range(max(ends.values(), default=0)):
            runs = live[t] = tuple(r for r in self._runs if t < ends[self._all[r].job] and slots.live(r, t))
            same = [g for g in found if live[g[0]] == runs and slots.equal(t, g[0], runs)]
            if same:
                same[0].append(t)
            else:
                found.append([t])
        return (Group(group[0], len(group), live[group[0]]) for group in found if live[group[0]])

    def answer(self) -> Kept:
        """By shares, and where those do the work by whole patterns and whole numbers in turns."""
        if {self._all[r].job for r in self._runs} < {*self._ends}:
            return Kept(False, [])
        if not self._ends:
            return Kept(True, [])
        self._begin()
        without = self._price()
        if without.beyond < -NEAR:
            return Kept(False, without.rules)
        numbers = Whole(self._known, self._groups, list(self._ends), self._left)
        verdict = None
        while verdict is None and self._left() > 0.0:
            verdict = self._put_together() or numbers.fits()
        return Kept(verdict, [])

    def _seconds(self, most: float) -> float:
        return max(0.0, min(most, self._left()))

    def _begin(self) -> None:
        """Have a pattern for each run alone."""
        for group in self._groups:
            for r in group.runs:
                if not any(workers[r] for workers in self._known.fitting(group.slot, (r,))):
                    if self._left() <= 0.0:
                        return
                    alone = np.zeros(len(self._all))
                    alone[r] = 1.0
                    self._known.search(group.slot, alone, self._seconds(SLOT_S))

    def _price(self) -> Without:
        """How far shares go, as near as it can be told in the time there is."""
        while True:
            without = self._shares.without()
            if without.beyond < -NEAR or self._left() <= 0.0:
                return without
            within = self._shares.within()
            if without.beyond - within.beyond < CLOSE or not self._want(within.prices):
                return without

    def _want(self, prices: Floats) -> bool:
        """Look for what is wanted most in one group, as prices are others then; whether anything is new."""
        for _ in self._groups:
            group = self._groups[self._next]
            self._next = (self._next + 1) % len(self._groups)
            weights = np.zeros_like(prices)
            weights[list(group.runs)] = prices[list(group.runs)]
            # What is worth next to nothing is the solver's rounding.
            weights[weights < NEAR * prices.max()] = 0.0
            before = self._known.count
            if weights.any() and not self._known.settles(group.slot, group.runs, weights):
                self._known.search(group.slot, weights, self._seconds(SLOT_S))
            if self._known.count > before:
                return True
        return False

    def _put_together(self) -> bool:
        """Whether whole patterns that are known, or some more that fill what those leave, do all the work."""
        before = -1
        while self._left() > 0.0 and self._known.count > before:
            before = self._known.count
            found = self._fit()
            if found is None:
                break
            used, asked = found
            had = sum((workers for _, workers in used), np.zeros_like(asked))
            if (had >= asked).all():
                return True
            self._fill(used, asked, had)
        return False

    def _fit(self) -> tuple[list[tuple[Group, Ints]], Ints] | None:
        """Whole patterns that leave the least share of work, and how much is asked of each run, worker-slots."""
        rows = Rows()
        columns, done = pattern_columns(rows, self._known, self._groups, whole=True)
        chosen = {r: rows.column() for r in self._runs}
        for r, taken in chosen.items():
            work = float(self._work[r])
            lacking = rows.column(0.0, work, cost=1.0 / work, whole=False)
            rows.row([*done[r], (lacking, 1.0), (taken, -work)], low=0.0)
        for job in self._ends:
            rows.row([(chosen[r], 1.0) for r in self._runs if self._all[r].job == job], low=1.0)
        solution = rows.solve(self._seconds(WHOLE_S))
        if solution.values is None:
            return None
        used = [(group, workers) for c, group, workers in columns for _ in range(round(solution.values[c]))]
        asked = np.zeros_like(self._work)
        for r, taken in chosen.items():
            asked[r] = round(solution.values[taken]) * self._work[r]
        return used, asked

    def _fill(self, used: list[tuple[Group, Ints]], asked: Ints, had: Ints) -> None:
        """Look for patterns that do what all others leave, in place of each that was used."""
        for group, workers in used:
            if self._left() <= 0.0:
                break
            limits = np.maximum(asked - (had - workers), 0)
            weights = np.zeros(len(asked))
            live = [r for r in group.runs if limits[r]]
            weights[live] = 1.0 / self._work[live]
            if live:
                self._known.search(group.slot, weights, self._seconds(SLOT_S), limits)
