"""Whether whole workers can have elastic jobs complete by given slots."""

from collections import defaultdict
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from scheduling.arrays import Ints
from scheduling.offline.elastic_patterns import SLOT_S, Patterns
from scheduling.offline.elastic_shares import Group
from scheduling.offline.question import Left
from scheduling.rows import Rows

NEAR = 1e-6
"""Of what is compared."""
AWAY = 0.5
"""Of a worker."""
ROUGH = 0.5
"""Of the fewest workers: any that do the work will do."""
LOOKS = 8
"""For a rule that whole numbers break."""


class _Counts(NamedTuple):
    """Whole workers of each run in one slot of a group."""

    group: Group
    workers: Ints


class Whole:
    """Whole numbers of workers in each slot, by what is known of patterns.

    Notes
    -----
    They follow the rules. Where a slot of them has no pattern, either a rule is found that they break, or they are a
    gap: fewer of them have no pattern either, down to the fewest of which that holds. Then others are looked for.
    """

    def __init__(self, known: Patterns, groups: list[Group], jobs: list[int], left: Left) -> None:
        self._known, self._groups, self._jobs, self._left = known, groups, jobs, left
        self._slots = [group for group in groups for _ in range(group.number)]
        self._all = known.machines.runs
        self._runs = [r for r, run in enumerate(self._all) if run.job in jobs]

    def fits(self) -> bool | None:
        """Whether some do all the work; None: these do not, or it was not found out in time."""
        solution = self._rows().solve(self._left(), gap=ROUGH)
        if not solution.feasible:
            return False
        if solution.values is None:
            return None
        # Equal slots once.
        slots = {(n.group, n.workers.tobytes()): n for n in self._read(np.rint(solution.values).astype(np.int64))}
        possible = [self._has_pattern(slot) for slot in slots.values() if self._left() > 0.0]
        return True if all(possible) and len(possible) == len(slots) else None

    def _rows(self) -> Rows:
        """Columns of counts first: runs of copies of groups, in order."""
        rows = Rows()
        counts = [
            {
                r: rows.column(0.0, float(self._all[r].most), cost=1.0 / self._all[r].way.worker_slots)
                for r in group.runs
            }
            for group in self._slots
        ]
        chosen = {r: rows.column() for r in self._runs}
        done: dict[int, list[tuple[int, float]]] = defaultdict(list)
        for group, mine in zip(self._slots, counts, strict=True):
            self._keep_rules(rows, group, mine)
            for r, column in mine.items():
                done[r].append((column, 1.0))
                rows.row([(column, 1.0), (chosen[r], -float(self._all[r].most))], high=0.0)
        for group in self._groups:
            copies = [mine for slot, mine in zip(self._slots, counts, strict=True) if slot is group]
            for r in group.runs:
                # To decide how many there are in all slots of a group says more than to decide one of them.
                total = rows.column(0.0, float(group.number * self._all[r].most))
                rows.row([*((mine[r], 1.0) for mine in copies), (total, -1.0)], low=0.0, high=0.0)
            # They can change places.
            largest = max(group.runs, key=lambda r: self._all[r].most)
            for mine, after in pairwise(copies):
                rows.row([(mine[largest], 1.0), (after[largest], -1.0)], low=0.0)
        for r, column in chosen.items():
            rows.row([*done[r], (column, -float(self._all[r].way.worker_slots))], low=0.0)
        for job in self._jobs:
            rows.row([(chosen[r], 1.0) for r in self._runs if self._all[r].job == job], low=1.0)
        return rows

    def _keep_rules(self, rows: Rows, group: Group, counts: dict[int, int]) -> None:
        for weights, most in self._known.binding(group.slot, group.runs):
            terms = [(counts[r], float(weights[r])) for r in np.flatnonzero(weights).tolist()]
            rows.row(terms, high=most)
        for gap in self._known.gaps(group.slot, group.runs):
            fewer = []
            for r in np.flatnonzero(gap).tolist():
                less = rows.column()
                fewer.append((less, 1.0))
                spare = float(self._all[r].most - gap[r] + 1)
                rows.row([(counts[r], 1.0), (less, spare)], high=float(self._all[r].most))
            rows.row(fewer, low=1.0)

    def _read(self, values: Ints) -> list[_Counts]:
        slots: list[_Counts] = []
        column = 0
        for group in self._slots:
            workers = np.zeros(len(self._all), dtype=np.int64)
            workers[list(group.runs)] = values[column : column + len(group.runs)]
            column += len(group.runs)
            slots.append(_Counts(group, workers))
        return slots

    def _has_pattern(self, slot: _Counts) -> bool:
        """Whether a slot's numbers are possible; if not, it becomes known why."""
        holds = self._holds(slot)
        if holds is False and not self._breaks_rule(slot):
            self._known.add_gap(slot.group.slot, self._fewest(slot))
        return holds is True

    def _holds(self, slot: _Counts) -> bool | None:
        """Whether a pattern has so many; None: not found out in time."""
        group, workers = slot
        if self._known.has(group.slot, workers):
            return True
        weights = np.where(workers > 0, 1.0, 0.0)
        most = self._known.search(group.slot, weights, self._left(), workers)
        if self._known.has(group.slot, workers):
            return True
        # Whole numbers: it is one too few at least, or more.
        return False if most is not None and most < workers.sum() - AWAY else None

    def _breaks_rule(self, slot: _Counts) -> bool:
        """Look for a rule that shares of patterns follow and these numbers do not."""
        group, workers = slot
        for _ in range(LOOKS):
            rows = Rows()
            share = rows.column(0.0, 1.0, cost=-1.0, whole=False)
            patterns = self._known.fitting(group.slot, group.runs)
            columns = [rows.column(whole=False) for _ in patterns]
            rows.row([(column, 1.0) for column in columns], high=1.0)
            due = {}
            for r in np.flatnonzero(workers).tolist():
                due[r] = rows.count
                terms = [(column, float(pattern[r])) for column, pattern in zip(columns, patterns, strict=True)]
                rows.row([*terms, (share, -float(workers[r]))], low=0.0)
            relaxed = rows.relax()
            if -relaxed.cost > 1.0 - NEAR:
                return False
            weights = np.zeros(len(self._all))
            for r, row in due.items():
                weights[r] = max(0.0, float(relaxed.prices[row]))
            weights[weights < NEAR * weights.max()] = 0.0
            most = self._known.search(group.slot, weights, min(SLOT_S, self._left()))
            if most is None:
                return False
            if weights @ workers / weights.max() > most * (1.0 + NEAR):
                return True
        return False

    def _fewest(self, slot: _Counts) -> Ints:
        """As few of these as have no pattern either."""
        group, workers = slot
        for r in np.flatnonzero(workers).tolist():
            low, high = 0, int(workers[r])
            while low < high:
                middle = (low + high) // 2
                fewer = workers.copy()
                fewer[r] = middle
                if self._holds(_Counts(group, fewer)) is False:
                    high = middle
                else:
                    low = middle + 1
            workers = workers.copy()
            workers[r] = high
        return workers
