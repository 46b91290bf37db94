"""Whether whole machines can have elastic jobs complete by given slots."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scheduling.offline.elastic_machines import SideBySide
from scheduling.offline.elastic_shares import Asked, Group, Shares, Whole, narrow, share, whole
from scheduling.offline.elastic_slot import Runs, Slots
from scheduling.offline.program import TooLarge
from scheduling.solvers.time_limit import Left, within

FEW_S = 0.5
"""For the few that are tried first."""
MANY = 3000
"""Of a group, to be tried in whole numbers: the solver takes no notice of time with very many."""


class Kept(NamedTuple):
    """What was found out."""

    verdict: bool | None
    """None: nothing, in the time there was."""
    rules: list[SideBySide]
    """That no schedule follows which keeps these slots; none where it takes more than rules to tell."""


def can_keep(slots: Slots, ends: dict[int, int], left: Left) -> Kept:
    """Whether these jobs can all be complete by these slots, counted from the start; the other jobs do not run.

    Notes
    -----
    What fits a slot side by side is known (`elastic_tables`), and in which order equal slots have it makes no
    difference. So what is decided is how many slots have what. Shares of slots are a linear program. Where they do
    not do the work, its prices say so: what any slot comes to at most at these prices is a rule for that slot. Where
    they do, no slot of a schedule is further below the best at any prices than all slots are above the work: only what
    is as near has to be tried in whole numbers (`narrow`). Where too much would fit to know it all, it is not
    found out.
    """
    return _Keeping(slots, ends, left).answer()


class _Keeping:
    def __init__(self, slots: Slots, ends: dict[int, int], left: Left) -> None:
        self._slots, self._ends, self._left = slots, ends, left
        self._all = slots.machines.runs
        runs = [[r for r, run in enumerate(self._all) if run.job == job] for job in ends]
        self._asked = Asked(runs, np.array([run.way.worker_slots for run in self._all], dtype=np.int64))

    def answer(self) -> Kept:
        """By shares, and where those do the work by whole slots."""
        if not all(self._asked.runs):
            return Kept(False, [])
        if not self._ends:
            return Kept(True, [])
        if self._left() <= 0.0:
            return Kept(None, [])
        try:
            groups = list(self._groups())
        except TooLarge:
            return Kept(None, [])
        shares = share(groups, self._asked)
        if shares.spare < 0.0:
            return Kept(False, [self._rule(group, shares) for group in groups])
        if self._put_together(groups, shares):
            return Kept(True, [])
        near = narrow(groups, self._asked, shares)
        if near is None:
            return Kept(False, [])
        some = [range(min(MANY, len(group.tops))) for group in near]
        verdict = whole(near, self._asked, some, self._left).verdict
        tried = all(len(rows) == len(group.tops) for rows, group in zip(some, near, strict=True))
        return Kept(None if verdict is False and not tried else verdict, [])

    def _groups(self) -> Iterator[Group]:
        """Those with the most runs first: what fits with fewer is part of that."""
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
            yield Group(slots[0], len(slots), runs, self._slots.tops(slots[0], runs))

    def _put_together(self, groups: list[Group], shares: Shares) -> bool:
        """Whether whole slots of what has a share, or some more that do what those leave, do all the work."""
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
        """Choose what does most of what all others leave, in place of each that was used."""
        had = sum((number * groups[g].tops[k] for g, k, number in found.used), np.zeros_like(found.due))
        for g, k, _ in found.used:
            tops = groups[g].tops
            rest = np.maximum(found.due - (had - tops[k]), 0)
            chosen[g].add(int((np.minimum(tops, rest) / self._asked.work).sum(axis=1).argmax()))

    def _rule(self, group: Group, shares: Shares) -> SideBySide:
        weights = np.zeros_like(shares.prices)
        weights[list(group.runs)] = shares.prices[list(group.runs)]
        slots = range(self._slots.machines.question.slots)
        holds = frozenset(t for t in slots if self._slots.allows(group.slot, t, group.runs))
        return SideBySide(weights, float((group.tops @ weights).max()), holds)
