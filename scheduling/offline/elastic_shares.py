"""How many slots have which numbers of workers: shares of slots, or whole ones."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from scheduling.model.types import Floats, Ints
from scheduling.solvers.milp import IntegerProgram
from scheduling.solvers.time_limit import Left

NEAR = 1e-7
"""Of sums of doubles, and far less than a worker."""
BETTER = 1e-12
"""Of prices, which come to about 1 for all the work."""
WORTH = 0.9
"""Of the tops: if more are left there is no use in another turn."""
SMALL = 500
"""So many tops are tried sooner than they are fewer."""
OTHERS = (1.1, 0.9, 1.02, 0.98)
"""Of the work of one run, for other prices."""


class Group(NamedTuple):
    """Slots in which the same numbers of workers are possible."""

    slot: int
    """One of them."""
    number: int
    runs: tuple[int, ...]
    tops: Ints
    """Numbers of workers that fit it side by side and to which none can be added, K x all runs."""


class Asked(NamedTuple):
    """Jobs that are to be complete."""

    runs: Sequence[Sequence[int]]
    """Of each job, one of which is to do the work; none without a run."""
    work: Ints
    """Of all runs, worker-slots."""


Chosen = Sequence[Iterable[int]]
"""Of each group, rows of its tops."""


class Shares(NamedTuple):
    """The optimum over shares of slots."""

    prices: Floats
    """Of a worker in a slot, of all runs."""
    spare: float
    """What all slots come to at these prices beyond the work, and no less for rounding: below 0 it cannot be done."""
    chosen: list[set[int]]
    """What may have a share."""


def share(groups: Sequence[Group], asked: Asked) -> Shares:
    """How far shares go: columns of what is best in each group at the prices of those before (Dantzig and Wolfe)."""
    chosen = [{int(group.tops[:, r].argmax()) for r in group.runs} for group in groups]
    while True:
        prices = _price(groups, asked, chosen)
        worth, spare = _at(prices, groups, asked)
        new = False
        for each, some in zip(worth, chosen, strict=True):
            best = int(each.argmax())
            if each[best] > each[list(some)].max() + BETTER:
                some.add(best)
                new = True
        if not new:
            return Shares(prices, spare, chosen)


def _at(prices: Floats, groups: Sequence[Group], asked: Asked) -> tuple[list[Floats], float]:
    """What all tops come to at any prices; and all slots beyond the work, no less for rounding."""
    worth = [group.tops @ prices for group in groups]
    most = sum(group.number * float(each.max()) for group, each in zip(groups, worth, strict=True))
    least = sum(min(float(prices[r] * asked.work[r]) for r in runs) for runs in asked.runs)
    return worth, most - least + NEAR * (most + least)


def narrow(groups: Sequence[Group], asked: Asked, shares: Shares) -> list[Group] | None:
    """The groups with those tops only that a schedule may have, the best at these prices first; None: there is none.

    Notes
    -----
    At any prices no slot of a schedule is further below the best than all slots are above the work. What that leaves
    out at some prices makes less of the best at others, so where much is left it is looked at in turns, at prices for
    somewhat more or less work of each run.
    """
    ordered = [group._replace(tops=group.tops[np.argsort(-(group.tops @ shares.prices))]) for group in groups]
    found = _cut(ordered, asked, shares.prices)
    before = np.inf
    while found is not None and SMALL < _tops(found) < WORTH * before:
        before = _tops(found)
        for prices in _other_prices(found, asked):
            found = _cut(found, asked, prices)
            if found is None:
                break
    return found


def _tops(groups: Sequence[Group]) -> int:
    return sum(len(group.tops) for group in groups)


def _cut(groups: Sequence[Group], asked: Asked, prices: Floats) -> list[Group] | None:
    worth, spare = _at(prices, groups, asked)
    if spare < 0.0:
        return None
    return [
        group._replace(tops=group.tops[each.max() - each <= spare]) for group, each in zip(groups, worth, strict=True)
    ]


def _other_prices(groups: Sequence[Group], asked: Asked) -> list[Floats]:
    """Those that are right if there is somewhat more or less to do."""
    found = []
    for r in (r for runs in asked.runs for r in runs):
        for share_of in OTHERS:
            work = asked.work.copy()
            work[r] = max(1, round(float(work[r]) * share_of))
            found.append(share(groups, asked._replace(work=work)).prices)
    return found


def _price(groups: Sequence[Group], asked: Asked, chosen: Chosen) -> Floats:
    """The price of a worker of each run where as much as can be of all work is done, the same share of each job."""
    rows = IntegerProgram()
    _, done = _columns(rows, groups, chosen, whole=False)
    beyond = rows.column(-1.0, 1.0, cost=-1.0, whole=False)
    due: dict[int, int] = {}
    for runs in asked.runs:
        shares = []
        for r in runs:
            column = rows.column(0.0, 2.0, whole=False)
            shares.append((column, 1.0))
            due[r] = rows.count
            rows.row([*done[r], (column, -float(asked.work[r]))], low=0.0)
        rows.row([*shares, (beyond, -1.0)], low=1.0)
    relaxed = rows.relax()
    prices = np.zeros(len(asked.work))
    for r, row in due.items():
        prices[r] = max(0.0, float(relaxed.prices[row]))
    return prices


class Whole(NamedTuple):
    """What whole slots come to."""

    verdict: bool | None
    """Whether they do all the work; None: not found out in time, or some is left."""
    used: list[tuple[int, int, int]]
    """Group, row of its tops, and how many slots have that."""
    due: Ints
    """Work of the runs that were chosen, of all runs."""


def whole(groups: Sequence[Group], asked: Asked, chosen: Chosen, left: Left, *, lacking: bool = False) -> Whole:
    """Whether whole slots of what is chosen do all the work; `lacking`: or else what leaves the least share of it."""
    rows = IntegerProgram()
    columns, done = _columns(rows, groups, chosen, whole=True)
    taken = {r: rows.column() for runs in asked.runs for r in runs}
    for r, column in taken.items():
        work = float(asked.work[r])
        rest = [(rows.column(0.0, work, cost=1.0 / work, whole=False), 1.0)] if lacking else []
        rows.row([*done[r], *rest, (column, -work)], low=0.0)
    for runs in asked.runs:
        rows.row([(taken[r], 1.0) for r in runs], low=1.0)
    solution = rows.solve(left)
    due = np.zeros_like(asked.work)
    if solution.values is None:
        return Whole(None if solution.feasible else False, [], due)
    counts = np.rint(solution.values).astype(np.int64)
    for r, column in taken.items():
        due[r] = counts[column] * asked.work[r]
    used = [(g, k, int(counts[column])) for column, g, k in columns if counts[column]]
    # Check in whole numbers: the solver's answer is only accurate to about 1e-6.
    had = sum((number * groups[g].tops[k] for g, k, number in used), np.zeros_like(due))
    return Whole(True if (had >= due).all() else None, used, due)


def _columns(
    rows: IntegerProgram, groups: Sequence[Group], chosen: Chosen, *, whole: bool
) -> tuple[list[tuple[int, int, int]], dict[int, list[tuple[int, float]]]]:
    """Columns of how many slots have what, with group and row of its tops; and terms of the workers of each run."""
    columns: list[tuple[int, int, int]] = []
    done: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for g, (group, some) in enumerate(zip(groups, chosen, strict=True)):
        mine = []
        for k in sorted(some):
            column = rows.column(0.0, float(group.number), whole=whole)
            mine.append((column, 1.0))
            columns.append((column, g, k))
            for r in np.flatnonzero(group.tops[k]).tolist():
                done[r].append((column, float(group.tops[k, r])))
        rows.row(mine, high=float(group.number))
    return columns, done
