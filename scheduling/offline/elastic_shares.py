"""How far patterns of one slot each go, by shares of them: linear programmes from within and from without."""

from collections import defaultdict
from typing import NamedTuple

import numpy as np

from scheduling.arrays import Floats, Ints
from scheduling.offline.elastic_machines import SideBySide
from scheduling.offline.elastic_patterns import Patterns, Runs
from scheduling.rows import Rows

TIGHT = 1e-9
"""A price above 0."""

_Done = defaultdict[int, list[tuple[int, float]]]
"""Terms of the workers of each run."""


class Group(NamedTuple):
    """Slots in which the same runs go on, with the same servers."""

    slot: int
    """One of them."""
    number: int
    runs: Runs


class PatternColumns(NamedTuple):
    """How many slots of each group have which pattern."""

    columns: list[tuple[int, Group, Ints]]
    """With its group and workers."""
    done: _Done


def pattern_columns(rows: Rows, known: Patterns, groups: list[Group], *, whole: bool) -> PatternColumns:
    """Add a column for each known pattern of each group, which has as many as it has slots, whole numbers or not."""
    made = PatternColumns([], defaultdict(list))
    for group in groups:
        mine = []
        for workers in known.fitting(group.slot, group.runs):
            column = rows.column(0.0, float(group.number), whole=whole)
            mine.append((column, 1.0))
            made.columns.append((column, group, workers))
            for r in np.flatnonzero(workers).tolist():
                made.done[r].append((column, float(workers[r])))
        rows.row(mine, high=float(group.number))
    return made


class Within(NamedTuple):
    """The optimum over shares of patterns that are known."""

    beyond: float
    """The most by which all work can be more than it is; below 0: it is not all done in time."""
    prices: Floats
    """Of a worker of each run."""


class Without(NamedTuple):
    """The optimum over all numbers that follow the rules that are known."""

    beyond: float
    """No patterns come to more."""
    rules: list[SideBySide]
    """That keep it from more."""


class Shares:
    """Linear programmes about some jobs of a system, all of them in these slots."""

    def __init__(self, known: Patterns, groups: list[Group], jobs: list[int]) -> None:
        self._known, self._groups, self._jobs = known, groups, jobs
        self._all = known.machines.runs

    def within(self) -> Within:
        """By patterns."""
        rows = Rows()
        done = pattern_columns(rows, self._known, self._groups, whole=False).done
        due = self._ask(rows, done)
        relaxed = rows.relax()
        prices = np.zeros(len(self._all))
        for r, row in due.items():
            prices[r] = max(0.0, float(relaxed.prices[row]))
        return Within(-relaxed.cost, prices)

    def without(self) -> Without:
        """By rules."""
        rows = Rows()
        done: _Done = defaultdict(list)
        rules: list[tuple[int, int, Floats, float]] = []
        for group in self._groups:
            counts = {r: rows.column(0.0, float(group.number * self._all[r].most), whole=False) for r in group.runs}
            for r, column in counts.items():
                done[r].append((column, 1.0))
            for weights, most in self._known.binding(group.slot, group.runs):
                rules.append((rows.count, group.slot, weights, most))
                terms = [(counts[r], float(weights[r])) for r in np.flatnonzero(weights).tolist()]
                rows.row(terms, high=group.number * most)
        self._ask(rows, done)
        relaxed = rows.relax()
        tight = [rule for rule in rules if relaxed.prices[rule[0]] < -TIGHT]
        return Without(-relaxed.cost, [self._known.rule(slot, weights, most) for _, slot, weights, most in tight])

    def _ask(self, rows: Rows, done: _Done) -> dict[int, int]:
        """Ask for the most of u with (1 + u) of each job done; rows of the work of runs."""
        beyond = rows.column(-1.0, 1.0, cost=-1.0, whole=False)
        due: dict[int, int] = {}
        for job in self._jobs:
            chosen = []
            for r in (r for r, run in enumerate(self._all) if run.job == job):
                column = rows.column(0.0, 2.0, whole=False)
                chosen.append((column, 1.0))
                due[r] = rows.count
                rows.row([*done[r], (column, -float(self._all[r].way.worker_slots))], low=0.0)
            rows.row([*chosen, (beyond, -1.0)], low=1.0)
        return due
