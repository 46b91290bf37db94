"""Column generation: how many slots have which pattern of workers, in shares of slots or in whole slots."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from scheduling.model.types import Floats, Ints
from scheduling.solvers.milp import IntegerProgram
from scheduling.solvers.time_limit import Left

NEAR = 1e-7
"""Relative tolerance of sums of doubles, far less than a worker."""
BETTER = 1e-12
"""Least improvement of prices; the price of all the work is about 1."""
MOST_LEFT = 0.9
"""Share of the patterns; if a turn leaves more than this, there is no further turn."""
SMALL = 500
"""Below this many patterns, stop pruning and try them all."""
OTHERS = (1.1, 0.9, 1.02, 0.98)
"""Factors on the work of one run that give other prices."""


class Group(NamedTuple):
    """Slots in which the same patterns of workers are possible."""

    slot: int
    """One of them."""
    number: int
    runs: tuple[int, ...]
    patterns: Ints
    """Maximal patterns: numbers of workers that fit the slot and to which none can be added, K x all runs."""


class Required(NamedTuple):
    """Jobs that are to be complete."""

    runs: Sequence[Sequence[int]]
    """Runs of each job, one of which has to do the work; empty if the job has none."""
    work: Ints
    """Work of each run, worker-slots."""


Chosen = Sequence[Iterable[int]]
"""For each group, rows of its patterns."""


class Shares(NamedTuple):
    """The optimum over shares of slots."""

    prices: Floats
    """Price of one worker in one slot, for each run."""
    spare: float
    """Excess of the value of all slots at these prices over the work, rounded up; infeasible if below 0."""
    chosen: list[set[int]]
    """Patterns that may have a share."""


def share(groups: Sequence[Group], required: Required) -> Shares:
    """Solve the linear program over shares of slots by column generation (Dantzig and Wolfe)."""
    chosen = [{int(group.patterns[:, r].argmax()) for r in group.runs} for group in groups]
    while True:
        prices = _price(groups, required, chosen)
        values, spare = _at(prices, groups, required)
        new = False
        for each, some in zip(values, chosen, strict=True):
            best = int(each.argmax())
            if each[best] > each[list(some)].max() + BETTER:
                some.add(best)
                new = True
        if not new:
            return Shares(prices, spare, chosen)


def _at(prices: Floats, groups: Sequence[Group], required: Required) -> tuple[list[Floats], float]:
    """Return the value of every pattern at some prices, and the value of all slots beyond that of the work."""
    values = [group.patterns @ prices for group in groups]
    most = sum(group.number * float(each.max()) for group, each in zip(groups, values, strict=True))
    least = sum(min(float(prices[r] * required.work[r]) for r in runs) for runs in required.runs)
    return values, most - least + NEAR * (most + least)


def narrow(groups: Sequence[Group], required: Required, shares: Shares) -> list[Group] | None:
    """Return the groups with only those patterns that a schedule may use, the best first; None if it is infeasible.

    Notes
    -----
    At any prices, the value of a slot's pattern is below the best one by at most what all slots have beyond the work.
    Patterns that this excludes at some prices lower the best value at other prices. So while many patterns are left,
    they are pruned again at the prices for somewhat more or less work of each run.
    """
    ordered = [_part(group, np.argsort(-(group.patterns @ shares.prices))) for group in groups]
    found = _prune(ordered, required, shares.prices)
    before = np.inf
    while found is not None and SMALL < _count(found) < MOST_LEFT * before:
        before = _count(found)
        for prices in _other_prices(found, required):
            found = _prune(found, required, prices)
            if found is None:
                break
    return found


def _count(groups: Sequence[Group]) -> int:
    return sum(len(group.patterns) for group in groups)


def _prune(groups: Sequence[Group], required: Required, prices: Floats) -> list[Group] | None:
    values, spare = _at(prices, groups, required)
    if spare < 0.0:
        return None
    return [
        _part(group, np.flatnonzero(each.max() - each <= spare)) for group, each in zip(groups, values, strict=True)
    ]


def _part(group: Group, rows: Ints) -> Group:
    """Return the group with only these rows of its patterns."""
    return group._replace(patterns=group.patterns[rows])


def _other_prices(groups: Sequence[Group], required: Required) -> list[Floats]:
    """Return the prices for somewhat more or less work of each run."""
    found = []
    for r in (r for runs in required.runs for r in runs):
        for share_of in OTHERS:
            work = required.work.copy()
            work[r] = max(1, round(float(work[r]) * share_of))
            found.append(share(groups, required._replace(work=work)).prices)
    return found


def _price(groups: Sequence[Group], required: Required, chosen: Chosen) -> Floats:
    """The price of a worker of each run where as much as can be of all work is done, the same share of each job."""
    rows = IntegerProgram()
    _, done = _columns(rows, groups, chosen, whole=False)
    beyond = rows.column(-1.0, 1.0, cost=-1.0, whole=False)
    due: dict[int, int] = {}
    for runs in required.runs:
        shares = []
        for r in runs:
            column = rows.column(0.0, 2.0, whole=False)
            shares.append((column, 1.0))
            due[r] = rows.count
            rows.row([*done[r], (column, -float(required.work[r]))], low=0.0)
        rows.row([*shares, (beyond, -1.0)], low=1.0)
    relaxed = rows.relax()
    prices = np.zeros(len(required.work))
    for r, row in due.items():
        prices[r] = max(0.0, float(relaxed.prices[row]))
    return prices


class Whole(NamedTuple):
    """Result of the integer program over whole slots."""

    verdict: bool | None
    """Whether whole slots complete all the work; None if undecided in time, or if some work is left."""
    used: list[tuple[int, int, int]]
    """Group, row of its patterns, and number of slots with this pattern."""
    due: Ints
    """Work of the runs that were chosen, of all runs."""


def whole(groups: Sequence[Group], required: Required, chosen: Chosen, left: Left, *, lacking: bool = False) -> Whole:
    """Return whether whole slots of the chosen patterns complete all the work.

    With `lacking`, the program minimises the share of the work that is left, and so always has a solution.
    """
    rows = IntegerProgram()
    columns, done = _columns(rows, groups, chosen, whole=True)
    taken = {r: rows.column() for runs in required.runs for r in runs}
    for r, column in taken.items():
        work = float(required.work[r])
        rest = [(rows.column(0.0, work, cost=1.0 / work, whole=False), 1.0)] if lacking else []
        rows.row([*done[r], *rest, (column, -work)], low=0.0)
    for runs in required.runs:
        rows.row([(taken[r], 1.0) for r in runs], low=1.0)
    solution = rows.solve(left)
    due = np.zeros_like(required.work)
    if solution.values is None:
        return Whole(None if solution.feasible else False, [], due)
    counts = np.rint(solution.values).astype(np.int64)
    for r, column in taken.items():
        due[r] = counts[column] * required.work[r]
    used = [(g, k, int(counts[column])) for column, g, k in columns if counts[column]]
    # Check in whole numbers: the solver's answer is only accurate to about 1e-6.
    had = sum((number * groups[g].patterns[k] for g, k, number in used), np.zeros_like(due))
    return Whole(True if (had >= due).all() else None, used, due)


def _columns(
    rows: IntegerProgram, groups: Sequence[Group], chosen: Chosen, *, whole: bool
) -> tuple[list[tuple[int, int, int]], dict[int, list[tuple[int, float]]]]:
    """Add a column for each pattern; return them with group and row, and the terms of each run's workers."""
    columns: list[tuple[int, int, int]] = []
    done: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for g, (group, some) in enumerate(zip(groups, chosen, strict=True)):
        mine = []
        for k in sorted(some):
            column = rows.column(0.0, float(group.number), whole=whole)
            mine.append((column, 1.0))
            columns.append((column, g, k))
            for r in np.flatnonzero(group.patterns[k]).tolist():
                done[r].append((column, float(group.patterns[k, r])))
        rows.row(mine, high=float(group.number))
    return columns, done
