"""Every whole number of workers of some runs that fit one slot side by side, with all their PSs."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from scheduling.model.types import Ints
from scheduling.offline.elastic.machines import ExecutionMode
from scheduling.offline.elastic.patterns import NONE, Heights, Server, side_by_side
from scheduling.offline.program import TooLarge

CELLS = 20_000_000
"""Largest number of cells of a table, which takes some seconds."""


class Hosted(NamedTuple):
    """A run in one slot."""

    run: ExecutionMode
    rooms: tuple[Ints, Ints]
    """Largest numbers of its workers and of its PSs on each server alone, S numbers each; 0 if not allowed."""


class _Item(NamedTuple):
    """The workers of a run, or its PSs."""

    place: int
    """Place of the run."""
    demand: Sequence[int]
    room: Ints
    numbers: Ints
    """Number of machines for each number of workers."""


def table(hosted: Sequence[Hosted], free: Ints) -> Heights:
    """Return the heights: the largest number of workers of the last run for numbers of the others; raises TooLarge.

    Parameters
    ----------
    free
        Units on each server, S x R.

    Notes
    -----
    Machines that share no server do not meet: each pool of servers has heights of its own, of workers or of PSs or of
    both, and what fits all pools fits the slot.
    """
    shape = tuple(one.run.most + 1 for one in hosted[:-1])
    if prod(shape) > CELLS:
        raise TooLarge(f"more than {CELLS} cells")
    last = np.arange(hosted[-1].run.most + 1)
    found: Heights = np.full(shape, last[-1], dtype=np.int16)
    for items in _pools(list(_items(hosted))):
        found = np.minimum(found, _most_of_last(items, _heights(items, free), len(shape), last))
    return np.where(found < 0, np.int16(NONE), found)


def _most_of_last(items: Sequence[_Item], heights: Heights, place: int, last: Ints) -> Heights:
    """Return the largest of these numbers of workers of the last run, which is at this place, that fits a pool, or -1.

    The result is an array over the grid of workers of the other runs, or of those that have machines there.
    """
    *others, high = items
    mine = [item.numbers for item in items if item.place == place]
    if len(mine) == 1 and high.place == place:
        fit = heights[tuple(_along(item, place) for item in others)]
        return np.asarray(np.searchsorted(high.numbers, fit, side="right") - 1, dtype=np.int16)
    found: Heights = np.full((1,) * place, -1, dtype=np.int16)
    # Where one more takes no more there is nothing to look at: five workers may have the one PS that four have.
    more = np.any([np.diff(numbers) > 0 for numbers in mine], axis=0) if mine else np.zeros(len(last) - 1, np.bool_)
    for n in last[np.append(more, True)].tolist():
        *at, need = (item.numbers[n] if item.place == place else _along(item, place) for item in items)
        found = np.where(heights[tuple(at)] >= need, np.int16(n), found)
    return found


def some_of(heights: Heights, kept: Sequence[bool]) -> Heights:
    """The table of some of the runs: with none of the others."""
    *others, last = kept
    few: Heights = np.asarray(heights[tuple(slice(None) if keep else 0 for keep in others)])
    if last:
        return few
    # How many of the one that is last now fit where the one that was has none; fewer fit where more do.
    return np.asarray((few >= 0).sum(axis=-1) - 1, dtype=np.int16)


def _items(hosted: Sequence[Hosted]) -> Iterator[_Item]:
    for place, (run, (workers, pss)) in enumerate(hosted):
        numbers = np.arange(run.most + 1)
        yield _Item(place, run.way.worker.demand, workers, numbers)
        yield _Item(place, run.way.ps.demand, pss, np.array([run.way.pss(n) for n in numbers.tolist()]))


def _pools(left: list[_Item]) -> Iterator[list[_Item]]:
    """Items that meet on servers, directly or by others; the one of which there are most is the last."""
    while left:
        pool, mine = [], left[:1]
        while mine:
            pool += mine
            servers = np.any([item.room > 0 for item in pool], axis=0)
            left = [item for item in left if not any(item is one for one in mine)]
            mine = [item for item in left if (servers & (item.room > 0)).any()]
        yield sorted(pool, key=lambda item: int(item.numbers[-1]))


def _heights(items: Sequence[_Item], free: Ints) -> Heights:
    rooms = np.array([item.room for item in items])
    servers = [Server(free[s].tolist(), rooms[:, s].tolist()) for s in np.flatnonzero(rooms.any(axis=0)).tolist()]
    return side_by_side(servers, [item.demand for item in items], [int(item.numbers[-1]) for item in items])


def _along(item: _Item, places: int) -> Ints:
    """Return the item's numbers over the grid of the runs' workers."""
    return item.numbers.reshape([-1 if place == item.place else 1 for place in range(places)])
