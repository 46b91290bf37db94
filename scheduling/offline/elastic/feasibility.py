"""Feasibility check: can whole machines complete elastic jobs by given slots?"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scheduling.offline.elastic.column_generation import Group, Required, Shares, Whole, narrow, share, whole
from scheduling.offline.elastic.machines import Cut
from scheduling.offline.elastic.slots import Runs, Slots
from scheduling.offline.program import TooLarge
from scheduling.solvers.time_limit import Left, within

FEW_S = 0.5
"""Time for the few patterns that are tried first, seconds."""
MANY = 3000
"""Largest number of patterns of a group in an integer program: with very many, the solver ignores its time limit."""


class Feasibility(NamedTuple):
    """Result of the check."""

    verdict: bool | None
    """Whether it is feasible; None if that was not decided in time."""
    cuts: list[Cut]
    """Cuts that exclude these completions; empty if they are feasible, or if cuts alone cannot exclude them."""


def check_feasible(slots: Slots, ends: dict[int, int], left: Left) -> Feasibility:
    """Whether these jobs can all be complete by these slots, counted from the start; the other jobs do not run.

    Notes
    -----
    The maximal patterns of workers that fit a slot are known (`slot_tables`), and the order of equal slots makes no
    difference. So the check decides how many slots have which pattern. The linear program over shares of slots comes
    first. If it is infeasible, its dual prices give a cut for each slot: the largest value of any pattern at these
    prices. If it is feasible, a schedule only uses patterns whose value is near the best one (`narrow`), and an integer
    program tries those. With too many patterns the check gives up.
    """
    return _FeasibilityCheck(slots, ends, left).answer()


class _FeasibilityCheck:
    def __init__(self, slots: Slots, ends: dict[int, int], left: Left) -> None:
        self._slots, self._ends, self._left = slots, ends, left
        self._all = slots.machines.runs
        runs = [[r for r, run in enumerate(self._all) if run.job == job] for job in ends]
        self._asked = Required(runs, np.array([run.way.worker_slots for run in self._all], dtype=np.int64))

    def answer(self) -> Feasibility:
        """Solve with shares of slots, then, if these are feasible, with whole slots."""
        if not all(self._asked.runs):
            return Feasibility(False, [])
        if not self._ends:
            return Feasibility(True, [])
        if self._left() <= 0.0:
            return Feasibility(None, [])
        try:
            groups = list(self._groups())
        except TooLarge:
            return Feasibility(None, [])
        shares = share(groups, self._asked)
        if shares.spare < 0.0:
            return Feasibility(False, [self._cut(group, shares) for group in groups])
        if self._put_together(groups, shares):
            return Feasibility(True, [])
        near = narrow(groups, self._asked, shares)
        if near is None:
            return Feasibility(False, [])
        some = [range(min(MANY, len(group.patterns))) for group in near]
        verdict = whole(near, self._asked, some, self._left).verdict
        tried = all(len(rows) == len(group.patterns) for rows, group in zip(some, near, strict=True))
        return Feasibility(None if verdict is False and not tried else verdict, [])

    def _groups(self) -> Iterator[Group]:
        """Yield groups of equal slots, those with the most runs first: their tables contain those of fewer runs."""
        found: list[tuple[Runs, list[int]]] = []
        for t in range(max(self._ends.values())):
            runs = tuple(
                r for r, run in enumerate(self._all) if t < self._ends.get(run.job, 0) and self._slots.live(r, t)
            )
            same = [slots for live, slots in found if live == runs and self._slots.equal(t, slots[0], runs)]
            if same:
                same[0].append(t)
            elif runs:
                found.append((runs, [t]))
        for runs, slots in sorted(found, key=lambda one: len(one[0]), reverse=True):
            yield Group(slots[0], len(slots), runs, self._slots.patterns(slots[0], runs))

    def _put_together(self, groups: list[Group], shares: Shares) -> bool:
        """Return whether whole slots of the patterns with a share, or of a few more patterns, complete all the work."""
        chosen = shares.chosen
        while self._left() > 0.0:
            found = whole(groups, self._asked, chosen, within(FEW_S, self._left), lacking=True)
            if found.verdict:
                return True
            before = sum(map(len, chosen))
            self._fill(groups, chosen, found)
            if sum(map(len, chosen)) == before:
                break
        return False

    def _fill(self, groups: list[Group], chosen: list[set[int]], found: Whole) -> None:
        """Replace each used pattern by the pattern that does most of the work that all others leave."""
        had = sum((number * groups[g].patterns[k] for g, k, number in found.used), np.zeros_like(found.due))
        for g, k, _ in found.used:
            patterns = groups[g].patterns
            rest = np.maximum(found.due - (had - patterns[k]), 0)
            chosen[g].add(int((np.minimum(patterns, rest) / self._asked.work).sum(axis=1).argmax()))

    def _cut(self, group: Group, shares: Shares) -> Cut:
        weights = np.zeros_like(shares.prices)
        weights[list(group.runs)] = shares.prices[list(group.runs)]
        slots = range(self._slots.machines.problem.slots)
        holds = frozenset(t for t in slots if self._slots.allows(group.slot, t, group.runs))
        return Cut(weights, float((group.patterns @ weights).max()), holds)
