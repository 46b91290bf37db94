"""Patterns: all whole numbers of machines that fit some servers together."""

from collections.abc import Iterator, Sequence
from itertools import count
from types import EllipsisType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduling.model.types import Ints
from scheduling.offline.program import TooLarge

ITEMS = 12
"""Largest number of items that share servers; the grid has one dimension for each."""
MOST = 10_000
"""Largest number of machines of one item."""
NONE = -2 * MOST
"""The height where the other items alone do not fit: below 0, even with the largest number of the last item."""
WORK = 8_000_000_000
"""Largest number of cells that are visited, which takes some seconds."""
EACH = 20
"""Number of cells whose visit takes as long as the start of a row of cells."""
LOADS = 300_000
"""Largest number of loads of servers that are visited, which takes some seconds, too."""

Heights = NDArray[np.int16]
"""Largest number of the last item that fits, or NONE, over a grid of the numbers of all other items."""
Load = tuple[int, ...]
"""Numbers of each item."""


class Server(NamedTuple):
    """A server for some items."""

    free: Sequence[int]
    """R units."""
    room: Sequence[int]
    """Largest number of each item alone on this server, I numbers; 0 if it is not allowed."""


def side_by_side(servers: Sequence[Server], demand: Sequence[Sequence[int]], most: Sequence[int]) -> Heights:
    """Return the loads that fit all the servers, up to `most` of each item; raises TooLarge.

    Parameters
    ----------
    demand
        Of one of each item, I x R units.
    most
        I numbers, the last of which is that of the heights; the grid has one more than each of the others.

    Notes
    -----
    Servers are added one by one: a load fits if, without one full load of the new server, it fits the servers before.
    """
    if len(most) > ITEMS:
        raise TooLarge(f"more than {ITEMS} items")
    if max(most) > MOST:
        raise TooLarge(f"more than {MOST} machines")
    looked = count()
    loads = [list(full_loads(server, demand, most, looked)) for server in servers]
    grid = most[:-1]
    heights: Heights = np.zeros((1,) * len(grid), dtype=np.int16)
    work = 0
    # Those with many loads come first, while there is little to add them to.
    for mine in sorted(loads, key=len, reverse=True):
        reach = np.minimum(np.array(heights.shape) - 1 + np.max(mine, axis=0)[:-1], grid)
        shape = tuple((reach + 1).astype(int).tolist())
        work += len(mine) * heights.size * (1 + EACH // (heights.shape or (1,))[-1])
        if work > WORK:
            raise TooLarge(f"more than {WORK} cells")
        heights = _add(heights, mine, shape, most[-1])
    beyond = [(0, n + 1 - size) for n, size in zip(grid, heights.shape, strict=True)]
    return np.pad(heights, beyond, constant_values=NONE) if beyond else heights


def full_loads(
    server: Server, demand: Sequence[Sequence[int]], most: Sequence[int], looked: Iterator[int]
) -> Iterator[Load]:
    """Return the loads of one server to which no machine can be added; raises TooLarge.

    Parameters
    ----------
    looked
        How many loads were looked at before, of this server and others.
    """
    limits = [min(room, n) for room, n in zip(server.room, most, strict=True)]
    last = len(limits) - 1
    open_: list[tuple[Load, Load]] = [((), tuple(server.free))]
    while open_:
        load, left = open_.pop()
        i = len(load)
        if i > last:
            if next(looked) >= LOADS:
                raise TooLarge(f"more than {LOADS} loads of servers")
            if not any(n < limit and _fits(d, left) for n, limit, d in zip(load, limits, demand, strict=True)):
                yield load
            continue
        fit = min([limits[i], *(free // d for free, d in zip(left, demand[i], strict=True) if d)])
        # Of the last one as many as fit: with fewer, one could be added.
        open_.extend(
            ((*load, n), tuple(free - n * d for free, d in zip(left, demand[i], strict=True)))
            for n in range(fit if i == last else 0, fit + 1)
        )


def _fits(demand: Sequence[int], left: Sequence[int]) -> bool:
    return all(d <= free for d, free in zip(demand, left, strict=True))


def _add(heights: Heights, loads: Sequence[Load], shape: tuple[int, ...], most: int) -> Heights:
    more: Heights = np.full(shape, NONE, dtype=np.int16)
    for *load, last in loads:
        sizes = [min(old, size - n) for n, size, old in zip(load, shape, heights.shape, strict=True)]
        there = _part(more, load, sizes)
        np.maximum(there, _part(heights, [0] * len(load), sizes) + np.int16(last), out=there)
    for axis in range(more.ndim):
        # Fewer fit where more do.
        more = np.flip(np.maximum.accumulate(np.flip(more, axis), axis=axis), axis)
    return np.where(more < 0, np.int16(NONE), np.minimum(more, np.int16(most)))


def _part(heights: Heights, begin: Sequence[int], sizes: Sequence[int]) -> Heights:
    """A view, even of the one height where there is one item."""
    where: list[slice | EllipsisType] = [slice(n, n + size) for n, size in zip(begin, sizes, strict=True)]
    return heights[(*where, ...)]


def maximal_patterns(heights: Heights) -> Ints:
    """Return the numbers of all items to which none can be added, K x I."""
    top = heights >= 0
    for axis in range(heights.ndim):
        here, there = [slice(None)] * heights.ndim, [slice(None)] * heights.ndim
        here[axis], there[axis] = slice(0, -1), slice(1, None)
        top[tuple(here)] &= heights[tuple(here)] > heights[tuple(there)]
    return np.column_stack([np.argwhere(top), heights[top]]).astype(np.int64)
